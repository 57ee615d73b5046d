/* The lexer of chat templates. It matches the regular expressions of jinja2's lexer with
 * trim_blocks and lstrip_blocks, which transformers enables. See template_lexer.h. */
#include "convert/template/template_lexer.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/text.h"
#include "common/utf8.h"
#include "format/template.h"

struct lexer {
    struct template_source *source;
    smol_error *error;
    size_t at;
    bool line_starts; /* the text before `at` ends with a line break */
    char open[64];    /* brackets that are not closed yet */
    size_t n_open;
};

/* --- positions ---------------------------------------------------------------------------- */

/* Returns the index of the last line that starts at or before `at`. */
static size_t find_line(const struct template_source *source, size_t at)
{
    size_t low = 0, high = source->n_lines;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (source->lines[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

unsigned smol_template_line(const struct template_source *source, size_t at)
{
    return (unsigned)find_line(source, at) + 1;
}

static smol_status find_lines(struct template_source *source, smol_error *error)
{
    size_t n = 1;
    for (size_t i = 0; i < source->size; i++)
        n += source->text[i] == '\n';
    source->lines = calloc(n, sizeof *source->lines);
    if (!source->lines)
        return smol_fail_memory(error, "the chat template");
    for (size_t i = 0; i < source->size; i++)
        if (source->text[i] == '\n')
            source->lines[++source->n_lines] = i + 1;
    source->n_lines++;
    return SMOL_OK;
}

smol_status smol_template_refuse(const struct template_source *source, size_t at, smol_error *error,
                                 smol_status status, const char *format, ...)
{
    char text[SMOL_ERROR_MESSAGE_SIZE];
    size_t line = find_line(source, at);
    unsigned column = 1;
    for (size_t i = source->n_lines ? source->lines[line] : at; i < at && i < source->size; i++)
        column += !utf8_continues(source->text[i]);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    smol_fail(error, status, "line %zu, column %u: %s", line + 1, column, text);
    return status;
}

/* --- helpers ------------------------------------------------------------------------------ */

static bool is_at(const struct lexer *lexer, size_t at, const char *text)
{
    size_t n = strlen(text);
    return lexer->source->size - at >= n && memcmp(lexer->source->text + at, text, n) == 0;
}

static char byte_at(const struct lexer *lexer, size_t at)
{
    return at < lexer->source->size ? lexer->source->text[at] : '\0';
}

static size_t skip_space(const struct lexer *lexer, size_t at)
{
    const struct template_source *source = lexer->source;
    while (at < source->size) {
        uint32_t c;
        size_t length = smol_utf8_decode((const uint8_t *)source->text + at, source->size - at, &c);
        if (!smol_utf8_is_space(c))
            break;
        at += length;
    }
    return at;
}

/* Returns the end of source[start..end) without trailing white space. */
static size_t strip_end(const struct lexer *lexer, size_t start, size_t end)
{
    size_t solid = start;
    for (size_t i = start; i < end;) {
        uint32_t c;
        i += smol_utf8_decode((const uint8_t *)lexer->source->text + i, end - i, &c);
        if (!smol_utf8_is_space(c))
            solid = i;
    }
    return solid;
}

static smol_status add(struct lexer *lexer, struct token token)
{
    struct template_source *source = lexer->source;
    if (!GROW(source->tokens, source->n_tokens, &source->capacity))
        return smol_fail_memory(lexer->error, "the chat template");
    source->tokens[source->n_tokens++] = token;
    return SMOL_OK;
}

/* Adds a token that consists of source[at..end). */
static smol_status add_part(struct lexer *lexer, enum token_type type, size_t at, size_t end)
{
    return add(
        lexer,
        (struct token){.type = type, .at = at, .text = lexer->source->text + at, .size = end - at});
}

/* --- text between tags -------------------------------------------------------------------- */

/* Returns how a tag that begins or ends treats the adjacent white space: '-' strips it, '+' keeps
 * it, 0 applies trim_blocks and lstrip_blocks. */
static char sign_at(const struct lexer *lexer, size_t at)
{
    char c = byte_at(lexer, at);
    return c == '-' || c == '+' ? c : '\0';
}

/* Adds the text source[start..end), which precedes a tag with `sign`. */
static smol_status add_data(struct lexer *lexer, size_t start, size_t end, char sign, bool variable)
{
    const char *text = lexer->source->text;
    size_t line = end;
    if (sign == '-') {
        end = strip_end(lexer, start, end);
    } else if (sign != '+' && !variable) {
        while (line > start && text[line - 1] != '\n')
            line--;
        if ((line > start || lexer->line_starts) && strip_end(lexer, line, end) == line)
            end = line;
    }
    return end > start ? add_part(lexer, TOKEN_DATA, start, end) : SMOL_OK;
}

/* Returns the position after the tag end `mark` ("%}" or "#}") at `at`, or 0 if it is not there. */
static size_t tag_end(const struct lexer *lexer, size_t at, const char *mark)
{
    char sign = sign_at(lexer, at);
    if (!is_at(lexer, at + (sign != '\0'), mark))
        return 0;
    size_t end = at + (sign != '\0') + 2;
    if (sign == '-')
        return skip_space(lexer, end);
    return sign == '\0' && byte_at(lexer, end) == '\n' ? end + 1 : end;
}

static void note_line(struct lexer *lexer)
{
    lexer->line_starts = lexer->at > 0 && lexer->source->text[lexer->at - 1] == '\n';
}

static smol_status lex_comment(struct lexer *lexer)
{
    size_t start = lexer->at, at = start + 2 + (sign_at(lexer, start + 2) != '\0'), end = 0;
    for (; at < lexer->source->size && !end; at++)
        end = tag_end(lexer, at, "#}");
    if (!end)
        return smol_template_refuse(lexer->source, start, lexer->error, SMOL_ERROR_DAMAGED,
                                    "a comment without an end");
    lexer->at = end;
    note_line(lexer);
    return SMOL_OK;
}

/* Returns the position after "{% raw %}", or 0 if `at` is the start of another tag. */
static size_t raw_begin(const struct lexer *lexer, size_t at)
{
    at = skip_space(lexer, at + 2 + (sign_at(lexer, at + 2) != '\0'));
    if (!is_at(lexer, at, "raw"))
        return 0;
    at = skip_space(lexer, at + 3);
    if (is_at(lexer, at, "-%}"))
        return skip_space(lexer, at + 3);
    return is_at(lexer, at, "%}") ? at + 2 : 0;
}

/* Returns the position after "{% endraw %}", or 0 if `at` is the start of another tag. */
static size_t raw_end(const struct lexer *lexer, size_t at)
{
    if (!is_at(lexer, at, "{%"))
        return 0;
    at = skip_space(lexer, at + 2 + (sign_at(lexer, at + 2) != '\0'));
    if (!is_at(lexer, at, "endraw"))
        return 0;
    return tag_end(lexer, skip_space(lexer, at + 6), "%}");
}

static smol_status lex_raw(struct lexer *lexer, size_t begin)
{
    size_t at = begin, end = 0;
    lexer->at = begin;
    note_line(lexer);
    while (at < lexer->source->size && !(end = raw_end(lexer, at)))
        at++;
    if (!end)
        return smol_template_refuse(lexer->source, begin, lexer->error, SMOL_ERROR_DAMAGED,
                                    "a raw block without an end");
    smol_status status = add_data(lexer, begin, at, sign_at(lexer, at + 2), false);
    lexer->at = end;
    note_line(lexer);
    return status;
}

/* --- tokens within tags ------------------------------------------------------------------- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static size_t skip_digits(const struct lexer *lexer, size_t at)
{
    while (is_digit(byte_at(lexer, at)))
        at++;
    return at;
}

/* Returns the end of an exponent such as "e+10" at `at`, or `at` if there is none. */
static size_t skip_exponent(const struct lexer *lexer, size_t at)
{
    char c = byte_at(lexer, at);
    size_t digits = at + 1 + (sign_at(lexer, at + 1) != '\0');
    return (c == 'e' || c == 'E') && is_digit(byte_at(lexer, digits)) ? skip_digits(lexer, digits)
                                                                      : at;
}

static smol_status lex_real(struct lexer *lexer, size_t start, size_t end)
{
    char text[64];
    if (end - start >= sizeof text)
        return smol_template_refuse(lexer->source, start, lexer->error, SMOL_ERROR_UNSUPPORTED,
                                    "a number of more than 63 characters is not supported");
    memcpy(text, lexer->source->text + start, end - start);
    text[end - start] = '\0';
    lexer->at = end;
    return add(lexer, (struct token){.type = TOKEN_REAL, .at = start, .real = strtod(text, NULL)});
}

static smol_status lex_number(struct lexer *lexer)
{
    size_t start = lexer->at, whole = skip_digits(lexer, start), end = whole;
    bool after_point = start > 0 && lexer->source->text[start - 1] == '.';
    if (byte_at(lexer, end) == '.' && is_digit(byte_at(lexer, end + 1)))
        end = skip_digits(lexer, end + 1);
    end = skip_exponent(lexer, end);
    if (end > whole && !after_point)
        return lex_real(lexer, start, end);
    char first = byte_at(lexer, start), next = byte_at(lexer, whole);
    int64_t number = 0;
    for (size_t i = start; i < whole; i++)
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, byte_at(lexer, i) - '0', &number))
            next = '_';
    if (is_letter(next) || (first == '0' && whole - start > 1))
        return smol_template_refuse(lexer->source, start, lexer->error, SMOL_ERROR_UNSUPPORTED,
                                    "a number of this form is not supported");
    lexer->at = whole;
    return add(lexer, (struct token){.type = TOKEN_INTEGER, .at = start, .integer = number});
}

/* Returns the value of `n` hexadecimal digits at `at`, or -1. */
static int64_t read_hex(const struct lexer *lexer, size_t at, size_t n, size_t limit)
{
    int64_t value = 0;
    for (size_t i = at; i < at + n; i++) {
        int digit = i < limit ? hex_value(byte_at(lexer, i)) : -1;
        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

/* Decodes the character after a backslash at *at, as Python's unicode-escape does, and advances
 * *at. Returns the code point, -1 if the escape is not supported, -2 for an escaped line break (no
 * character), or -3 if it is not an escape, so that the backslash remains. */
static int64_t read_escape(const struct lexer *lexer, size_t *at, size_t limit)
{
    static const char from[] = "abfnrtv\\'\"", to[] = "\a\b\f\n\r\t\v\\'\"";
    char c = byte_at(lexer, *at);
    const char *found = c ? strchr(from, c) : NULL;
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    int64_t value = 0;
    if (c >= '0' && c <= '7') {
        for (size_t n = 0; n < 3 && *at < limit && (c = byte_at(lexer, *at)) >= '0' && c <= '7';
             n++) {
            value = value * 8 + (c - '0');
            ++*at;
        }
        return value;
    }
    if (digits) {
        value = read_hex(lexer, *at + 1, digits, limit);
        *at += 1 + digits;
        return value > 0x10ffff || (value >= 0xd800 && value < 0xe000) ? -1 : value;
    }
    if (c == 'N' || (uint8_t)c >= 0x80) /* jinja2 writes other characters as escapes first */
        return -1;
    *at += found || c == '\n';
    return found ? (uint8_t)to[found - from] : c == '\n' ? -2 : -3;
}

static smol_status lex_string(struct lexer *lexer)
{
    struct template_source *source = lexer->source;
    size_t start = lexer->at, end = start + 1;
    char quote = source->text[start], *pool = source->pool + source->n_pool;
    size_t n = 0;
    while (end < source->size && source->text[end] != quote)
        end += 1 + (source->text[end] == '\\');
    if (end >= source->size)
        return smol_template_refuse(source, start, lexer->error, SMOL_ERROR_DAMAGED,
                                    "a string without an end");
    for (size_t at = start + 1; at < end;) {
        size_t place = at;
        if (source->text[at] != '\\') {
            pool[n++] = source->text[at++];
            continue;
        }
        at++;
        int64_t c = read_escape(lexer, &at, end);
        if (c == -1)
            return smol_template_refuse(source, place, lexer->error, SMOL_ERROR_UNSUPPORTED,
                                        "this escape in a string is not supported");
        if (c == -3)
            pool[n++] = '\\';
        else if (c >= 0) /* never longer than the escape */
            n += smol_utf8_encode((uint32_t)c, (uint8_t *)pool + n);
    }
    source->n_pool += n;
    lexer->at = end + 1;
    return add(lexer, (struct token){.type = TOKEN_STRING, .at = start, .text = pool, .size = n});
}

/* Tracks brackets: within them, "}}" is two closing braces and not the end of the tag. */
static smol_status balance(struct lexer *lexer, char c)
{
    static const char opening[] = "([{", closing[] = ")]}";
    const char *found;
    if ((found = strchr(opening, c))) {
        if (lexer->n_open == sizeof lexer->open)
            return smol_template_refuse(
                lexer->source, lexer->at, lexer->error, SMOL_ERROR_UNSUPPORTED,
                "more than %zu nested brackets are not supported", sizeof lexer->open);
        lexer->open[lexer->n_open++] = closing[found - opening];
    } else if (strchr(closing, c)) {
        if (lexer->n_open == 0 || lexer->open[--lexer->n_open] != c)
            return smol_template_refuse(lexer->source, lexer->at, lexer->error, SMOL_ERROR_DAMAGED,
                                        "unexpected '%c'", c);
    }
    return SMOL_OK;
}

static smol_status lex_operator(struct lexer *lexer)
{
    static const char *const operators[] = {"**", "//", "==", "!=", ">=", "<=", "+", "-", "/",
                                            "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                            ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        if (!is_at(lexer, lexer->at, operators[i]))
            continue;
        size_t n = strlen(operators[i]);
        smol_status status = n == 1 ? balance(lexer, operators[i][0]) : SMOL_OK;
        if (!status)
            status = add_part(lexer, TOKEN_OPERATOR, lexer->at, lexer->at + n);
        lexer->at += n;
        return status;
    }
    return smol_template_refuse(lexer->source, lexer->at, lexer->error, SMOL_ERROR_DAMAGED,
                                "unexpected character");
}

/* Reads one token within a tag. */
static smol_status lex_token(struct lexer *lexer)
{
    size_t start = lexer->at;
    char c = byte_at(lexer, start);
    if (is_digit(c))
        return lex_number(lexer);
    if (c == '\'' || c == '"')
        return lex_string(lexer);
    if ((uint8_t)c >= 0x80)
        return smol_template_refuse(lexer->source, start, lexer->error, SMOL_ERROR_UNSUPPORTED,
                                    "a name that is not ASCII is not supported");
    if (!is_letter(c))
        return lex_operator(lexer);
    while (is_letter(byte_at(lexer, lexer->at)) || is_digit(byte_at(lexer, lexer->at)))
        lexer->at++;
    return add_part(lexer, TOKEN_NAME, start, lexer->at);
}

/* Returns the position after the end of the tag at lexer->at, or 0 if the tag continues. */
static size_t end_of_tag(const struct lexer *lexer, bool variable)
{
    if (lexer->n_open > 0)
        return 0;
    if (!variable)
        return tag_end(lexer, lexer->at, "%}");
    if (is_at(lexer, lexer->at, "-}}"))
        return skip_space(lexer, lexer->at + 3);
    return is_at(lexer, lexer->at, "}}") ? lexer->at + 2 : 0;
}

static smol_status lex_tag(struct lexer *lexer, bool variable)
{
    size_t start = lexer->at, end = 0;
    smol_status status =
        add_part(lexer, variable ? TOKEN_VARIABLE_BEGIN : TOKEN_BLOCK_BEGIN, start, start + 2);
    lexer->at += 2 + (sign_at(lexer, start + 2) != '\0');
    lexer->n_open = 0;
    while (!status) {
        /* test for the end first: neither its '-' nor the white space after it is a token */
        size_t next = skip_space(lexer, lexer->at);
        lexer->at = next;
        if ((end = end_of_tag(lexer, variable)))
            break;
        status = next < lexer->source->size
                     ? lex_token(lexer)
                     : smol_template_refuse(lexer->source, start, lexer->error, SMOL_ERROR_DAMAGED,
                                            "a tag without an end");
    }
    if (!status)
        status = add_part(lexer, variable ? TOKEN_VARIABLE_END : TOKEN_BLOCK_END, lexer->at, end);
    lexer->at = end;
    note_line(lexer);
    return status;
}

/* --- whole template ----------------------------------------------------------------------- */

/* Reads the text up to the next tag, and the tag. */
static smol_status lex_next(struct lexer *lexer)
{
    const struct template_source *source = lexer->source;
    size_t start = lexer->at, at = start;
    while (at < source->size && !(source->text[at] == '{' && byte_at(lexer, at + 1) &&
                                  strchr("{%#", byte_at(lexer, at + 1))))
        at++;
    lexer->at = at;
    if (at == source->size)
        return add_part(lexer, TOKEN_DATA, start, at);
    char kind = source->text[at + 1];
    smol_status status = add_data(lexer, start, at, sign_at(lexer, at + 2), kind == '{');
    if (status)
        return status;
    size_t raw = kind == '%' ? raw_begin(lexer, at) : 0;
    return raw           ? lex_raw(lexer, raw)
           : kind == '#' ? lex_comment(lexer)
                         : lex_tag(lexer, kind == '{');
}

/* Copies the text, replacing "\r\n" and "\r" by "\n", without a final line break. */
static size_t copy_lines(const char *text, size_t size, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\r' && i + 1 < size && text[i + 1] == '\n')
            continue;
        out[n++] = text[i] == '\r' ? '\n' : text[i];
    }
    return n > 0 && out[n - 1] == '\n' ? n - 1 : n;
}

smol_status smol_template_lex(const char *text, size_t size, struct template_source *source,
                              smol_error *error)
{
    struct lexer lexer = {.source = source, .error = error, .line_starts = true};
    *source = (struct template_source){0};
    if (size > TEMPLATE_MAX_SOURCE)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED, "more than %d bytes are not supported",
                         TEMPLATE_MAX_SOURCE);
    size_t good = smol_utf8_well_formed((const uint8_t *)text, size);
    if (good < size)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED, "not UTF-8 (byte %zu)", good);
    const char *nul = memchr(text, '\0', size);
    if (nul)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED, "a NUL is not supported (byte %zu)",
                         (size_t)(nul - text));
    source->text = malloc(size + 1);
    source->pool = malloc(size + 1);
    if (!source->text || !source->pool)
        return smol_fail_memory(error, "the chat template");
    source->size = copy_lines(text, size, source->text);
    smol_status status = find_lines(source, error);
    while (!status && lexer.at < source->size)
        status = lex_next(&lexer);
    return status ? status : add(&lexer, (struct token){.type = TOKEN_END, .at = source->size});
}

void smol_template_source_free(struct template_source *source)
{
    free(source->text);
    free(source->pool);
    free(source->lines);
    free(source->tokens);
    *source = (struct template_source){0};
}
