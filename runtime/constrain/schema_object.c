/* Objects of a schema, see schema_compiler.h.
 *
 * The properties that are named come in the order of the schema, then those that are only required,
 * then all others. */
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "runtime/constrain/schema_compiler.h"

enum {
    PATTERN_ROOM = 40,         /* patterns of names of one object */
    SCHEMA_MAX_CLASSES = 256,  /* sets of them that names may match */
    SCHEMA_MAX_CELLS = 200000, /* properties times numbers of properties */
    SCHEMA_MAX_ANY_ORDER = 8,  /* properties that may come in any order */
};

/* --- the schemas of a property ------------------------------------------------------------ */

/* One name, or a class of names that `properties` does not list. */
struct name_class {
    const struct json_text *name;            /* or NULL */
    const struct json_node *const *patterns; /* (n) the patterns of all claims */
    size_t n;
    uint64_t matched; /* bit i: the names match pattern i */
};

/* Returns whether the names match a member of patternProperties. */
static bool class_matches(struct compiler *c, const struct name_class *names,
                          const struct json_node *pattern)
{
    if (names->name)
        return smol_schema_matches(c, pattern, pattern->key, *names->name);
    for (size_t i = 0; i < names->n; i++)
        if (json_text_equal(names->patterns[i]->key, pattern->key))
            return names->matched >> i & 1;
    return false;
}

/* Adds the schemas of properties, patternProperties and additionalProperties for a name. Returns
 * whether there are any. */
static bool add_group(struct compiler *c, struct goal_builder *builder,
                      const struct json_node *owner, const struct name_class *names)
{
    const struct json_node *properties = smol_json_get(owner, "properties");
    const struct json_node *p = json_first(smol_json_get(owner, "patternProperties"));
    const struct json_node *others = smol_json_get(owner, "additionalProperties");
    const struct json_node *own = names->name ? smol_json_find(properties, *names->name) : NULL;
    bool covered = own != NULL;
    if (own)
        smol_schema_add(c, builder, own, false);
    for (; p; p = p->next) {
        if (class_matches(c, names, p)) {
            smol_schema_add(c, builder, p, false);
            covered = true;
        }
    }
    if (!covered && others)
        smol_schema_add(c, builder, others, false);
    return covered || others;
}

static bool is_group(const struct claim *claim)
{
    return claim->word == WORD_PROPERTIES || claim->word == WORD_PATTERN_PROPERTIES ||
           claim->word == WORD_ADDITIONAL_PROPERTIES;
}

/* Returns whether a schema within that of unevaluatedProperties covers the names. */
static bool is_evaluated(struct compiler *c, const struct facts *facts,
                         const struct claim *unevaluated, const struct name_class *names)
{
    struct goal_builder unused;
    smol_schema_steps(c, unevaluated->value, facts->n);
    for (size_t i = 0; i < facts->n; i++) {
        const struct claim *claim = &facts->claims[i];
        if (claim == unevaluated || !claim_is_within(claim, unevaluated->owner))
            continue;
        goal_begin(&unused);
        if (claim->word == WORD_UNEVALUATED_PROPERTIES && claim->owner != unevaluated->owner)
            return true;
        if (is_group(claim) && add_group(c, &unused, claim->owner, names))
            return true;
    }
    return false;
}

/* Returns the goal of a property with such a name, or NULL if there must be none; with `wanted` of
 * one that does not match. */
static const struct goal *class_goal(struct compiler *c, const struct facts *facts,
                                     const struct name_class *names, const struct claim *wanted)
{
    struct goal_builder builder;
    goal_begin(&builder);
    smol_schema_steps(c, c->root, facts->n);
    if (wanted && wanted->index != WORD_PROPERTY_NAMES)
        smol_schema_add(c, &builder, wanted->value, true);
    for (size_t i = 0; i < facts->n && !builder.never; i++) {
        const struct claim *claim = &facts->claims[i];
        bool named = names->name && json_text_equal(claim->name, *names->name);
        struct json_node name = {.kind = JSON_STRING};
        switch (claim->word) {
        case WORD_PROPERTIES:
        case WORD_PATTERN_PROPERTIES:
        case WORD_ADDITIONAL_PROPERTIES:
            add_group(c, &builder, claim->owner, names);
            break;
        case WORD_PROPERTY:
            if (named)
                smol_schema_add(c, &builder, claim->value, claim->negative);
            break;
        case WORD_LACKS:
            builder.never |= named;
            break;
        case WORD_PROPERTY_NAMES:
            if (names->name) {
                name.text = *names->name;
                builder.never |= !smol_schema_valid(c, claim->value, &name);
            }
            break;
        case WORD_UNEVALUATED_PROPERTIES:
            if (!is_evaluated(c, facts, claim, names))
                smol_schema_add(c, &builder, claim->value, false);
            break;
        default:
            break;
        }
    }
    return smol_schema_goal(c, &builder);
}

struct facts smol_schema_about_properties(struct compiler *c, const struct facts *facts)
{
    const struct claim *about = c->claims + c->n_claims;
    for (size_t i = 0; i < facts->n; i++) {
        enum word word = facts->claims[i].word;
        if (!is_group(&facts->claims[i]) && word != WORD_PROPERTY && word != WORD_LACKS &&
            word != WORD_PROPERTY_NAMES && word != WORD_UNEVALUATED_PROPERTIES)
            continue;
        if (c->n_claims == SCHEMA_MAX_CLAIMS)
            return *facts; /* no room: looking at all is only slower */
        c->claims[c->n_claims++] = facts->claims[i];
    }
    return (struct facts){facts->types, (size_t)(c->claims + c->n_claims - about), about};
}

const struct goal *smol_schema_property(struct compiler *c, const struct facts *facts,
                                        struct json_text name)
{
    struct name_class names = {.name = &name};
    return class_goal(c, facts, &names, NULL);
}

/* --- a property that must not match ------------------------------------------------------- */

/* Returns whether a schema's properties or patternProperties cover a name. */
bool smol_schema_covers(struct compiler *c, const struct json_node *schema, struct json_text name)
{
    const struct json_node *p = json_first(smol_json_get(schema, "patternProperties"));
    if (smol_json_find(smol_json_get(schema, "properties"), name))
        return true;
    for (; p; p = p->next)
        if (smol_schema_matches(c, p, p->key, name))
            return true;
    return false;
}

/* Returns whether a property of this name may be the one of a claim WORD_OTHER. */
static bool may_be_other(struct compiler *c, const struct claim *claim, struct json_text name)
{
    struct json_node value = {.kind = JSON_STRING, .text = name};
    switch (claim->index) {
    case WORD_PATTERN_PROPERTIES:
        return smol_schema_matches(c, claim->value, claim->name, name);
    case WORD_PROPERTY_NAMES:
        return !smol_schema_valid(c, claim->value, &value);
    default:
        return !smol_schema_covers(c, claim->owner, name);
    }
}

/* --- the named properties ----------------------------------------------------------------- */

struct property {
    struct json_text name;
    const struct json_node *place; /* for messages */
    bool required;
    term member; /* key and value */
};

struct object {
    struct compiler *c;
    const struct facts *facts;
    unsigned level;
    const struct spelling *spelling;
    struct property *properties; /* (n) */
    size_t n;
    uint32_t min, max; /* properties */
    term other;        /* any other member, TERM_NOTHING if there must be none */
    term wanted;       /* another member of which there must be one, if must_want */
    bool must_want;
    term gap, comma, close; /* before the first, between, after the last member */
    term empty;             /* the end of an object without members */
};

/* Counts the names of the claims, with repetitions. */
static size_t count_names(const struct facts *facts)
{
    size_t n = 0;
    for (size_t i = 0; i < facts->n; i++) {
        const struct json_node *properties =
            is_group(&facts->claims[i]) ? smol_json_get(facts->claims[i].owner, "properties")
                                        : NULL;
        n += properties ? properties->n : 1;
    }
    return n;
}

/* The names of an object: the numbers of its properties by hash, counted from 1; 0 is free. */
struct names {
    uint32_t *slots; /* (n), a power of two */
    size_t n;
};

/* Returns the property of a name, which is added if there is none. */
static struct property *add_name(struct object *object, const struct names *names,
                                 struct json_text name, const struct json_node *place)
{
    size_t slot = smol_digest(name.at, name.size) & (names->n - 1);
    for (; names->slots[slot]; slot = (slot + 1) & (names->n - 1)) {
        struct property *property = &object->properties[names->slots[slot] - 1];
        if (json_text_equal(property->name, name))
            return property;
        smol_schema_steps(object->c, place, 1);
    }
    object->properties[object->n++] = (struct property){name, place, false, TERM_NOTHING};
    names->slots[slot] = (uint32_t)object->n;
    return &object->properties[object->n - 1];
}

/* Compares properties for qsort. */
static int compare_properties(const void *a, const void *b)
{
    const struct property *x = a, *y = b;
    return smol_spelling_compare(x->name, y->name);
}

static void collect_names(struct object *object)
{
    struct compiler *c = object->c;
    const struct facts *facts = object->facts;
    size_t n = count_names(facts);
    struct names names = {.n = 16};
    while (names.n < 2 * n)
        names.n *= 2;
    object->properties = smol_schema_take(c, n * sizeof *object->properties);
    names.slots = smol_schema_take(c, names.n * sizeof *names.slots);
    if (!object->properties || !names.slots)
        return;
    for (size_t i = 0; i < facts->n; i++) {
        const struct claim *claim = &facts->claims[i];
        const struct json_node *list =
            is_group(claim) ? smol_json_get(claim->owner, "properties") : NULL;
        for (const struct json_node *p = json_first(list); p; p = p->next)
            add_name(object, &names, p->key, p);
        if (claim->word == WORD_PROPERTY)
            add_name(object, &names, claim->name, claim->value);
    }
    for (size_t i = 0; i < facts->n; i++) {
        const struct claim *claim = &facts->claims[i];
        bool has = claim->word == WORD_HAS;
        if (has || claim->word == WORD_LACKS)
            add_name(object, &names, claim->name, claim->value)->required |= has;
    }
    if (object->spelling->sorted)
        qsort(object->properties, object->n, sizeof *object->properties, compare_properties);
}

static void compile_members(struct object *object)
{
    struct compiler *c = object->c;
    size_t mark = c->n_claims;
    const struct facts facts = smol_schema_about_properties(c, object->facts);
    for (size_t i = 0; i < object->n && smol_schema_work(c, c->root); i++) {
        struct property *property = &object->properties[i];
        const struct goal *goal = smol_schema_property(c, &facts, property->name);
        unsigned within = smol_schema_within_member(c, object->level, property->name);
        term value = smol_schema_compile(c, goal, within);
        if (value == TERM_NOTHING)
            continue;
        term key = smol_schema_text(c, &object->spelling->key, property->name, property->place);
        property->member = smol_schema_member(c, key, value, object->level);
    }
    c->n_claims = mark;
}

/* --- all other properties ----------------------------------------------------------------- */

/* The contents of the strings of a goal. */
static term strings_of(struct compiler *c, const struct goal *goal, const struct text_spelling *key)
{
    struct alternatives alternatives = {0};
    struct term_choices all = {.table = c->table};
    if (goal)
        smol_schema_expand(c, goal, &alternatives);
    for (size_t i = 0; i < alternatives.n; i++)
        if (alternatives.at[i].types & TYPE_STRING)
            smol_choices_add(&all, smol_schema_contents(c, &alternatives.at[i], key));
    return smol_choices_end(&all);
}

/* The contents of the names that propertyNames allow. */
static term allowed_names(const struct object *object, bool *any)
{
    struct compiler *c = object->c;
    const struct facts *facts = object->facts;
    struct goal_builder builder;
    goal_begin(&builder);
    for (size_t i = 0; i < facts->n; i++)
        if (facts->claims[i].word == WORD_PROPERTY_NAMES)
            smol_schema_add(c, &builder, facts->claims[i].value, false);
    const struct goal *goal = smol_schema_goal(c, &builder);
    *any = goal && goal->n == 0;
    return *any ? TERM_NOTHING : strings_of(c, goal, &object->spelling->key);
}

/* Narrows names to those that may be the one of a claim WORD_OTHER. */
static term wanted_names(const struct object *object, const struct claim *claim, term names)
{
    struct compiler *c = object->c;
    const struct text_spelling *key = &object->spelling->key;
    struct goal_builder builder;
    struct term_choices covered = {.table = c->table};
    const struct json_node *member = NULL;
    goal_begin(&builder);
    switch (claim->index) {
    case WORD_PATTERN_PROPERTIES:
        return smol_term_both(c->table, names,
                              smol_schema_pattern(c, claim->value, claim->name, key));
    case WORD_PROPERTY_NAMES:
        smol_schema_add(c, &builder, claim->value, false);
        smol_choices_add(&covered, strings_of(c, smol_schema_goal(c, &builder), key));
        break;
    default:
        member = json_first(smol_json_get(claim->owner, "properties"));
        for (; member; member = member->next)
            smol_choices_add(&covered, smol_schema_spellings(c, member->key, key));
        member = json_first(smol_json_get(claim->owner, "patternProperties"));
        for (; member; member = member->next)
            smol_choices_add(&covered, smol_schema_pattern(c, member, member->key, key));
    }
    return smol_term_without(c->table, names, smol_choices_end(&covered));
}

/* Collects the patterns of all claims. Returns how many there are. */
static size_t collect_patterns(struct object *object, const struct json_node **out, size_t room)
{
    size_t n = 0;
    for (size_t i = 0; i < object->facts->n; i++) {
        const struct claim *claim = &object->facts->claims[i];
        const struct json_node *patterns =
            is_group(claim) ? smol_json_get(claim->owner, "patternProperties") : NULL;
        for (const struct json_node *p = json_first(patterns); p; p = p->next) {
            size_t k = 0;
            while (k < n && !json_text_equal(out[k]->key, p->key))
                k++;
            if (k == n && n == room)
                smol_schema_fail(object->c, patterns, "too many patterns");
            else
                out[k] = p, n += k == n;
        }
    }
    return n;
}

/* Facts that hold for all names that are not listed. */
struct others {
    const struct claim *wanted; /* WORD_OTHER, or NULL */
    term allowed, named; /* by propertyNames, unless any_allowed; the names that are listed */
    bool any_allowed;
    term matching[PATTERN_ROOM]; /* the patterns */
    struct term_choices members;
};

/* A class of names: those that match some patterns, and none of the others, nor a named property.
 */
static term class_names(struct object *object, const struct name_class *names,
                        const struct others *others)
{
    struct compiler *c = object->c;
    struct facts no_facts = {TYPE_STRING, 0, NULL};
    term with = others->allowed, without = others->named;
    bool any = others->any_allowed;
    for (size_t i = 0; i < names->n; i++) {
        term matching = others->matching[i];
        if (!(names->matched >> i & 1))
            without = smol_term_either(c->table, without, matching);
        else
            with = any ? matching : smol_term_both(c->table, with, matching), any = false;
    }
    if (any)
        with = smol_schema_contents(c, &no_facts, &object->spelling->key);
    if (others->wanted)
        with = wanted_names(object, others->wanted, with);
    return without == TERM_NOTHING ? with : smol_term_without(c->table, with, without);
}

/* Adds the members of a class of names. */
static void add_class(struct object *object, const struct name_class *names, struct others *others)
{
    struct compiler *c = object->c;
    const struct goal *goal = class_goal(c, object->facts, names, others->wanted);
    if (!goal || (goal->n > 1 && smol_schema_is_empty(c, goal)))
        return;
    term value = smol_schema_compile(c, goal, smol_schema_within(c, object->level));
    if (value == TERM_NOTHING)
        return;
    term name = smol_schema_quoted(c, class_names(object, names, others), &object->spelling->key);
    smol_choices_add(&others->members, smol_schema_member(c, name, value, object->level));
}

/* Returns whether pattern i excludes all patterns of a set. */
static bool excludes(struct compiler *c, const struct json_node **patterns, size_t i, uint64_t set)
{
    for (size_t k = 0; k < i; k++)
        if ((set >> k & 1) &&
            smol_schema_disjoint(c, patterns[i], patterns[k]->key, patterns[i]->key))
            return true;
    return false;
}

/* Lists the sets of patterns that a name may match together: all, but not those with two that
 * exclude each other. */
static size_t list_classes(struct compiler *c, const struct json_node **patterns, size_t n,
                           uint64_t *sets)
{
    size_t n_sets = 1;
    sets[0] = 0;
    for (size_t i = 0; i < n; i++) {
        size_t before = n_sets;
        for (size_t k = 0; k < before && !c->status; k++) {
            if (n > 2 && sets[k] && excludes(c, patterns, i, sets[k]))
                continue;
            if (n_sets == SCHEMA_MAX_CLASSES) {
                smol_schema_fail(c, patterns[i]->parent, "too many patterns that overlap");
                return 0;
            }
            sets[n_sets++] = sets[k] | (uint64_t)1 << i;
        }
    }
    return n_sets;
}

/* Returns the members that are not named, with `wanted` those of a claim WORD_OTHER. */
static term compile_others(struct object *object, const struct claim *wanted)
{
    struct compiler *c = object->c;
    const struct json_node *patterns[PATTERN_ROOM];
    struct others others = {.wanted = wanted, .members = {.table = c->table}};
    struct term_choices named = {.table = c->table};
    uint64_t sets[SCHEMA_MAX_CLASSES];
    struct name_class names = {.patterns = patterns};
    names.n = collect_patterns(object, patterns, PATTERN_ROOM);
    if (names.n == 0 && !class_goal(c, object->facts, &names, wanted))
        return TERM_NOTHING;
    others.allowed = allowed_names(object, &others.any_allowed);
    for (size_t i = 0; i < names.n; i++)
        others.matching[i] =
            smol_schema_pattern(c, patterns[i], patterns[i]->key, &object->spelling->key);
    for (size_t i = 0; i < object->n; i++)
        smol_choices_add(
            &named, smol_schema_spellings(c, object->properties[i].name, &object->spelling->key));
    others.named = smol_choices_end(&named);
    size_t n_sets = list_classes(c, patterns, names.n, sets);
    for (size_t i = 0; i < n_sets && !c->status; i++) {
        names.matched = sets[i];
        add_class(object, &names, &others);
    }
    return smol_choices_end(&others.members);
}

/* --- members in order --------------------------------------------------------------------- */

/* Other members after `before` members, of which one is wanted, and the end of the object. */
static term wanted_after(const struct object *object, uint32_t before)
{
    struct term_table *table = object->c->table;
    term more = smol_term_repeat(table, smol_term_then(table, object->comma, object->other), 0,
                                 TERM_FOREVER);
    term next = smol_term_then(table, object->comma, object->wanted);
    term rest = smol_term_then(table, more, object->close);
    if (before > 0)
        return smol_term_then(table, more, smol_term_then(table, next, rest));
    term later = smol_term_then(table, object->other, smol_term_then(table, more, next));
    term some = smol_term_either(table, object->wanted, later);
    return smol_term_then(table, object->gap, smol_term_then(table, some, rest));
}

/* Other members after `before` members, and the end of the object. */
static term others_after(const struct object *object, uint32_t before)
{
    struct term_table *table = object->c->table;
    uint32_t min = object->min > before ? object->min - before : 0;
    uint32_t max = object->max == TERM_FOREVER ? TERM_FOREVER : object->max - before;
    term none = before ? object->close : object->empty;
    if (object->must_want)
        return wanted_after(object, before);
    if (object->other == TERM_NOTHING || max == 0)
        return min ? TERM_NOTHING : none;
    term more = smol_term_then(table, object->comma, object->other);
    if (before > 0)
        return smol_term_then(table, smol_term_repeat(table, more, min, max), none);
    uint32_t rest = max == TERM_FOREVER ? TERM_FOREVER : max - 1;
    term some = smol_term_repeat(table, more, min ? min - 1 : 0, rest);
    some = smol_term_then(table, some, object->close);
    some = smol_term_then(table, object->gap, smol_term_then(table, object->other, some));
    return min ? some : smol_term_either(table, some, none);
}

/* Members after the brace. A row holds terms by how many members came before, counted up to `cap`;
 * the rows are made from the last property to the first. */
static term in_order(const struct object *object)
{
    struct compiler *c = object->c;
    uint32_t n = (uint32_t)object->n, cap = object->min;
    if (object->max != TERM_FOREVER && (object->max < n || object->other != TERM_NOTHING))
        cap = object->max;
    cap = cap < 1 ? 1 : cap > n + 1 ? n + 1 : cap;
    if ((uint64_t)n * cap > SCHEMA_MAX_CELLS) {
        smol_schema_fail(c, c->root, "minProperties or maxProperties beside too many properties");
        return TERM_NOTHING;
    }
    term *row = smol_schema_take(c, (cap + 1) * sizeof *row);
    if (!row)
        return TERM_NOTHING;
    for (uint32_t before = 0; before <= cap; before++)
        row[before] = before > object->max ? TERM_NOTHING : others_after(object, before);
    for (uint32_t i = n; i-- > 0;) {
        const struct property *property = &object->properties[i];
        for (uint32_t before = 0; before <= cap; before++) { /* upwards: the next is not yet new */
            term here = TERM_NOTHING, rest = row[before < cap ? before + 1 : cap];
            if (property->member != TERM_NOTHING && before < object->max)
                here = smol_term_then(c->table, before ? object->comma : object->gap,
                                      smol_term_then(c->table, property->member, rest));
            row[before] = property->required ? here : smol_term_either(c->table, here, row[before]);
        }
    }
    return row[0];
}

/* Members in any order after the brace: terms by the set of named properties that came before. */
static term in_any_order(const struct object *object)
{
    struct compiler *c = object->c;
    size_t n = object->n, end = (size_t)1 << (n & 31), required = 0;
    if (n > SCHEMA_MAX_ANY_ORDER || object->min > 0 || object->max != TERM_FOREVER) {
        smol_schema_fail(c, c->root,
                         n > SCHEMA_MAX_ANY_ORDER
                             ? "too many properties for any order"
                             : "minProperties and maxProperties beside any order");
        return TERM_NOTHING;
    }
    term *sets = smol_schema_take(c, end * sizeof *sets), any[SCHEMA_MAX_ANY_ORDER + 2];
    if (!sets)
        return TERM_NOTHING;
    for (size_t i = 0; i < n; i++)
        required |= (size_t)object->properties[i].required << i;
    term other = smol_term_then(c->table, object->comma, object->other);
    other = smol_term_repeat(c->table, other, 0, TERM_FOREVER);
    for (size_t set = end; set-- > 0;) { /* what follows a member that is not the first */
        for (size_t i = 0; i < n; i++)
            any[i] = set >> i & 1
                         ? TERM_NOTHING
                         : smol_term_then(c->table, object->comma,
                                          smol_term_then(c->table, object->properties[i].member,
                                                         sets[set | (size_t)1 << i]));
        any[n] = (set & required) == required ? object->close : TERM_NOTHING;
        sets[set] = smol_term_then(c->table, other, smol_term_any_of(c->table, any, n + 1));
    }
    for (size_t i = 0; i < n; i++)
        any[i] = smol_term_then(c->table, object->properties[i].member, sets[(size_t)1 << i]);
    any[n] = smol_term_then(c->table, object->other, sets[0]);
    term some = smol_term_then(c->table, object->gap, smol_term_any_of(c->table, any, n + 1));
    return required ? some : smol_term_either(c->table, some, object->empty);
}

/* Names that are not listed may repeat, so that two of them may be one property. */
static void check_minimum(const struct object *object)
{
    uint32_t needed = object->min;
    if (object->other == TERM_NOTHING || needed < 2)
        return;
    for (size_t i = 0; i < object->n && needed > 0; i++)
        needed -= object->properties[i].required && object->properties[i].member != TERM_NOTHING;
    for (size_t i = 0; i < object->facts->n && needed > 1; i++)
        if (object->facts->claims[i].word == WORD_MIN_PROPERTIES ||
            object->facts->claims[i].word == WORD_MAX_PROPERTIES) {
            smol_schema_fail_claim(
                object->c, &object->facts->claims[i],
                "several properties whose names are not listed cannot be required");
            return;
        }
}

/* Objects of which some property does not match (WORD_OTHER, the claim number `index`): each of
 * those that are named may be that one, or another one is. */
static term with_other(struct object *object, size_t index)
{
    struct compiler *c = object->c;
    size_t n = object->facts->n;
    const struct claim *other = &object->facts->claims[index];
    struct claim *claims = smol_schema_take(c, (n + 1) * sizeof *claims);
    struct term_choices all = {.table = c->table};
    if (!claims)
        return TERM_NOTHING;
    memcpy(claims, object->facts->claims, n * sizeof *claims);
    claims[index] = claims[n - 1];
    for (size_t i = 0; i < object->n && !c->status; i++) {
        struct json_text name = object->properties[i].name;
        if (!may_be_other(c, other, name) || !smol_schema_work(c, other->value))
            continue;
        struct facts facts = {TYPE_OBJECT, n, claims};
        claims[n - 1] = (struct claim){.word = WORD_HAS, .name = name, .value = other->value};
        claims[n] = (struct claim){
            .word = WORD_PROPERTY, .negative = true, .name = name, .value = other->value};
        facts.n += other->index != WORD_PROPERTY_NAMES;
        smol_choices_add(&all, smol_schema_object(c, &facts, object->level));
    }
    struct facts rest = {TYPE_OBJECT, n - 1, claims};
    object->facts = &rest;
    if (object->min > 1 || object->max != TERM_FOREVER || c->options.any_order)
        smol_schema_fail_claim(c, other, "cannot be negated beside other conditions");
    for (size_t i = 0; i + 1 < n; i++)
        if (claims[i].word == WORD_OTHER)
            smol_schema_fail_claim(c, other, "several such conditions cannot be negated");
    compile_members(object);
    object->other = compile_others(object, NULL);
    object->wanted = compile_others(object, other);
    object->must_want = true;
    term braced = smol_term_then(c->table, smol_schema_literal(c, object->spelling->object.open),
                                 in_order(object));
    smol_choices_add(&all, braced);
    return smol_choices_end(&all);
}

term smol_schema_object(struct compiler *c, const struct facts *facts, unsigned level)
{
    struct object object = {.c = c, .facts = facts, .level = level, .max = TERM_FOREVER};
    smol_schema_steps(c, c->root, facts->n);
    object.spelling = smol_schema_spelling(c, level);
    const struct brackets *brackets = &object.spelling->object;
    object.gap = smol_schema_gap(c, level);
    object.comma = smol_schema_comma(c, brackets, level);
    object.close = smol_schema_close(c, brackets, level);
    object.empty = smol_schema_literal(c, brackets->close);
    smol_schema_limits(c, facts, WORD_MIN_PROPERTIES, WORD_MAX_PROPERTIES, &object.min,
                       &object.max);
    if (object.min > object.max)
        return TERM_NOTHING;
    smol_schema_check_excluded(c, facts, JSON_OBJECT);
    collect_names(&object);
    for (size_t i = 0; i < facts->n; i++)
        if (facts->claims[i].word == WORD_OTHER)
            return with_other(&object, i);
    compile_members(&object);
    object.other = compile_others(&object, NULL);
    check_minimum(&object);
    if (c->status)
        return TERM_NOTHING;
    term members = c->options.any_order ? in_any_order(&object) : in_order(&object);
    return smol_term_then(c->table, smol_schema_literal(c, brackets->open), members);
}
