/* The pull reader, see json_reader.h. */
#include "common/json_reader.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/text.h"
#include "common/utf8.h"

smol_status smol_json_fail(struct json_reader *reader, const char *what)
{
    return smol_fail(reader->error, reader->status, "%s: %s: %s (byte %zu)%s", reader->name,
                     reader->fault, what, (size_t)(reader->at - reader->start), reader->advice);
}

smol_status smol_json_check_utf8(struct json_reader *reader)
{
    size_t size = (size_t)(reader->end - reader->at),
           good = smol_utf8_well_formed(reader->at, size);
    if (good == size)
        return SMOL_OK;
    reader->at += good;
    return smol_json_fail(reader, "not UTF-8");
}

/* --- punctuation -------------------------------------------------------------------------- */

int smol_json_peek(struct json_reader *reader)
{
    while (reader->at < reader->end && json_is_space((char)*reader->at))
        reader->at++;
    return reader->at < reader->end ? *reader->at : -1;
}

bool smol_json_take(struct json_reader *reader, char c)
{
    if (smol_json_peek(reader) != (uint8_t)c)
        return false;
    reader->at++;
    return true;
}

smol_status smol_json_expect(struct json_reader *reader, char c)
{
    if (smol_json_take(reader, c))
        return SMOL_OK;
    char what[] = "expected '?'";
    what[sizeof what - 3] = c;
    return smol_json_fail(reader, what);
}

smol_status smol_json_begin(struct json_reader *reader, char open, bool *more)
{
    smol_status status = smol_json_expect(reader, open);
    *more = !status && !smol_json_take(reader, open == '[' ? ']' : '}');
    return status;
}

smol_status smol_json_more(struct json_reader *reader, char close, bool *more)
{
    *more = smol_json_take(reader, ',');
    if (*more || smol_json_take(reader, close))
        return SMOL_OK;
    return smol_json_fail(reader, close == ']' ? "expected ',' or ']'" : "expected ',' or '}'");
}

smol_status smol_json_end(struct json_reader *reader)
{
    return smol_json_peek(reader) < 0 ? SMOL_OK
                                      : smol_json_fail(reader, "text after the end of the value");
}

bool smol_json_word(struct json_reader *reader, const char *word)
{
    size_t size = strlen(word);
    smol_json_peek(reader);
    if ((size_t)(reader->end - reader->at) < size || memcmp(reader->at, word, size) != 0)
        return false;
    reader->at += size;
    return true;
}

/* --- strings ------------------------------------------------------------------------------ */

/* Reads the four hexadecimal digits of a \u escape. */
static smol_status read_hex(struct json_reader *reader, uint32_t *unit)
{
    *unit = 0;
    for (int i = 0; i < 4; i++) {
        int digit = reader->at < reader->end ? hex_value(*reader->at) : -1;
        if (digit < 0)
            return smol_json_fail(reader, "expected four hexadecimal digits");
        *unit = *unit << 4 | (uint32_t)digit;
        reader->at++;
    }
    return SMOL_OK;
}

/* Reads the rest of an escape after \u: a code point, or the first half of a surrogate pair and
 * then the second. */
static smol_status read_code_point(struct json_reader *reader, uint32_t *code_point)
{
    uint32_t low;
    smol_status status = read_hex(reader, code_point);
    if (status || *code_point < 0xd800 || *code_point > 0xdfff)
        return status;
    bool pair = *code_point < 0xdc00 && reader->end - reader->at >= 2 && reader->at[0] == '\\' &&
                reader->at[1] == 'u';
    if (!pair)
        return smol_json_fail(reader, "half a surrogate pair");
    reader->at += 2;
    status = read_hex(reader, &low);
    if (status)
        return status;
    if (low < 0xdc00 || low > 0xdfff)
        return smol_json_fail(reader, "half a surrogate pair");
    *code_point = 0x10000 + ((*code_point - 0xd800) << 10) + (low - 0xdc00);
    return SMOL_OK;
}

/* Reads the rest of an escape after its backslash. */
static smol_status read_escape(struct json_reader *reader, uint32_t *code_point)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    uint8_t c = reader->at < reader->end ? *reader->at : 0;
    const char *name = c ? strchr(names, c) : NULL;
    if (c != 'u' && !name)
        return smol_json_fail(reader, "unknown escape");
    reader->at++;
    if (!name)
        return read_code_point(reader, code_point);
    *code_point = (uint32_t)values[name - names];
    return SMOL_OK;
}

smol_status smol_json_string(struct json_reader *reader, char *out, size_t *length)
{
    size_t n = 0;
    if (!smol_json_take(reader, '"'))
        return smol_json_fail(reader, "expected a string");
    while (reader->at < reader->end && *reader->at != '"') {
        uint8_t text[UTF8_MAX] = {*reader->at};
        size_t size = 1;
        if (text[0] < 0x20)
            return smol_json_fail(reader, "a control character in a string");
        reader->at++;
        if (text[0] == '\\') {
            uint32_t code_point = 0;
            smol_status status = read_escape(reader, &code_point);
            if (status)
                return status;
            size = smol_utf8_encode(code_point, text);
        }
        if (out)
            memcpy(out + n, text, size);
        n += size;
    }
    if (reader->at == reader->end)
        return smol_json_fail(reader, "a string without an end");
    reader->at++;
    if (out)
        out[n] = '\0';
    *length = n;
    return SMOL_OK;
}

smol_status smol_json_name(struct json_reader *reader, char *out, size_t *length)
{
    smol_status status = smol_json_string(reader, out, length);
    return status ? status : smol_json_expect(reader, ':');
}

/* --- numbers ------------------------------------------------------------------------------ */

static bool take_digits(struct json_reader *reader)
{
    const uint8_t *start = reader->at;
    while (reader->at < reader->end && is_digit(*reader->at))
        reader->at++;
    return reader->at > start;
}

static bool take_either(struct json_reader *reader, char a, char b)
{
    if (reader->at == reader->end || (*reader->at != (uint8_t)a && *reader->at != (uint8_t)b))
        return false;
    reader->at++;
    return true;
}

/* Takes a number with JSON's grammar: -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)? */
static bool take_number(struct json_reader *reader, bool *is_integer)
{
    *is_integer = true;
    take_either(reader, '-', '-');
    if (!take_either(reader, '0', '0') && !take_digits(reader))
        return false;
    if (take_either(reader, '.', '.')) {
        *is_integer = false;
        if (!take_digits(reader))
            return false;
    }
    if (take_either(reader, 'e', 'E')) {
        *is_integer = false;
        take_either(reader, '+', '-');
        return take_digits(reader);
    }
    return true;
}

/* Returns whether byte `c`, or the end of the text (-1), ends a number. */
static bool is_delimiter(int c)
{
    return c < 0 || c == ',' || c == ']' || c == '}' || json_is_space((char)c);
}

smol_status smol_json_number(struct json_reader *reader, struct json_number *number)
{
    int c = smol_json_peek(reader);
    number->text = reader->at;
    if (c != '-' && (c < '0' || c > '9'))
        return smol_json_fail(reader, "expected a value");
    if (!take_number(reader, &number->is_integer) ||
        !is_delimiter(reader->at < reader->end ? *reader->at : -1))
        return smol_json_fail(reader, "not a number");
    number->size = (size_t)(reader->at - number->text);
    return SMOL_OK;
}

bool smol_json_to_u64(const struct json_number *number, uint64_t *value)
{
    *value = 0;
    for (size_t i = 0; i < number->size; i++)
        if (number->text[i] < '0' || number->text[i] > '9' ||
            __builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, (uint64_t)(number->text[i] - '0'), value))
            return false;
    return true;
}

bool smol_json_to_i64(const struct json_number *number, int64_t *value)
{
    bool negative = number->text[0] == '-';
    struct json_number digits = {number->text + negative, number->size - negative, true};
    uint64_t magnitude;
    if (!smol_json_to_u64(&digits, &magnitude) || magnitude > (uint64_t)INT64_MAX + negative)
        return false;
    *value = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

/* Converts a copy with strtod, which requires a terminated text with the decimal point of the
 * process's locale, of one or more bytes. `copy` has n + MB_LEN_MAX + 1 bytes. */
static double read_real(const uint8_t *text, size_t n, char *copy, bool *whole)
{
    char point[1 + MB_LEN_MAX + 2], *end;
    const uint8_t *dot = memchr(text, '.', n);
    size_t before = dot ? (size_t)(dot - text) : n, width = 0;
    memcpy(copy, text, before);
    if (dot) {
        width = (size_t)snprintf(point, sizeof point, "%.1f", 0.5) - 2;
        memcpy(copy + before, point + 1, width);
        memcpy(copy + before + width, dot + 1, n - before - 1);
        width--;
    }
    copy[n + width] = '\0';
    double real = strtod(copy, &end);
    *whole = n > 0 && *end == '\0';
    return real;
}

double smol_read_decimal(const uint8_t *text, size_t n, bool *whole)
{
    char copy[DECIMAL_MAX + MB_LEN_MAX + 1];
    return read_real(text, n, copy, whole);
}

smol_status smol_json_to_real(struct json_reader *reader, const struct json_number *number,
                              double *value)
{
    bool whole;
    if (number->size <= DECIMAL_MAX) {
        *value = smol_read_decimal(number->text, number->size, &whole);
        return SMOL_OK;
    }
    char *copy = smol_malloc(number->size + MB_LEN_MAX + 1);
    if (!copy)
        return smol_fail_memory(reader->error, "a number");
    *value = read_real(number->text, number->size, copy, &whole);
    smol_free(copy);
    return SMOL_OK;
}

/* --- values ------------------------------------------------------------------------------- */

static smol_status skip_number(struct json_reader *reader)
{
    struct json_number number = {0};
    double value;
    smol_status status = smol_json_number(reader, &number);
    if (!status)
        status = smol_json_to_real(reader, &number, &value);
    if (!status && isinf(value))
        return smol_json_fail(reader, "a number out of range");
    return status;
}

static smol_status skip_scalar(struct json_reader *reader)
{
    size_t length;
    if (smol_json_peek(reader) == '"')
        return smol_json_string(reader, NULL, &length);
    if (smol_json_word(reader, "true") || smol_json_word(reader, "false") ||
        smol_json_word(reader, "null"))
        return SMOL_OK;
    return skip_number(reader);
}

smol_status smol_json_skip(struct json_reader *reader)
{
    char closers[JSON_MAX_NESTING]; /* closing characters of the open lists and objects */
    unsigned depth = 0;
    size_t length;
    smol_status status = SMOL_OK;
    do {
        int c = smol_json_peek(reader);
        bool more = false;
        if (c != '[' && c != '{') {
            status = skip_scalar(reader);
        } else if (depth == JSON_MAX_NESTING) {
            return smol_json_fail(reader, "nested too deeply");
        } else {
            status = smol_json_begin(reader, (char)c, &more);
            if (more)
                closers[depth++] = c == '[' ? ']' : '}';
        }
        /* after a value: take the ends of lists and objects */
        while (!status && !more && depth > 0) {
            status = smol_json_more(reader, closers[depth - 1], &more);
            depth -= !more;
        }
        if (!status && depth > 0 && closers[depth - 1] == '}')
            status = smol_json_name(reader, NULL, &length);
    } while (!status && depth > 0);
    return status;
}
