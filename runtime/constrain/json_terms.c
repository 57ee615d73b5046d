/* Terms of JSON's strings, numbers and values, see json_terms.h. */
#include "runtime/constrain/json_terms.h"

#include <string.h>

#include "common/memory.h"
#include "runtime/constrain/term_table.h"

void smol_choices_add(struct term_choices *choices, term a)
{
    if (smol_term_grow(choices->table, &choices->terms, &choices->capacity, choices->n,
                       sizeof *choices->terms))
        choices->terms[choices->n++] = a;
}

term smol_choices_end(struct term_choices *choices)
{
    term one = smol_term_any_of(choices->table, choices->terms, choices->n);
    smol_free(choices->terms);
    *choices = (struct term_choices){.table = choices->table};
    return one;
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
    out[1] = 'u';
    out[2] = out[3] = '0';
    out[4] = "01"[c >> 4 & 1];
    out[5] = "0123456789abcdef"[c & 15];
    return 6;
}

term smol_json_literal_term(struct term_table *table, struct json_text text)
{
    term all = TERM_EMPTY;
    char out[256] = "\"";
    size_t n = 1;
    for (size_t i = 0; i < text.size; i++) {
        if (n + 7 > sizeof out) {
            all = smol_term_then(table, all, smol_term_literal(table, out, n));
            n = 0;
        }
        n += spell(text.at[i], out + n);
    }
    out[n++] = '"';
    return smol_term_then(table, all, smol_term_literal(table, out, n));
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
