/* Parses escapes and classes in the syntax of ECMA-262 (22.2.1, with annex B's additions), as
 * patterns of JSON Schema have them. See pattern_parser.h. Where patterns with and without the flag
 * `u` differ, the meaning is that of `u`. */
#include <string.h>

#include "common/pattern/code_set.h"
#include "common/pattern/pattern_parser.h"
#include "common/text.h"

/* --- escapes -------------------------------------------------------------------------------- */

bool smol_ecma_shorthand(uint32_t letter, struct code_set *set)
{
    static const struct code_range digits[] = {{'0', '9'}},
                                   words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                                   spaces[] = {{'\t', '\r'},     {' ', ' '},       {0xa0, 0xa0},
                                               {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029},
                                               {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000},
                                               {0xfeff, 0xfeff}};
    if (letter != 'd' && letter != 'w' && letter != 's')
        return false;
    const struct code_range *ranges = letter == 'd' ? digits : letter == 'w' ? words : spaces;
    size_t n = letter == 'd' ? 1 : letter == 'w' ? 4 : sizeof spaces / sizeof *spaces;
    for (size_t i = 0; i < n; i++)
        smol_set_add(set, ranges[i].first, ranges[i].last);
    return true;
}

/* Reads a character after \u: four digits, a surrogate pair or a number in braces. */
static smol_status read_unicode(struct pattern_parser *p, uint32_t *value)
{
    uint32_t low;
    bool complete;
    if (smol_parser_skip(p, "{")) {
        complete = smol_parser_hex(p, 8, value) > 0 && smol_parser_skip(p, "}");
    } else {
        complete = smol_parser_hex(p, 4, value) == 4;
        if (complete && *value >= 0xd800 && *value < 0xdc00 && smol_parser_skip(p, "\\u") &&
            smol_parser_hex(p, 4, &low) == 4 && low >= 0xdc00 && low < 0xe000)
            *value = 0x10000 + ((*value - 0xd800) << 10) + (low - 0xdc00);
    }
    if (!complete || *value > LAST_CODE_POINT || (*value >= 0xd800 && *value < 0xe000))
        return smol_parser_refuse(p, "a \\u that is not a character");
    return SMOL_OK;
}

/* Reads the rest of an escape that has its own syntax. */
static smol_status read_special(struct pattern_parser *p, uint32_t c, uint32_t *value)
{
    if (c == 'u')
        return read_unicode(p, value);
    if (c == 'x')
        return smol_parser_hex(p, 2, value) == 2
                   ? SMOL_OK
                   : smol_parser_refuse(p, "\\x without two hexadecimal digits");
    if (c == 'c') {
        uint32_t letter = smol_parser_next(p);
        *value = letter % 32;
        return (letter | 0x20) >= 'a' && (letter | 0x20) <= 'z'
                   ? SMOL_OK
                   : smol_parser_refuse(p, "\\c without a letter");
    }
    *value = 0;
    return p->at < p->size && is_digit(p->text[p->at])
               ? smol_parser_refuse(p, "an octal escape: write \\x")
               : SMOL_OK;
}

smol_status smol_ecma_escape(struct pattern_parser *p, bool in_class, struct class_member *one)
{
    static const char letters[] = "tnrfv", controls[] = "\t\n\r\f\v";
    *one = (struct class_member){.character = NO_CHARACTER};
    if (p->at < p->size && (p->text[p->at] | 0x20) == 'p')
        return smol_parser_escape(p, in_class, one);
    uint32_t c = smol_parser_next(p);
    if (c == NO_CHARACTER)
        return smol_parser_refuse(p, "a \\ at the end");
    if (smol_ecma_shorthand(c | 0x20, &one->set)) {
        one->negated = !(c & 0x20);
        return SMOL_OK;
    }
    if (c == 'u' || c == 'x' || c == 'c' || c == '0')
        return read_special(p, c, &one->character);
    if ((c >= '1' && c <= '9') || (c == 'k' && !in_class))
        return smol_parser_refuse(p, "a back-reference");
    const char *letter = c < 0x80 ? strchr(letters, (int)c) : NULL;
    if (letter && *letter)
        one->character = (uint32_t)controls[letter - letters];
    else if (c == 'b' && in_class)
        one->character = '\b';
    else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z')
        return smol_parser_refuse(p, "an escape that is not supported");
    else
        one->character = c;
    return SMOL_OK;
}

/* --- classes -------------------------------------------------------------------------------- */

static smol_status read_atom(struct pattern_parser *p, struct class_member *one)
{
    *one = (struct class_member){.character = smol_parser_next(p)};
    if (one->character == NO_CHARACTER)
        return smol_parser_refuse(p, "a class without its ]");
    return one->character == '\\' ? smol_ecma_escape(p, true, one) : SMOL_OK;
}

/* Adds first..last, or one of the two alone if the other is a set. Frees the sets. */
static void add_members(struct code_set *sum, struct class_member *first, struct class_member *last)
{
    struct class_member *const ends[] = {first, last};
    bool range = first->character != NO_CHARACTER && last->character != NO_CHARACTER;
    if (range)
        smol_set_add(sum, first->character, last->character);
    for (int i = 0; i < 2 && !range; i++) {
        if (ends[i]->character != NO_CHARACTER)
            smol_set_add(sum, ends[i]->character, ends[i]->character);
        smol_set_settle(&ends[i]->set);
        if (ends[i]->negated)
            smol_set_invert(&ends[i]->set);
        smol_set_add_all(sum, &ends[i]->set);
    }
    smol_set_free(&first->set);
    smol_set_free(&last->set);
}

/* Reads a character, an escape or a range; a hyphen beside an escape such as \w is a member. */
static smol_status read_member(struct pattern_parser *p, struct code_set *sum)
{
    struct class_member first, last;
    smol_status status = read_atom(p, &first);
    if (status)
        return status;
    last = (struct class_member){.character = first.character};
    if (p->size - p->at > 1 && p->text[p->at] == '-' && p->text[p->at + 1] != ']') {
        p->at++;
        status = read_atom(p, &last);
        if (first.character == NO_CHARACTER || last.character == NO_CHARACTER)
            smol_set_add(sum, '-', '-');
        else if (!status && last.character < first.character)
            status = smol_parser_refuse(p, "a range that ends before it starts");
    }
    add_members(sum, &first, &last);
    return status;
}

smol_status smol_ecma_class(struct pattern_parser *p, struct code_set *set)
{
    bool negated = smol_parser_skip(p, "^");
    while (!smol_parser_skip(p, "]")) {
        smol_status status = read_member(p, set);
        if (status)
            return status;
    }
    smol_set_settle(set);
    smol_status status = smol_parser_fold(p, set);
    if (negated)
        smol_set_invert(set);
    return status;
}

/* --- counts --------------------------------------------------------------------------------- */

static size_t skip_digits(const struct pattern_parser *p, size_t at)
{
    while (at < p->size && is_digit(p->text[at]))
        at++;
    return at;
}

bool smol_ecma_counts(const struct pattern_parser *p)
{
    if (p->at == p->size || p->text[p->at] != '{')
        return false;
    const size_t first = p->at + 1;
    size_t at = skip_digits(p, first);
    bool digits = at > first;
    if (at < p->size && p->text[at] == ',') {
        const size_t second = at + 1;
        at = skip_digits(p, second);
        digits |= at > second;
    }
    return digits && at < p->size && p->text[at] == '}';
}
