/* JSON output, see json_out.h. */
#include "cli/json_out.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
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
    else if (utf8_is_control(code_point))
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

void smol_json_bytes(struct json_out *json, const char *bytes, size_t size)
{
    separate(json);
    fputs("\"bytes:", json->file);
    for (size_t i = 0; i < size; i++)
        fprintf(json->file, "\\\\x%02x", (unsigned char)bytes[i]);
    fputc('"', json->file);
}

void smol_json_make_key(struct json_out *json)
{
    fputs(": ", json->file);
    json->comma = false;
}

void smol_json_key(struct json_out *json, const char *key)
{
    smol_json_text(json, key, strlen(key));
    smol_json_make_key(json);
}

void smol_json_member_open(struct json_out *json, const char *key, char bracket)
{
    smol_json_key(json, key);
    smol_json_open(json, bracket);
}

void smol_json_whole(struct json_out *json, uint64_t value)
{
    separate(json);
    fprintf(json->file, "%" PRIu64, value);
}

void smol_json_member_value(struct json_out *json, const char *key, const char *value)
{
    size_t size = strlen(value), written = 0;
    smol_json_key(json, key);
    for (size_t i = 0, length; i < size; i += length) {
        uint32_t code_point = (unsigned char)value[i];
        length = 1;
        if (code_point < 0x7f) /* below 0x20: white space */
            continue;
        length = smol_utf8_decode((const uint8_t *)value + i, size - i, &code_point);
        if (!utf8_is_control(code_point))
            continue;
        fwrite(value + written, 1, i - written, json->file);
        fprintf(json->file, "\\u%04" PRIx32, code_point);
        written = i + length;
    }
    fwrite(value + written, 1, size - written, json->file);
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

static double read_real(const char *digits)
{
    return strtod(digits, NULL);
}

static double read_float(const char *digits)
{
    return (double)strtof(digits, NULL);
}

/* Finds the fewest digits that are read as the value, from the most that any needs, because
 * computed values need nearly as many. Fewer than six are sought only beside an exponent: otherwise
 * the rest is zeros, which are left out, and 10000 does not become 1e+04. */
static const char *find_digits(double value, int most, double read(const char *digits),
                               char digits[NUMBER_DIGITS])
{
    char fewer[NUMBER_DIGITS];
    const bool is_power = fabs(frexp(value, &(int){0})) == 0.5;
    snprintf(digits, NUMBER_DIGITS, "%#.*g", most, value);
    while (--most > 0 && (most >= 6 || strchr(digits, 'e'))) {
        snprintf(fewer, NUMBER_DIGITS, "%#.*g", most, value);
        bool same = read(fewer) == value;
        if (!same && is_power && !decimal_step(fewer))
            continue; /* the number above has fewer digits */
        if (!same && (!is_power || read(fewer) != value))
            break;
        memcpy(digits, fewer, sizeof fewer);
    }
    char *exponent = digits + strcspn(digits, "e"), *end = exponent;
    while (end[-1] == '0') /* after the point, which is always there */
        end--;
    end -= end[-1] == '.';
    memmove(end, exponent, strlen(exponent) + 1);
    return digits;
}

const char *smol_real_digits(double value, char digits[NUMBER_DIGITS])
{
    return find_digits(value, 17, read_real, digits);
}

const char *smol_float_digits(float value, char digits[NUMBER_DIGITS])
{
    return find_digits((double)value, 9, read_float, digits);
}

void smol_json_real(struct json_out *json, double value)
{
    char digits[NUMBER_DIGITS];
    separate(json);
    fputs(isfinite(value) ? smol_real_digits(value, digits) : "null", json->file);
}

void smol_json_float(struct json_out *json, float value)
{
    char digits[NUMBER_DIGITS];
    separate(json);
    fputs(isfinite(value) ? smol_float_digits(value, digits) : "null", json->file);
}

void smol_json_base64(struct json_out *json, const void *data, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *bytes = data;
    separate(json);
    fputc('"', json->file);
    for (size_t i = 0; i < size; i += 3) {
        size_t left = size - i;
        unsigned group = (unsigned)bytes[i] << 16 | (left > 1 ? (unsigned)bytes[i + 1] << 8 : 0) |
                         (left > 2 ? bytes[i + 2] : 0);
        const char four[] = {digits[group >> 18], digits[group >> 12 & 63],
                             left > 1 ? digits[group >> 6 & 63] : '=',
                             left > 2 ? digits[group & 63] : '='};
        fwrite(four, 1, sizeof four, json->file);
    }
    fputc('"', json->file);
}

void smol_json_member_real(struct json_out *json, const char *key, double value)
{
    smol_json_key(json, key);
    smol_json_real(json, value);
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

void smol_json_member_null(struct json_out *json, const char *key)
{
    smol_json_key(json, key);
    smol_json_literal(json, "null");
}
