/* Expands a goal into alternatives, see schema_compiler.h.
 *
 * Claims wait in a list. The first is taken and rewritten: into other claims that must all hold,
 * into choices of which one must hold, or it stands as it is. At choices the expansion branches. */
#include <string.h>

#include "runtime/constrain/schema_compiler.h"

enum {
    SCHEMA_MAX_BRANCHES = 120 /* choices within choices */,
    SCHEMA_MAX_PROBES = 6,
    SCHEMA_MAX_SUBSETS = 6
};

/* --- lists of claims ---------------------------------------------------------------------- */

struct cell {
    struct claim claim;
    const struct cell *next;
};

struct list {
    const struct cell *first, **end;
};

struct choice {
    struct list list;
    struct choice *next;
};

struct rewritten {
    enum { STANDS, HOLDS, FAILS, ALL, ONE } how;
    struct list all;
    struct choice *choices, **end;
};

/* Appends a claim for the same reasons as another. Returns it, to be completed. */
static struct claim *append(struct compiler *c, struct list *list, const struct claim *from,
                            enum word word, const struct json_node *value, bool negative)
{
    struct cell *cell = smol_schema_take(c, sizeof *cell);
    if (!cell)
        return &c->claims[SCHEMA_MAX_CLAIMS]; /* nothing reads it after the error */
    if (!list->first)
        list->end = &list->first;
    *list->end = cell, list->end = &cell->next;
    cell->claim = (struct claim){.word = (uint8_t)word,
                                 .negative = negative,
                                 .value = value,
                                 .scope = from->scope,
                                 .because = from->because};
    return &cell->claim;
}

static void append_schema(struct compiler *c, struct list *list, const struct claim *from,
                          const struct json_node *schema, bool negative)
{
    append(c, list, from, WORD_SCHEMA, schema, negative);
}

static void append_name(struct compiler *c, struct list *list, const struct claim *from,
                        enum word word, const struct json_node *value, struct json_text name)
{
    append(c, list, from, word, value, word == WORD_PROPERTY)->name = name;
}

static void append_index(struct compiler *c, struct list *list, const struct claim *from,
                         enum word word, uint32_t index)
{
    append(c, list, from, word, from->value, false)->index = index;
}

static struct list *add_choice(struct compiler *c, struct rewritten *out)
{
    struct choice *choice = smol_schema_take(c, sizeof *choice);
    if (!choice)
        return &out->all; /* nothing reads it after the error */
    if (!out->choices)
        out->end = &out->choices;
    out->how = ONE;
    *out->end = choice, out->end = &choice->next;
    return &choice->list;
}

/* --- schemas ------------------------------------------------------------------------------ */

/* Returns whether the member of a schema is spoken for by an earlier one: see struct facts. */
static bool is_grouped(enum word word, bool *properties, bool *items)
{
    bool of_object = word == WORD_PROPERTIES || word == WORD_PATTERN_PROPERTIES ||
                     word == WORD_ADDITIONAL_PROPERTIES;
    bool of_list = word == WORD_ITEMS || word == WORD_PREFIX_ITEMS || word == WORD_ADDITIONAL_ITEMS;
    bool grouped = (of_object && *properties) || (of_list && *items);
    *properties |= of_object, *items |= of_list;
    return grouped;
}

static const struct scope *enter_scope(struct compiler *c, const struct claim *claim)
{
    for (const struct json_node *member = claim->value->first; member; member = member->next) {
        enum word word = smol_schema_word(c, member);
        if (word == WORD_UNEVALUATED_PROPERTIES || word == WORD_UNEVALUATED_ITEMS) {
            struct scope *scope = smol_schema_take(c, sizeof *scope);
            if (scope)
                *scope = (struct scope){claim->value, claim->scope};
            return scope;
        }
    }
    return claim->scope;
}

/* All keywords hold: first those that say most about the type, last those that depend on others. */
static void all_keywords(struct compiler *c, const struct claim *claim, struct rewritten *out)
{
    const struct json_node *schema = claim->value;
    struct list parts[3] = {{0}};
    bool properties = false, items = false;
    const struct scope *scope = enter_scope(c, claim);
    out->how = HOLDS;
    for (const struct json_node *member = schema->first; member; member = member->next) {
        enum word word = smol_schema_word(c, member);
        if (word == WORD_PROPERTIES || word == WORD_PATTERN_PROPERTIES)
            smol_schema_is(c, JSON_OBJECT, member);
        if (word == WORD_NONE || is_grouped(word, &properties, &items))
            continue;
        bool first = word == WORD_TYPE || word == WORD_CONST || word == WORD_ENUM;
        bool last = word == WORD_UNEVALUATED_PROPERTIES || word == WORD_UNEVALUATED_ITEMS;
        struct claim *keyword = append(c, &parts[1 - first + last], claim, word, member, false);
        keyword->owner = schema, keyword->scope = scope;
    }
    for (int i = 2; i >= 0; i--) {
        if (!parts[i].first)
            continue;
        *parts[i].end = out->all.first;
        if (!out->all.first)
            out->all.end = parts[i].end;
        out->all.first = parts[i].first;
        out->how = ALL;
    }
}

/* Some keyword does not hold. */
static void no_keyword(struct compiler *c, const struct claim *claim, struct rewritten *out)
{
    out->how = FAILS;
    for (const struct json_node *member = claim->value->first; member; member = member->next) {
        enum word word = smol_schema_word(c, member);
        if (word == WORD_NONE)
            continue;
        append(c, add_choice(c, out), claim, word, member, true)->owner = claim->value;
    }
}

static void rewrite_schema(struct compiler *c, const struct claim *claim, size_t mark,
                           struct rewritten *out)
{
    const struct json_node *schema = claim->value;
    bool is_true = schema->kind == JSON_TRUE, is_false = schema->kind == JSON_FALSE;
    if (is_true || is_false) {
        out->how = is_true != claim->negative ? HOLDS : FAILS;
        return;
    }
    if (schema->kind != JSON_OBJECT) {
        smol_schema_wrong(c, schema, "must be a schema: an object, true or false");
        return;
    }
    if (!smol_schema_steps(c, schema, c->n_claims - mark))
        return;
    for (size_t i = mark; i < c->n_claims; i++) { /* a reference may lead back */
        if (c->claims[i].word == WORD_SCHEMA && c->claims[i].value == schema &&
            (claim->negative != c->claims[i].negative || claim->scope == c->claims[i].scope)) {
            out->how = claim->negative == c->claims[i].negative ? HOLDS : FAILS;
            return;
        }
    }
    if (c->n_claims < SCHEMA_MAX_CLAIMS)
        c->claims[c->n_claims++] = *claim;
    const struct json_node *ref = smol_json_get(schema, "$ref");
    if (ref && c->draft <= DRAFT_7 && ref->kind == JSON_STRING) {
        const struct json_node *target = smol_schema_target(c, ref);
        out->how = ALL;
        if (target)
            append_schema(c, &out->all, claim, target, claim->negative);
    } else if (claim->negative) {
        no_keyword(c, claim, out);
    } else {
        all_keywords(c, claim, out);
    }
}

/* --- applicators -------------------------------------------------------------------------- */

/* All of the schemas in a list, or one: allOf and anyOf, and their negations. */
static void rewrite_list(struct compiler *c, const struct claim *claim, bool all,
                         struct rewritten *out)
{
    out->how = all ? HOLDS : FAILS;
    if (!smol_schema_is(c, JSON_LIST, claim->value))
        return;
    for (const struct json_node *schema = claim->value->first; schema; schema = schema->next) {
        struct list *list = all ? &out->all : add_choice(c, out);
        append_schema(c, list, claim, schema, claim->negative);
        if (all)
            out->how = ALL;
    }
}

/* anyOf where it matters which branches hold, because their properties or elements then count as
 * evaluated: every subset is a choice. */
static void rewrite_subsets(struct compiler *c, const struct claim *claim, struct rewritten *out)
{
    out->how = FAILS;
    if (!smol_schema_is(c, JSON_LIST, claim->value))
        return;
    if (claim->value->n > SCHEMA_MAX_SUBSETS) {
        smol_schema_fail(c, claim->value, "too many branches beside an unevaluated keyword");
        return;
    }
    for (unsigned subset = 1; subset < 1u << claim->value->n; subset++) {
        struct list *list = add_choice(c, out);
        unsigned i = 0;
        for (const struct json_node *schema = claim->value->first; schema; schema = schema->next)
            if (subset >> i++ & 1)
                append_schema(c, list, claim, schema, false);
    }
}

/* The pairs of a oneOf's branches that may hold together. */
struct overlaps {
    struct overlaps *next;
    const struct json_node *one_of;
    bool pairs[]; /* (n, n) */
};

static bool may_overlap(struct compiler *c, const struct json_node *a, const struct json_node *b)
{
    struct goal_builder builder;
    goal_begin(&builder);
    c->probing++;
    smol_schema_add(c, &builder, a, false);
    smol_schema_add(c, &builder, b, false);
    c->probing--;
    return !builder.never && !smol_schema_is_empty(c, smol_schema_goal(c, &builder));
}

static const struct overlaps *find_overlaps(struct compiler *c, const struct json_node *one_of)
{
    struct overlaps *found = c->overlaps;
    while (found && found->one_of != one_of)
        found = found->next;
    if (found)
        return found;
    size_t n = one_of->n, i = 0;
    if (n > 1000) {
        smol_schema_fail(c, one_of, "too many branches");
        return NULL;
    }
    found = smol_schema_take(c, sizeof *found + n * n);
    if (!found)
        return NULL;
    found->one_of = one_of;
    for (const struct json_node *a = one_of->first; a; a = a->next, i++) {
        size_t k = i + 1;
        for (const struct json_node *b = a->next; b; b = b->next, k++)
            found->pairs[i * n + k] = found->pairs[k * n + i] = may_overlap(c, a, b);
    }
    found->next = c->overlaps;
    c->overlaps = found;
    return found;
}

/* One branch holds, and the others that could hold with it do not. */
static void rewrite_one_of(struct compiler *c, const struct claim *claim, struct rewritten *out)
{
    const struct json_node *list = claim->value;
    const struct overlaps *overlaps =
        smol_schema_is(c, JSON_LIST, list) ? find_overlaps(c, list) : NULL;
    size_t i = 0, n = list->n;
    out->how = FAILS;
    for (const struct json_node *a = overlaps ? list->first : NULL; a; a = a->next, i++) {
        size_t k = 0;
        struct list *branch = add_choice(c, out);
        append_schema(c, branch, claim, a, false);
        for (const struct json_node *b = list->first; b; b = b->next, k++)
            if (overlaps->pairs[i * n + k]) {
                struct claim *apart = append(c, branch, claim, WORD_SCHEMA, b, true);
                apart->scope = NULL;
                apart->because = claim->because ? claim->because : list;
            }
    }
}

/* No branch holds, or two do. */
static void rewrite_not_one(struct compiler *c, const struct claim *claim, struct rewritten *out)
{
    const struct json_node *list = claim->value;
    const struct overlaps *overlaps =
        smol_schema_is(c, JSON_LIST, list) ? find_overlaps(c, list) : NULL;
    size_t i = 0, n = list->n;
    if (!overlaps)
        return;
    struct list *none = add_choice(c, out);
    for (const struct json_node *a = list->first; a; a = a->next)
        append_schema(c, none, claim, a, true);
    for (const struct json_node *a = list->first; a; a = a->next, i++) {
        size_t k = i + 1;
        for (const struct json_node *b = a->next; b; b = b->next, k++) {
            if (!overlaps->pairs[i * n + k])
                continue;
            struct list *both = add_choice(c, out);
            append_schema(c, both, claim, a, false);
            append_schema(c, both, claim, b, false);
        }
    }
}

static void rewrite_if(struct compiler *c, const struct claim *claim, struct rewritten *out)
{
    const struct json_node *then = smol_json_get(claim->owner, "then");
    const struct json_node *otherwise = smol_json_get(claim->owner, "else");
    if (!then && !otherwise && !claim->scope) {
        out->how = claim->negative ? FAILS : HOLDS;
        return;
    }
    out->how = FAILS;
    if (!claim->negative || then) {
        struct list *list = add_choice(c, out);
        append_schema(c, list, claim, claim->value, false);
        if (then)
            append_schema(c, list, claim, then, claim->negative);
    }
    if (!claim->negative || otherwise) {
        struct list *list = add_choice(c, out);
        append_schema(c, list, claim, claim->value, true);
        if (otherwise)
            append_schema(c, list, claim, otherwise, claim->negative);
    }
}

static void rewrite_reference(struct compiler *c, const struct claim *claim, struct rewritten *out)
{
    const struct json_node *target = smol_schema_target(c, claim->value);
    out->how = ALL;
    if (target)
        append_schema(c, &out->all, claim, target, claim->negative);
}

/* --- objects ------------------------------------------------------------------------------ */

static void rewrite_required(struct compiler *c, const struct claim *claim, struct rewritten *out)
{
    out->how = claim->negative ? FAILS : HOLDS;
    if (!smol_schema_is(c, JSON_LIST, claim->value))
        return;
    for (const struct json_node *name = claim->value->first; name; name = name->next) {
        if (!smol_schema_is(c, JSON_STRING, name))
            return;
        if (claim->negative) {
            append_name(c, add_choice(c, out), claim, WORD_LACKS, name, name->text);
        } else {
            append_name(c, &out->all, claim, WORD_HAS, name, name->text);
            out->how = ALL;
        }
    }
}

/* dependencies, dependentRequired, dependentSchemas: each member depends for itself */
static void rewrite_dependencies(struct compiler *c, const struct claim *claim,
                                 struct rewritten *out)
{
    out->how = claim->negative ? FAILS : HOLDS;
    if (!smol_schema_is(c, JSON_OBJECT, claim->value))
        return;
    for (const struct json_node *member = claim->value->first; member; member = member->next) {
        struct list *list = claim->negative ? add_choice(c, out) : &out->all;
        append(c, list, claim, WORD_DEPENDS, member, claim->negative);
        if (!claim->negative)
            out->how = ALL;
    }
}

static void rewrite_depends(struct compiler *c, const struct claim *claim, struct rewritten *out)
{
    const struct json_node *then = claim->value;
    bool names = then->kind == JSON_LIST;
    out->how = FAILS;
    if (!claim->negative)
        append_name(c, add_choice(c, out), claim, WORD_LACKS, then, then->key);
    struct list *list = add_choice(c, out);
    append_index(c, list, claim, WORD_TYPES, TYPE_OBJECT);
    append_name(c, list, claim, WORD_HAS, then, then->key);
    append(c, list, claim, names ? WORD_REQUIRED : WORD_SCHEMA, then, claim->negative);
}

/* Some property of `properties` does not match its schema. */
static void rewrite_not_properties(struct compiler *c, const struct claim *claim,
                                   struct rewritten *out)
{
    out->how = FAILS;
    if (!smol_schema_is(c, JSON_OBJECT, claim->value))
        return;
    for (const struct json_node *schema = claim->value->first; schema; schema = schema->next) {
        struct list *list = add_choice(c, out);
        append_name(c, list, claim, WORD_HAS, schema, schema->key);
        append_name(c, list, claim, WORD_PROPERTY, schema, schema->key);
    }
}

/* Returns a claim that allows no properties but those it names, or NULL. */
static const struct claim *find_closed(struct compiler *c, size_t mark)
{
    smol_schema_steps(c, c->root, c->n_claims - mark);
    for (size_t i = mark; i < c->n_claims; i++) {
        const struct json_node *owner = c->claims[i].owner;
        const struct json_node *patterns = smol_json_get(owner, "patternProperties");
        const struct json_node *others = smol_json_get(owner, "additionalProperties");
        if (c->claims[i].word == WORD_PROPERTIES && !c->claims[i].negative && others &&
            others->kind == JSON_FALSE && (!patterns || patterns->n == 0))
            return &c->claims[i];
    }
    return NULL;
}

/* Some property to which a keyword applies does not match the schema. */
static void append_other(struct compiler *c, struct list *list, const struct claim *from,
                         const struct json_node *schema)
{
    struct claim *other = append(c, list, from, WORD_OTHER, schema, true);
    other->owner = from->owner, other->index = from->word, other->name = schema->key;
}

static void rewrite_not_patterns(struct compiler *c, const struct claim *claim,
                                 struct rewritten *out)
{
    out->how = FAILS;
    if (!smol_schema_is(c, JSON_OBJECT, claim->value))
        return;
    for (const struct json_node *schema = claim->value->first; schema; schema = schema->next)
        append_other(c, add_choice(c, out), claim, schema);
}

/* Some property that is not covered does not match the schema. If another claim closes the object,
 * it says which ones that may be. */
static void rewrite_not_additional(struct compiler *c, const struct claim *claim, size_t mark,
                                   struct rewritten *out)
{
    const struct claim *closed = find_closed(c, mark);
    out->how = FAILS;
    if (claim->value->kind == JSON_TRUE || (claim->value->kind == JSON_OBJECT && !claim->value->n))
        return;
    if (!closed) {
        append_other(c, add_choice(c, out), claim, claim->value);
        return;
    }
    const struct json_node *name = json_first(smol_json_get(closed->owner, "properties"));
    for (; name; name = name->next) {
        if (smol_schema_covers(c, claim->owner, name->key))
            continue;
        struct list *list = add_choice(c, out);
        append_name(c, list, claim, WORD_HAS, name, name->key);
        append_name(c, list, claim, WORD_PROPERTY, claim->value, name->key);
    }
}

/* --- lists -------------------------------------------------------------------------------- */

/* Some element of prefixItems, or of items as a list, does not match its schema. */
static void rewrite_not_prefix(struct compiler *c, const struct claim *claim, struct rewritten *out)
{
    uint32_t i = 0;
    out->how = FAILS;
    if (!smol_schema_is(c, JSON_LIST, claim->value))
        return;
    for (const struct json_node *schema = claim->value->first; schema; schema = schema->next) {
        struct list *list = add_choice(c, out);
        append_index(c, list, claim, WORD_LONGER, i);
        append(c, list, claim, WORD_AT, schema, true)->index = i++;
    }
}

static void rewrite_not_items(struct compiler *c, const struct claim *claim, struct rewritten *out)
{
    if (claim->value->kind == JSON_LIST)
        rewrite_not_prefix(c, claim, out);
    else if (schema_since(c, DRAFT_2020, claim->owner, "prefixItems"))
        smol_schema_fail(c, claim->value, "items after prefixItems cannot be negated");
    else
        append(c, add_choice(c, out), claim, WORD_SOME, claim->value, true);
}

/* additionalItems means something only after a list of items. */
static void rewrite_not_additional_items(struct compiler *c, const struct claim *claim,
                                         struct rewritten *out)
{
    const struct json_node *items = smol_json_get(claim->owner, "items");
    out->how = FAILS;
    if (items && items->kind == JSON_LIST)
        smol_schema_fail(c, claim->value, "additionalItems cannot be negated");
}

static void rewrite_not_contains(struct compiler *c, const struct claim *claim,
                                 struct rewritten *out)
{
    if (schema_since(c, DRAFT_2019, claim->owner, "minContains") ||
        schema_since(c, DRAFT_2019, claim->owner, "maxContains"))
        smol_schema_fail(c, claim->value, "contains with a count cannot be negated");
    else
        append(c, add_choice(c, out), claim, WORD_EVERY, claim->value, true);
}

/* --- claims that stand -------------------------------------------------------------------- */

static unsigned types_of_values(struct compiler *c, const struct claim *claim)
{
    unsigned types = 0;
    if (claim->word == WORD_CONST)
        return smol_schema_type_of(c, claim->value);
    if (!smol_schema_is(c, JSON_LIST, claim->value))
        return 0;
    for (const struct json_node *value = claim->value->first; value; value = value->next)
        types |= smol_schema_type_of(c, value);
    return types;
}

/* Narrows the types by a claim that stands. Returns whether it must be kept. */
static bool stand(struct compiler *c, const struct claim *claim, unsigned *types)
{
    const struct json_node *value = claim->value;
    switch (claim->word) {
    case WORD_TYPE: {
        unsigned named = smol_schema_types(c, value);
        *types &= claim->negative ? ~named : named;
        return false;
    }
    case WORD_TYPES:
        *types &= claim->index;
        return false;
    case WORD_ENUM:
    case WORD_CONST:
        if (!claim->negative)
            *types &= types_of_values(c, claim);
        return true;
    case WORD_FORMAT: /* unknown formats are annotations */
        if (smol_schema_is_format(c, value))
            return true;
        *types = claim->negative ? 0 : *types;
        return false;
    case WORD_EXCLUSIVE_MINIMUM:
    case WORD_EXCLUSIVE_MAXIMUM: /* in draft 4 a part of minimum and maximum */
        if (value->kind != JSON_TRUE && value->kind != JSON_FALSE)
            return smol_schema_is(c, JSON_NUMBER, value);
        *types = claim->negative ? 0 : *types;
        return false;
    case WORD_UNIQUE_ITEMS:
        if (value->kind == JSON_TRUE && claim->negative)
            smol_schema_fail(c, value, "uniqueItems cannot be negated");
        *types = claim->negative ? 0 : *types;
        return value->kind == JSON_TRUE;
    case WORD_UNEVALUATED_PROPERTIES:
    case WORD_UNEVALUATED_ITEMS:
        if (claim->negative)
            smol_schema_fail(c, value, "the keyword cannot be negated");
        return true;
    default:
        return true;
    }
}

/* Rewrites a keyword of objects or lists that does not hold. */
static void rewrite_negative(struct compiler *c, const struct claim *claim, size_t mark,
                             struct rewritten *out)
{
    switch (claim->word) {
    case WORD_PROPERTIES:
        rewrite_not_properties(c, claim, out);
        break;
    case WORD_PATTERN_PROPERTIES:
        rewrite_not_patterns(c, claim, out);
        break;
    case WORD_PROPERTY_NAMES:
        append_other(c, add_choice(c, out), claim, claim->value);
        break;
    case WORD_ADDITIONAL_PROPERTIES:
        rewrite_not_additional(c, claim, mark, out);
        break;
    case WORD_PREFIX_ITEMS:
        rewrite_not_prefix(c, claim, out);
        break;
    case WORD_ITEMS:
        rewrite_not_items(c, claim, out);
        break;
    case WORD_ADDITIONAL_ITEMS:
        rewrite_not_additional_items(c, claim, out);
        break;
    case WORD_CONTAINS:
        rewrite_not_contains(c, claim, out);
        break;
    default:
        break;
    }
}

static void rewrite(struct compiler *c, const struct claim *claim, size_t mark,
                    struct rewritten *out)
{
    switch (claim->word) {
    case WORD_SCHEMA:
        rewrite_schema(c, claim, mark, out);
        break;
    case WORD_ALL_OF:
        rewrite_list(c, claim, !claim->negative, out);
        break;
    case WORD_ANY_OF:
        if (claim->scope && !claim->negative)
            rewrite_subsets(c, claim, out);
        else
            rewrite_list(c, claim, claim->negative, out);
        break;
    case WORD_ONE_OF:
        (claim->negative ? rewrite_not_one : rewrite_one_of)(c, claim, out);
        break;
    case WORD_NOT:
        out->how = ALL; /* a schema within evaluates nothing */
        append(c, &out->all, claim, WORD_SCHEMA, claim->value, !claim->negative)->scope = NULL;
        break;
    case WORD_IF:
        rewrite_if(c, claim, out);
        break;
    case WORD_REF:
    case WORD_DYNAMIC_REF:
    case WORD_RECURSIVE_REF:
        rewrite_reference(c, claim, out);
        break;
    case WORD_REQUIRED:
        rewrite_required(c, claim, out);
        break;
    case WORD_DEPENDENCIES:
    case WORD_DEPENDENT_REQUIRED:
    case WORD_DEPENDENT_SCHEMAS:
        rewrite_dependencies(c, claim, out);
        break;
    case WORD_DEPENDS:
        rewrite_depends(c, claim, out);
        break;
    default:
        if (claim->negative)
            rewrite_negative(c, claim, mark, out);
    }
}

/* --- pruning ------------------------------------------------------------------------------ */

const struct claim *smol_schema_choice(const struct facts *facts)
{
    const struct claim *best = NULL;
    for (size_t i = 0; i < facts->n; i++) {
        const struct claim *claim = &facts->claims[i];
        bool choice = (claim->word == WORD_CONST || claim->word == WORD_ENUM) && !claim->negative;
        if (choice && (!best || claim->word == WORD_CONST ||
                       (best->word == WORD_ENUM && claim->value->n < best->value->n)))
            best = claim;
    }
    return best;
}

/* Returns whether a value of const or enum is left. */
static bool has_value(struct compiler *c, const struct claim *choice, const struct facts *facts)
{
    if (choice->word == WORD_CONST)
        return smol_schema_all_hold(c, facts, choice->value);
    for (const struct json_node *value = choice->value->first; value; value = value->next)
        if (smol_schema_all_hold(c, facts, value))
            return true;
    return false;
}

/* Returns whether a property that is required cannot be there. */
static bool lacks_required(struct compiler *c, const struct facts *facts)
{
    size_t mark = c->n_claims;
    const struct facts others = smol_schema_about_properties(c, facts);
    bool lacks = false;
    for (size_t i = 0; i < facts->n && !lacks && !c->status; i++) {
        if (facts->claims[i].word != WORD_HAS)
            continue;
        const struct goal *goal = smol_schema_property(c, &others, facts->claims[i].name);
        lacks = !goal || (goal->n > 1 && smol_schema_is_empty(c, goal));
    }
    c->n_claims = mark;
    return lacks;
}

/* Returns whether min..max of two keywords is empty. */
static bool limits_empty(struct compiler *c, const struct facts *facts, enum word low,
                         enum word high)
{
    uint32_t min = 0, max = TERM_FOREVER;
    smol_schema_limits(c, facts, low, high, &min, &max);
    return min > max;
}

static bool lacks_element(struct compiler *c, const struct facts *facts)
{
    uint32_t min = 0, max = TERM_FOREVER;
    smol_schema_limits(c, facts, WORD_MIN_ITEMS, WORD_MAX_ITEMS, &min, &max);
    for (uint32_t i = 0; i < min && i < 4; i++)
        if (!smol_schema_element(c, facts, i))
            return true;
    return min > max;
}

/* Returns whether two patterns exclude each other. */
static bool patterns_exclude(struct compiler *c, const struct facts *facts)
{
    const struct claim *first = NULL;
    for (size_t i = 0; i < facts->n; i++) {
        const struct claim *claim = &facts->claims[i];
        if (claim->word != WORD_PATTERN || claim->negative || claim->value->kind != JSON_STRING)
            continue;
        if (first && smol_schema_disjoint(c, first->value, first->value->text, claim->value->text))
            return true;
        first = first ? first : claim;
    }
    return false;
}

/* Removes types of which no value is left, as far as is easily seen. */
static void prune(struct compiler *c, const struct facts *facts, unsigned *types)
{
    const struct claim *choice = smol_schema_choice(facts);
    struct bounds bounds;
    if (!smol_schema_steps(c, c->root, facts->n))
        return;
    if (choice && !has_value(c, choice, facts))
        *types = 0;
    if (choice || facts->n < 2 || !smol_schema_work(c, c->root))
        return;
    if ((*types & TYPE_OBJECT) &&
        (lacks_required(c, facts) ||
         limits_empty(c, facts, WORD_MIN_PROPERTIES, WORD_MAX_PROPERTIES)))
        *types &= ~(unsigned)TYPE_OBJECT;
    if ((*types & TYPE_LIST) && lacks_element(c, facts))
        *types &= ~(unsigned)TYPE_LIST;
    if ((*types & TYPE_STRING) && (limits_empty(c, facts, WORD_MIN_LENGTH, WORD_MAX_LENGTH) ||
                                   (c->probing && patterns_exclude(c, facts))))
        *types &= ~(unsigned)TYPE_STRING;
    if ((*types & TYPE_NUMBER) && !smol_schema_bounds(c, facts, &bounds))
        *types &= ~(unsigned)TYPE_NUMBER;
}

/* --- expansion ---------------------------------------------------------------------------- */

/* The alternative is complete: keeps it. */
static void keep(struct compiler *c, const struct facts *facts, struct alternatives *out)
{
    if (out->probe) {
        out->n = 1;
        return;
    }
    if (out->n == SCHEMA_MAX_ALTERNATIVES) {
        smol_schema_fail(c, facts->n ? facts->claims[0].value : c->root, "too many alternatives");
        return;
    }
    if (out->n == out->capacity) {
        size_t capacity = out->capacity ? 2 * out->capacity : 4;
        struct facts *grown = smol_schema_take(c, capacity * sizeof *grown);
        if (!grown)
            return;
        if (out->n)
            memcpy(grown, out->at, out->n * sizeof *grown);
        out->at = grown, out->capacity = capacity;
    }
    struct claim *claims = smol_schema_take(c, facts->n * sizeof *claims);
    size_t n = 0;
    for (size_t i = 0; claims && i < facts->n; i++)
        if (facts->claims[i].word != WORD_SCHEMA)
            claims[n++] = facts->claims[i];
    if (claims)
        out->at[out->n++] = (struct facts){facts->types, n, claims};
}

static bool is_done(const struct compiler *c, const struct alternatives *out)
{
    return c->status || (out->probe && (out->n > 0 || c->probe_failed));
}

static struct facts facts_since(const struct compiler *c, size_t mark, unsigned types)
{
    return (struct facts){types, c->n_claims - mark, c->claims + mark};
}

static void expand(struct compiler *c, size_t mark, unsigned types, const struct cell *pending,
                   unsigned branches, struct alternatives *out)
{
    size_t start = c->n_claims;
    struct rewritten now = {.how = HOLDS};
    while (pending && types && now.how != ONE && !is_done(c, out)) {
        const struct claim *claim = &pending->claim;
        unsigned word_types = smol_schema_word_types(claim->word);
        pending = pending->next;
        now = (struct rewritten){.how = STANDS};
        if (!smol_schema_work(c, claim->value) || c->n_claims == SCHEMA_MAX_CLAIMS) {
            smol_schema_fail(c, c->root, "too many claims about one value");
            break;
        }
        if (claim->negative && claim->word < WORD_SCHEMA)
            types &= word_types;
        if (!(types & word_types))
            continue;
        c->because = claim->because;
        rewrite(c, claim, mark, &now);
        if (now.how == STANDS && stand(c, claim, &types) && c->n_claims < SCHEMA_MAX_CLAIMS)
            c->claims[c->n_claims++] = *claim;
        c->because = NULL;
        if (now.how == FAILS)
            types = 0;
        if (now.how == ALL && now.all.first) {
            *now.all.end = pending;
            pending = now.all.first;
        }
    }
    struct facts facts = facts_since(c, mark, types);
    if (types && !is_done(c, out))
        prune(c, &facts, &types);
    if (types && branches == SCHEMA_MAX_BRANCHES)
        smol_schema_fail(c, c->root, "too many choices within choices");
    else if (types && now.how == ONE && !is_done(c, out))
        for (struct choice *choice = now.choices; choice; choice = choice->next) {
            if (choice->list.first)
                *choice->list.end = pending;
            expand(c, mark, types, choice->list.first ? choice->list.first : pending, branches + 1,
                   out);
        }
    else if (types && !is_done(c, out))
        facts.types = types, keep(c, &facts, out);
    c->n_claims = start;
}

void smol_schema_expand(struct compiler *c, const struct goal *goal, struct alternatives *out)
{
    struct list list = {0};
    for (uint32_t i = 0; i < goal->n; i++) {
        const struct claim none = {.word = WORD_SCHEMA};
        append_schema(c, &list, &none, goal->parts[i].schema, goal->parts[i].negative);
    }
    expand(c, c->n_claims, TYPE_ANY, list.first, 0, out);
}

bool smol_schema_is_empty(struct compiler *c, const struct goal *goal)
{
    enum { UNKNOWN, SOME, NONE, BUSY };
    if (!goal)
        return true;
    if (goal->emptiness == UNKNOWN && c->probing < SCHEMA_MAX_PROBES && !c->status) {
        struct goal *own = (struct goal *)goal;
        struct alternatives out = {.probe = true};
        bool failed = c->probe_failed;
        const struct json_node *because = c->because;
        own->emptiness = BUSY;
        c->probe_failed = false;
        c->probing++;
        smol_schema_expand(c, goal, &out);
        c->probing--;
        own->emptiness = out.n == 0 && !c->probe_failed && !c->status ? NONE : SOME;
        c->probe_failed = failed;
        c->because = because;
    }
    return goal->emptiness == NONE;
}
