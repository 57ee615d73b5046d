/* JSON Schema: entry, keywords, errors, and the terms of values of each type, see
 * schema_compiler.h. */
#include "runtime/constrain/front_ends.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "runtime/constrain/schema_compiler.h"

/* --- errors ------------------------------------------------------------------------------- */

enum { PLACE_SIZE = 256, INDENTED_LEVELS = 16 };

/* Writes the JSON pointer of a node into the end of `place` and returns its start. */
static const char *write_place(const struct json_node *node, char place[PLACE_SIZE])
{
    char *at = place + PLACE_SIZE - 1;
    *at = '\0';
    for (; node && node->parent; node = node->parent) {
        char number[24];
        struct json_text key = node->key;
        if (node->parent->kind == JSON_LIST) {
            size_t index = 0;
            for (const struct json_node *n = node->parent->first; n != node; n = n->next)
                index++;
            key.at = number;
            key.size = (size_t)snprintf(number, sizeof number, "%zu", index);
        }
        if (key.size + 5 > (size_t)(at - place)) {
            at -= 3;
            memcpy(at, "...", 3);
            return at;
        }
        at -= key.size;
        memcpy(at, key.at, key.size);
        *--at = '/';
    }
    *--at = '#';
    return at;
}

static void fail(struct compiler *c, smol_status status, const struct json_node *place,
                 const char *what)
{
    char text[PLACE_SIZE], branches[PLACE_SIZE];
    if (c->probing) {
        c->probe_failed = true;
        return;
    }
    if (c->status)
        return;
    if (c->because)
        c->status =
            smol_fail(c->error, status, "schema: %s: the branches cannot be told apart (at %s: %s)",
                      write_place(c->because, branches), write_place(place, text), what);
    else
        c->status = smol_fail(c->error, status, "schema: %s: %s", write_place(place, text), what);
}

void smol_schema_fail(struct compiler *c, const struct json_node *place, const char *what)
{
    fail(c, SMOL_ERROR_UNSUPPORTED, place, what);
}

void smol_schema_wrong(struct compiler *c, const struct json_node *place, const char *what)
{
    fail(c, SMOL_ERROR_USAGE, place, what);
}

void smol_schema_fail_claim(struct compiler *c, const struct claim *claim, const char *what)
{
    c->because = claim->because;
    smol_schema_fail(c, claim->value, what);
    c->because = NULL;
}

void *smol_schema_take(struct compiler *c, size_t size)
{
    void *memory = smol_arena_take(&c->arena, size);
    if (!memory && !c->status)
        c->status = smol_fail_memory(c->error, "a schema");
    return memory;
}

static bool add_work(struct compiler *c, const struct json_node *place, size_t n)
{
    c->work += n;
    if (c->work > SCHEMA_MAX_WORK && !c->status)
        c->probing = 0, fail(c, SMOL_ERROR_UNSUPPORTED, place, "the schema takes too much work");
    return !c->status;
}

bool smol_schema_work(struct compiler *c, const struct json_node *place)
{
    return add_work(c, place, 1);
}

bool smol_schema_steps(struct compiler *c, const struct json_node *place, size_t n)
{
    enum { STEPS = 64 }; /* that are as much work as a claim */
    c->steps += n;
    n = c->steps / STEPS;
    c->steps %= STEPS;
    return add_work(c, place, n);
}

/* --- keywords ----------------------------------------------------------------------------- */

struct keyword {
    char name[22];
    uint8_t size, types, first, last;
};

static const struct keyword keywords[] = {
#define KEYWORD(word, name, types, first, last) {name, sizeof name - 1, types, first, last},
    SCHEMA_KEYWORDS(KEYWORD)
#undef KEYWORD
};

enum { N_KEYWORDS = sizeof keywords / sizeof *keywords };

/* A keyword of another draft is unknown, so it restricts nothing. Without a draft all keywords
 * count, those of the older drafts too. */
static bool in_draft(const struct compiler *c, const struct keyword *keyword)
{
    return !c->draft_known || (c->draft >= keyword->first && c->draft <= keyword->last);
}

enum word smol_schema_word(struct compiler *c, const struct json_node *member)
{
    if (member->word != WORD_UNREAD)
        return member->word;
    enum word word = WORD_NONE;
    for (unsigned i = 0; i < N_KEYWORDS; i++) {
        const struct keyword *keyword = &keywords[i];
        if (keyword->size == member->key.size &&
            memcmp(keyword->name, member->key.at, keyword->size) == 0) {
            word = (enum word)(WORD_TYPE + i);
            if (!in_draft(c, keyword))
                word = WORD_NONE;
            break;
        }
    }
    ((struct json_node *)member)->word = (uint8_t)word;
    return word;
}

unsigned smol_schema_word_types(enum word word)
{
    if (word >= WORD_TYPE && word < WORD_TYPE + N_KEYWORDS)
        return keywords[word - WORD_TYPE].types;
    if (word >= WORD_HAS && word <= WORD_OTHER)
        return TYPE_OBJECT;
    return word >= WORD_AT ? TYPE_LIST : TYPE_ANY;
}

bool smol_schema_is(struct compiler *c, enum json_kind kind, const struct json_node *value)
{
    static const char *const faults[] = {[JSON_NUMBER] = "must be a number",
                                         [JSON_STRING] = "must be a string",
                                         [JSON_LIST] = "must be a list",
                                         [JSON_OBJECT] = "must be an object"};
    if (value->kind != kind)
        smol_schema_wrong(c, value, faults[kind]);
    return value->kind == kind;
}

uint32_t smol_schema_count(struct compiler *c, const struct json_node *value)
{
    struct decimal number;
    uint32_t count = 0;
    if (value->kind == JSON_NUMBER) {
        smol_decimal_read(value->text, &number);
        if (smol_decimal_to_u32(&number, &count))
            return count;
        if (!number.negative && smol_decimal_is_integer(&number))
            return UINT32_MAX - 1;
    }
    smol_schema_wrong(c, value, "must be a whole number from 0");
    return 0;
}

/* --- parts of values ---------------------------------------------------------------------- */

/* "before", then a new line indented to `level`, then "after". */
static term line(struct compiler *c, const char *before, unsigned level, const char *after)
{
    char out[2 + 2 * INDENTED_LEVELS + 4];
    int n = snprintf(out, sizeof out, "%s\n%*s%s", before, (int)(2 * level), "", after);
    return smol_term_literal(c->table, out, (size_t)n);
}

const struct spelling *smol_schema_spelling(const struct compiler *c, unsigned level)
{
    return c->options.spelling ? &c->options.spelling[level]
                               : smol_json_spelling(c->options.white_space);
}

term smol_schema_literal(struct compiler *c, const char *text)
{
    return smol_term_literal(c->table, text, strlen(text));
}

static bool is_indented(const struct compiler *c, unsigned level)
{
    return c->options.white_space == JSON_INDENTED && level < INDENTED_LEVELS;
}

term smol_schema_gap(struct compiler *c, unsigned level)
{
    return is_indented(c, level) ? line(c, "", level + 1, "") : TERM_EMPTY;
}

term smol_schema_close(struct compiler *c, const struct brackets *brackets, unsigned level)
{
    return is_indented(c, level) ? line(c, "", level, brackets->close)
                                 : smol_schema_literal(c, brackets->close);
}

term smol_schema_comma(struct compiler *c, const struct brackets *brackets, unsigned level)
{
    return is_indented(c, level) ? line(c, ",", level + 1, "")
                                 : smol_schema_literal(c, brackets->comma);
}

term smol_schema_member(struct compiler *c, term key, term value, unsigned level)
{
    const struct spelling *spelling = smol_schema_spelling(c, level);
    value = smol_term_then(c->table, value, smol_schema_literal(c, spelling->after));
    return smol_term_then(c->table, key,
                          smol_term_then(c->table, smol_schema_literal(c, spelling->colon), value));
}

unsigned smol_schema_within(const struct compiler *c, unsigned level)
{
    return c->options.spelling ? c->options.spelling[level].within : level + is_indented(c, level);
}

unsigned smol_schema_within_member(const struct compiler *c, unsigned level, struct json_text name)
{
    const unsigned strings = smol_schema_spelling(c, level)->strings;
    return strings && smol_spelling_is_string(c->root, name) ? strings
                                                             : smol_schema_within(c, level);
}

term smol_schema_text(struct compiler *c, const struct text_spelling *spelling,
                      struct json_text text, const struct json_node *place)
{
    if (smol_spelling_has(spelling, text))
        return smol_spelling_literal(c->table, spelling, text);
    smol_schema_fail(c, place,
                     spelling->kind == TEXT_NAME
                         ? "the name cannot be written in the model's style of tool calls"
                         : "the text cannot be written in the model's style of tool calls");
    return TERM_NOTHING;
}

/* A number of const or enum: as written, or with or without ".0". */
static term write_number(struct compiler *c, struct json_text text)
{
    struct decimal number;
    smol_decimal_read(text, &number);
    term written = smol_term_literal(c->table, text.at, text.size);
    if (!smol_decimal_is_integer(&number) || c->draft <= DRAFT_4)
        return written;
    if (text.size > 2 && memcmp(text.at + text.size - 2, ".0", 2) == 0)
        return smol_term_either(c->table, written,
                                smol_term_literal(c->table, text.at, text.size - 2));
    if (memchr(text.at, '.', text.size) || memchr(text.at, 'e', text.size) ||
        memchr(text.at, 'E', text.size))
        return written;
    return smol_term_then(c->table, written,
                          smol_term_optional(c->table, smol_term_literal(c->table, ".0", 2)));
}

/* Compares members of objects for qsort. */
static int compare_members(const void *a, const void *b)
{
    const struct json_node *const *x = a, *const *y = b;
    return smol_spelling_compare((*x)->key, (*y)->key);
}

/* Returns the elements or members of a value in the order in which they are written. */
static const struct json_node **children_of(struct compiler *c, const struct json_node *value,
                                            bool sorted)
{
    const struct json_node **children = smol_schema_take(c, value->n * sizeof *children);
    size_t n = 0;
    for (const struct json_node *child = value->first; children && child; child = child->next)
        children[n++] = child;
    if (children && sorted)
        qsort(children, n, sizeof *children, compare_members);
    return children;
}

term smol_schema_value(struct compiler *c, const struct json_node *value, unsigned level)
{
    const struct spelling *spelling = smol_schema_spelling(c, level);
    bool object = value->kind == JSON_OBJECT;
    const struct brackets *brackets = object ? &spelling->object : &spelling->list;
    if (value->kind <= JSON_TRUE)
        return smol_spelling_word(c->table, spelling->words, (enum json_kind)value->kind);
    if (value->kind == JSON_NUMBER)
        return write_number(c, value->text);
    if (value->kind == JSON_STRING)
        return smol_schema_text(c, &spelling->string, value->text, value);
    term open = smol_schema_literal(c, brackets->open);
    if (value->n == 0)
        return smol_term_then(c->table, open, smol_schema_literal(c, brackets->close));
    const struct json_node **children = children_of(c, value, object && spelling->sorted);
    term all = smol_schema_close(c, brackets, level);
    for (size_t i = children ? value->n : 0; i-- > 0;) { /* sequences nest on the right */
        const struct json_node *child = children[i];
        unsigned within =
            object ? smol_schema_within_member(c, level, child->key) : smol_schema_within(c, level);
        term own = smol_schema_value(c, child, within);
        if (object)
            own = smol_schema_member(c, smol_schema_text(c, &spelling->key, child->key, child), own,
                                     level);
        all = smol_term_then(c->table, own, all);
        if (i > 0)
            all = smol_term_then(c->table, smol_schema_comma(c, brackets, level), all);
    }
    return smol_term_then(c->table, open, smol_term_then(c->table, smol_schema_gap(c, level), all));
}

/* --- goals -------------------------------------------------------------------------------- */

/* Returns the types of values that can be written at a level. */
static unsigned types_at(const struct compiler *c, unsigned level)
{
    unsigned only = smol_schema_spelling(c, level)->only;
    return only ? only : TYPE_ANY;
}

/* The values of const or enum for which all claims hold. */
static term compile_choice(struct compiler *c, const struct claim *choice,
                           const struct facts *facts, unsigned level)
{
    const struct json_node *value =
        choice->word == WORD_CONST ? choice->value : choice->value->first;
    struct term_choices all = {.table = c->table};
    for (; value && !c->status; value = choice->word == WORD_CONST ? NULL : value->next)
        if ((types_at(c, level) & smol_schema_type_of(c, value)) &&
            smol_schema_all_hold(c, facts, value))
            smol_choices_add(&all, smol_schema_value(c, value, level));
    return smol_choices_end(&all);
}

/* Returns whether a value without parts, such as null, is allowed. */
static bool allows(struct compiler *c, const struct facts *facts, unsigned type,
                   enum json_kind kind)
{
    struct json_node value = {.kind = (uint8_t)kind};
    return (facts->types & type) && smol_schema_all_hold(c, facts, &value);
}

static term compile_facts(struct compiler *c, const struct facts *facts, unsigned level)
{
    const struct claim *choice = smol_schema_choice(facts);
    const struct spelling *spelling = smol_schema_spelling(c, level);
    unsigned types = facts->types & types_at(c, level);
    if (choice)
        return compile_choice(c, choice, facts, level);
    term any[8];
    size_t n = 0;
    if (types & TYPE_OBJECT)
        any[n++] = smol_schema_object(c, facts, level);
    if (types & TYPE_LIST)
        any[n++] = smol_schema_list(c, facts, level);
    if (types & TYPE_STRING)
        any[n++] = smol_schema_quoted(c, smol_schema_contents(c, facts, &spelling->string),
                                      &spelling->string);
    if (types & TYPE_NUMBER)
        any[n++] = smol_schema_number(c, facts);
    if (allows(c, facts, types & TYPE_BOOLEAN, JSON_TRUE))
        any[n++] = smol_spelling_word(c->table, spelling->words, JSON_TRUE);
    if (allows(c, facts, types & TYPE_BOOLEAN, JSON_FALSE))
        any[n++] = smol_spelling_word(c->table, spelling->words, JSON_FALSE);
    if (allows(c, facts, types & TYPE_NULL, JSON_NULL))
        any[n++] = smol_spelling_word(c->table, spelling->words, JSON_NULL);
    return smol_term_any_of(c->table, any, n);
}

/* A goal's term at one level of indentation. */
struct compiled {
    struct compiled *next;
    unsigned level;
    bool busy, is_rule; /* busy: its compilation has not ended; then `made` is valid if is_rule */
    term made;
};

static term compile_goal(struct compiler *c, const struct goal *goal, unsigned level)
{
    struct alternatives alternatives = {0};
    smol_schema_expand(c, goal, &alternatives);
    term all = TERM_NOTHING;
    term *terms = smol_schema_take(c, alternatives.n * sizeof *terms);
    if (!terms)
        return all;
    for (size_t i = 0; i < alternatives.n && !c->status; i++)
        terms[i] = compile_facts(c, &alternatives.at[i], level);
    return c->status ? all : smol_term_any_of(c->table, terms, alternatives.n);
}

term smol_schema_compile(struct compiler *c, const struct goal *goal, unsigned level)
{
    if (!goal || c->status)
        return TERM_NOTHING;
    struct compiled *made = goal->compiled;
    while (made && made->level != level)
        made = made->next;
    if (made && made->busy && !made->is_rule) {
        made->is_rule = true;
        made->made = smol_term_rule(c->table);
    }
    if (made)
        return made->made;
    if (c->depth >= SCHEMA_MAX_DEPTH) {
        smol_schema_fail(c, goal->n ? goal->parts[0].schema : c->root, "nested too deeply");
        return TERM_NOTHING;
    }
    made = smol_schema_take(c, sizeof *made);
    if (!made)
        return TERM_NOTHING;
    *made = (struct compiled){goal->compiled, level, true, false, TERM_NOTHING};
    ((struct goal *)goal)->compiled = made;
    c->depth++;
    term body = goal->n == 0 && smol_schema_spelling(c, level)->is_json && !is_indented(c, level)
                    ? smol_json_any_term(c->table, c->options.white_space)
                    : compile_goal(c, goal, level);
    c->depth--;
    made->busy = false;
    if (made->is_rule)
        smol_term_define(c->table, made->made, body);
    else
        made->made = body;
    return made->made;
}

/* --- entry -------------------------------------------------------------------------------- */

/* Finds the draft that the schema names. */
static void read_draft(struct compiler *c)
{
    static const struct {
        char text[9];
        uint8_t draft;
    } drafts[] = {{"draft-03", DRAFT_3}, {"draft-04", DRAFT_4},   {"draft-06", DRAFT_6},
                  {"draft-07", DRAFT_7}, {"2019-09", DRAFT_2019}, {"2020-12", DRAFT_2020}};
    const struct json_node *schema = smol_json_get(c->root, "$schema");
    c->draft = DRAFT_2020;
    for (size_t i = 0; schema && schema->kind == JSON_STRING && i < 6; i++) {
        if (memmem(schema->text.at, schema->text.size, "json-schema.org/", 16) &&
            memmem(schema->text.at, schema->text.size, drafts[i].text, strlen(drafts[i].text))) {
            c->draft = drafts[i].draft;
            c->draft_known = true;
        }
    }
    if (c->draft == DRAFT_3)
        smol_schema_fail(c, schema, "draft 3 is not supported");
}

static void compiler_free(struct compiler *c)
{
    smol_free(c->claims);
    smol_schema_forget_patterns(c);
    smol_arena_free(&c->arena);
    smol_free(c);
}

smol_status smol_schema_term(struct term_table *table, const char *text, size_t size,
                             const struct schema_options *options, term *root, smol_error *error)
{
    if (size > SCHEMA_MAX_SIZE)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED, "schema: longer than %d bytes",
                         SCHEMA_MAX_SIZE);
    struct compiler *c = smol_calloc(1, sizeof *c);
    if (!c)
        return smol_fail_memory(error, "a schema");
    struct json_node *tree = NULL;
    c->table = table, c->options = *options, c->error = error;
    c->status = smol_json_tree(&c->arena, "schema", text, size, &tree, error);
    c->root = tree;
    c->claims = smol_malloc((SCHEMA_MAX_CLAIMS + 1) * sizeof *c->claims);
    if (!c->claims && !c->status)
        c->status = smol_fail_memory(error, "a schema");
    *root = TERM_NOTHING;
    if (!c->status)
        read_draft(c);
    if (!c->status) {
        struct goal_builder builder = {0};
        smol_schema_add(c, &builder, c->root, false);
        *root = smol_schema_compile(c, smol_schema_goal(c, &builder), 0);
    }
    if (!c->status && *root == TERM_NOTHING && smol_terms_status(table, NULL) == SMOL_OK)
        smol_schema_fail(c, c->root, "no value matches the schema");
    smol_status status = c->status;
    compiler_free(c);
    return status;
}
