/* Values as text: the output of `{{ }}`, `~` and tojson. See template_text.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "common/text.h"
#include "common/utf8.h"
#include "runtime/template/template_text.h"

/* --- numbers ------------------------------------------------------------------------------ */

enum { MAX_DIGITS = 32, MAX_REAL = 80 };

/* Returns the fewest digits that read back as the same number, and the position of the decimal
 * point: the value is 0.d1d2d3... * 10^*point. The result does not depend on the locale: printing
 * and reading use the same one, and the decimal point is skipped. */
static void shortest_digits(double value, char digits[MAX_DIGITS], int *point)
{
    char text[MAX_DIGITS];
    for (int n = 1; n <= 17; n++) {
        snprintf(text, sizeof text, "%.*e", n - 1, value);
        if (strtod(text, NULL) != value)
            decimal_step(text);
        if (strtod(text, NULL) == value)
            break;
    }
    size_t n = 0;
    const char *c = text;
    for (; *c != 'e'; c++)
        if (is_digit(*c))
            digits[n++] = *c;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    digits[n] = '\0';
    *point = (int)strtol(c + 1, NULL, 10) + 1;
}

/* Formats a number as Python's repr(float) does. */
static void format_real(double value, char out[MAX_REAL])
{
    char digits[MAX_DIGITS];
    int point;
    const char *sign = value < 0 || (value == 0 && 1 / value < 0) ? "-" : "";
    shortest_digits(value < 0 ? -value : value, digits, &point);
    int n = (int)strlen(digits);
    if (value == 0)
        snprintf(out, MAX_REAL, "%s0.0", sign);
    else if (point > 16 || point < -3)
        snprintf(out, MAX_REAL, "%s%c%s%se%+03d", sign, digits[0], n > 1 ? "." : "", digits + 1,
                 point - 1);
    else if (point <= 0)
        snprintf(out, MAX_REAL, "%s0.%.*s%s", sign, -point, "0000", digits);
    else if (point >= n)
        snprintf(out, MAX_REAL, "%s%s%.*s.0", sign, digits, point - n, "0000000000000000");
    else
        snprintf(out, MAX_REAL, "%s%.*s.%s", sign, point, digits, digits + point);
}

/* Prints a number. `json` selects the spelling of infinity and NaN that json.dumps uses. */
static bool print_number(struct machine *machine, struct text_builder *builder,
                         const struct value *value, bool json)
{
    char text[MAX_REAL];
    if (value->type == VALUE_INTEGER)
        snprintf(text, sizeof text, "%" PRId64, value->integer);
    else if (value->real != value->real)
        snprintf(text, sizeof text, json ? "NaN" : "nan");
    else if (value->real - value->real != 0)
        snprintf(text, sizeof text, "%s%s", value->real < 0 ? "-" : "", json ? "Infinity" : "inf");
    else
        format_real(value->real, text);
    return smol_builder_add_literal(machine, builder, text, true);
}

/* --- str and repr ------------------------------------------------------------------------- */

/* Returns the escape sequence of a character within quotes, or NULL if it needs none. */
static const char *escape_repr(uint32_t c, char quote, char out[16])
{
    if (c == '\\' || c == (uint32_t)quote)
        snprintf(out, 16, "\\%c", (char)c);
    else if (c == '\n' || c == '\r' || c == '\t')
        snprintf(out, 16, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
    else if (smol_code_point_is_printable(c))
        return NULL;
    else if (c < 0x100)
        snprintf(out, 16, "\\x%02" PRIx32, c);
    else if (c < 0x10000)
        snprintf(out, 16, "\\u%04" PRIx32, c);
    else
        snprintf(out, 16, "\\U%08" PRIx32, c);
    return out;
}

/* Prints a text in quotes. `escape` returns the escape sequence of a character, or NULL. */
static bool print_quoted(struct machine *machine, struct text_builder *builder,
                         const struct value *text, const char *quote,
                         const char *(*escape)(uint32_t c, char quote, char out[16]))
{
    bool good = smol_builder_add_literal(machine, builder, quote, true);
    for (size_t i = 0; i < text->n && good;) {
        uint32_t code_point;
        char escaped[16];
        size_t length = smol_utf8_decode(text->bytes + i, text->n - i, &code_point);
        const char *instead = escape(code_point, quote[0], escaped);
        good = instead ? smol_builder_add_literal(machine, builder, instead, true)
                       : smol_builder_add(machine, builder, text->bytes + i, length, true);
        i += length;
    }
    return good && smol_builder_add_literal(machine, builder, quote, true);
}

static bool print_text(struct machine *machine, struct text_builder *builder,
                       const struct value *text)
{
    bool single = text->n > 0 && memchr(text->bytes, '\'', text->n);
    bool twofold = text->n > 0 && memchr(text->bytes, '"', text->n);
    return print_quoted(machine, builder, text, single && !twofold ? "\"" : "'", escape_repr);
}

static bool print_repr(struct machine *machine, struct text_builder *builder,
                       const struct value *value);

static bool print_items(struct machine *machine, struct text_builder *builder,
                        const struct value *value)
{
    bool tuple = value->type == VALUE_TUPLE, dict = value->type == VALUE_DICT;
    bool good = smol_builder_add_literal(machine, builder, tuple ? "(" : dict ? "{" : "[", true);
    for (uint32_t i = 0; i < value->n && good; i++) {
        if (i > 0)
            good = smol_builder_add_literal(machine, builder, ", ", true);
        if (dict)
            good = good && print_repr(machine, builder, &value->items[2 * i]) &&
                   smol_builder_add_literal(machine, builder, ": ", true) &&
                   print_repr(machine, builder, &value->items[2 * i + 1]);
        else
            good = good && print_repr(machine, builder, &value->items[i]);
    }
    const char *close = tuple && value->n == 1 ? ",)" : tuple ? ")" : dict ? "}" : "]";
    return good && smol_builder_add_literal(machine, builder, close, true);
}

static bool print_repr(struct machine *machine, struct text_builder *builder,
                       const struct value *value)
{
    switch (value->type) {
    case VALUE_NONE:
        return smol_builder_add_literal(machine, builder, "None", true);
    case VALUE_BOOLEAN:
        return smol_builder_add_literal(machine, builder, value->boolean ? "True" : "False", true);
    case VALUE_INTEGER:
    case VALUE_REAL:
        return print_number(machine, builder, value, false);
    case VALUE_MISSING:
    case VALUE_UNDEFINED:
        return smol_builder_add_literal(machine, builder, "Undefined", true);
    case VALUE_TEXT:
        if (value->safe)
            return smol_template_fail_unsupported(machine, "a list with a text marked safe");
        return print_text(machine, builder, value);
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_DICT:
        return smol_value_enter(machine) && print_items(machine, builder, value) &&
               smol_value_leave(machine);
    default:
        return smol_template_fail(machine, SMOL_ERROR_UNSUPPORTED,
                                  "printing a value of type %s is not supported",
                                  smol_value_type_name(value));
    }
}

bool smol_text_print(struct machine *machine, struct text_builder *builder,
                     const struct value *value)
{
    if (is_text(value))
        return smol_builder_add_part(machine, builder, value, 0, value->n);
    return is_undefined(value) || print_repr(machine, builder, value);
}

bool smol_text_of(struct machine *machine, const struct value *value, struct value *text)
{
    struct text_builder builder = {0};
    if (is_text(value)) {
        *text = *value;
        return true;
    }
    if (!smol_text_print(machine, &builder, value))
        return false;
    *text = smol_builder_text(&builder);
    return true;
}

/* --- JSON --------------------------------------------------------------------------------- */

/* Returns the escape sequence of a character in JSON, or NULL if it needs none. */
static const char *escape_json(uint32_t c, char quote, char out[16])
{
    static const char letters[] = "btn\0fr"; /* for U+0008 to U+000D */
    if (c == (uint32_t)quote || c == '\\')
        snprintf(out, 16, "\\%c", (char)c);
    else if (c >= 8 && c <= 13 && c != 11)
        snprintf(out, 16, "\\%c", letters[c - 8]);
    else if (c < 0x20)
        snprintf(out, 16, "\\u%04" PRIx32, c);
    else
        return NULL;
    return out;
}

/* Does the same where all characters but ASCII are escaped. */
static const char *escape_ascii(uint32_t c, char quote, char out[16])
{
    if (c < 0x7f)
        return escape_json(c, quote, out);
    if (c < 0x10000)
        snprintf(out, 16, "\\u%04" PRIx32, c);
    else
        snprintf(out, 16, "\\u%04" PRIx32 "\\u%04" PRIx32, 0xd800 + ((c - 0x10000) >> 10),
                 0xdc00 + ((c - 0x10000) & 0x3ff));
    return out;
}

static bool json_text(struct machine *machine, struct text_builder *builder,
                      const struct value *text, bool ascii)
{
    return print_quoted(machine, builder, text, "\"", ascii ? escape_ascii : escape_json);
}

static bool json_value(struct machine *machine, struct text_builder *builder,
                       const struct value *value, const struct json_style *style, unsigned level);

static bool json_newline(struct machine *machine, struct text_builder *builder,
                         const struct json_style *style, unsigned level)
{
    if (!style->indented)
        return true;
    bool good = smol_builder_add_literal(machine, builder, "\n", true);
    for (unsigned i = 0; i < level && good; i++)
        good = smol_builder_add(machine, builder, style->indent.bytes, style->indent.n, true);
    return good;
}

/* Prints the key of a dict. Numbers, booleans and None become strings. */
static bool json_key(struct machine *machine, struct text_builder *builder, const struct value *key,
                     const struct json_style *style)
{
    if (is_text(key))
        return json_text(machine, builder, key, style->ascii);
    if (key->type != VALUE_NONE && !is_number(key))
        return smol_template_fail_type(machine, "not a key for tojson:", key);
    return smol_builder_add_literal(machine, builder, "\"", true) &&
           json_value(machine, builder, key, style, 0) &&
           smol_builder_add_literal(machine, builder, "\"", true);
}

/* Sorts the pairs of a dict by their keys into a new list. Insertion sort: dicts have few pairs. */
static bool sort_pairs(struct machine *machine, struct value *dict)
{
    struct value *items = smol_template_alloc(machine, (uint64_t)dict->n * 2, sizeof *items);
    if (!items)
        return false;
    for (uint32_t i = 0; i < dict->n; i++) {
        uint32_t at = i;
        for (int order = 1; at > 0; at--) {
            if (!smol_value_order(machine, &items[2 * at - 2], &dict->items[2 * i], &order))
                return false;
            if (order <= 0)
                break;
            memcpy(&items[2 * at], &items[2 * at - 2], 2 * sizeof *items);
        }
        memcpy(&items[2 * at], &dict->items[2 * i], 2 * sizeof *items);
    }
    dict->items = items;
    return true;
}

static bool json_items(struct machine *machine, struct text_builder *builder, struct value value,
                       const struct json_style *style, unsigned level)
{
    bool dict = value.type == VALUE_DICT;
    if (value.n == 0)
        return smol_builder_add_literal(machine, builder, dict ? "{}" : "[]", true);
    if (dict && style->sort_keys && !sort_pairs(machine, &value))
        return false;
    bool good = smol_builder_add_literal(machine, builder, dict ? "{" : "[", true);
    for (uint32_t i = 0; i < value.n && good; i++) {
        if (i > 0)
            good = smol_builder_add(machine, builder, style->comma.bytes, style->comma.n, true);
        good = good && json_newline(machine, builder, style, level + 1);
        if (dict)
            good = good && json_key(machine, builder, &value.items[2 * i], style) &&
                   smol_builder_add(machine, builder, style->colon.bytes, style->colon.n, true);
        good = good &&
               json_value(machine, builder, &value.items[dict ? 2 * i + 1 : i], style, level + 1);
    }
    return good && json_newline(machine, builder, style, level) &&
           smol_builder_add_literal(machine, builder, dict ? "}" : "]", true);
}

static bool json_value(struct machine *machine, struct text_builder *builder,
                       const struct value *value, const struct json_style *style, unsigned level)
{
    switch (value->type) {
    case VALUE_NONE:
        return smol_builder_add_literal(machine, builder, "null", true);
    case VALUE_BOOLEAN:
        return smol_builder_add_literal(machine, builder, value->boolean ? "true" : "false", true);
    case VALUE_INTEGER:
    case VALUE_REAL:
        return print_number(machine, builder, value, true);
    case VALUE_TEXT:
        return json_text(machine, builder, value, style->ascii);
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_DICT:
        return smol_value_enter(machine) && json_items(machine, builder, *value, style, level) &&
               smol_value_leave(machine);
    default:
        return smol_template_fail_type(machine, "tojson cannot write", value);
    }
}

bool smol_text_json(struct machine *machine, struct text_builder *builder,
                    const struct value *value, const struct json_style *style)
{
    return json_value(machine, builder, value, style, 0);
}
