/* Parses a pattern, see pattern.h: alternatives, groups, repetitions and assertions.
 * pattern_class.c parses the parts that match one character. */
#include <string.h>

#include "common/pattern/code_set.h"
#include "common/pattern/pattern_parser.h"
#include "common/text.h"
#include "common/utf8.h"

/* --- the text ------------------------------------------------------------------------------- */

uint32_t smol_parser_next(struct pattern_parser *p)
{
    uint32_t character;
    if (p->at == p->size)
        return NO_CHARACTER;
    p->at += smol_utf8_decode(p->text + p->at, p->size - p->at, &character);
    return character;
}

bool smol_parser_sees(const struct pattern_parser *p, const char *word)
{
    size_t length = strlen(word);
    return p->size - p->at >= length && memcmp(p->text + p->at, word, length) == 0;
}

bool smol_parser_skip(struct pattern_parser *p, const char *word)
{
    bool sees = smol_parser_sees(p, word);
    p->at += sees ? strlen(word) : 0;
    return sees;
}

smol_status smol_parser_refuse(const struct pattern_parser *p, const char *what)
{
    return smol_fail(p->error, SMOL_ERROR_UNSUPPORTED, "%s (byte %zu)", what, p->at);
}

smol_status smol_parser_full(const struct pattern_parser *p)
{
    return p->pattern->no_memory ? smol_fail_memory(p->error, "a pattern")
                                 : smol_parser_refuse(p, "too large");
}

/* --- nodes ---------------------------------------------------------------------------------- */

static smol_status add(struct pattern_parser *p, struct pattern_node node, uint32_t *index)
{
    node.at = (uint32_t)p->at;
    return smol_pattern_add(p->pattern, node, index) ? SMOL_OK : smol_parser_full(p);
}

/* Adds a node with a set, and takes ownership of the set. */
static smol_status add_set(struct pattern_parser *p, struct pattern_node node, struct code_set *set,
                           uint32_t *index)
{
    if (!smol_pattern_add_set(p->pattern, set, &node.set))
        return smol_parser_full(p);
    return add(p, node, index);
}

static smol_status add_pair(struct pattern_parser *p, enum pattern_kind kind, uint32_t left,
                            uint32_t right, uint32_t *index)
{
    return add(p, (struct pattern_node){.kind = kind, .left = left, .right = right}, index);
}

static const struct pattern_node *node_at(const struct pattern_parser *p, uint32_t index)
{
    return &p->pattern->nodes[index];
}

/* --- single characters ---------------------------------------------------------------------- */

/* Adds the set of an escape; `ignore_case` does not apply to it. */
static smol_status add_one(struct pattern_parser *p, struct class_member *one, uint32_t *node)
{
    if (one->negated)
        smol_set_invert(&one->set);
    return add_set(p, (struct pattern_node){.kind = PATTERN_SET}, &one->set, node);
}

/* Refuses letters that together equal one character if case is ignored, such as "ss": the reference
 * lets such a character match them. At most three letters equal one character, so only the last
 * three are kept. */
static smol_status note_fold(struct pattern_parser *p, uint32_t character)
{
    uint32_t fold = smol_unicode_fold_one(character);
    if (p->n_folds == 3) {
        memmove(p->folds, p->folds + 1, 2 * sizeof *p->folds);
        p->n_folds--;
    }
    p->folds[p->n_folds++] = fold;
    const uint32_t twice[2] = {fold, fold};
    bool counted = p->at < p->size && p->text[p->at] == '{';
    if (smol_unicode_is_fold_of_one(p->folds, p->n_folds) ||
        (counted && smol_unicode_is_fold_of_one(twice, 2)))
        return smol_parser_refuse(p,
                                  "ignoring the case of letters that together equal one character");
    return SMOL_OK;
}

static smol_status add_literal(struct pattern_parser *p, uint32_t character, uint32_t *node)
{
    struct code_set set = {0};
    smol_status status = SMOL_OK;
    if (p->ignore_case && speaks(p, DIALECT_SCANNER))
        status = note_fold(p, character);
    smol_set_add(&set, character, character);
    if (!status)
        status = smol_parser_fold(p, &set);
    if (!status)
        return add_set(p, (struct pattern_node){.kind = PATTERN_SET}, &set, node);
    smol_set_free(&set);
    return status;
}

static smol_status add_class(struct pattern_parser *p, uint32_t *node)
{
    struct code_set set = {0};
    smol_status status =
        speaks(p, DIALECT_ECMA) ? smol_ecma_class(p, &set) : smol_parser_class(p, &set);
    if (!status)
        return add_set(p, (struct pattern_node){.kind = PATTERN_SET}, &set, node);
    smol_set_free(&set);
    return status;
}

static smol_status add_dot(struct pattern_parser *p, uint32_t *node)
{
    struct code_set set = {0};
    if (!p->dot_takes_newline)
        smol_set_add(&set, '\n', '\n');
    if (!p->dot_takes_newline && speaks(p, DIALECT_ECMA)) {
        smol_set_add(&set, '\r', '\r');
        smol_set_add(&set, 0x2028, 0x2029);
    }
    smol_set_invert(&set);
    return add_set(p, (struct pattern_node){.kind = PATTERN_SET}, &set, node);
}

/* --- assertions ----------------------------------------------------------------------------- */

/* Adds an assertion: the next (AHEAD) or previous (BEHIND) character is in first..last, or, if
 * `edge`, does not exist. The range is empty if first > last. */
static smol_status add_edge(struct pattern_parser *p, enum pattern_kind kind, uint32_t first,
                            uint32_t last, bool edge, uint32_t *node)
{
    struct code_set set = {0};
    if (first <= last)
        smol_set_add(&set, first, last);
    return add_set(p, (struct pattern_node){.kind = kind, .edge = edge}, &set, node);
}

static smol_status add_text_start(struct pattern_parser *p, uint32_t *node)
{
    return add_edge(p, PATTERN_LOOKBEHIND, 1, 0, true, node);
}

static smol_status add_text_end(struct pattern_parser *p, uint32_t *node)
{
    return add_edge(p, PATTERN_AHEAD, 1, 0, true, node);
}

/* Adds the start of a line. No line starts after a line feed at the end of the text. */
static smol_status add_line_start(struct pattern_parser *p, uint32_t *node)
{
    uint32_t start = 0, after = 0, more = 0, line = 0;
    smol_status status = add_text_start(p, &start);
    if (status || (status = add_edge(p, PATTERN_LOOKBEHIND, '\n', '\n', false, &after)) ||
        (status = add_edge(p, PATTERN_AHEAD, 0, LAST_CODE_POINT, false, &more)) ||
        (status = add_pair(p, PATTERN_CONCAT, after, more, &line)))
        return status;
    return add_pair(p, PATTERN_CHOICE, start, line, node);
}

/* Adds a word boundary (\b) or its opposite (\B). */
static smol_status add_word_edge(struct pattern_parser *p, bool is_edge, uint32_t *node)
{
    uint32_t parts[2][2] = {{0}}, sides[2] = {0};
    for (int word_before = 0; word_before < 2; word_before++) {
        bool word_after = is_edge != word_before;
        for (int ahead = 0; ahead < 2; ahead++) {
            bool word = ahead ? word_after : word_before;
            struct code_set set = {0};
            if (speaks(p, DIALECT_ECMA))
                smol_ecma_shorthand('w', &set);
            else
                smol_unicode_set("\\w", 2, &set);
            if (!word)
                smol_set_invert(&set);
            const struct pattern_node look = {.kind = ahead ? PATTERN_AHEAD : PATTERN_LOOKBEHIND,
                                              .edge = !word};
            smol_status status = add_set(p, look, &set, &parts[word_before][ahead]);
            if (status)
                return status;
        }
        smol_status status = add_pair(p, PATTERN_CONCAT, parts[word_before][0],
                                      parts[word_before][1], &sides[word_before]);
        if (status)
            return status;
    }
    return add_pair(p, PATTERN_CHOICE, sides[0], sides[1], node);
}

/* Collects in `set` and *edge the characters that a lookaround of one character accepts. Returns
 * false if `node` needs anything else. */
static bool gather(const struct pattern_parser *p, uint32_t index, enum pattern_kind kind,
                   struct code_set *set, bool *edge)
{
    const struct pattern_node *node = node_at(p, index);
    while (node->kind == PATTERN_CHOICE) {
        if (!gather(p, node->right, kind, set, edge))
            return false;
        node = node_at(p, node->left);
    }
    while (node->kind == PATTERN_ATOMIC || (node->kind == PATTERN_REPEAT && node->min == 1))
        node = node_at(p, node->left);
    if (node->kind == PATTERN_CHOICE)
        return gather(p, (uint32_t)(node - p->pattern->nodes), kind, set, edge);
    if (node->kind != PATTERN_SET && node->kind != kind)
        return false;
    smol_set_add_all(set, &p->pattern->sets[node->set]);
    *edge |= node->kind == kind && node->edge;
    return true;
}

static smol_status parse_choice(struct pattern_parser *p, uint32_t *node);

/* Parses a lookaround, starting at its body. */
static smol_status parse_look(struct pattern_parser *p, enum pattern_kind kind, bool negated,
                              uint32_t *node)
{
    uint32_t body = 0;
    struct code_set set = {0};
    struct pattern_node look = {.kind = kind};
    smol_status status = parse_choice(p, &body);
    if (!status && !gather(p, body, kind, &set, &look.edge)) {
        smol_set_free(&set);
        if (speaks(p, DIALECT_SCANNER) && kind == PATTERN_LOOKBEHIND)
            return smol_parser_refuse(p, "a lookbehind of more than one character");
        look.kind = kind == PATTERN_AHEAD ? PATTERN_REST : PATTERN_BEFORE;
        look.left = body;
        look.negated = negated;
        return add(p, look, node);
    }
    smol_set_settle(&set);
    if (negated) {
        smol_set_invert(&set);
        look.edge = !look.edge;
    }
    if (!status)
        return add_set(p, look, &set, node);
    smol_set_free(&set);
    return status;
}

/* --- groups --------------------------------------------------------------------------------- */

/* Skips the name of a group and its ">". */
static bool skip_name(struct pattern_parser *p)
{
    const size_t start = p->at;
    uint32_t c = smol_parser_next(p);
    while (c == '_' || c == '$' || is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
           (c >= 0x80 && c != NO_CHARACTER))
        c = smol_parser_next(p);
    return c == '>' && p->at > start + 1;
}

/* Parses the letters of groups such as (?i: or (?m-i:, including the ":". The dot takes a newline
 * with m in Ruby, with s in ECMA-262. */
static smol_status parse_flags(struct pattern_parser *p)
{
    const uint32_t dot = speaks(p, DIALECT_ECMA) ? 's' : 'm';
    bool on = true;
    for (;;) {
        uint32_t c = smol_parser_next(p);
        if (c == 'i')
            p->ignore_case = on;
        else if (c == dot)
            p->dot_takes_newline = on;
        else if (c == '-' && on)
            on = false;
        else if (c == ':')
            return SMOL_OK;
        else
            return smol_parser_refuse(p, "a kind of group that is not supported");
    }
}

/* Parses a group after its "(" and up to its ")". */
static smol_status parse_inside(struct pattern_parser *p, uint32_t *node)
{
    smol_status status;
    if (!smol_parser_skip(p, "?"))
        return parse_choice(p, node);
    if (smol_parser_skip(p, "="))
        return parse_look(p, PATTERN_AHEAD, false, node);
    if (smol_parser_skip(p, "!"))
        return parse_look(p, PATTERN_AHEAD, true, node);
    if (smol_parser_skip(p, "<="))
        return parse_look(p, PATTERN_LOOKBEHIND, false, node);
    if (smol_parser_skip(p, "<!"))
        return parse_look(p, PATTERN_LOOKBEHIND, true, node);
    if (smol_parser_skip(p, ">")) {
        status = parse_choice(p, node);
        const struct pattern_node atomic = {.kind = PATTERN_ATOMIC, .left = *node};
        return status ? status : add(p, atomic, node);
    }
    if (!speaks(p, DIALECT_SCANNER) && (smol_parser_skip(p, "<") || smol_parser_skip(p, "P<")))
        return skip_name(p) ? parse_choice(p, node)
                            : smol_parser_refuse(p, "a group with a name that is not supported");
    status = parse_flags(p);
    return status ? status : parse_choice(p, node);
}

static smol_status parse_group(struct pattern_parser *p, uint32_t *node)
{
    const bool ignore_case = p->ignore_case, dot_takes_newline = p->dot_takes_newline;
    if (p->depth++ == PATTERN_MAX_DEPTH)
        return smol_parser_refuse(p, "nested too deeply");
    smol_status status = parse_inside(p, node);
    if (!status && !smol_parser_skip(p, ")"))
        status = smol_parser_refuse(p, "a group without its )");
    p->depth--;
    p->ignore_case = ignore_case;
    p->dot_takes_newline = dot_takes_newline;
    return status;
}

/* --- atoms ---------------------------------------------------------------------------------- */

static smol_status parse_backslash(struct pattern_parser *p, uint32_t *node)
{
    struct class_member one;
    if (smol_parser_skip(p, "b"))
        return add_word_edge(p, true, node);
    if (smol_parser_skip(p, "B"))
        return add_word_edge(p, false, node);
    const bool ecma = speaks(p, DIALECT_ECMA);
    if (!ecma && smol_parser_skip(p, "A"))
        return add_text_start(p, node);
    if (!ecma && smol_parser_skip(p, "z"))
        return add_text_end(p, node);
    smol_status status =
        ecma ? smol_ecma_escape(p, false, &one) : smol_parser_escape(p, false, &one);
    if (!status)
        status = one.character == NO_CHARACTER ? add_one(p, &one, node)
                                               : add_literal(p, one.character, node);
    smol_set_free(&one.set);
    return status;
}

static smol_status parse_atom(struct pattern_parser *p, uint32_t *node)
{
    const bool ecma = speaks(p, DIALECT_ECMA), counts = ecma && smol_ecma_counts(p);
    uint32_t c = smol_parser_next(p);
    switch (c) {
    case '(':
        return parse_group(p, node);
    case '[':
        return add_class(p, node);
    case '.':
        return add_dot(p, node);
    case '^':
        return ecma ? add_text_start(p, node) : add_line_start(p, node);
    case '$':
        return ecma ? add_text_end(p, node) : add_edge(p, PATTERN_AHEAD, '\n', '\n', true, node);
    case '\\':
        return parse_backslash(p, node);
    case '*':
    case '+':
    case '?':
        return smol_parser_refuse(p, "nothing to repeat");
    case '{':
    case ']':
    case '}':
        if (ecma && !counts)
            return add_literal(p, c, node);
        return smol_parser_refuse(p, "a bracket on its own: write \\ before it");
    default:
        return add_literal(p, c, node);
    }
}

/* --- repetition ----------------------------------------------------------------------------- */

static uint32_t largest_count(const struct pattern_parser *p)
{
    return speaks(p, DIALECT_SCANNER) ? PATTERN_MAX_REPEAT : PATTERN_MAX_COUNT;
}

static bool read_count(struct pattern_parser *p, uint32_t *count)
{
    bool found = false;
    *count = 0;
    while (p->at < p->size && is_digit(p->text[p->at])) {
        if (*count <= largest_count(p))
            *count = *count * 10 + (uint32_t)(p->text[p->at] - '0');
        p->at++;
        found = true;
    }
    return found;
}

/* Parses {n}, {n,}, {,m} or {n,m} after the "{". */
static smol_status parse_counts(struct pattern_parser *p, struct pattern_node *repeat, bool *fixed)
{
    bool has_min = read_count(p, &repeat->min), has_max = has_min;
    *fixed = !smol_parser_skip(p, ",");
    repeat->max = repeat->min;
    if (!*fixed)
        has_max = read_count(p, &repeat->max);
    if (!smol_parser_skip(p, "}") || !(has_min || has_max))
        return smol_parser_refuse(p, "a { that does not begin a count: write \\{");
    if (!has_min && speaks(p, DIALECT_ECMA)) /* others read it as {0,m} */
        return smol_parser_refuse(p, "a count without a minimum: write {0,");
    if (!has_max)
        repeat->max = REPEAT_FOREVER;
    if (repeat->min > largest_count(p) ||
        (repeat->max > largest_count(p) && repeat->max != REPEAT_FOREVER))
        return smol_parser_refuse(p, "a count that is too large");
    return repeat->max < repeat->min ? smol_parser_refuse(p, "a count that ends below its start")
                                     : SMOL_OK;
}

/* Parses one of ? * + {n,m} and its suffix: ? makes it lazy, + possessive. In the reference's
 * syntax, a + after a count is another repetition, and so is a ? after {n}. ECMA-262 has no
 * possessive repetitions, and braces that are no counts match themselves. */
static smol_status parse_quantifier(struct pattern_parser *p, struct pattern_node *repeat,
                                    bool *possessive, bool *found)
{
    const bool ecma = speaks(p, DIALECT_ECMA);
    bool fixed = false, counted = false;
    *repeat = (struct pattern_node){.kind = PATTERN_REPEAT, .max = REPEAT_FOREVER};
    *possessive = false;
    *found = true;
    if (smol_parser_skip(p, "?")) {
        repeat->max = 1;
    } else if (smol_parser_skip(p, "+")) {
        repeat->min = 1;
    } else if ((!ecma || smol_ecma_counts(p)) && smol_parser_skip(p, "{")) {
        counted = true;
        smol_status status = parse_counts(p, repeat, &fixed);
        if (status)
            return status;
    } else if (!smol_parser_skip(p, "*")) {
        *found = false;
        return SMOL_OK;
    }
    if (!fixed || ecma)
        repeat->lazy = smol_parser_skip(p, "?");
    if (!ecma && !counted && !repeat->lazy)
        *possessive = smol_parser_skip(p, "+");
    return SMOL_OK;
}

/* Wraps *node in a repetition. The reference rewrites nested repetitions, which makes no difference
 * for greedy ones. */
static smol_status repeat_node(struct pattern_parser *p, struct pattern_node repeat,
                               bool possessive, uint32_t *node)
{
    const struct pattern_node *body = node_at(p, *node);
    const bool scans = speaks(p, DIALECT_SCANNER);
    bool twice = scans && (body->kind == PATTERN_REPEAT || body->kind == PATTERN_ATOMIC);
    if (body->kind >= PATTERN_AHEAD)
        return smol_parser_refuse(p, "repeating something that takes no character");
    if (scans && body->nullable && repeat.max > 1)
        return smol_parser_refuse(p, "repeating something that may be empty");
    if (twice && (repeat.lazy || possessive || body->lazy || body->kind == PATTERN_ATOMIC))
        return smol_parser_refuse(p, "repeating a lazy or possessive repetition");
    repeat.left = *node;
    smol_status status = add(p, repeat, node);
    if (status || !possessive)
        return status;
    return add(p, (struct pattern_node){.kind = PATTERN_ATOMIC, .left = *node}, node);
}

static smol_status parse_item(struct pattern_parser *p, uint32_t *node)
{
    const int most = speaks(p, DIALECT_ECMA) ? 1 : 4; /* repetitions of an atom */
    struct pattern_node repeat;
    bool possessive, found;
    smol_status status = parse_atom(p, node);
    for (int n = 0; !status; n++) {
        status = parse_quantifier(p, &repeat, &possessive, &found);
        if (status || !found)
            break;
        status = n < most ? repeat_node(p, repeat, possessive, node)
                          : smol_parser_refuse(p, "repeating repetitions");
    }
    return status;
}

/* --- sequences and alternatives ------------------------------------------------------------- */

static bool ends_branch(const struct pattern_parser *p)
{
    return p->at == p->size || p->text[p->at] == '|' || p->text[p->at] == ')';
}

static smol_status parse_concat(struct pattern_parser *p, uint32_t *node)
{
    if (ends_branch(p))
        return add(p, (struct pattern_node){.kind = PATTERN_EMPTY}, node);
    smol_status status = parse_item(p, node);
    while (!status && !ends_branch(p)) {
        uint32_t right = 0;
        status = parse_item(p, &right);
        if (!status)
            status = add_pair(p, PATTERN_CONCAT, *node, right, node);
    }
    return status;
}

static smol_status parse_choice(struct pattern_parser *p, uint32_t *node)
{
    smol_status status = parse_concat(p, node);
    while (!status && smol_parser_skip(p, "|")) {
        uint32_t right = 0;
        p->n_folds = 0;
        status = parse_concat(p, &right);
        if (!status)
            status = add_pair(p, PATTERN_CHOICE, *node, right, node);
    }
    return status;
}

/* --- entry points --------------------------------------------------------------------------- */

smol_status smol_pattern_parse(const char *text, size_t size, struct pattern *pattern,
                               smol_error *error)
{
    struct pattern_parser p = {
        .text = (const uint8_t *)text, .size = size, .pattern = pattern, .error = error};
    if (size > PATTERN_MAX_BYTES)
        return smol_parser_refuse(&p, "too long");
    p.ignore_case = smol_parser_skip(&p, "(?i)"); /* elsewhere it has different rules */
    smol_status status = parse_choice(&p, &pattern->root);
    if (!status && p.at < size)
        status = smol_parser_refuse(&p, "a ) on its own");
    return status;
}

smol_status smol_pattern_literal(const char *text, size_t size, struct pattern *pattern,
                                 smol_error *error)
{
    struct pattern_parser p = {
        .text = (const uint8_t *)text, .size = size, .pattern = pattern, .error = error};
    uint32_t right = 0;
    smol_status status;
    if (size == 0 || size > PATTERN_MAX_BYTES)
        return smol_parser_refuse(&p, size ? "too long" : "nothing to look for");
    status = add_literal(&p, smol_parser_next(&p), &pattern->root);
    while (!status && p.at < size) {
        status = add_literal(&p, smol_parser_next(&p), &right);
        if (!status)
            status = add_pair(&p, PATTERN_CONCAT, pattern->root, right, &pattern->root);
    }
    return status;
}
