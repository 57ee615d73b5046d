/* Strings of a schema: lengths, patterns, formats, see schema_compiler.h. */
#include <string.h>

#include "common/memory.h"
#include "common/utf8.h"
#include "runtime/constrain/front_ends.h"
#include "runtime/constrain/schema_compiler.h"

enum { HOSTNAME_MAX = 253 };

/* --- characters --------------------------------------------------------------------------- */

static term any_character(struct compiler *c)
{
    if (c->any_character == TERM_NOTHING)
        c->any_character = smol_json_any_character(c->table);
    return c->any_character;
}

static term one_character(struct compiler *c, uint32_t code_point)
{
    struct code_range one = {code_point, code_point};
    if (code_point >= 128)
        return smol_json_character(c->table, &one, 1);
    if (c->characters[code_point] == TERM_NOTHING)
        c->characters[code_point] = smol_json_character(c->table, &one, 1);
    return c->characters[code_point];
}

/* Writes the characters of a pattern as JSON does. */
static term character(void *user, struct term_table *table, const struct code_range *ranges,
                      size_t n)
{
    struct compiler *c = user;
    if (n == 1 && ranges->first == ranges->last)
        return one_character(c, ranges->first);
    if (n == 1 && ranges->first == 0 && ranges->last == 0x10ffff)
        return any_character(c);
    return smol_json_character(table, ranges, n);
}

term smol_schema_spellings(struct compiler *c, struct json_text text,
                           const struct text_spelling *spelling)
{
    if (spelling->kind != TEXT_JSON)
        return smol_term_literal(c->table, text.at, text.size);
    term all = TERM_EMPTY; /* from the last character to the first: sequences nest to the right */
    for (size_t end = text.size; end > 0;) {
        size_t start = end - 1;
        uint32_t code_point;
        while (start > 0 && utf8_continues(text.at[start]))
            start--;
        smol_utf8_decode((const uint8_t *)text.at + start, end - start, &code_point);
        all = smol_term_then(c->table, one_character(c, code_point), all);
        end = start;
    }
    return all;
}

term smol_schema_quoted(struct compiler *c, term contents, const struct text_spelling *spelling)
{
    term open = smol_schema_literal(c, spelling->open);
    if (contents == TERM_NOTHING)
        return contents;
    term close = smol_schema_literal(c, spelling->close);
    contents = smol_spelling_sections(c->table, spelling, contents);
    return smol_term_unit(
        c->table, smol_term_then(c->table, open, smol_term_then(c->table, contents, close)));
}

uint32_t smol_schema_length(struct json_text text)
{
    return (uint32_t)utf8_count(text.at, text.size);
}

/* --- patterns ----------------------------------------------------------------------------- */

static void fail_pattern(struct compiler *c, const struct json_node *place, smol_status status,
                         const smol_error *error)
{
    if (status == SMOL_ERROR_MEMORY && !c->status)
        c->status = smol_fail_memory(c->error, "a schema");
    else
        smol_schema_fail(c, place, error->message);
}

static term regular(struct compiler *c, const struct json_node *place, struct json_text pattern,
                    enum regex_anchoring anchoring, const struct text_spelling *spelling)
{
    term out = TERM_NOTHING;
    smol_error error;
    smol_status status =
        smol_regex_term(c->table, pattern.at, pattern.size, anchoring,
                        spelling->kind == TEXT_JSON ? character : smol_utf8_term, c, &out, &error);
    if (status)
        fail_pattern(c, place, status, &error);
    return status ? TERM_NOTHING : out;
}

term smol_schema_pattern(struct compiler *c, const struct json_node *place, struct json_text text,
                         const struct text_spelling *spelling)
{
    return regular(c, place, text, REGEX_SEARCH, spelling);
}

/* A pattern in a table of its own, to match texts while the schema is compiled. */
struct pattern {
    struct pattern *next;
    struct json_text text, other; /* the intersection of two patterns if other.at is not NULL */
    struct term_table *table;     /* NULL if it cannot be compiled */
};

/* Sets *table to a settled table of the texts that match. */
static smol_status settle(struct compiler *c, const struct pattern *pattern,
                          enum regex_anchoring anchoring, struct term_table **table,
                          smol_error *error)
{
    enum { STEPS = 16 }; /* a state takes longer than looking at a claim */
    term first = TERM_NOTHING, second = TERM_NOTHING;
    smol_status status = smol_terms_create(table, error);
    if (status)
        return status;
    status = smol_regex_term(*table, pattern->text.at, pattern->text.size, anchoring,
                             smol_utf8_term, NULL, &first, error);
    if (!status && pattern->other.at) {
        status = smol_regex_term(*table, pattern->other.at, pattern->other.size, anchoring,
                                 smol_utf8_term, NULL, &second, error);
        first = smol_term_both(*table, first, second);
    }
    if (!status) {
        /* finishing fails if there is no text: the texts that are asked about come as well */
        term any = smol_term_either(*table, first, smol_term_literal(*table, "\xff", 1));
        status = smol_terms_finish(*table, any, error);
    }
    smol_schema_steps(c, c->root, STEPS * smol_terms_count(*table));
    if (status)
        smol_terms_free(*table), *table = NULL;
    return status;
}

static const struct pattern *find_pattern(struct compiler *c, const struct json_node *place,
                                          struct json_text text, struct json_text other,
                                          enum regex_anchoring anchoring)
{
    struct pattern *found = c->patterns;
    smol_error error;
    while (found && !(found->text.at == text.at && found->other.at == other.at))
        found = smol_schema_steps(c, place, 1) ? found->next : NULL;
    if (c->status || (found && found->table))
        return c->status ? NULL : found;
    if (found && c->probing) {
        c->probe_failed = true;
        return NULL;
    }
    if (!found && (found = smol_schema_take(c, sizeof *found))) {
        found->text = text, found->other = other, found->next = c->patterns;
        c->patterns = found;
    }
    smol_status status = found ? settle(c, found, anchoring, &found->table, &error) : SMOL_OK;
    if (status)
        fail_pattern(c, place, status, &error);
    return found && found->table ? found : NULL;
}

void smol_schema_forget_patterns(struct compiler *c)
{
    for (struct pattern *pattern = c->patterns; pattern; pattern = pattern->next)
        smol_terms_free(pattern->table);
}

static bool is_match(struct compiler *c, const struct json_node *place, struct json_text pattern,
                     struct json_text text, enum regex_anchoring anchoring)
{
    const struct pattern *found =
        find_pattern(c, place, pattern, (struct json_text){NULL, 0}, anchoring);
    if (!found)
        return false;
    term at = smol_terms_root(found->table);
    smol_schema_steps(c, place, text.size);
    for (size_t i = 0; i < text.size && at != TERM_NOTHING; i++)
        at = smol_term_after(found->table, at, (uint8_t)text.at[i]);
    return at != TERM_NOTHING && smol_term_may_end(found->table, at);
}

bool smol_schema_matches(struct compiler *c, const struct json_node *place,
                         struct json_text pattern, struct json_text text)
{
    return is_match(c, place, pattern, text, REGEX_SEARCH);
}

bool smol_schema_disjoint(struct compiler *c, const struct json_node *place, struct json_text first,
                          struct json_text second)
{
    uint8_t byte;
    const struct pattern *both = find_pattern(c, place, first, second, REGEX_SEARCH);
    /* only the byte that stands for no text is left */
    return both && smol_term_forced(both->table, smol_terms_root(both->table), &byte) &&
           byte == 0xff;
}

bool smol_schema_has_format(struct compiler *c, const struct json_node *keyword,
                            struct json_text text)
{
    return !smol_schema_is_format(c, keyword) ||
           is_match(c, keyword, smol_schema_format(c, keyword->text), text, REGEX_WHOLE);
}

static const struct code_range every_character = {0, 0x10ffff};

/* --- contents ----------------------------------------------------------------------------- */

void smol_schema_limits(struct compiler *c, const struct facts *facts, enum word low,
                        enum word high, uint32_t *min, uint32_t *max)
{
    for (size_t i = 0; i < facts->n; i++) {
        const struct claim *claim = &facts->claims[i];
        bool longer = claim->word == WORD_LONGER && low == WORD_MIN_ITEMS;
        if (claim->word != low && claim->word != high && !longer)
            continue;
        uint32_t count = longer ? claim->index : smol_schema_count(c, claim->value);
        bool is_low = (claim->word != high) != claim->negative;
        if (claim->negative && claim->word == low && count == 0)
            *min = 1, *max = 0; /* at least 0 always holds */
        count = longer            ? count + 1
                : claim->negative ? count + (claim->word == high ? 1 : -1u)
                                  : count;
        if (is_low && count > *min)
            *min = count;
        if (!is_low && count < *max)
            *max = count;
    }
}

/* The strings of enum or const. */
static term strings_of(struct compiler *c, const struct claim *claim,
                       const struct text_spelling *spelling)
{
    bool one = claim->word == WORD_CONST;
    const struct json_node *value = one ? claim->value : claim->value->first;
    struct term_choices all = {.table = c->table};
    for (; value; value = one ? NULL : value->next)
        if (value->kind == JSON_STRING)
            smol_choices_add(&all, smol_schema_spellings(c, value->text, spelling));
    return smol_choices_end(&all);
}

static term of_claim(struct compiler *c, const struct claim *claim,
                     const struct text_spelling *spelling)
{
    switch (claim->word) {
    case WORD_PATTERN:
        return smol_schema_is(c, JSON_STRING, claim->value)
                   ? smol_schema_pattern(c, claim->value, claim->value->text, spelling)
                   : TERM_NOTHING;
    case WORD_FORMAT:
        return regular(c, claim->value, smol_schema_format(c, claim->value->text), REGEX_WHOLE,
                       spelling);
    default:
        return strings_of(c, claim, spelling);
    }
}

term smol_schema_contents(struct compiler *c, const struct facts *facts,
                          const struct text_spelling *spelling)
{
    bool plain = spelling->kind == TEXT_JSON;
    uint32_t min = 0, max = TERM_FOREVER;
    term with = TERM_NOTHING, without = TERM_NOTHING;
    bool any = true;
    smol_schema_limits(c, facts, WORD_MIN_LENGTH, WORD_MAX_LENGTH, &min, &max);
    for (size_t i = 0; i < facts->n; i++) /* patterns do not count */
        if (facts->claims[i].word == WORD_FORMAT && !facts->claims[i].negative &&
            json_text_is(facts->claims[i].value->text, "hostname") && max > HOSTNAME_MAX)
            max = HOSTNAME_MAX;
    if (min > max)
        return TERM_NOTHING;
    for (size_t i = 0; i < facts->n && !c->status; i++) {
        const struct claim *claim = &facts->claims[i];
        bool choice = claim->word == WORD_ENUM || claim->word == WORD_CONST;
        if (claim->word != WORD_PATTERN && claim->word != WORD_FORMAT && !choice)
            continue;
        c->because = claim->because;
        term own = of_claim(c, claim, spelling);
        c->because = NULL;
        if (claim->negative)
            without = smol_term_either(c->table, without, own);
        else
            with = any ? own : smol_term_both(c->table, with, own), any = false;
    }
    term one = plain ? any_character(c) : smol_utf8_term(NULL, c->table, &every_character, 1);
    term lengths = smol_term_repeat(c->table, one, min, max);
    if (any)
        with = lengths;
    else if (min > 0 || max != TERM_FOREVER)
        with = smol_term_both(c->table, with, lengths);
    if (!plain)
        with = smol_term_both(c->table, with, smol_spelling_all(c->table, spelling));
    return without == TERM_NOTHING ? with : smol_term_without(c->table, with, without);
}
