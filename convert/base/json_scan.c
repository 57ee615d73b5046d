/* The pull scanner, see json_scan.h. */
#include "convert/base/json_scan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/checked.h"
#include "common/utf8.h"

smol_status smol_scan_fail(struct json_scan *scan, const char *what)
{
    return smol_fail(scan->error, SMOL_ERROR_DAMAGED,
                     "%s: the header is damaged: %s (byte %zu): download the file again",
                     scan->path, what, (size_t)(scan->at - scan->file));
}

static void skip_white(struct json_scan *scan)
{
    while (scan->at < scan->end &&
           (*scan->at == ' ' || *scan->at == '\n' || *scan->at == '\t' || *scan->at == '\r'))
        scan->at++;
}

static bool next_is_digit(const struct json_scan *scan)
{
    return scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9';
}

bool smol_scan_take(struct json_scan *scan, char c)
{
    skip_white(scan);
    if (scan->at == scan->end || *scan->at != (uint8_t)c)
        return false;
    scan->at++;
    return true;
}

smol_status smol_scan_expect(struct json_scan *scan, char c)
{
    if (smol_scan_take(scan, c))
        return SMOL_OK;
    char what[] = "'?' expected";
    what[1] = c;
    return smol_scan_fail(scan, what);
}

smol_status smol_scan_end(struct json_scan *scan)
{
    skip_white(scan);
    return scan->at == scan->end ? SMOL_OK : smol_scan_fail(scan, "something behind its end");
}

static bool take_word(struct json_scan *scan, const char *word)
{
    size_t size = strlen(word);
    skip_white(scan);
    if ((size_t)(scan->end - scan->at) < size || memcmp(scan->at, word, size) != 0)
        return false;
    scan->at += size;
    return true;
}

bool smol_scan_null(struct json_scan *scan)
{
    return take_word(scan, "null");
}

/* The four hexadecimal digits of a \u escape. */
static smol_status scan_hex(struct json_scan *scan, uint32_t *unit)
{
    *unit = 0;
    for (int i = 0; i < 4; i++) {
        uint8_t c = scan->at < scan->end ? *scan->at : 0;
        uint8_t lower = c | 0x20;
        if (c >= '0' && c <= '9')
            *unit = *unit << 4 | (uint32_t)(c - '0');
        else if (lower >= 'a' && lower <= 'f')
            *unit = *unit << 4 | (uint32_t)(lower - 'a' + 10);
        else
            return smol_scan_fail(scan, "four hexadecimal digits expected");
        scan->at++;
    }
    return SMOL_OK;
}

/* What follows \u: a code point, or the first half of a surrogate pair and then the second. */
static smol_status scan_code_point(struct json_scan *scan, uint32_t *code_point)
{
    uint32_t low;
    smol_status status = scan_hex(scan, code_point);
    if (status || *code_point < 0xd800 || *code_point > 0xdfff)
        return status;
    bool pair = *code_point < 0xdc00 && scan->end - scan->at >= 2 && scan->at[0] == '\\' &&
                scan->at[1] == 'u';
    if (!pair)
        return smol_scan_fail(scan, "half a surrogate pair");
    scan->at += 2;
    status = scan_hex(scan, &low);
    if (status)
        return status;
    if (low < 0xdc00 || low > 0xdfff)
        return smol_scan_fail(scan, "half a surrogate pair");
    *code_point = 0x10000 + ((*code_point - 0xd800) << 10) + (low - 0xdc00);
    return SMOL_OK;
}

/* What follows a backslash. */
static smol_status scan_escape(struct json_scan *scan, uint32_t *code_point)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    uint8_t c = scan->at < scan->end ? *scan->at : 0;
    const char *name = c ? strchr(names, c) : NULL;
    if (c != 'u' && !name)
        return smol_scan_fail(scan, "no such escape");
    scan->at++;
    if (!name)
        return scan_code_point(scan, code_point);
    *code_point = (uint32_t)values[name - names];
    return SMOL_OK;
}

smol_status smol_scan_string(struct json_scan *scan, char *out, size_t *length)
{
    size_t n = 0;
    if (!smol_scan_take(scan, '"'))
        return smol_scan_fail(scan, "a string expected");
    while (scan->at < scan->end && *scan->at != '"') {
        uint8_t text[UTF8_MAX] = {*scan->at};
        size_t size = 1;
        if (text[0] < 0x20)
            return smol_scan_fail(scan, "a control byte in a string");
        scan->at++;
        if (text[0] == '\\') {
            uint32_t code_point = 0;
            smol_status status = scan_escape(scan, &code_point);
            if (status)
                return status;
            size = smol_utf8_encode(code_point, text);
        }
        if (out)
            memcpy(out + n, text, size);
        n += size;
    }
    if (scan->at == scan->end)
        return smol_scan_fail(scan, "a string without end");
    scan->at++;
    if (out)
        out[n] = '\0';
    *length = n;
    return SMOL_OK;
}

smol_status smol_scan_integer(struct json_scan *scan, uint64_t *value)
{
    skip_white(scan);
    if (!next_is_digit(scan))
        return smol_scan_fail(scan, "an integer expected, 0 or more");
    const uint8_t *start = scan->at;
    *value = 0;
    for (; next_is_digit(scan); scan->at++)
        if (!checked_mul(*value, 10, value) ||
            !checked_add(*value, (uint64_t)(*scan->at - '0'), value))
            return smol_scan_fail(scan, "an integer over 64 bits");
    if (*start == '0' && scan->at - start > 1)
        return smol_scan_fail(scan, "an integer with a leading zero");
    return SMOL_OK;
}

static bool take_digits(struct json_scan *scan)
{
    const uint8_t *start = scan->at;
    while (next_is_digit(scan))
        scan->at++;
    return scan->at > start;
}

static bool take_either(struct json_scan *scan, char a, char b)
{
    if (scan->at == scan->end || (*scan->at != (uint8_t)a && *scan->at != (uint8_t)b))
        return false;
    scan->at++;
    return true;
}

/* JSON's grammar of numbers: -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)? */
static bool take_number(struct json_scan *scan)
{
    take_either(scan, '-', '-');
    if (!take_either(scan, '0', '0') && !take_digits(scan))
        return false;
    if (take_either(scan, '.', '.') && !take_digits(scan))
        return false;
    if (take_either(scan, 'e', 'E')) {
        take_either(scan, '+', '-');
        return take_digits(scan);
    }
    return true;
}

/* Whether `c` may stand behind a number. */
static bool is_delimiter(uint8_t c)
{
    return c == ',' || c == ']' || c == '}' || c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Numbers that overflow a double are refused because the reference refuses them. strtod gets a copy
 * of its own: it would run on in a mapping that changes while it reads. */
static smol_status check_range(struct json_scan *scan, const uint8_t *number, size_t size)
{
    char short_copy[64];
    char *copy = size < sizeof short_copy ? short_copy : malloc(size + 1);
    if (!copy)
        return smol_fail_memory(scan->error, "a number");
    memcpy(copy, number, size);
    copy[size] = '\0';
    bool is_infinite = isinf(strtod(copy, NULL));
    if (copy != short_copy)
        free(copy);
    return is_infinite ? smol_scan_fail(scan, "a number out of range") : SMOL_OK;
}

static smol_status skip_number(struct json_scan *scan)
{
    const uint8_t *start = scan->at;
    if (!take_number(scan) || scan->at == scan->end || !is_delimiter(*scan->at))
        return smol_scan_fail(scan, "not a number");
    return check_range(scan, start, (size_t)(scan->at - start));
}

static smol_status skip_scalar(struct json_scan *scan)
{
    size_t length;
    skip_white(scan);
    if (scan->at < scan->end && *scan->at == '"')
        return smol_scan_string(scan, NULL, &length);
    if (next_is_digit(scan) || (scan->at < scan->end && *scan->at == '-'))
        return skip_number(scan);
    if (take_word(scan, "true") || take_word(scan, "false") || take_word(scan, "null"))
        return SMOL_OK;
    return smol_scan_fail(scan, "a value expected");
}

static smol_status skip_key(struct json_scan *scan)
{
    size_t length;
    smol_status status = smol_scan_string(scan, NULL, &length);
    return status ? status : smol_scan_expect(scan, ':');
}

smol_status smol_scan_skip(struct json_scan *scan)
{
    char closers[SCAN_MAX_NESTING]; /* of the open lists and objects */
    unsigned depth = 0;
    smol_status status = SMOL_OK;
    do {
        bool object = smol_scan_take(scan, '{');
        bool opened = object || smol_scan_take(scan, '[');
        if (opened && depth == SCAN_MAX_NESTING)
            return smol_scan_fail(scan, "nested too deeply");
        if (opened)
            closers[depth++] = object ? '}' : ']';
        else
            status = skip_scalar(scan);
        /* behind a value: close what ends here; behind an opening: it may be empty */
        bool more = opened && !smol_scan_take(scan, closers[depth - 1]);
        depth -= opened && !more;
        while (!status && !more && depth > 0 && !smol_scan_take(scan, ','))
            status = smol_scan_expect(scan, closers[--depth]);
        if (!status && depth > 0 && closers[depth - 1] == '}')
            status = skip_key(scan);
    } while (!status && depth > 0);
    return status;
}
