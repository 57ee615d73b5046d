/* Validates a value of const or enum against schemas and claims, see schema_compiler.h. */
#include <string.h>

#include "runtime/constrain/schema_compiler.h"

unsigned smol_schema_type_of(struct compiler *c, const struct json_node *value)
{
    static const uint8_t types[] = {TYPE_NULL,   TYPE_BOOLEAN, TYPE_BOOLEAN, TYPE_NUMBER,
                                    TYPE_STRING, TYPE_LIST,    TYPE_OBJECT};
    struct decimal number;
    if (value->kind != JSON_NUMBER)
        return types[value->kind];
    smol_decimal_read(value->text, &number);
    bool plain = !memchr(value->text.at, '.', value->text.size) &&
                 !memchr(value->text.at, 'e', value->text.size) &&
                 !memchr(value->text.at, 'E', value->text.size);
    bool integer = smol_decimal_is_integer(&number) && (plain || c->draft > DRAFT_4);
    return integer ? TYPE_INTEGER : TYPE_FRACTION;
}

/* --- types -------------------------------------------------------------------------------- */

static unsigned type_named(struct compiler *c, const struct json_node *name)
{
    static const struct {
        char name[8];
        uint8_t types;
    } types[] = {{"null", TYPE_NULL},     {"boolean", TYPE_BOOLEAN}, {"integer", TYPE_INTEGER},
                 {"number", TYPE_NUMBER}, {"string", TYPE_STRING},   {"array", TYPE_LIST},
                 {"object", TYPE_OBJECT}};
    for (size_t i = 0; name->kind == JSON_STRING && i < sizeof types / sizeof *types; i++)
        if (json_text_is(name->text, types[i].name))
            return types[i].types;
    smol_schema_wrong(c, name, "must be the name of a type");
    return 0;
}

unsigned smol_schema_types(struct compiler *c, const struct json_node *keyword)
{
    unsigned types = 0;
    if (keyword->kind != JSON_LIST)
        return type_named(c, keyword);
    for (const struct json_node *name = keyword->first; name; name = name->next)
        types |= type_named(c, name);
    return types;
}

bool smol_schema_equal(struct compiler *c, const struct json_node *a, const struct json_node *b)
{
    size_t steps = 0;
    bool equal = smol_json_equal(a, b, &steps);
    return smol_schema_steps(c, b, steps) && equal;
}

static bool is_among(struct compiler *c, const struct json_node *list,
                     const struct json_node *value)
{
    if (value->parent == list)
        return true;
    if (!smol_schema_is(c, JSON_LIST, list))
        return false;
    for (const struct json_node *other = list->first; other && !c->status; other = other->next)
        if (smol_schema_equal(c, value, other))
            return true;
    return false;
}

static size_t count_valid(struct compiler *c, const struct json_node *schemas,
                          const struct json_node *value)
{
    size_t n = 0;
    if (!smol_schema_is(c, JSON_LIST, schemas))
        return 0;
    for (const struct json_node *schema = schemas->first; schema; schema = schema->next)
        n += smol_schema_valid(c, schema, value);
    return n;
}

/* --- objects ------------------------------------------------------------------------------ */

/* Validates a property by one of the three keywords of the group. */
static bool valid_property(struct compiler *c, const struct json_node *owner, enum word word,
                           const struct json_node *member)
{
    const struct json_node *schema;
    switch (word) {
    case WORD_PROPERTIES:
        schema = smol_json_find(smol_json_get(owner, "properties"), member->key);
        return !schema || smol_schema_valid(c, schema, member);
    case WORD_PATTERN_PROPERTIES:
        schema = json_first(smol_json_get(owner, "patternProperties"));
        for (; schema; schema = schema->next)
            if (smol_schema_matches(c, schema, schema->key, member->key) &&
                !smol_schema_valid(c, schema, member))
                return false;
        return true;
    default:
        schema = smol_json_get(owner, "additionalProperties");
        return !schema || smol_schema_covers(c, owner, member->key) ||
               smol_schema_valid(c, schema, member);
    }
}

static bool valid_properties(struct compiler *c, const struct json_node *owner, enum word word,
                             const struct json_node *value)
{
    for (const struct json_node *member = value->first; member; member = member->next)
        if (!valid_property(c, owner, word, member))
            return false;
    return true;
}

static bool has_names(struct compiler *c, const struct json_node *names,
                      const struct json_node *value)
{
    bool has = smol_schema_is(c, JSON_LIST, names);
    for (const struct json_node *name = names->first; name && has; name = name->next)
        has = smol_schema_is(c, JSON_STRING, name) && smol_json_find(value, name->text);
    return has;
}

static bool valid_dependencies(struct compiler *c, const struct json_node *keyword,
                               const struct json_node *value)
{
    if (!smol_schema_is(c, JSON_OBJECT, keyword))
        return false;
    for (const struct json_node *then = keyword->first; then; then = then->next)
        if (smol_json_find(value, then->key) &&
            !(then->kind == JSON_LIST ? has_names(c, then, value)
                                      : smol_schema_valid(c, then, value)))
            return false;
    return true;
}

static bool valid_names(struct compiler *c, const struct json_node *schema,
                        const struct json_node *value)
{
    for (const struct json_node *member = value->first; member; member = member->next) {
        struct json_node name = {.kind = JSON_STRING, .text = member->key};
        if (!smol_schema_valid(c, schema, &name))
            return false;
    }
    return true;
}

/* --- lists -------------------------------------------------------------------------------- */

/* Validates the elements by prefixItems, items and additionalItems. */
static bool valid_items(struct compiler *c, const struct json_node *owner,
                        const struct json_node *value)
{
    const struct json_node *rest, *schema = json_first(smol_schema_prefix(c, owner, &rest));
    for (const struct json_node *child = value->first; child; child = child->next) {
        const struct json_node *own = schema ? schema : rest;
        if (own && !smol_schema_valid(c, own, child))
            return false;
        schema = schema ? schema->next : NULL;
    }
    return true;
}

static bool valid_contains(struct compiler *c, const struct json_node *owner,
                           const struct json_node *schema, const struct json_node *value)
{
    const struct json_node *low = schema_since(c, DRAFT_2019, owner, "minContains");
    const struct json_node *high = schema_since(c, DRAFT_2019, owner, "maxContains");
    size_t n = 0;
    for (const struct json_node *child = value->first; child; child = child->next)
        n += smol_schema_valid(c, schema, child);
    return n >= (low ? smol_schema_count(c, low) : 1) &&
           n <= (high ? smol_schema_count(c, high) : UINT32_MAX);
}

static bool is_unique(struct compiler *c, const struct json_node *list)
{
    for (const struct json_node *a = list->first; a; a = a->next)
        for (const struct json_node *b = a->next; b && !c->status; b = b->next)
            if (smol_schema_equal(c, a, b))
                return false;
    return true;
}

/* --- numbers ------------------------------------------------------------------------------ */

static bool valid_multiple(struct compiler *c, const struct json_node *keyword,
                           const struct json_node *value)
{
    struct decimal a, b;
    bool known = true;
    smol_decimal_read(value->text, &a);
    smol_decimal_read(keyword->text, &b);
    if (b.n == 0 || b.negative)
        smol_schema_wrong(c, keyword, "must be a number above 0");
    bool valid = smol_decimal_is_multiple(&a, &b, &known);
    if (!known)
        smol_schema_fail(c, keyword, "the number is too long");
    return valid;
}

static bool valid_number(struct compiler *c, const struct json_node *owner, enum word word,
                         const struct json_node *keyword, const struct json_node *value)
{
    bool exclusive = word == WORD_EXCLUSIVE_MINIMUM || word == WORD_EXCLUSIVE_MAXIMUM;
    if (exclusive && (keyword->kind == JSON_FALSE || keyword->kind == JSON_TRUE))
        return true; /* in draft 4 a part of minimum and maximum */
    if (!smol_schema_is(c, JSON_NUMBER, keyword))
        return false;
    if (word == WORD_MULTIPLE_OF)
        return valid_multiple(c, keyword, value);
    int order = smol_decimal_compare_texts(value->text, keyword->text);
    switch (word) {
    case WORD_MINIMUM:
        return order > 0 || (order == 0 && !smol_json_has_true(owner, "exclusiveMinimum"));
    case WORD_MAXIMUM:
        return order < 0 || (order == 0 && !smol_json_has_true(owner, "exclusiveMaximum"));
    case WORD_EXCLUSIVE_MINIMUM:
        return order > 0;
    default:
        return order < 0;
    }
}

/* --- keywords ----------------------------------------------------------------------------- */

static bool valid_if(struct compiler *c, const struct json_node *owner,
                     const struct json_node *schema, const struct json_node *value)
{
    const struct json_node *next =
        smol_json_get(owner, smol_schema_valid(c, schema, value) ? "then" : "else");
    return !next || smol_schema_valid(c, next, value);
}

static bool valid_reference(struct compiler *c, const struct json_node *ref,
                            const struct json_node *value)
{
    const struct json_node *target = smol_schema_target(c, ref);
    return target && smol_schema_valid(c, target, value);
}

/* Validates by a keyword that applies to the type of the value. */
static bool valid_keyword(struct compiler *c, const struct json_node *owner, enum word word,
                          const struct json_node *keyword, const struct json_node *value)
{
    switch (word) {
    case WORD_TYPE:
        return smol_schema_types(c, keyword) & smol_schema_type_of(c, value);
    case WORD_ENUM:
        return is_among(c, keyword, value);
    case WORD_CONST:
        return smol_schema_equal(c, value, keyword);
    case WORD_ALL_OF:
        return count_valid(c, keyword, value) == keyword->n;
    case WORD_ANY_OF:
        return count_valid(c, keyword, value) > 0;
    case WORD_ONE_OF:
        return count_valid(c, keyword, value) == 1;
    case WORD_NOT:
        return !smol_schema_valid(c, keyword, value);
    case WORD_IF:
        return valid_if(c, owner, keyword, value);
    case WORD_REF:
    case WORD_DYNAMIC_REF:
    case WORD_RECURSIVE_REF:
        return valid_reference(c, keyword, value);
    case WORD_PROPERTIES:
    case WORD_PATTERN_PROPERTIES:
    case WORD_ADDITIONAL_PROPERTIES:
        return (word == WORD_ADDITIONAL_PROPERTIES || smol_schema_is(c, JSON_OBJECT, keyword)) &&
               valid_properties(c, owner, word, value);
    case WORD_REQUIRED:
        return has_names(c, keyword, value);
    case WORD_PROPERTY_NAMES:
        return valid_names(c, keyword, value);
    case WORD_MIN_PROPERTIES:
    case WORD_MIN_ITEMS:
        return value->n >= smol_schema_count(c, keyword);
    case WORD_MAX_PROPERTIES:
    case WORD_MAX_ITEMS:
        return value->n <= smol_schema_count(c, keyword);
    case WORD_DEPENDENCIES:
    case WORD_DEPENDENT_REQUIRED:
    case WORD_DEPENDENT_SCHEMAS:
        return valid_dependencies(c, keyword, value);
    case WORD_ITEMS:
    case WORD_PREFIX_ITEMS:
    case WORD_ADDITIONAL_ITEMS:
        return valid_items(c, owner, value);
    case WORD_CONTAINS:
        return valid_contains(c, owner, keyword, value);
    case WORD_UNIQUE_ITEMS:
        return keyword->kind != JSON_TRUE || is_unique(c, value);
    case WORD_MIN_LENGTH:
        return smol_schema_length(value->text) >= smol_schema_count(c, keyword);
    case WORD_MAX_LENGTH:
        return smol_schema_length(value->text) <= smol_schema_count(c, keyword);
    case WORD_PATTERN:
        return smol_schema_is(c, JSON_STRING, keyword) &&
               smol_schema_matches(c, keyword, keyword->text, value->text);
    case WORD_FORMAT:
        return smol_schema_has_format(c, keyword, value->text);
    case WORD_MINIMUM:
    case WORD_MAXIMUM:
    case WORD_EXCLUSIVE_MINIMUM:
    case WORD_EXCLUSIVE_MAXIMUM:
    case WORD_MULTIPLE_OF:
        return valid_number(c, owner, word, keyword, value);
    default: /* unevaluatedProperties and unevaluatedItems */
        smol_schema_fail(c, keyword, "the keyword is not supported for values of const and enum");
        return false;
    }
}

bool smol_schema_valid(struct compiler *c, const struct json_node *schema,
                       const struct json_node *value)
{
    if (schema->kind == JSON_TRUE || schema->kind == JSON_FALSE)
        return schema->kind == JSON_TRUE;
    if (schema->kind != JSON_OBJECT)
        smol_schema_wrong(c, schema, "must be a schema: an object, true or false");
    if (schema->kind != JSON_OBJECT || !smol_schema_work(c, schema))
        return false;
    if (c->depth >= SCHEMA_MAX_DEPTH) {
        smol_schema_fail(c, schema, "nested too deeply");
        return false;
    }
    unsigned type = smol_schema_type_of(c, value);
    const struct json_node *ref = smol_json_get(schema, "$ref");
    bool valid = true;
    c->depth++;
    if (ref && c->draft <= DRAFT_7 && ref->kind == JSON_STRING)
        valid = valid_reference(c, ref, value);
    else
        for (const struct json_node *member = schema->first; member && valid;
             member = member->next) {
            enum word word = smol_schema_word(c, member);
            if (word != WORD_NONE && (smol_schema_word_types(word) & type))
                valid = valid_keyword(c, schema, word, member, value);
        }
    c->depth--;
    return valid;
}

/* --- claims ------------------------------------------------------------------------------- */

static const struct json_node *element(const struct json_node *list, uint32_t index)
{
    const struct json_node *child = list->first;
    while (child && index--)
        child = child->next;
    return child;
}

/* Returns how many elements match the schema of a claim. */
static size_t count_elements(struct compiler *c, const struct claim *claim,
                             const struct json_node *list)
{
    size_t n = 0;
    for (const struct json_node *child = list->first; child; child = child->next)
        n += smol_schema_valid(c, claim->value, child) != claim->negative;
    return n;
}

bool smol_schema_holds(struct compiler *c, const struct claim *claim, const struct json_node *value)
{
    const struct json_node *child = NULL;
    bool applies = smol_schema_word_types(claim->word) & smol_schema_type_of(c, value);
    switch (claim->word) {
    case WORD_SCHEMA: /* a mark of the expansion: its keywords are claims too */
        return true;
    case WORD_HAS:
        return !applies || smol_json_find(value, claim->name);
    case WORD_LACKS:
        return !applies || !smol_json_find(value, claim->name);
    case WORD_PROPERTY:
        child = smol_json_find(value, claim->name);
        return !child || smol_schema_valid(c, claim->value, child) != claim->negative;
    case WORD_OTHER:
        if (claim->index == WORD_PROPERTY_NAMES)
            return !applies || !valid_names(c, claim->value, value);
        return !applies || !valid_properties(c, claim->owner, (enum word)claim->index, value);
    case WORD_AT:
        child = applies ? element(value, claim->index) : NULL;
        return !child || smol_schema_valid(c, claim->value, child) != claim->negative;
    case WORD_LONGER:
        return !applies || value->n > claim->index;
    case WORD_EVERY:
        return !applies || count_elements(c, claim, value) == value->n;
    case WORD_SOME:
        return !applies || count_elements(c, claim, value) > 0;
    case WORD_PROPERTIES:
    case WORD_PATTERN_PROPERTIES:
    case WORD_ADDITIONAL_PROPERTIES:
        return !applies || (valid_properties(c, claim->owner, WORD_PROPERTIES, value) &&
                            valid_properties(c, claim->owner, WORD_PATTERN_PROPERTIES, value) &&
                            valid_properties(c, claim->owner, WORD_ADDITIONAL_PROPERTIES, value));
    default:
        if (!applies)
            return !claim->negative;
        return valid_keyword(c, claim->owner, claim->word, claim->value, value) != claim->negative;
    }
}

bool smol_schema_all_hold(struct compiler *c, const struct facts *facts,
                          const struct json_node *value)
{
    if (!(facts->types & smol_schema_type_of(c, value)) || !smol_schema_steps(c, value, facts->n))
        return false;
    for (size_t i = 0; i < facts->n; i++)
        if (!smol_schema_holds(c, &facts->claims[i], value))
            return false;
    return true;
}
