/* JSON output, see json_out.h. */
#include "cli/json_out.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"

static void separate(struct json_out *json)
{
    if (json->comma)
        fputs(", ", json->file);
    json->comma = true;
}

void smol_json_open(struct json_out *json, char bracket)
{
    separate(json);
    fputc(bracket, json->file);
    json->comma = false;
}

void smol_json_close(struct json_out *json, char bracket)
{
    fputc(bracket, json->file);
    json->comma = true;
}

static void write_character(FILE *file, uint32_t code_point)
{
    uint8_t bytes[UTF8_MAX];
    if (code_point == '"' || code_point == '\\')
        fprintf(file, "\\%c", (int)code_point);
    else if (code_point == '\n')
        fputs("\\n", file);
    else if (code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0))
        fprintf(file, "\\u%04" PRIx32, code_point);
    else
        fwrite(bytes, 1, smol_utf8_encode(code_point, bytes), file);
}

static void write_text(FILE *file, const char *text, size_t size)
{
    fputc('"', file);
    for (size_t i = 0; i < size;) {
        uint32_t code_point;
        i += smol_utf8_decode((const uint8_t *)text + i, size - i, &code_point);
        write_character(file, code_point);
    }
    fputc('"', file);
}

void smol_json_text(struct json_out *json, const char *text, size_t size)
{
    separate(json);
    write_text(json->file, text, size);
}

void smol_json_key(struct json_out *json, const char *key)
{
    separate(json);
    write_text(json->file, key, strlen(key));
    fputs(": ", json->file);
    json->comma = false;
}

void smol_json_whole(struct json_out *json, uint64_t value)
{
    separate(json);
    fprintf(json->file, "%" PRIu64, value);
}

void smol_json_member_value(struct json_out *json, const char *key, const char *value)
{
    size_t size = strlen(value);
    smol_json_key(json, key);
    for (size_t i = 0, length; i < size; i += length) {
        uint32_t code_point;
        length = smol_utf8_decode((const uint8_t *)value + i, size - i, &code_point);
        if (code_point >= 0x7f && code_point < 0xa0)
            fprintf(json->file, "\\u%04" PRIx32, code_point);
        else
            fwrite(value + i, 1, length, json->file);
    }
    json->comma = true;
}

void smol_json_member_text(struct json_out *json, const char *key, const char *text)
{
    smol_json_key(json, key);
    smol_json_text(json, text, strlen(text));
}

void smol_json_member_whole(struct json_out *json, const char *key, uint64_t value)
{
    smol_json_key(json, key);
    smol_json_whole(json, value);
}

void smol_json_member_real(struct json_out *json, const char *key, double value)
{
    char digits[32] = "null";
    for (int precision = 6; isfinite(value) && precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    smol_json_key(json, key);
    separate(json);
    fputs(digits, json->file);
}

void smol_json_literal(struct json_out *json, const char *word)
{
    separate(json);
    fputs(word, json->file);
}

void smol_json_member_flag(struct json_out *json, const char *key, bool value)
{
    smol_json_key(json, key);
    smol_json_literal(json, value ? "true" : "false");
}
