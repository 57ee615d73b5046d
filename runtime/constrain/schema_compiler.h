/* The compiler of JSON Schema: what its files share.
 *
 * A goal is a list of schemas, some of them negated, that all apply to one value. To compile a
 * goal, its schemas are expanded into alternatives (schema_expand.c): lists of claims, which are
 * simple statements such as "it has the property a" or "it is at least 3". anyOf, oneOf, if and not
 * disappear in the expansion. Each alternative then becomes terms, one for each type of value. The
 * values within are goals again, so allOf, overlapping patterns and references need no merging of
 * schemas. */
#ifndef SMOL_RUNTIME_SCHEMA_COMPILER_H
#define SMOL_RUNTIME_SCHEMA_COMPILER_H

#include "runtime/constrain/decimal.h"
#include "runtime/constrain/front_ends.h"
#include "runtime/constrain/json_tree.h"

/* --- keywords ----------------------------------------------------------------------------- */

/* Drafts in order of time: numbers, 8 for 2019-09, 9 for 2020-12. */
enum { DRAFT_3 = 3, DRAFT_4 = 4, DRAFT_6 = 6, DRAFT_7 = 7, DRAFT_2019 = 8, DRAFT_2020 = 9 };

/* word, name, types of value that it applies to, first draft, last draft */
#define SCHEMA_KEYWORDS(_)                                                                         \
    _(TYPE, "type", TYPE_ANY, 3, 9)                                                                \
    _(ENUM, "enum", TYPE_ANY, 3, 9)                                                                \
    _(CONST, "const", TYPE_ANY, 6, 9)                                                              \
    _(ALL_OF, "allOf", TYPE_ANY, 4, 9)                                                             \
    _(ANY_OF, "anyOf", TYPE_ANY, 4, 9)                                                             \
    _(ONE_OF, "oneOf", TYPE_ANY, 4, 9)                                                             \
    _(NOT, "not", TYPE_ANY, 4, 9)                                                                  \
    _(IF, "if", TYPE_ANY, 7, 9)                                                                    \
    _(REF, "$ref", TYPE_ANY, 3, 9)                                                                 \
    _(DYNAMIC_REF, "$dynamicRef", TYPE_ANY, 9, 9)                                                  \
    _(RECURSIVE_REF, "$recursiveRef", TYPE_ANY, 8, 8)                                              \
    _(PROPERTIES, "properties", TYPE_OBJECT, 3, 9)                                                 \
    _(PATTERN_PROPERTIES, "patternProperties", TYPE_OBJECT, 3, 9)                                  \
    _(ADDITIONAL_PROPERTIES, "additionalProperties", TYPE_OBJECT, 3, 9)                            \
    _(UNEVALUATED_PROPERTIES, "unevaluatedProperties", TYPE_OBJECT, 8, 9)                          \
    _(REQUIRED, "required", TYPE_OBJECT, 3, 9)                                                     \
    _(PROPERTY_NAMES, "propertyNames", TYPE_OBJECT, 6, 9)                                          \
    _(MIN_PROPERTIES, "minProperties", TYPE_OBJECT, 4, 9)                                          \
    _(MAX_PROPERTIES, "maxProperties", TYPE_OBJECT, 4, 9)                                          \
    _(DEPENDENCIES, "dependencies", TYPE_OBJECT, 3, 7)                                             \
    _(DEPENDENT_REQUIRED, "dependentRequired", TYPE_OBJECT, 8, 9)                                  \
    _(DEPENDENT_SCHEMAS, "dependentSchemas", TYPE_OBJECT, 8, 9)                                    \
    _(ITEMS, "items", TYPE_LIST, 3, 9)                                                             \
    _(PREFIX_ITEMS, "prefixItems", TYPE_LIST, 9, 9)                                                \
    _(ADDITIONAL_ITEMS, "additionalItems", TYPE_LIST, 3, 8)                                        \
    _(UNEVALUATED_ITEMS, "unevaluatedItems", TYPE_LIST, 8, 9)                                      \
    _(CONTAINS, "contains", TYPE_LIST, 6, 9)                                                       \
    _(MIN_ITEMS, "minItems", TYPE_LIST, 3, 9)                                                      \
    _(MAX_ITEMS, "maxItems", TYPE_LIST, 3, 9)                                                      \
    _(UNIQUE_ITEMS, "uniqueItems", TYPE_LIST, 3, 9)                                                \
    _(MIN_LENGTH, "minLength", TYPE_STRING, 3, 9)                                                  \
    _(MAX_LENGTH, "maxLength", TYPE_STRING, 3, 9)                                                  \
    _(PATTERN, "pattern", TYPE_STRING, 3, 9)                                                       \
    _(FORMAT, "format", TYPE_STRING, 3, 9)                                                         \
    _(MINIMUM, "minimum", TYPE_NUMBER, 3, 9)                                                       \
    _(MAXIMUM, "maximum", TYPE_NUMBER, 3, 9)                                                       \
    _(EXCLUSIVE_MINIMUM, "exclusiveMinimum", TYPE_NUMBER, 3, 9)                                    \
    _(EXCLUSIVE_MAXIMUM, "exclusiveMaximum", TYPE_NUMBER, 3, 9)                                    \
    _(MULTIPLE_OF, "multipleOf", TYPE_NUMBER, 4, 9)

enum word {
    WORD_UNREAD, /* not looked up yet */
    WORD_NONE,   /* no keyword that restricts values by itself */
#define KEYWORD(word, name, types, first, last) WORD_##word,
    SCHEMA_KEYWORDS(KEYWORD)
#undef KEYWORD
    /* claims without a keyword of their own */
    WORD_SCHEMA,   /* value, a schema, holds */
    WORD_TYPES,    /* the type is in the set `index` */
    WORD_DEPENDS,  /* if an object has the property that value is the key of, then value holds */
    WORD_HAS,      /* an object has the property `name` */
    WORD_LACKS,    /* an object lacks it */
    WORD_PROPERTY, /* the property `name`, if present, matches the schema value */
    WORD_OTHER,  /* some property does not match: one to which the keyword `index` of owner applies
                  */
    WORD_AT,     /* the element number `index`, if present, matches the schema value */
    WORD_LONGER, /* a list has more than `index` elements */
    WORD_EVERY,  /* all elements match the schema value */
    WORD_SOME,   /* some element matches the schema value */
};

/* --- goals and alternatives --------------------------------------------------------------- */

struct part {
    const struct json_node *schema;
    bool negative;
};

struct goal {
    struct goal *next; /* in the table of goals */
    uint64_t hash;
    uint32_t n;
    uint8_t emptiness;        /* see schema_expand.c */
    const struct part *parts; /* (n) */
    struct compiled *compiled;
};

/* A schema with unevaluatedProperties or unevaluatedItems, which look at the claims of the schemas
 * within. */
struct scope {
    const struct json_node *owner;
    const struct scope *outer;
};

struct claim {
    uint8_t word;
    bool negative;
    uint32_t index;
    struct json_text name;
    const struct json_node *owner;   /* the schema with the keyword, or NULL */
    const struct json_node *value;   /* the keyword's value, or a schema */
    const struct scope *scope;       /* the innermost, or NULL */
    const struct json_node *because; /* the oneOf whose branches this claim tells apart, or NULL */
};

/* Returns whether a claim, not negated, comes from within a schema with an unevaluated keyword. */
static inline bool claim_is_within(const struct claim *claim, const struct json_node *owner)
{
    const struct scope *scope = claim->scope;
    while (scope && scope->owner != owner)
        scope = scope->outer;
    return scope && !claim->negative;
}

/* PROPERTIES stands for properties, patternProperties and additionalProperties of a schema, and
 * ITEMS for prefixItems, items and additionalItems. */
struct facts {
    unsigned types;
    size_t n;
    const struct claim *claims; /* (n) in the order of the schema */
};

struct alternatives {
    struct facts *at; /* (n) */
    size_t n, capacity;
    bool probe; /* only to find whether there is one */
};

enum {
    SCHEMA_MAX_PARTS = 256,        /* schemas that apply to one value */
    SCHEMA_MAX_ALTERNATIVES = 512, /* of one value */
    SCHEMA_MAX_CLAIMS = 16384,     /* of all alternatives being expanded at a time */
    SCHEMA_MAX_WORK = 300000,      /* claims looked at in one compilation */
    N_BUCKETS = 4096,
};

struct compiler {
    struct term_table *table;
    struct schema_options options;
    smol_error *error;
    smol_status status; /* the first error; everything then returns quickly */
    struct arena arena;
    const struct json_node *root;
    int draft;
    bool draft_known;
    unsigned probing; /* > 0: errors are not reported but set probe_failed */
    bool probe_failed;
    unsigned depth; /* of recursion */
    size_t work;
    size_t steps;                    /* not yet counted as work */
    const struct json_node *because; /* of the claim being looked at, for messages */
    struct claim *claims; /* (SCHEMA_MAX_CLAIMS + 1) of the alternatives being expanded */
    size_t n_claims;
    struct goal *goals[N_BUCKETS];
    struct pattern *patterns; /* those compiled to be matched, see schema_string.c */
    struct overlaps *overlaps;
    struct addresses *addresses;  /* where references may lead, see schema_goal.c */
    struct json_text formats[16]; /* their patterns, once they are needed */
    term any_character;
    term characters[128];
};

/* --- schema.c ----------------------------------------------------------------------------- */

/* Reports that a keyword's value cannot be enforced (SMOL_ERROR_UNSUPPORTED), with its place. While
 * probing, only notes it. */
void smol_schema_fail(struct compiler *c, const struct json_node *place, const char *what);

/* Reports that a keyword's value is wrong (SMOL_ERROR_USAGE). */
void smol_schema_wrong(struct compiler *c, const struct json_node *place, const char *what);

/* Reports that a claim, perhaps negated, cannot be enforced. */
void smol_schema_fail_claim(struct compiler *c, const struct claim *claim, const char *what);

/* Takes memory from the arena; reports if there is none. */
void *smol_schema_take(struct compiler *c, size_t size);

/* Counts work. Returns whether the compilation should go on. */
bool smol_schema_work(struct compiler *c, const struct json_node *place);

/* Counts steps, which are less: what is done for each claim, node or state in a loop. */
bool smol_schema_steps(struct compiler *c, const struct json_node *place, size_t n);

/* Returns the keyword that a member of a schema is. */
enum word smol_schema_word(struct compiler *c, const struct json_node *member);
unsigned smol_schema_word_types(enum word word);

/* Returns the member `key` of a schema, a keyword since `draft`, or NULL. Older drafts lack it. */
static inline const struct json_node *schema_since(const struct compiler *c, int draft,
                                                   const struct json_node *schema, const char *key)
{
    return c->draft < draft ? NULL : smol_json_get(schema, key);
}

/* Returns whether a keyword's value is of this kind, and reports it otherwise. */
bool smol_schema_is(struct compiler *c, enum json_kind kind, const struct json_node *value);

/* Reads a limit such as minItems. Large numbers become UINT32_MAX - 1. */
uint32_t smol_schema_count(struct compiler *c, const struct json_node *value);

/* Returns the term of the values that match a goal. `level` is the indentation. */
term smol_schema_compile(struct compiler *c, const struct goal *goal, unsigned level);

/* Returns how values of this level are written. */
const struct spelling *smol_schema_spelling(const struct compiler *c, unsigned level);

/* The texts before the first member or element, between two, and after the last. */
term smol_schema_gap(struct compiler *c, unsigned level);
term smol_schema_comma(struct compiler *c, const struct brackets *brackets, unsigned level);
term smol_schema_close(struct compiler *c, const struct brackets *brackets, unsigned level);
term smol_schema_literal(struct compiler *c, const char *text);

/* A member of an object. */
term smol_schema_member(struct compiler *c, term key, term value, unsigned level);

/* A text with what delimits it; `place` is for messages. */
term smol_schema_text(struct compiler *c, const struct text_spelling *spelling,
                      struct json_text text, const struct json_node *place);

/* The level of values within those of a level: of indentation, and of spelling. */
unsigned smol_schema_within(const struct compiler *c, unsigned level);

/* The level of a named property's value. */
unsigned smol_schema_within_member(const struct compiler *c, unsigned level, struct json_text name);

/* Writes a value of const or enum. */
term smol_schema_value(struct compiler *c, const struct json_node *value, unsigned level);

/* --- schema_goal.c: goals and references -------------------------------------------------- */

struct goal_builder {
    size_t n;
    bool never; /* a part is false */
    struct part parts[SCHEMA_MAX_PARTS];
};

/* Starts with no parts, without setting all of them to zero. */
static inline void goal_begin(struct goal_builder *builder)
{
    builder->n = 0;
    builder->never = false;
}

void smol_schema_add(struct compiler *c, struct goal_builder *builder,
                     const struct json_node *schema, bool negative);

/* Returns the one goal of these parts, or NULL if it is `false` or after an error. */
const struct goal *smol_schema_goal(struct compiler *c, const struct goal_builder *builder);

/* Returns the schema that the value of $ref (or $dynamicRef, $recursiveRef) stands for, or NULL
 * after an error. */
const struct json_node *smol_schema_target(struct compiler *c, const struct json_node *ref);

/* --- schema_expand.c ---------------------------------------------------------------------- */

/* Appends the alternatives of a goal. */
void smol_schema_expand(struct compiler *c, const struct goal *goal, struct alternatives *out);

/* Returns whether no value matches a goal, as far as is easily seen. NULL matches nothing. */
bool smol_schema_is_empty(struct compiler *c, const struct goal *goal);

/* Returns the claim enum or const, not negated, with the fewest values, or NULL. */
const struct claim *smol_schema_choice(const struct facts *facts);

/* --- schema_valid.c ----------------------------------------------------------------------- */

/* Returns the types that the keyword type names. */
unsigned smol_schema_types(struct compiler *c, const struct json_node *keyword);

/* Returns the bit of the value's type. */
unsigned smol_schema_type_of(struct compiler *c, const struct json_node *value);

/* Returns smol_json_equal, which counts as work at b. */
bool smol_schema_equal(struct compiler *c, const struct json_node *a, const struct json_node *b);

/* Returns whether a value matches a schema, or a claim or all of them hold for it. */
bool smol_schema_valid(struct compiler *c, const struct json_node *schema,
                       const struct json_node *value);
bool smol_schema_holds(struct compiler *c, const struct claim *claim,
                       const struct json_node *value);
bool smol_schema_all_hold(struct compiler *c, const struct facts *facts,
                          const struct json_node *value);

/* --- schema_string.c ---------------------------------------------------------------------- */

/* The contents of the strings that the claims allow, in all ways to write them. */
term smol_schema_contents(struct compiler *c, const struct facts *facts,
                          const struct text_spelling *spelling);

/* The contents of one string, in all ways to write it. */
term smol_schema_spellings(struct compiler *c, struct json_text text,
                           const struct text_spelling *spelling);

/* A whole string, a unit. */
term smol_schema_quoted(struct compiler *c, term contents, const struct text_spelling *spelling);

/* The contents of strings that contain a match of a pattern. */
term smol_schema_pattern(struct compiler *c, const struct json_node *place, struct json_text text,
                         const struct text_spelling *spelling);

/* Returns whether a text contains a match of a pattern. */
bool smol_schema_matches(struct compiler *c, const struct json_node *place,
                         struct json_text pattern, struct json_text text);

/* Returns whether a text has a format; true for unknown ones. */
bool smol_schema_has_format(struct compiler *c, const struct json_node *keyword,
                            struct json_text text);

/* Returns whether no text contains matches of both patterns; false if that is not known. */
bool smol_schema_disjoint(struct compiler *c, const struct json_node *place, struct json_text first,
                          struct json_text second);

void smol_schema_forget_patterns(struct compiler *c);

/* Returns whether format is enforced; unknown ones are annotations. Reports the standard ones that
 * are neither. */
bool smol_schema_is_format(struct compiler *c, const struct json_node *keyword);

/* The regular expression of a format, matched against the whole string. */
struct json_text smol_schema_format(struct compiler *c, struct json_text name);

/* Returns the number of characters. */
uint32_t smol_schema_length(struct json_text text);

/* --- schema_number.c, schema_object.c, schema_list.c -------------------------------------- */

struct bounds {
    bool has_low, has_high, low_strict, high_strict;
    struct decimal low, high;
};

/* Returns whether a schema's properties or patternProperties cover a name. */
bool smol_schema_covers(struct compiler *c, const struct json_node *schema, struct json_text name);

/* Narrows min..max by the claims of two keywords such as minLength and maxLength. */
void smol_schema_limits(struct compiler *c, const struct facts *facts, enum word low,
                        enum word high, uint32_t *min, uint32_t *max);

/* Collects the bounds of the claims. Returns false if no number is within them. */
bool smol_schema_bounds(struct compiler *c, const struct facts *facts, struct bounds *out);

/* Numbers of the types (integer, fraction or both) of the facts. */
term smol_schema_number(struct compiler *c, const struct facts *facts);

term smol_schema_object(struct compiler *c, const struct facts *facts, unsigned level);
term smol_schema_list(struct compiler *c, const struct facts *facts, unsigned level);

/* Returns those of the facts that smol_schema_property looks at: most are only the names of what is
 * required. They lie on c->claims, whose number the caller sets back. */
struct facts smol_schema_about_properties(struct compiler *c, const struct facts *facts);

/* The goal of the property `name`; NULL if it must be absent. */
const struct goal *smol_schema_property(struct compiler *c, const struct facts *facts,
                                        struct json_text name);

/* Reports enum or const, negated, with lists or objects, which cannot be excluded. */
void smol_schema_check_excluded(struct compiler *c, const struct facts *facts, enum json_kind kind);

/* Returns the list of schemas of a list's first elements, or NULL. Sets *rest to the schema of the
 * others, or NULL. */
const struct json_node *smol_schema_prefix(const struct compiler *c, const struct json_node *owner,
                                           const struct json_node **rest);

/* The goal of the element number `index`; NULL if there can be none. */
const struct goal *smol_schema_element(struct compiler *c, const struct facts *facts,
                                       uint32_t index);

#endif
