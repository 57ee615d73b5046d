/* Regular expressions as terms, see front_ends.h.
 *
 * A node of the pattern is translated together with what follows it: follow() replaces the texts of
 * the rest by the texts of the node and the rest. So what looks ahead is an intersection with the
 * rest. For lookbehinds, there is a rest for each kind of previous character: the start of
 * the text, and classes of characters that no lookbehind of the pattern tells apart. */
#include "runtime/constrain/front_ends.h"

#include "common/memory.h"
#include "common/pattern/code_set.h"
#include "common/pattern/pattern.h"
#include "common/utf8.h"

enum {
    START = 0, /* the kind of previous character at the start of the text */
    REGEX_MAX_KINDS = 8,
    REGEX_MAX_STEPS = 1 << 15, /* nodes that are translated, counted each time */
    UNION_STEPS = 32,          /* what a union counts that may grow with the pattern */
    REGEX_MAX_BEHINDS = 16,
    REGEX_MAX_COPIES = 64, /* of what looks around within a repetition */
};
#define UNKNOWN UINT32_MAX

/* The texts that follow, for each kind of previous character. */
struct rest {
    term texts[REGEX_MAX_KINDS];
    bool may_end[REGEX_MAX_KINDS]; /* texts has the empty string */
};

struct builder {
    struct term_table *table;
    struct pattern pattern;
    character_term *character;
    void *user;
    smol_error *error;
    struct code_set
        kinds[REGEX_MAX_KINDS]; /* (n_kinds) disjoint; kinds[START] is empty, the others not */
    size_t n_kinds;
    term any, some;             /* all texts; all but the empty one */
    term bytes;                 /* also those that are not of characters, to intersect with */
    term ends[REGEX_MAX_KINDS]; /* the texts that end in a character of the kind, except START */
    term *members;              /* (n_sets, REGEX_MAX_KINDS): what member() returns, or UNKNOWN */
    unsigned steps;
    bool no_memory;
};

static smol_status refuse(const struct builder *b, const struct pattern_node *node,
                          const char *what)
{
    return smol_fail(b->error, SMOL_ERROR_UNSUPPORTED, "%s (byte %u)", what, node->at);
}

/* --- characters ----------------------------------------------------------------------------- */

/* Returns one character of `set`. */
static term one_of(struct builder *b, const struct code_set *set)
{
    b->no_memory |= set->failed;
    return set->n == 0 || set->failed ? TERM_NOTHING
                                      : b->character(b->user, b->table, set->ranges, set->n);
}

/* Returns one character of a set of the pattern that is of a kind, or START: of any. */
static term member(struct builder *b, uint32_t set, size_t kind)
{
    term *known = &b->members[set * REGEX_MAX_KINDS + kind];
    if (*known == UNKNOWN && kind == START) {
        *known = one_of(b, &b->pattern.sets[set]);
    } else if (*known == UNKNOWN) {
        struct code_set common = {0}, copy = {0};
        smol_set_add_all(&common, &b->pattern.sets[set]);
        smol_set_add_all(&copy, &b->kinds[kind]);
        smol_set_intersect(&common, &copy);
        *known = one_of(b, &common);
        smol_set_free(&common);
        smol_set_free(&copy);
    }
    return *known;
}

/* --- kinds of previous characters ------------------------------------------------------------ */

/* Moves the characters of `set` that are in `by` to *inside. */
static void split(struct code_set *set, const struct code_set *by, struct code_set *inside)
{
    struct code_set in = {0}, out = {0};
    smol_set_add_all(&in, by);
    smol_set_add_all(&out, by);
    smol_set_invert(&out);
    smol_set_add_all(inside, set);
    smol_set_intersect(inside, &in);
    smol_set_intersect(set, &out);
    smol_set_free(&in);
    smol_set_free(&out);
}

/* Splits the kinds so that each is inside of or outside of the set of a lookbehind. */
static smol_status split_kinds(struct builder *b, const struct pattern_node *node)
{
    const struct code_set *by = &b->pattern.sets[node->set];
    for (size_t i = START + 1, n = b->n_kinds; i < n; i++) {
        struct code_set inside = {0};
        split(&b->kinds[i], by, &inside);
        if (inside.failed || b->kinds[i].failed) {
            smol_set_free(&inside);
            return smol_fail_memory(b->error, "a regular expression");
        }
        if (b->kinds[i].n == 0 || inside.n == 0) {
            smol_set_add_all(&b->kinds[i], &inside);
            b->no_memory |= b->kinds[i].failed;
            smol_set_free(&inside);
        } else if (b->n_kinds == REGEX_MAX_KINDS) {
            smol_set_free(&inside);
            return refuse(b, node, "too many different lookbehinds");
        } else {
            b->kinds[b->n_kinds++] = inside;
        }
    }
    return SMOL_OK;
}

static smol_status make_kinds(struct builder *b)
{
    smol_status status = SMOL_OK;
    smol_set_add(&b->kinds[START + 1], 0, LAST_CODE_POINT);
    b->n_kinds = START + 2;
    for (size_t i = 0; !status && i < b->pattern.n_nodes; i++)
        if (b->pattern.nodes[i].kind == PATTERN_LOOKBEHIND)
            status = split_kinds(b, &b->pattern.nodes[i]);
    return status;
}

/* Returns whether all kinds from `first` on have the same rest. */
static bool is_uniform(const struct builder *b, const struct rest *rest, size_t first)
{
    for (size_t i = first + 1; i < b->n_kinds; i++)
        if (rest->texts[i] != rest->texts[first] || rest->may_end[i] != rest->may_end[first])
            return false;
    return true;
}

static struct rest same_rest(term texts, bool may_end)
{
    struct rest rest;
    for (size_t i = 0; i < REGEX_MAX_KINDS; i++) {
        rest.texts[i] = texts;
        rest.may_end[i] = may_end;
    }
    return rest;
}

static bool is_end(const struct builder *b, const struct rest *rest)
{
    return is_uniform(b, rest, START) && rest->texts[START] == TERM_EMPTY && rest->may_end[START];
}

static void add_rest(struct builder *b, struct rest *sum, const struct rest *more)
{
    b->steps += UNION_STEPS;
    for (size_t i = 0; i < b->n_kinds; i++) {
        sum->texts[i] = smol_term_either(b->table, sum->texts[i], more->texts[i]);
        sum->may_end[i] |= more->may_end[i];
    }
}

/* --- nodes ---------------------------------------------------------------------------------- */

static smol_status follow(struct builder *b, uint32_t index, struct rest *rest);

/* Sets *texts to those of a node that does not look around. */
static smol_status alone(struct builder *b, uint32_t index, term *texts)
{
    struct rest rest = same_rest(TERM_EMPTY, true);
    smol_status status = follow(b, index, &rest);
    *texts = rest.texts[START];
    return status;
}

static void follow_set(struct builder *b, const struct pattern_node *node, struct rest *rest)
{
    term texts = TERM_NOTHING;
    if (is_uniform(b, rest, START + 1))
        texts = smol_term_then(b->table, member(b, node->set, START), rest->texts[START + 1]);
    else
        for (size_t i = START + 1; i < b->n_kinds; i++)
            texts = smol_term_either(
                b->table, texts, smol_term_then(b->table, member(b, node->set, i), rest->texts[i]));
    *rest = same_rest(texts, false);
}

/* Puts `texts` before the rest. `filled` is the same without the empty string, which is among them
 * if `nullable`. */
static void put_before(struct builder *b, term texts, term filled, bool nullable, struct rest *rest)
{
    if (is_uniform(b, rest, START)) {
        *rest = same_rest(smol_term_then(b->table, texts, rest->texts[START]),
                          nullable && rest->may_end[START]);
        return;
    }
    term after = TERM_NOTHING;
    if (is_uniform(b, rest, START + 1))
        after = smol_term_then(b->table, filled, rest->texts[START + 1]);
    else
        for (size_t i = START + 1; i < b->n_kinds; i++) {
            term kind = smol_term_both(b->table, filled, b->ends[i]);
            after =
                smol_term_either(b->table, after, smol_term_then(b->table, kind, rest->texts[i]));
        }
    struct rest sum = same_rest(after, false);
    if (nullable)
        add_rest(b, &sum, rest);
    *rest = sum;
}

/* Returns whether a node looks at what follows, except, if `but_ends`, at the end of the text. */
static bool looks_ahead(const struct builder *b, uint32_t index, bool but_ends)
{
    const struct pattern_node *nodes = b->pattern.nodes, *node = &nodes[index];
    for (; node->looks && (node->kind == PATTERN_CONCAT || node->kind == PATTERN_CHOICE);
         node = &nodes[node->left])
        if (looks_ahead(b, node->right, but_ends))
            return true;
    if (node->looks && (node->kind == PATTERN_REPEAT || node->kind == PATTERN_ATOMIC))
        return looks_ahead(b, node->left, but_ends);
    if (node->kind == PATTERN_AHEAD)
        return !but_ends || b->pattern.sets[node->set].n > 0;
    return node->kind == PATTERN_REST || node->kind == PATTERN_BEFORE;
}

/* Repeats a node that looks for the start and the end of the text only, as in ((^|,)a)* or
 * (a(,|$))*. Only a repetition at the start is preceded by nothing, only the last one by the end of
 * the text. */
static smol_status repeat_edges(struct builder *b, uint32_t body, struct rest *rest)
{
    struct rest inner = same_rest(TERM_EMPTY, false), last = same_rest(TERM_EMPTY, true);
    smol_status status = follow(b, body, &inner);
    if (status || (status = follow(b, body, &last)))
        return status;
    term end = rest->texts[START + 1];
    if (rest->may_end[START + 1])
        end = smol_term_either(b->table, end, last.texts[START + 1]);
    term loop = smol_term_repeat(b->table, inner.texts[START + 1], 0, TERM_FOREVER);
    rest->texts[START + 1] = smol_term_then(b->table, loop, end);
    struct rest first = *rest;
    status = follow(b, body, &first);
    rest->texts[START] = smol_term_either(b->table, rest->texts[START], first.texts[START]);
    rest->may_end[START] |= first.may_end[START];
    return status;
}

/* Repeats a character that something must not follow before the end of the text, as in
 * ((?!abc).)*$. Sets *done if the node is such a repetition. */
static smol_status repeat_without(struct builder *b, const struct pattern_node *repeat,
                                  struct rest *rest, bool *done)
{
    const struct pattern_node *nodes = b->pattern.nodes, *body = &nodes[repeat->left];
    *done = false;
    if (!is_end(b, rest) || body->kind != PATTERN_CONCAT || nodes[body->right].kind != PATTERN_SET)
        return SMOL_OK;
    term texts = smol_term_repeat(b->table, member(b, nodes[body->right].set, START), repeat->min,
                                  repeat->max);
    for (bool more = true; more;) {
        body = &nodes[body->left];
        more = body->kind == PATTERN_CONCAT;
        const struct pattern_node *look = more ? &nodes[body->right] : body;
        if (look->kind != PATTERN_REST || !look->negated || nodes[look->left].looks ||
            nodes[look->left].nullable)
            return SMOL_OK;
        term found;
        smol_status status = alone(b, look->left, &found);
        if (status)
            return status;
        found = smol_term_then(b->table, b->any, smol_term_then(b->table, found, b->bytes));
        texts = smol_term_without(b->table, texts, found);
    }
    *rest = same_rest(texts, repeat->min == 0);
    *done = true;
    return SMOL_OK;
}

static smol_status repeat_looking(struct builder *b, const struct pattern_node *node,
                                  struct rest *rest)
{
    bool done;
    smol_status status = repeat_without(b, node, rest, &done);
    if (status || done)
        return status;
    if (node->min > REGEX_MAX_COPIES ||
        (node->max > REGEX_MAX_COPIES && node->max != REPEAT_FOREVER))
        return refuse(b, node, "a lookaround within a long repetition");
    if (node->max == REPEAT_FOREVER) {
        if (b->n_kinds > START + 2 || looks_ahead(b, node->left, true))
            return refuse(b, node, "a lookaround within a repetition");
        status = repeat_edges(b, node->left, rest);
    }
    const struct rest end = *rest;
    for (uint32_t i = node->min; !status && node->max != REPEAT_FOREVER && i < node->max; i++) {
        status = follow(b, node->left, rest);
        add_rest(b, rest, &end);
    }
    for (uint32_t i = 0; !status && i < node->min; i++)
        status = follow(b, node->left, rest);
    return status;
}

static smol_status follow_repeat(struct builder *b, const struct pattern_node *node,
                                 struct rest *rest)
{
    const struct pattern_node *body = &b->pattern.nodes[node->left];
    if (body->looks)
        return repeat_looking(b, node, rest);
    if (node->max == 0)
        return SMOL_OK;
    term one;
    smol_status status = alone(b, node->left, &one);
    if (status)
        return status;
    term texts = smol_term_repeat(b->table, one, node->min, node->max), filled = texts;
    if (node->nullable && body->nullable)
        filled = smol_term_without(b->table, texts, TERM_EMPTY);
    else if (node->nullable)
        filled = smol_term_repeat(b->table, one, 1, node->max);
    put_before(b, texts, filled, node->nullable, rest);
    return SMOL_OK;
}

static void follow_ahead(struct builder *b, const struct pattern_node *node, struct rest *rest)
{
    term next = smol_term_then(b->table, member(b, node->set, START), b->any);
    for (size_t i = 0; i < b->n_kinds; i++) {
        rest->texts[i] =
            next == TERM_NOTHING ? TERM_NOTHING : smol_term_both(b->table, rest->texts[i], next);
        rest->may_end[i] &= node->edge;
        if (rest->may_end[i])
            rest->texts[i] = smol_term_optional(b->table, rest->texts[i]);
    }
}

static void follow_lookbehind(struct builder *b, const struct pattern_node *node, struct rest *rest)
{
    const struct code_set *set = &b->pattern.sets[node->set];
    for (size_t i = 0; i < b->n_kinds; i++)
        if (!(i == START ? node->edge : smol_set_has(set, b->kinds[i].ranges[0].first))) {
            rest->texts[i] = TERM_NOTHING;
            rest->may_end[i] = false;
        }
}

static smol_status follow_rest(struct builder *b, const struct pattern_node *node,
                               struct rest *rest)
{
    struct rest inner = same_rest(b->bytes, true);
    smol_status status = follow(b, node->left, &inner);
    for (size_t i = 0; i < b->n_kinds; i++) {
        rest->texts[i] = (node->negated ? smol_term_without
                                        : smol_term_both)(b->table, rest->texts[i], inner.texts[i]);
        rest->may_end[i] &= inner.may_end[i] != node->negated;
    }
    return status;
}

static smol_status follow_choice(struct builder *b, uint32_t index, struct rest *rest)
{
    const struct pattern_node *nodes = b->pattern.nodes;
    const struct rest end = *rest;
    size_t n = 1;
    for (uint32_t i = index; nodes[i].kind == PATTERN_CHOICE; i = nodes[i].left)
        n++;
    term *texts = smol_reallocarray(NULL, n * b->n_kinds, sizeof *texts); /* (n_kinds, n) */
    if (!texts)
        return smol_fail_memory(b->error, "a regular expression");
    if (!is_uniform(b, rest, START))
        b->steps += UNION_STEPS;
    *rest = same_rest(TERM_NOTHING, false);
    smol_status status = SMOL_OK;
    for (size_t i = 0; !status && i < n; i++, index = nodes[index].left) {
        struct rest one = end;
        status = follow(b, i + 1 < n ? nodes[index].right : index, &one);
        for (size_t kind = 0; kind < b->n_kinds; kind++) {
            texts[kind * n + i] = one.texts[kind];
            rest->may_end[kind] |= one.may_end[kind];
        }
    }
    for (size_t kind = 0; !status && kind < b->n_kinds; kind++)
        rest->texts[kind] = smol_term_any_of(b->table, texts + kind * n, n);
    smol_free(texts);
    return status;
}

/* Puts the texts of a node before the rest. */
static smol_status follow(struct builder *b, uint32_t index, struct rest *rest)
{
    const struct pattern_node *nodes = b->pattern.nodes, *node = &nodes[index];
    smol_status status = SMOL_OK;
    for (; !status && node->kind == PATTERN_CONCAT; node = &nodes[node->left])
        status = follow(b, node->right, rest);
    if (status)
        return status;
    if (b->steps++ >= REGEX_MAX_STEPS)
        return refuse(b, node, "too large");
    switch (node->kind) {
    case PATTERN_SET:
        follow_set(b, node, rest);
        break;
    case PATTERN_CHOICE:
        return follow_choice(b, (uint32_t)(node - nodes), rest);
    case PATTERN_REPEAT:
        return follow_repeat(b, node, rest);
    case PATTERN_AHEAD:
        follow_ahead(b, node, rest);
        break;
    case PATTERN_LOOKBEHIND:
        follow_lookbehind(b, node, rest);
        break;
    case PATTERN_REST:
        return follow_rest(b, node, rest);
    case PATTERN_ATOMIC:
        return refuse(b, node, "an atomic group or a possessive repetition");
    case PATTERN_BEFORE:
        return refuse(b, node, "a lookbehind of several characters within a group");
    case PATTERN_EMPTY:
    case PATTERN_CONCAT:
        break;
    }
    return SMOL_OK;
}

/* --- the whole pattern ----------------------------------------------------------------------- */

static smol_status lead(struct builder *b, uint32_t index, bool search, unsigned n_behinds,
                        struct rest *rest);

/* Translates a lookbehind outside of groups, and what precedes it: *rest becomes all texts. `left`
 * is a node, or UINT32_MAX if nothing precedes it. */
static smol_status look_behind(struct builder *b, const struct pattern_node *node, uint32_t left,
                               bool search, unsigned n_behinds, struct rest *rest)
{
    struct rest before = same_rest(TERM_EMPTY, true);
    term body;
    if (n_behinds == REGEX_MAX_BEHINDS)
        return refuse(b, node, "too many lookbehinds");
    if (b->pattern.nodes[node->left].looks ||
        (left != UINT32_MAX && !is_end(b, rest) && looks_ahead(b, left, false)))
        return refuse(b, node, "a lookbehind of several characters beside other lookarounds");
    smol_status status = lead(b, left, search, n_behinds + 1, &before);
    if (status || (status = alone(b, node->left, &body)))
        return status;
    body = smol_term_then(b->table, b->any, body);
    const term texts =
        (node->negated ? smol_term_without : smol_term_both)(b->table, before.texts[START], body);
    const bool nullable =
        before.may_end[START] && b->pattern.nodes[node->left].nullable != node->negated;
    const term filled = nullable ? smol_term_without(b->table, texts, TERM_EMPTY) : texts;
    put_before(b, texts, filled, nullable, rest);
    return SMOL_OK;
}

/* Puts a part of the pattern, from its start to the node, before the rest. */
static smol_status lead(struct builder *b, uint32_t index, bool search, unsigned n_behinds,
                        struct rest *rest)
{
    const struct pattern_node *nodes = b->pattern.nodes;
    while (index != UINT32_MAX) {
        bool more = nodes[index].kind == PATTERN_CONCAT;
        uint32_t item = more ? nodes[index].right : index;
        index = more ? nodes[index].left : UINT32_MAX;
        if (nodes[item].kind == PATTERN_BEFORE)
            return look_behind(b, &nodes[item], index, search, n_behinds, rest);
        smol_status status = follow(b, item, rest);
        if (status)
            return status;
    }
    if (search)
        put_before(b, b->any, b->some, true, rest);
    return SMOL_OK;
}

static smol_status translate(struct builder *b, bool search, term *out)
{
    smol_status status = make_kinds(b);
    if (status)
        return status;
    b->members =
        smol_reallocarray(NULL, b->pattern.n_sets + 1, REGEX_MAX_KINDS * sizeof *b->members);
    if (!b->members)
        return smol_fail_memory(b->error, "a regular expression");
    for (size_t i = 0; i < b->pattern.n_sets * REGEX_MAX_KINDS; i++)
        b->members[i] = UNKNOWN;
    const struct code_range all = {0, LAST_CODE_POINT};
    const term character = b->character(b->user, b->table, &all, 1);
    b->any = smol_term_repeat(b->table, character, 0, TERM_FOREVER);
    b->some = smol_term_repeat(b->table, character, 1, TERM_FOREVER);
    b->bytes = smol_term_not(b->table, TERM_NOTHING);
    for (size_t i = START + 1; i < b->n_kinds; i++)
        b->ends[i] = smol_term_then(b->table, b->any, one_of(b, &b->kinds[i]));
    struct rest rest = same_rest(search ? b->any : TERM_EMPTY, true);
    status = lead(b, b->pattern.root, search, 0, &rest);
    *out = rest.texts[START];
    return !status && b->no_memory ? smol_fail_memory(b->error, "a regular expression") : status;
}

smol_status smol_regex_term(struct term_table *table, const char *pattern, size_t size,
                            enum regex_anchoring anchoring, character_term *character, void *user,
                            term *out, smol_error *error)
{
    const bool search = anchoring == REGEX_SEARCH;
    const size_t good = smol_utf8_well_formed((const uint8_t *)pattern, size);
    if (good < size)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED, "not UTF-8 (byte %zu)", good);
    struct builder b = {.table = table, .character = character, .user = user, .error = error};
    b.pattern.dialect = search ? DIALECT_ECMA : DIALECT_RUBY;
    smol_status status = smol_pattern_parse(pattern, size, &b.pattern, error);
    if (!status)
        status = translate(&b, search, out);
    for (size_t i = 0; i < b.n_kinds; i++)
        smol_set_free(&b.kinds[i]);
    smol_free(b.members);
    smol_pattern_free(&b.pattern);
    return status;
}
