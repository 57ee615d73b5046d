/* Terms of JSON's strings, numbers and values, see json_terms.h. */
#include "runtime/constrain/json_terms.h"

#include <string.h>

#include "common/utf8.h"

void smol_choices_add(struct term_choices *choices, term a)
{
    if (choices->n == sizeof choices->terms / sizeof *choices->terms)
        choices->terms[0] = smol_choices_end(choices), choices->n = 1;
    choices->terms[choices->n++] = a;
}

term smol_choices_end(struct term_choices *choices)
{
    return smol_term_any_of(choices->table, choices->terms, choices->n);
}

static term literal(struct term_table *table, const char *text)
{
    return smol_term_literal(table, text, strlen(text));
}

static term byte_range(struct term_table *table, unsigned first, unsigned last)
{
    struct byte_set set = {{0}};
    byte_set_add(&set, first, last);
    return smol_term_bytes(table, &set);
}

/* --- characters --------------------------------------------------------------------------- */

/* Bytes b[0..n) of UTF-8 between low and high, whose lengths are equal. */
static term utf8_between(struct term_table *table, const uint8_t *low, const uint8_t *high,
                         size_t n)
{
    if (n == 1)
        return byte_range(table, low[0], high[0]);
    static const uint8_t lowest[] = {0x80, 0x80, 0x80}, highest[] = {0xbf, 0xbf, 0xbf};
    if (low[0] == high[0])
        return smol_term_then(table, byte_range(table, low[0], low[0]),
                              utf8_between(table, low + 1, high + 1, n - 1));
    unsigned first = low[0], last = high[0];
    term all = TERM_NOTHING;
    if (memcmp(low + 1, lowest, n - 1) != 0) {
        all = smol_term_then(table, byte_range(table, first, first),
                             utf8_between(table, low + 1, highest, n - 1));
        first++;
    }
    if (memcmp(high + 1, highest, n - 1) != 0) {
        term end = smol_term_then(table, byte_range(table, last, last),
                                  utf8_between(table, lowest, high + 1, n - 1));
        all = smol_term_either(table, all, end);
        last--;
    }
    if (first <= last) {
        term middle = smol_term_then(table, byte_range(table, first, last),
                                     utf8_between(table, lowest, highest, n - 1));
        all = smol_term_either(table, all, middle);
    }
    return all;
}

/* Code points from first to last, without surrogates, as raw UTF-8. */
static term raw_range(struct term_table *table, uint32_t first, uint32_t last)
{
    static const uint32_t ends[] = {0x7f, 0x7ff, 0xffff, 0x10ffff};
    term all = TERM_NOTHING;
    for (size_t i = 0; i < 4 && first <= last; i++) {
        if (first > ends[i])
            continue;
        uint8_t low[UTF8_MAX], high[UTF8_MAX];
        size_t n = smol_utf8_encode(first, low);
        smol_utf8_encode(last < ends[i] ? last : ends[i], high);
        all = smol_term_either(table, all, utf8_between(table, low, high, n));
        first = ends[i] + 1;
    }
    return all;
}

/* A hexadecimal digit from first to last, in either case. */
static term hex_digit(struct term_table *table, unsigned first, unsigned last)
{
    struct byte_set set = {{0}};
    for (unsigned i = first; i <= last; i++) {
        byte_set_add(&set, (uint8_t) "0123456789abcdef"[i], (uint8_t) "0123456789abcdef"[i]);
        byte_set_add(&set, (uint8_t) "0123456789ABCDEF"[i], (uint8_t) "0123456789ABCDEF"[i]);
    }
    return smol_term_bytes(table, &set);
}

/* n hexadecimal digits with a value from low to high. */
static term hex_between(struct term_table *table, uint32_t low, uint32_t high, unsigned n)
{
    if (n == 0)
        return TERM_EMPTY;
    uint32_t unit = (uint32_t)1 << 4 * (n - 1), first = low / unit, last = high / unit;
    if (first == last)
        return smol_term_then(table, hex_digit(table, first, first),
                              hex_between(table, low % unit, high % unit, n - 1));
    term all = TERM_NOTHING;
    if (low % unit != 0) {
        all = smol_term_then(table, hex_digit(table, first, first),
                             hex_between(table, low % unit, unit - 1, n - 1));
        first++;
    }
    if (high % unit != unit - 1) {
        term end = smol_term_then(table, hex_digit(table, last, last),
                                  hex_between(table, 0, high % unit, n - 1));
        all = smol_term_either(table, all, end);
        last--;
    }
    if (first <= last) {
        term middle = smol_term_then(table, hex_digit(table, first, last),
                                     hex_between(table, 0, unit - 1, n - 1));
        all = smol_term_either(table, all, middle);
    }
    return all;
}

/* The digits after \u, for code points below 0x10000. */
static term escape_range(struct term_table *table, uint32_t first, uint32_t last)
{
    return smol_term_then(table, literal(table, "\\u"), hex_between(table, first, last, 4));
}

/* Code points from 0x10000 as surrogate pairs. */
static term pair_range(struct term_table *table, uint32_t first, uint32_t last)
{
    uint32_t low = first - 0x10000, high = last - 0x10000;
    term all = TERM_NOTHING;
    while (low <= high) {
        /* one first half, or all that go with every second half */
        uint32_t end = low | 0x3ff;
        if ((low & 0x3ff) == 0 && high - low >= 0x3ff)
            end = ((high + 1) & ~(uint32_t)0x3ff) - 1;
        if (end > high)
            end = high;
        term half = escape_range(table, 0xd800 + (low >> 10), 0xd800 + (end >> 10));
        uint32_t last_low = end - low >= 0x3ff ? 0x3ff : end & 0x3ff;
        term rest = escape_range(table, 0xdc00 + (low & 0x3ff), 0xdc00 + last_low);
        all = smol_term_either(table, all, smol_term_then(table, half, rest));
        low = end + 1;
    }
    return all;
}

/* Calls make for the parts of first..last that are within low..high. */
static term clipped(struct term_table *table, term (*make)(struct term_table *, uint32_t, uint32_t),
                    const struct code_range *range, uint32_t low, uint32_t high)
{
    uint32_t first = range->first > low ? range->first : low;
    uint32_t last = range->last < high ? range->last : high;
    return first <= last ? make(table, first, last) : TERM_NOTHING;
}

term smol_json_character(struct term_table *table, const struct code_range *ranges, size_t n)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    static const struct code_range raw[] = {
        {0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, 0xd7ff}, {0xe000, 0x10ffff}};
    struct term_choices all = {.table = table};
    struct byte_set set = {{0}};
    bool has_short = false;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < sizeof raw / sizeof *raw; k++)
            smol_choices_add(&all,
                             clipped(table, raw_range, &ranges[i], raw[k].first, raw[k].last));
        smol_choices_add(&all, clipped(table, escape_range, &ranges[i], 0, 0xd7ff));
        smol_choices_add(&all, clipped(table, escape_range, &ranges[i], 0xe000, 0xffff));
        smol_choices_add(&all, clipped(table, pair_range, &ranges[i], 0x10000, 0x10ffff));
    }
    for (size_t k = 0; values[k]; k++) {
        if (code_ranges_have(ranges, n, (uint8_t)values[k])) {
            byte_set_add(&set, (uint8_t)names[k], (uint8_t)names[k]);
            has_short = true;
        }
    }
    if (has_short)
        smol_choices_add(&all,
                         smol_term_then(table, literal(table, "\\"), smol_term_bytes(table, &set)));
    return smol_choices_end(&all);
}

term smol_json_any_character(struct term_table *table)
{
    static const struct code_range all = {0, 0x10ffff};
    return smol_json_character(table, &all, 1);
}

/* --- strings ------------------------------------------------------------------------------ */

term smol_json_string_term(struct term_table *table, uint32_t min, uint32_t max)
{
    term quote = literal(table, "\"");
    term contents = smol_term_repeat(table, smol_json_any_character(table), min, max);
    return smol_term_unit(table,
                          smol_term_then(table, quote, smol_term_then(table, contents, quote)));
}

/* Writes a character below 0x80 as JSON and returns the length, at most 6. */
static size_t spell(char c, char out[7])
{
    static const char names[] = "\"\\bfnrt", values[] = "\"\\\b\f\n\r\t";
    const char *at = c ? strchr(values, c) : NULL;
    out[0] = c;
    if (!at && (unsigned char)c >= 0x20)
        return 1;
    out[0] = '\\';
    if (at) {
        out[1] = names[at - values];
        return 2;
    }
    memcpy(out + 1, "u00", 3);
    out[4] = "01"[c >> 4 & 1];
    out[5] = "0123456789abcdef"[c & 15];
    return 6;
}

term smol_json_literal_term(struct term_table *table, struct json_text text)
{
    term all = literal(table, "\"");
    for (size_t i = 0; i < text.size;) {
        char out[256];
        size_t n = 0;
        while (i < text.size && n + 7 <= sizeof out)
            n += spell(text.at[i++], out + n);
        all = smol_term_then(table, all, smol_term_literal(table, out, n));
    }
    return smol_term_then(table, all, literal(table, "\""));
}

/* --- numbers and values ------------------------------------------------------------------- */

term smol_json_number_term(struct term_table *table)
{
    struct byte_set both = {{0}}, signs = {{0}};
    byte_set_add(&both, 'e', 'e');
    byte_set_add(&both, 'E', 'E');
    byte_set_add(&signs, '+', '+');
    byte_set_add(&signs, '-', '-');
    term digit = byte_range(table, '0', '9');
    term digits = smol_term_repeat(table, digit, 1, TERM_FOREVER);
    term whole = smol_term_either(table, literal(table, "0"),
                                  smol_term_then(table, byte_range(table, '1', '9'),
                                                 smol_term_repeat(table, digit, 0, TERM_FOREVER)));
    term fraction = smol_term_optional(table, smol_term_then(table, literal(table, "."), digits));
    term sign = smol_term_optional(table, smol_term_bytes(table, &signs));
    term exponent = smol_term_optional(table, smol_term_then(table, smol_term_bytes(table, &both),
                                                             smol_term_then(table, sign, digits)));
    term magnitude = smol_term_then(table, whole, smol_term_then(table, fraction, exponent));
    return smol_term_unit(
        table, smol_term_then(table, smol_term_optional(table, literal(table, "-")), magnitude));
}

/* open, then elements with commas between them, then close */
static term list_of(struct term_table *table, const char *open, term element, term comma,
                    const char *close)
{
    term more = smol_term_repeat(table, smol_term_then(table, comma, element), 0, TERM_FOREVER);
    term inside = smol_term_optional(table, smol_term_then(table, element, more));
    return smol_term_then(table, literal(table, open),
                          smol_term_then(table, inside, literal(table, close)));
}

term smol_json_any_term(struct term_table *table, enum json_space white_space)
{
    term value = smol_term_rule(table);
    term string = smol_json_string_term(table, 0, TERM_FOREVER);
    term comma = literal(table, white_space == JSON_COMPACT ? "," : ", ");
    term colon = literal(table, white_space == JSON_COMPACT ? ":" : ": ");
    term member = smol_term_then(table, string, smol_term_then(table, colon, value));
    term choices[] = {
        string,
        smol_json_number_term(table),
        list_of(table, "{", member, comma, "}"),
        list_of(table, "[", value, comma, "]"),
        literal(table, "true"),
        literal(table, "false"),
        literal(table, "null"),
    };
    smol_term_define(table, value,
                     smol_term_any_of(table, choices, sizeof choices / sizeof *choices));
    return value;
}
