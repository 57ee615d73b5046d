/* Lists of a schema, see schema_compiler.h. */
#include <string.h>

#include "runtime/constrain/schema_compiler.h"

enum {
    SCHEMA_MAX_ELEMENTS = 4096 /* that are told apart */,
    SCHEMA_MAX_VALUES = 12 /* of unique elements */
};

/* --- the schemas of an element ------------------------------------------------------------ */

static bool is_group(const struct claim *claim)
{
    return claim->word == WORD_ITEMS || claim->word == WORD_PREFIX_ITEMS ||
           claim->word == WORD_ADDITIONAL_ITEMS;
}

const struct json_node *smol_schema_prefix(const struct compiler *c, const struct json_node *owner,
                                           const struct json_node **rest)
{
    const struct json_node *prefix = schema_since(c, DRAFT_2020, owner, "prefixItems");
    *rest = smol_json_get(owner, "items");
    if (*rest && (*rest)->kind == JSON_LIST) {
        prefix = *rest;
        *rest = smol_json_get(owner, "additionalItems");
    }
    return prefix && prefix->kind == JSON_LIST ? prefix : NULL;
}

static const struct json_node *schema_at(const struct compiler *c, const struct json_node *owner,
                                         uint32_t index)
{
    const struct json_node *rest, *prefix = smol_schema_prefix(c, owner, &rest);
    const struct json_node *schema = json_first(prefix);
    while (schema && index-- > 0)
        schema = schema->next;
    return schema ? schema : rest;
}

/* Returns whether a schema within that of unevaluatedItems covers an element. */
static bool is_evaluated(const struct compiler *c, const struct facts *facts,
                         const struct claim *unevaluated, uint32_t index)
{
    for (size_t i = 0; i < facts->n; i++) {
        const struct claim *claim = &facts->claims[i];
        if (claim == unevaluated || !claim_is_within(claim, unevaluated->owner))
            continue;
        if ((is_group(claim) && schema_at(c, claim->owner, index)) ||
            (claim->word == WORD_UNEVALUATED_ITEMS && claim->owner != unevaluated->owner))
            return true;
    }
    return false;
}

static void add_element(struct compiler *c, const struct facts *facts, uint32_t index,
                        struct goal_builder *builder)
{
    builder->n = 0, builder->never = false;
    for (size_t i = 0; i < facts->n && !builder->never; i++) {
        const struct claim *claim = &facts->claims[i];
        const struct json_node *own = is_group(claim) ? schema_at(c, claim->owner, index) : NULL;
        if (own)
            smol_schema_add(c, builder, own, false);
        if (claim->word == WORD_EVERY || (claim->word == WORD_AT && claim->index == index))
            smol_schema_add(c, builder, claim->value, claim->negative);
        if (claim->word == WORD_UNEVALUATED_ITEMS && !is_evaluated(c, facts, claim, index))
            smol_schema_add(c, builder, claim->value, false);
    }
}

const struct goal *smol_schema_element(struct compiler *c, const struct facts *facts,
                                       uint32_t index)
{
    struct goal_builder builder;
    add_element(c, facts, index, &builder);
    return smol_schema_goal(c, &builder);
}

/* --- lists -------------------------------------------------------------------------------- */

struct listing {
    struct compiler *c;
    const struct facts *facts;
    unsigned level;
    uint32_t prefix;                 /* elements with schemas of their own */
    uint32_t min, max;               /* elements */
    term gap, comma, close, empty;   /* empty: the end of a list without elements */
    const struct json_node *counted; /* the schema of `contains`, or NULL */
    const struct json_node *place;   /* of `contains`, for messages */
    bool counted_negative;
    uint32_t counted_min, counted_max;
};

static uint32_t count_prefix(const struct compiler *c, const struct facts *facts)
{
    uint32_t n = 0;
    for (size_t i = 0; i < facts->n; i++) {
        const struct claim *claim = &facts->claims[i];
        const struct json_node *rest,
            *prefix = is_group(claim) ? smol_schema_prefix(c, claim->owner, &rest) : NULL;
        if (prefix && prefix->n > n)
            n = prefix->n;
        if (claim->word == WORD_AT && claim->index >= n)
            n = claim->index + 1;
    }
    return n;
}

/* The element number `index`; with `contains` those that match or those that do not. */
static term element(const struct listing *list, uint32_t index, bool counted, bool matching)
{
    struct goal_builder builder;
    struct compiler *c = list->c;
    add_element(c, list->facts, index, &builder);
    if (counted)
        smol_schema_add(c, &builder, list->counted, list->counted_negative == matching);
    const struct goal *goal = smol_schema_goal(c, &builder);
    return smol_schema_compile(c, goal, smol_schema_within(c, list->level));
}

/* Elements after `index` others, and the end, if all further elements are alike. */
static term alike(const struct listing *list, uint32_t index, term one)
{
    struct term_table *table = list->c->table;
    uint32_t min = list->min > index ? list->min - index : 0;
    uint32_t max = list->max == TERM_FOREVER ? TERM_FOREVER : list->max - index;
    term none = index ? list->close : list->empty;
    if (one == TERM_NOTHING || max == 0)
        return min ? TERM_NOTHING : none;
    term more = smol_term_then(table, list->comma, one);
    if (index > 0)
        return smol_term_then(table, smol_term_repeat(table, more, min, max), none);
    uint32_t rest = max == TERM_FOREVER ? TERM_FOREVER : max - 1;
    term some = smol_term_repeat(table, more, min ? min - 1 : 0, rest);
    some = smol_term_then(table, some, list->close);
    some = smol_term_then(table, list->gap, smol_term_then(table, one, some));
    return min ? some : smol_term_either(table, some, none);
}

/* Puts an element before what follows it; `end` is also possible if the list may end here. */
static term before_rest(const struct listing *list, uint32_t index, term one, term rest,
                        bool may_end)
{
    struct term_table *table = list->c->table;
    term all =
        smol_term_then(table, index ? list->comma : list->gap, smol_term_then(table, one, rest));
    term end = index ? list->close : list->empty;
    return may_end ? smol_term_either(table, all, end) : all;
}

static term plain_list(const struct listing *list)
{
    uint32_t n = list->prefix < list->max ? list->prefix : list->max;
    term rest = alike(list, n, n < list->max ? element(list, n, false, false) : TERM_NOTHING);
    for (uint32_t i = n; i-- > 0 && !list->c->status;)
        rest = before_rest(list, i, element(list, i, false, false), rest, i >= list->min);
    return rest;
}

/* --- contains ----------------------------------------------------------------------------- */

static void read_contains(struct listing *list)
{
    struct compiler *c = list->c;
    for (size_t i = 0; i < list->facts->n; i++) {
        const struct claim *claim = &list->facts->claims[i];
        if (claim->word == WORD_UNEVALUATED_ITEMS && list->counted)
            smol_schema_fail_claim(c, claim, "not supported beside contains");
        if (claim->word != WORD_SOME && claim->word != WORD_CONTAINS)
            continue;
        const struct json_node *low = schema_since(c, DRAFT_2019, claim->owner, "minContains");
        const struct json_node *high = schema_since(c, DRAFT_2019, claim->owner, "maxContains");
        if (list->counted)
            smol_schema_fail_claim(c, claim,
                                   "several conditions on some element are not supported");
        list->counted = list->place = claim->value;
        list->counted_negative = claim->negative;
        list->counted_min = low && claim->word == WORD_CONTAINS ? smol_schema_count(c, low) : 1;
        list->counted_max =
            high && claim->word == WORD_CONTAINS ? smol_schema_count(c, high) : TERM_FOREVER;
    }
    if (list->counted && list->counted_min == 0 && list->counted_max == TERM_FOREVER)
        list->counted = NULL;
}

/* A row of terms: what follows at an index if `found` elements before it match, counted up to cap.
 */
struct row {
    uint32_t cap;
    term *at; /* (cap + 1) */
};

/* Fills in the row from which all elements are alike, or at which the list must end. */
static void last_row(const struct listing *list, uint32_t index, const struct row *row, term match,
                     term other)
{
    struct term_table *table = list->c->table;
    term skip = smol_term_repeat(table, smol_term_then(table, list->comma, other), 0, TERM_FOREVER);
    for (uint32_t found = row->cap + 1; found-- > 0;) { /* downwards: the next is of this index */
        bool may_end = index >= list->min && found >= list->counted_min;
        term end = may_end ? index ? list->close : list->empty : TERM_NOTHING;
        row->at[found] = end;
        if (list->max != TERM_FOREVER)
            continue;
        if (found < row->cap) { /* others, and then one that matches */
            term one = smol_term_then(table, match, row->at[found + 1]);
            end = smol_term_either(table, smol_term_then(table, list->comma, one), end);
        }
        row->at[found] = smol_term_then(table, skip, end);
    }
}

static term list_with_contains(const struct listing *list)
{
    struct compiler *c = list->c;
    bool limited = list->counted_max != TERM_FOREVER, endless = list->max == TERM_FOREVER;
    struct row row = {limited ? list->counted_max : list->counted_min, NULL};
    uint32_t end = list->max;
    if (endless)
        end = list->min > list->prefix ? list->min : list->prefix;
    end += endless && end == 0; /* the first element has no comma */
    if (((uint64_t)end + 1) * ((uint64_t)row.cap + 1) > SCHEMA_MAX_ELEMENTS) {
        smol_schema_fail(c, list->place, "too many elements to count");
        return TERM_NOTHING;
    }
    row.at = smol_schema_take(c, (row.cap + 1) * sizeof *row.at);
    for (uint32_t index = end + 1; row.at && index-- > 0 && !c->status;) {
        term match = element(list, index, true, true), other = element(list, index, limited, false);
        if (index == end)
            last_row(list, index, &row, match, other);
        for (uint32_t found = 0; index < end && found <= row.cap; found++) { /* upwards */
            bool may_end = index >= list->min && found >= list->counted_min;
            term after = limited ? TERM_NOTHING : row.at[found];
            if (found < row.cap)
                after = row.at[found + 1];
            term one = smol_term_either(c->table, smol_term_then(c->table, other, row.at[found]),
                                        smol_term_then(c->table, match, after));
            row.at[found] = before_rest(list, index, one, TERM_EMPTY, may_end);
        }
    }
    return row.at ? row.at[0] : TERM_NOTHING;
}

/* --- unique elements ---------------------------------------------------------------------- */

struct values {
    const struct json_node *at[SCHEMA_MAX_VALUES];
    uint32_t n;
};

/* Adds the values that a goal allows. Returns false if it allows others than can be listed. */
static bool add_values(struct compiler *c, const struct goal *goal, struct values *values,
                       uint32_t *allowed)
{
    static const struct json_node words[] = {
        {.kind = JSON_NULL}, {.kind = JSON_FALSE}, {.kind = JSON_TRUE}};
    struct alternatives alternatives = {0};
    *allowed = 0;
    if (!goal)
        return true;
    smol_schema_expand(c, goal, &alternatives);
    for (size_t i = 0; i < alternatives.n; i++) {
        const struct facts *facts = &alternatives.at[i];
        const struct claim *choice = smol_schema_choice(facts);
        bool one = choice && choice->word == WORD_CONST;
        if (!choice && (facts->types & ~(unsigned)(TYPE_NULL | TYPE_BOOLEAN)))
            return false;
        const struct json_node *value = !choice ? words
                                        : one   ? choice->value
                                                : choice->value->first;
        for (unsigned number = 0; value; number++) {
            if (smol_schema_all_hold(c, facts, value)) {
                uint32_t k = 0;
                while (k < values->n && !smol_schema_equal(c, value, values->at[k]))
                    k++;
                if (k == SCHEMA_MAX_VALUES)
                    return false;
                values->at[k] = value;
                values->n += k == values->n;
                *allowed |= (uint32_t)1 << k;
            }
            value = !choice ? number < 2 ? words + number + 1 : NULL : one ? NULL : value->next;
        }
    }
    return true;
}

/* Lists of different elements, all of which can be listed: terms by the set of those used. */
static term unique_list(const struct listing *list, const struct json_node *place)
{
    struct compiler *c = list->c;
    struct values values = {.n = 0};
    uint32_t n = list->prefix + 1, *allowed = smol_schema_take(c, n * sizeof *allowed);
    bool listed = allowed && !list->counted;
    for (uint32_t i = 0; listed && i < n; i++)
        listed = add_values(c, smol_schema_element(c, list->facts, i), &values, &allowed[i]);
    if (!listed) {
        smol_schema_fail(c, place, "uniqueItems needs elements that can be listed");
        return TERM_NOTHING;
    }
    size_t end = (size_t)1 << values.n;
    term *sets = smol_schema_take(c, end * sizeof *sets), any[SCHEMA_MAX_VALUES];
    for (size_t set = end;
         sets && set-- > 0;) { /* as many elements came before as are in the set */
        uint32_t index = (uint32_t)__builtin_popcountll(set), k = 0;
        uint32_t free = allowed[index < n ? index : n - 1] & ~(uint32_t)set;
        for (uint32_t i = 0; i < values.n && index < list->max; i++)
            if (free >> i & 1)
                any[k++] = smol_term_then(
                    c->table,
                    smol_schema_value(c, values.at[i], smol_schema_within(c, list->level)),
                    sets[set | (size_t)1 << i]);
        sets[set] = before_rest(list, index, smol_term_any_of(c->table, any, k), TERM_EMPTY,
                                index >= list->min);
    }
    return sets ? sets[0] : TERM_NOTHING;
}

/* --- entry -------------------------------------------------------------------------------- */

void smol_schema_check_excluded(struct compiler *c, const struct facts *facts, enum json_kind kind)
{
    for (size_t i = 0; i < facts->n; i++) {
        const struct claim *claim = &facts->claims[i];
        const struct json_node *value = claim->value;
        if (claim->word != WORD_ENUM && claim->word != WORD_CONST)
            continue;
        if (claim->word == WORD_ENUM)
            for (value = value->first; value && value->kind != kind;)
                value = value->next;
        if (value && value->kind == kind)
            smol_schema_fail_claim(c, claim, "lists and objects cannot be excluded");
    }
}

term smol_schema_list(struct compiler *c, const struct facts *facts, unsigned level)
{
    struct listing list = {.c = c, .facts = facts, .level = level, .max = TERM_FOREVER};
    const struct brackets *brackets = &smol_schema_spelling(c, level)->list;
    const struct json_node *unique = NULL;
    term all;
    smol_schema_limits(c, facts, WORD_MIN_ITEMS, WORD_MAX_ITEMS, &list.min, &list.max);
    if (list.min > list.max)
        return TERM_NOTHING;
    smol_schema_check_excluded(c, facts, JSON_LIST);
    for (size_t i = 0; i < facts->n; i++)
        if (facts->claims[i].word == WORD_UNIQUE_ITEMS)
            unique = facts->claims[i].value;
    list.prefix = count_prefix(c, facts);
    list.gap = smol_schema_gap(c, level);
    list.comma = smol_schema_comma(c, brackets, level);
    list.close = smol_schema_close(c, brackets, level);
    list.empty = smol_schema_literal(c, brackets->close);
    read_contains(&list);
    for (uint32_t i = list.prefix; i-- > 0;) /* the list ends before an element that cannot be */
        if (i < list.max && !smol_schema_element(c, facts, i))
            list.max = i;
    if (list.max == TERM_FOREVER && !smol_schema_element(c, facts, list.prefix))
        list.max = list.prefix;
    if (c->status || list.min > list.max)
        return TERM_NOTHING;
    if (unique && list.max > 1)
        all = unique_list(&list, unique);
    else if (list.counted)
        all = list_with_contains(&list);
    else
        all = plain_list(&list);
    return smol_term_then(c->table, smol_schema_literal(c, brackets->open), all);
}
