/* Parses escapes and classes, each of which matches one character. See pattern_parser.h. */
#include <string.h>

#include "common/pattern/code_set.h"
#include "common/pattern/pattern_parser.h"
#include "common/text.h"

/* --- escapes -------------------------------------------------------------------------------- */

unsigned smol_parser_hex(struct pattern_parser *p, unsigned max, uint32_t *value)
{
    unsigned n = 0;
    *value = 0;
    for (; n < max && p->at < p->size && hex_value(p->text[p->at]) >= 0; n++)
        *value = *value << 4 | (uint32_t)hex_value(p->text[p->at++]);
    return n;
}

/* Reads up to `max` hexadecimal digits, at least `min`. */
static smol_status read_hex(struct pattern_parser *p, unsigned min, unsigned max, uint32_t *value)
{
    if (smol_parser_hex(p, max, value) < min || *value > LAST_CODE_POINT ||
        (*value >= 0xd800 && *value < 0xe000))
        return smol_parser_refuse(p, "a number that is not a character");
    return SMOL_OK;
}

/* Reads the digits of \x. The reference takes \xHH as a byte, which is a character only in
 * ASCII. */
static smol_status read_x(struct pattern_parser *p, uint32_t *value)
{
    if (!smol_parser_skip(p, "{")) {
        smol_status status = read_hex(p, 1, 2, value);
        return status || *value < 0x80
                   ? status
                   : smol_parser_refuse(p, "\\x with a byte beyond ASCII: write \\x{...}");
    }
    smol_status status = read_hex(p, 1, 8, value);
    return status || smol_parser_skip(p, "}") ? status
                                              : smol_parser_refuse(p, "\\x{ without its }");
}

static smol_status read_property(struct pattern_parser *p, bool negated, struct class_member *one)
{
    if (!smol_parser_skip(p, "{"))
        return smol_parser_refuse(p, "\\p without {");
    one->negated = negated != smol_parser_skip(p, "^");
    const char *name = (const char *)p->text + p->at;
    const char *end = memchr(name, '}', p->size - p->at);
    if (!end || end == name || strchr("\\:[", *name))
        return smol_parser_refuse(p, "a property without a name");
    if (!smol_unicode_set(name, (size_t)(end - name), &one->set))
        return smol_parser_refuse(p, "an unknown property");
    p->at += (size_t)(end - name) + 1;
    return SMOL_OK;
}

/* Finds the set of \d, \w, \s or \h, negated for capitals. In the reference, some characters match
 * \w only outside of classes. */
static bool find_shorthand(uint32_t c, bool in_class, struct class_member *one)
{
    const char plain[] = {'\\', (char)(c | 0x20), 0};
    const char *name = in_class && plain[1] == 'w' ? "[word" : plain;
    if (c >= 0x80 || !strchr("dwsh", plain[1]) || !smol_unicode_set(name, strlen(name), &one->set))
        return false;
    one->negated = !(c & 0x20);
    return true;
}

smol_status smol_parser_escape(struct pattern_parser *p, bool in_class, struct class_member *one)
{
    static const char letters[] = "tnrfvae", controls[] = "\t\n\r\f\v\a\x1b";
    *one = (struct class_member){.character = NO_CHARACTER};
    uint32_t c = smol_parser_next(p);
    if (c == NO_CHARACTER)
        return smol_parser_refuse(p, "a \\ at the end");
    if (c == 'p' || c == 'P')
        return read_property(p, c == 'P', one);
    if (find_shorthand(c, in_class, one))
        return SMOL_OK;
    if (c == 'x')
        return read_x(p, &one->character);
    if (c == 'u')
        return read_hex(p, 4, 4, &one->character);
    const char *letter = c < 0x80 ? strchr(letters, (int)c) : NULL;
    if (letter && *letter)
        one->character = (uint32_t)controls[letter - letters];
    else if (c < 0x80 && (c <= ' ' || strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", (int)c)))
        one->character = c;
    else
        return smol_parser_refuse(p, "an escape that is not supported");
    return SMOL_OK;
}

/* --- classes -------------------------------------------------------------------------------- */

smol_status smol_parser_fold(struct pattern_parser *p, struct code_set *set)
{
    if (!p->ignore_case)
        return SMOL_OK;
    if (set->failed) { /* the set is incomplete */
        p->pattern->no_memory |= set->no_memory;
        return smol_parser_full(p);
    }
    if (speaks(p, DIALECT_SCANNER) && smol_unicode_folds_to_many(set))
        return smol_parser_refuse(p, "ignoring the case of a character that equals several others");
    smol_unicode_fold(set);
    return SMOL_OK;
}

/* Reads [:name:] after the "[:". */
static smol_status read_posix(struct pattern_parser *p, struct code_set *sum)
{
    bool negated = smol_parser_skip(p, "^");
    const char *name = (const char *)p->text + p->at;
    const char *end = memchr(name, ':', p->size - p->at);
    char full[32] = "[";
    size_t size = end ? (size_t)(end - name) : 0;
    if (size == 0 || size > sizeof full - 2)
        return smol_parser_refuse(p, "[: without a name");
    memcpy(full + 1, name, size);
    struct code_set set = {0};
    p->at += size;
    if (!smol_unicode_set(full, size + 1, &set) || !smol_parser_skip(p, ":]")) {
        smol_set_free(&set);
        return smol_parser_refuse(p, "an unknown class");
    }
    if (negated)
        smol_set_invert(&set);
    smol_set_add_all(sum, &set);
    smol_set_free(&set);
    return SMOL_OK;
}

static smol_status read_end_of_range(struct pattern_parser *p, uint32_t *last)
{
    *last = smol_parser_next(p);
    if (*last == '\\') {
        struct class_member one;
        smol_status status = smol_parser_escape(p, true, &one);
        smol_set_free(&one.set);
        if (status)
            return status;
        *last = one.character;
    } else if (*last == '[' || *last == '-') {
        *last = NO_CHARACTER;
    }
    return *last == NO_CHARACTER ? smol_parser_refuse(p, "a range without an end") : SMOL_OK;
}

/* Reads a character, a range or an escape, whose first character `c` has been read. */
static smol_status read_member(struct pattern_parser *p, uint32_t c, bool first,
                               struct code_set *sum)
{
    struct class_member one = {.character = c};
    smol_status status = c == '\\' ? smol_parser_escape(p, true, &one) : SMOL_OK;
    if (!status && one.character == NO_CHARACTER) {
        if (one.negated)
            smol_set_invert(&one.set);
        smol_set_add_all(sum, &one.set);
    }
    smol_set_free(&one.set);
    if (status)
        return status;
    if (c == '-' && !first && !smol_parser_sees(p, "]"))
        return smol_parser_refuse(p, "a - within a class: write \\-");
    uint32_t last = one.character;
    if (smol_parser_sees(p, "-") && !smol_parser_sees(p, "-]")) {
        p->at++;
        if (c == '-' || one.character == NO_CHARACTER)
            return smol_parser_refuse(p, "a - within a class: write \\-");
        status = read_end_of_range(p, &last);
        if (!status && last < one.character)
            status = smol_parser_refuse(p, "a range that ends before it starts");
        if (!status && smol_parser_sees(p, "-") && !smol_parser_sees(p, "-]"))
            status = smol_parser_refuse(p, "a - within a class: write \\-");
    }
    if (!status && one.character != NO_CHARACTER)
        smol_set_add(sum, one.character, last);
    return status;
}

/* The operands of && in a class: the intersection of the complete ones, and the one being read. */
struct class_operands {
    struct code_set before, sum;
    bool has_before, is_empty;
};

static smol_status end_part(struct pattern_parser *p, struct class_operands *operands)
{
    if (operands->is_empty)
        return smol_parser_refuse(p, "an empty class");
    smol_set_settle(&operands->sum);
    if (operands->has_before) {
        smol_set_intersect(&operands->before, &operands->sum);
        smol_set_free(&operands->sum);
    } else {
        operands->before = operands->sum;
        operands->sum = (struct code_set){0};
    }
    operands->has_before = operands->is_empty = true;
    return SMOL_OK;
}

static smol_status read_nested(struct pattern_parser *p, struct code_set *sum);

/* Reads the members of a class up to and including the "]". */
static smol_status read_members(struct pattern_parser *p, struct class_operands *operands)
{
    bool first = true;
    for (;; first = false, operands->is_empty = false) {
        smol_status status;
        while (smol_parser_skip(p, "&&")) {
            if ((status = end_part(p, operands)) || smol_parser_sees(p, "&"))
                return status ? status : smol_parser_refuse(p, "&&& in a class");
        }
        if (smol_parser_skip(p, "[:"))
            status = read_posix(p, &operands->sum);
        else if (smol_parser_skip(p, "["))
            status = read_nested(p, &operands->sum);
        else if (smol_parser_skip(p, "]"))
            return end_part(p, operands);
        else if (p->at == p->size)
            return smol_parser_refuse(p, "a class without its ]");
        else
            status = read_member(p, smol_parser_next(p), first, &operands->sum);
        if (status)
            return status;
    }
}

/* Reads a class after its "[". Only the outermost class handles the case of characters. */
static smol_status read_class(struct pattern_parser *p, bool outermost, struct code_set *set)
{
    struct class_operands operands = {.is_empty = true};
    bool negated = smol_parser_skip(p, "^");
    smol_status status = SMOL_OK;
    if (p->depth++ == PATTERN_MAX_DEPTH)
        status = smol_parser_refuse(p, "nested too deeply");
    if (!status)
        status = read_members(p, &operands);
    p->depth--;
    smol_set_free(&operands.sum);
    *set = operands.before;
    if (!status && outermost)
        status = smol_parser_fold(p, set);
    if (negated)
        smol_set_invert(set);
    return status;
}

static smol_status read_nested(struct pattern_parser *p, struct code_set *sum)
{
    struct code_set set = {0};
    smol_status status = read_class(p, false, &set);
    smol_set_add_all(sum, &set);
    smol_set_free(&set);
    return status;
}

smol_status smol_parser_class(struct pattern_parser *p, struct code_set *set)
{
    return read_class(p, true, set);
}
