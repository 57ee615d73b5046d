/* The parser of chat templates. The grammar is jinja2's, limited to the statements, filters and
 * tests of format/template.h; each function parses the construct that it is named after. After an
 * error, the parser moves to the end of the tokens, where every loop ends. See
 * template_parser.h. */
#include "convert/template/template_parser.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/template.h"

enum { MAX_NESTING = 100, MAX_HEIGHT = 300 }; /* bounds of the recursion */

struct parser {
    struct template_tree *tree;
    smol_error *error;
    smol_status status;
    const struct token *token;  /* next token */
    unsigned depth;             /* nesting of statements and expressions */
    unsigned loops;             /* number of enclosing loops */
    const struct token *caller; /* that name in the macro or call block so far, or NULL */
};

static struct node *parse_expression(struct parser *p);
static struct node *parse_statements(struct parser *p, const char *const ends[]);
static struct node *parse_target_in_parentheses(struct parser *p);

/* --- helpers ------------------------------------------------------------------------------ */

static void *fail(struct parser *p, size_t at, smol_status status, const char *what)
{
    if (!p->status)
        p->status = smol_template_refuse(&p->tree->source, at, p->error, status, "%s", what);
    p->token = &p->tree->source.tokens[p->tree->source.n_tokens - 1];
    return NULL;
}

static void *fail_unsupported(struct parser *p, const struct token *token, const char *kind)
{
    char what[128];
    snprintf(what, sizeof what, "%s \"%.*s\" is not supported", kind,
             (int)(token->size < 64 ? token->size : 64), token->text);
    return fail(p, token->at, SMOL_ERROR_UNSUPPORTED, what);
}

static struct node *new_node(struct parser *p, enum node_kind kind, size_t at)
{
    struct node *node = calloc(1, sizeof *node);
    if (!node) {
        p->status = p->status ? p->status : smol_fail_memory(p->error, "the chat template");
        return fail(p, at, SMOL_ERROR_MEMORY, "");
    }
    node->kind = kind;
    node->at = at;
    node->made_before = p->tree->last_made;
    return p->tree->last_made = node;
}

static void grow(struct parser *p, struct node *node, unsigned below)
{
    node->height = node->height > below ? node->height : below + 1;
    if (node->height > MAX_HEIGHT)
        fail(p, node->at, SMOL_ERROR_UNSUPPORTED, "an expression this long is not supported");
}

/* Makes a node with two parts. Returns NULL if one of them is NULL. */
static struct node *join(struct parser *p, enum node_kind kind, size_t at, struct node *a,
                         struct node *b)
{
    struct node *node = a && b ? new_node(p, kind, at) : NULL;
    if (node) {
        node->a = a;
        node->b = b;
        grow(p, node, a->height > b->height ? a->height : b->height);
    }
    return node;
}

static struct node *wrap(struct parser *p, enum node_kind kind, size_t at, struct node *a)
{
    struct node *node = join(p, kind, at, a, a);
    if (node)
        node->b = NULL;
    return node;
}

static bool token_is(const struct token *token, enum token_type type, const char *text)
{
    return token->type == type && token->size == strlen(text) &&
           memcmp(token->text, text, token->size) == 0;
}

static bool at_name(const struct parser *p, const char *name)
{
    return token_is(p->token, TOKEN_NAME, name);
}

static bool at_operator(const struct parser *p, const char *text)
{
    return token_is(p->token, TOKEN_OPERATOR, text);
}

static bool skip_name(struct parser *p, const char *name)
{
    bool there = at_name(p, name);
    p->token += there;
    return there;
}

static bool skip_operator(struct parser *p, const char *text)
{
    bool there = at_operator(p, text);
    p->token += there;
    return there;
}

static bool expect_operator(struct parser *p, const char *text)
{
    char what[32];
    if (skip_operator(p, text))
        return true;
    snprintf(what, sizeof what, "expected \"%s\"", text);
    fail(p, p->token->at, SMOL_ERROR_DAMAGED, what);
    return false;
}

static const struct token *expect_name(struct parser *p)
{
    if (p->token->type == TOKEN_NAME)
        return p->token++;
    return fail(p, p->token->at, SMOL_ERROR_DAMAGED, "expected a name");
}

/* A list of nodes under construction. */
struct chain {
    struct node *first, **end;
    unsigned height;
};

static void append(struct chain *chain, struct node *node)
{
    if (!chain->end)
        chain->end = &chain->first;
    *chain->end = node;
    if (!node)
        return;
    chain->end = &node->next;
    chain->height = node->height > chain->height ? node->height : chain->height;
}

static void take_list(struct parser *p, struct node *node, const struct chain *list)
{
    if (!node)
        return;
    node->list = list->first;
    grow(p, node, list->height);
}

static bool go_deeper(struct parser *p)
{
    if (++p->depth <= MAX_NESTING)
        return true;
    fail(p, p->token->at, SMOL_ERROR_UNSUPPORTED, "nesting this deep is not supported");
    return false;
}

/* --- primary expressions ------------------------------------------------------------------ */

static struct node *with_text(struct node *node, const struct token *token)
{
    if (node) {
        node->text = token->text;
        node->size = token->size;
    }
    return node;
}

static struct node *parse_name(struct parser *p)
{
    const struct token *token = p->token++;
    struct node *node;
    bool yes = token_is(token, TOKEN_NAME, "true") || token_is(token, TOKEN_NAME, "True");
    if (yes || token_is(token, TOKEN_NAME, "false") || token_is(token, TOKEN_NAME, "False")) {
        if ((node = new_node(p, NODE_BOOLEAN, token->at)))
            node->integer = yes;
        return node;
    }
    if (token_is(token, TOKEN_NAME, "none") || token_is(token, TOKEN_NAME, "None"))
        return new_node(p, NODE_NONE, token->at);
    if (token_is(token, TOKEN_NAME, "caller"))
        p->caller = token;
    return with_text(new_node(p, NODE_NAME, token->at), token);
}

/* Joins adjacent string literals into one. */
static struct node *parse_string(struct parser *p)
{
    const struct token *token = p->token++;
    struct node *node = with_text(new_node(p, NODE_STRING, token->at), token);
    for (; node && p->token->type == TOKEN_STRING; p->token++)
        node->size += p->token->size; /* their contents are adjacent in the pool */
    return node;
}

/* Parses expressions up to the operator `close`, which is skipped. */
static struct node *parse_items(struct parser *p, enum node_kind kind, const char *close)
{
    struct node *node = new_node(p, kind, p->token++->at);
    struct chain items = {0};
    while (node && !p->status && !at_operator(p, close)) {
        append(&items, parse_expression(p));
        if (kind == NODE_DICT && expect_operator(p, ":"))
            append(&items, parse_expression(p));
        if (!at_operator(p, close))
            expect_operator(p, ",");
    }
    expect_operator(p, close);
    take_list(p, node, &items);
    return node;
}

/* Parses "a, b" as a tuple and "a" as a single item; `close` (or the end of the tag) may follow a
 * comma. */
static struct node *parse_tuple(struct parser *p, struct node *(*parse)(struct parser *),
                                bool (*ends)(const struct parser *))
{
    size_t at = p->token->at;
    struct chain items = {0};
    struct node *first = parse(p);
    if (!at_operator(p, ","))
        return first;
    struct node *node = new_node(p, NODE_TUPLE, at);
    append(&items, first);
    while (!p->status && skip_operator(p, ",") && !ends(p))
        append(&items, parse(p));
    take_list(p, node, &items);
    return node;
}

static bool at_end(const struct parser *p)
{
    return p->token->type == TOKEN_VARIABLE_END || p->token->type == TOKEN_BLOCK_END ||
           at_operator(p, ")") || at_name(p, "in") || at_name(p, "recursive");
}

static struct node *parse_parentheses(struct parser *p)
{
    size_t at = p->token++->at;
    if (skip_operator(p, ")"))
        return new_node(p, NODE_TUPLE, at);
    struct node *node = parse_tuple(p, parse_expression, at_end);
    expect_operator(p, ")");
    return node;
}

static struct node *parse_primary(struct parser *p)
{
    const struct token *token = p->token;
    struct node *node;
    if (token->type == TOKEN_NAME)
        return parse_name(p);
    if (token->type == TOKEN_STRING)
        return parse_string(p);
    if (token->type == TOKEN_INTEGER || token->type == TOKEN_REAL) {
        bool real = token->type == TOKEN_REAL;
        p->token++;
        if (!(node = new_node(p, real ? NODE_REAL : NODE_INTEGER, token->at)))
            return NULL;
        if (real)
            node->real = token->real;
        else
            node->integer = token->integer;
        return node;
    }
    if (at_operator(p, "("))
        return parse_parentheses(p);
    if (at_operator(p, "["))
        return parse_items(p, NODE_LIST, "]");
    if (at_operator(p, "{"))
        return parse_items(p, NODE_DICT, "}");
    return fail(p, token->at, SMOL_ERROR_DAMAGED, "expected an expression");
}

/* --- postfix operators -------------------------------------------------------------------- */

/* Parses the iterable after "*", whose items are the last arguments by position of a call. */
static void parse_spread(struct parser *p, struct node *node)
{
    const struct token *star = p->token++;
    if (node && node->kind != NODE_CALL)
        fail(p, star->at, SMOL_ERROR_UNSUPPORTED,
             "* before an argument of a filter or test is not supported");
    else if (node && node->b)
        fail(p, star->at, SMOL_ERROR_DAMAGED, "a second * in one call");
    else if (node && (node->b = parse_expression(p)))
        grow(p, node, node->b->height);
}

/* Parses arguments after "(" and adds them to node->list, node->named and node->b. */
static void parse_arguments(struct parser *p, struct node *node)
{
    struct chain list = {0}, named = {0};
    while (!p->status && !at_operator(p, ")")) {
        size_t at = p->token->at;
        if (at_operator(p, "**")) {
            fail(p, at, SMOL_ERROR_UNSUPPORTED, "** before an argument is not supported");
        } else if (at_operator(p, "*")) {
            parse_spread(p, node);
        } else if (p->token->type == TOKEN_NAME && token_is(p->token + 1, TOKEN_OPERATOR, "=")) {
            struct node *argument = with_text(new_node(p, NODE_NAMED, at), p->token);
            p->token += 2;
            if (argument && (argument->a = parse_expression(p)))
                grow(p, argument, argument->a->height);
            append(&named, argument);
        } else if (named.first || (node && node->kind == NODE_CALL && node->b)) {
            fail(p, at, SMOL_ERROR_DAMAGED, "a positional argument after a named one or a *");
        } else {
            append(&list, parse_expression(p));
        }
        if (!at_operator(p, ")"))
            expect_operator(p, ",");
    }
    expect_operator(p, ")");
    if (node) {
        take_list(p, node, &list);
        node->named = named.first;
        grow(p, node, named.height);
    }
}

static struct node *parse_call(struct parser *p, struct node *callee)
{
    struct node *node = wrap(p, NODE_CALL, p->token++->at, callee);
    parse_arguments(p, node);
    return node;
}

/* Parses start:stop:step after "["; each part may be missing. */
static struct node *parse_slice(struct parser *p, size_t at, struct node *value, struct node *start)
{
    struct node *node = wrap(p, NODE_SLICE, at, value);
    struct chain parts = {0};
    append(&parts, start ? start : new_node(p, NODE_NONE, at));
    for (int i = 0; i < 2; i++) {
        bool there = skip_operator(p, ":") && !at_operator(p, ":") && !at_operator(p, "]");
        append(&parts, there ? parse_expression(p) : new_node(p, NODE_NONE, at));
    }
    take_list(p, node, &parts);
    return node;
}

static struct node *parse_subscript(struct parser *p, struct node *value)
{
    size_t at = p->token++->at;
    struct node *start = at_operator(p, ":") ? NULL : parse_expression(p);
    struct node *node = at_operator(p, ":") ? parse_slice(p, at, value, start)
                                            : join(p, NODE_ITEM, at, value, start);
    if (at_operator(p, ","))
        return fail(p, p->token->at, SMOL_ERROR_UNSUPPORTED,
                    "a comma in brackets is not supported");
    expect_operator(p, "]");
    return node;
}

/* Parses .name, or .0, which means [0]. */
static struct node *parse_attribute(struct parser *p, struct node *value)
{
    size_t at = p->token++->at;
    const struct token *token = p->token++;
    if (token->type == TOKEN_NAME)
        return with_text(wrap(p, NODE_ATTRIBUTE, at, value), token);
    p->token--;
    if (token->type != TOKEN_INTEGER)
        return fail(p, token->at, SMOL_ERROR_DAMAGED, "expected a name after the dot");
    return join(p, NODE_ITEM, at, value, parse_primary(p));
}

static struct node *parse_postfix(struct parser *p, struct node *node)
{
    while (!p->status) {
        if (at_operator(p, "."))
            node = parse_attribute(p, node);
        else if (at_operator(p, "["))
            node = parse_subscript(p, node);
        else if (at_operator(p, "("))
            node = parse_call(p, node);
        else
            break;
    }
    return node;
}

/* Checks a filter or test that is named by a string constant, as in `map("groupby")`, so that an
 * unsupported one is reported during conversion. */
static void check_named_filter(struct parser *p, const struct node *node)
{
    const struct node *name = node->list;
    bool attribute = node->op == FILTER_SELECTATTR || node->op == FILTER_REJECTATTR;
    bool selects = attribute || node->op == FILTER_SELECT || node->op == FILTER_REJECT;
    if (attribute && name)
        name = name->next;
    if (!name || name->kind != NODE_STRING || (!selects && node->op != FILTER_MAP))
        return;
    const struct token token = {.at = name->at, .text = name->text, .size = name->size};
    if ((selects ? smol_template_find_test(name->text, name->size)
                 : smol_template_find_filter(name->text, name->size)) < 0)
        fail_unsupported(p, &token, selects ? "the test" : "the filter");
}

/* Parses a filter after "|". */
static struct node *parse_filter(struct parser *p, struct node *value)
{
    const struct token *name = expect_name(p);
    if (!name)
        return NULL;
    struct node *node = wrap(p, NODE_FILTER, name->at, value);
    int filter = smol_template_find_filter(name->text, name->size);
    if (filter < 0 || !node)
        return node ? fail_unsupported(p, name, "the filter") : NULL;
    node->op = filter;
    if (skip_operator(p, "("))
        parse_arguments(p, node);
    check_named_filter(p, node);
    return p->status ? NULL : node;
}

/* Returns whether the next token is an argument of a test without parentheses, as in `is
 * divisibleby 3`. As in jinja2, every name except else, or and and is an argument. */
static bool at_test_argument(const struct parser *p)
{
    if (p->token->type == TOKEN_NAME)
        return !at_name(p, "else") && !at_name(p, "or") && !at_name(p, "and");
    return p->token->type == TOKEN_STRING || p->token->type == TOKEN_INTEGER ||
           p->token->type == TOKEN_REAL || at_operator(p, "[") || at_operator(p, "{");
}

/* Parses a test after "is". */
static struct node *parse_test(struct parser *p, struct node *value)
{
    bool negated = skip_name(p, "not");
    const struct token *name = expect_name(p);
    struct node *node = name ? wrap(p, NODE_TEST, name->at, value) : NULL;
    if (!node)
        return NULL;
    node->op = smol_template_find_test(name->text, name->size);
    if (node->op < 0)
        return fail_unsupported(p, name, "the test");
    if (skip_operator(p, "("))
        parse_arguments(p, node);
    else if (at_test_argument(p) && (node->list = parse_postfix(p, parse_primary(p))))
        grow(p, node, node->list->height);
    return negated ? wrap(p, NODE_NOT, node->at, node) : node;
}

static struct node *parse_filters(struct parser *p, struct node *node)
{
    while (!p->status) {
        if (skip_operator(p, "|"))
            node = parse_filter(p, node);
        else if (skip_name(p, "is"))
            node = parse_test(p, node);
        else if (at_operator(p, "("))
            node = parse_call(p, node);
        else
            break;
    }
    return node;
}

/* --- operators ---------------------------------------------------------------------------- */

static struct node *parse_unary(struct parser *p, bool with_filter)
{
    struct node *node;
    if (!go_deeper(p))
        return NULL;
    if (at_operator(p, "-") || at_operator(p, "+")) {
        bool minus = at_operator(p, "-");
        size_t at = p->token++->at;
        if ((node = wrap(p, NODE_UNARY, at, parse_unary(p, false))))
            node->op = minus ? UNARY_MINUS : UNARY_PLUS;
    } else {
        node = parse_primary(p);
    }
    node = parse_postfix(p, node);
    p->depth--;
    return with_filter ? parse_filters(p, node) : node;
}

/* The spelling and number of an operator. */
struct operator_name {
    const char *text;
    int op;
};

static const struct operator_name *find_operator(const struct parser *p,
                                                 const struct operator_name *operators, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (at_operator(p, operators[i].text))
            return &operators[i];
    return NULL;
}

/* Parses operands joined by operators of equal precedence, from left to right. */
static struct node *parse_binary(struct parser *p, const struct operator_name *operators, size_t n,
                                 struct node *(*parse)(struct parser *))
{
    struct node *node = parse(p);
    const struct operator_name *found;
    while (!p->status && (found = find_operator(p, operators, n))) {
        size_t at = p->token++->at;
        struct node *right = parse(p);
        if ((node = join(p, NODE_BINARY, at, node, right)))
            node->op = found->op;
    }
    return node;
}

static struct node *parse_operand(struct parser *p)
{
    return parse_unary(p, true);
}

static struct node *parse_power(struct parser *p)
{
    static const struct operator_name operators[] = {{"**", BINARY_POWER}};
    return parse_binary(p, operators, 1, parse_operand);
}

static struct node *parse_product(struct parser *p)
{
    static const struct operator_name operators[] = {{"*", BINARY_MULTIPLY},
                                                     {"/", BINARY_DIVIDE},
                                                     {"//", BINARY_FLOOR_DIVIDE},
                                                     {"%", BINARY_MODULO}};
    return parse_binary(p, operators, 4, parse_power);
}

static struct node *parse_concat(struct parser *p)
{
    size_t at = p->token->at;
    struct node *first = parse_product(p);
    struct chain list = {0};
    if (!at_operator(p, "~"))
        return first;
    struct node *node = new_node(p, NODE_CONCAT, at);
    append(&list, first);
    while (!p->status && skip_operator(p, "~"))
        append(&list, parse_product(p));
    take_list(p, node, &list);
    return node;
}

static struct node *parse_sum(struct parser *p)
{
    static const struct operator_name operators[] = {{"+", BINARY_ADD}, {"-", BINARY_SUBTRACT}};
    return parse_binary(p, operators, 2, parse_concat);
}

/* Skips the comparison operator at the current token and returns its number, or -1 if there is
 * none. */
static int skip_comparison(struct parser *p)
{
    static const struct operator_name operators[] = {
        {"==", COMPARE_EQUAL},      {"!=", COMPARE_UNEQUAL}, {"<", COMPARE_LESS},
        {"<=", COMPARE_LESS_EQUAL}, {">", COMPARE_GREATER},  {">=", COMPARE_GREATER_EQUAL}};
    const struct operator_name *found =
        find_operator(p, operators, sizeof operators / sizeof operators[0]);
    if (found) {
        p->token++;
        return found->op;
    }
    if (skip_name(p, "in"))
        return COMPARE_IN;
    if (!at_name(p, "not") || !token_is(p->token + 1, TOKEN_NAME, "in"))
        return -1;
    p->token += 2;
    return COMPARE_NOT_IN;
}

static struct node *parse_comparison(struct parser *p)
{
    struct node *first = parse_sum(p), *node = NULL;
    struct chain operands = {0};
    while (!p->status) {
        size_t at = p->token->at;
        int op = skip_comparison(p);
        if (op < 0)
            break;
        if (!node)
            node = wrap(p, NODE_COMPARE, at, first);
        struct node *operand = wrap(p, NODE_OPERAND, at, parse_sum(p));
        if (operand)
            operand->op = op;
        append(&operands, operand);
    }
    take_list(p, node, &operands);
    return node ? node : first;
}

static struct node *parse_not(struct parser *p)
{
    size_t at = p->token->at;
    if (!skip_name(p, "not"))
        return parse_comparison(p);
    if (!go_deeper(p))
        return NULL;
    struct node *node = wrap(p, NODE_NOT, at, parse_not(p));
    p->depth--;
    return node;
}

/* Parses operands that are joined by `name`, from the left. */
static struct node *parse_joined(struct parser *p, const char *name, enum node_kind kind,
                                 struct node *(*parse_one)(struct parser *p))
{
    struct node *node = parse_one(p);
    while (!p->status && at_name(p, name)) {
        size_t at = p->token++->at;
        node = join(p, kind, at, node, parse_one(p));
    }
    return node;
}

static struct node *parse_and(struct parser *p)
{
    return parse_joined(p, "and", NODE_AND, parse_not);
}

static struct node *parse_or(struct parser *p)
{
    return parse_joined(p, "or", NODE_OR, parse_and);
}

/* Parses "value if condition else other". */
static struct node *parse_choice(struct parser *p)
{
    struct node *node = parse_or(p);
    while (!p->status && at_name(p, "if")) {
        size_t at = p->token++->at;
        struct node *condition = parse_or(p);
        node = join(p, NODE_CHOICE, at, condition, node);
        if (node && skip_name(p, "else") && (node->c = parse_expression(p)))
            grow(p, node, node->c->height);
    }
    return node;
}

static struct node *parse_expression(struct parser *p)
{
    if (!go_deeper(p))
        return NULL;
    struct node *node = parse_choice(p);
    p->depth--;
    return node;
}

static struct node *parse_expressions(struct parser *p)
{
    return parse_tuple(p, parse_expression, at_end);
}

/* --- statements --------------------------------------------------------------------------- */

/* Parses the end of a block's tag and the body, up to a tag that starts with one of `ends`. */
static struct node *parse_body(struct parser *p, const char *const ends[])
{
    skip_operator(p, ":");
    if (p->token->type != TOKEN_BLOCK_END)
        return fail(p, p->token->at, SMOL_ERROR_DAMAGED, "expected the end of the tag");
    p->token++;
    return parse_statements(p, ends);
}

/* Parses the end of a block's tag and the body, then skips the tag name `end`. */
static struct node *parse_whole_body(struct parser *p, const char *end)
{
    const char *const ends[] = {end, NULL};
    struct node *body = parse_body(p, ends);
    skip_name(p, end);
    return body;
}

/* Parses a name or, with `members`, an attribute of a namespace. */
static struct node *parse_single_target(struct parser *p, bool members)
{
    if (at_operator(p, "("))
        return parse_target_in_parentheses(p);
    if (p->token->type != TOKEN_NAME)
        return fail(p, p->token->at, SMOL_ERROR_UNSUPPORTED,
                    "this target of an assignment is not supported");
    struct node *node = parse_name(p);
    if (node && node->kind != NODE_NAME)
        return fail(p, node->at, SMOL_ERROR_DAMAGED, "a constant cannot be assigned to");
    if (!members || !skip_operator(p, "."))
        return node;
    const struct token *name = expect_name(p);
    return name ? with_text(wrap(p, NODE_MEMBER, name->at, node), name) : NULL;
}

static struct node *parse_name_target(struct parser *p)
{
    return parse_single_target(p, false);
}

static struct node *parse_any_target(struct parser *p)
{
    return parse_single_target(p, true);
}

static bool at_target_end(const struct parser *p)
{
    return at_end(p) || at_operator(p, "=");
}

static struct node *parse_target_in_parentheses(struct parser *p)
{
    p->token++;
    if (!go_deeper(p))
        return NULL;
    struct node *node = parse_tuple(p, parse_name_target, at_target_end);
    p->depth--;
    expect_operator(p, ")");
    return node;
}

static struct node *parse_for(struct parser *p, struct node *node)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    node->a = parse_tuple(p, parse_name_target, at_target_end);
    if (!p->status && !skip_name(p, "in"))
        return fail(p, p->token->at, SMOL_ERROR_DAMAGED, "expected \"in\"");
    node->b = parse_tuple(p, parse_or, at_end);
    if (skip_name(p, "if"))
        node->c = parse_expression(p);
    if (at_name(p, "recursive"))
        return fail_unsupported(p, p->token, "the loop's word");
    p->loops++;
    node->body = parse_body(p, ends);
    p->loops--;
    if (skip_name(p, "else"))
        node->rest = parse_whole_body(p, "endfor");
    else
        skip_name(p, "endfor");
    return node;
}

static struct node *parse_if(struct parser *p, struct node *node)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    node->a = parse_tuple(p, parse_or, at_end);
    node->body = parse_body(p, ends);
    size_t at = p->token->at;
    if (skip_name(p, "elif")) {
        struct node *other = go_deeper(p) ? new_node(p, NODE_IF, at) : NULL;
        node->rest = other ? parse_if(p, other) : NULL;
        p->depth--;
    } else if (skip_name(p, "else")) {
        node->rest = parse_whole_body(p, "endif");
    } else {
        skip_name(p, "endif");
    }
    return node;
}

static struct node *parse_set(struct parser *p, struct node *node)
{
    node->a = parse_tuple(p, parse_any_target, at_target_end);
    if (skip_operator(p, "=")) {
        node->b = parse_expressions(p);
        return node;
    }
    node->kind = NODE_SET_BLOCK;
    node->b = new_node(p, NODE_BLOCK_TEXT, node->at);
    while (!p->status && skip_operator(p, "|"))
        node->b = parse_filter(p, node->b);
    node->body = parse_whole_body(p, "endset");
    return node;
}

/* Parses the body of a macro or a call block. Sets *caller to the name caller in it, or to NULL.
 * The body is a function of its own, so it cannot break out of a loop around it. */
static struct node *parse_function_body(struct parser *p, const char *end,
                                        const struct token **caller)
{
    const struct token *outer = p->caller;
    unsigned loops = p->loops;
    p->caller = NULL;
    p->loops = 0;
    struct node *body = parse_whole_body(p, end);
    *caller = p->caller;
    p->caller = outer;
    p->loops = loops;
    return body;
}

/* Parses a macro. One that names caller has a last parameter of that name. */
static struct node *parse_macro(struct parser *p, struct node *node)
{
    const struct token *caller;
    struct chain parameters = {0};
    bool defaults = false;
    const struct token *name = expect_name(p);
    if (!name || !expect_operator(p, "("))
        return NULL;
    with_text(node, name);
    while (!p->status && !at_operator(p, ")")) {
        struct node *parameter = parse_name_target(p);
        append(&parameters, parameter);
        if (parameter && skip_operator(p, "="))
            parameter->a = parse_expression(p);
        else if (parameter && defaults)
            fail(p, parameter->at, SMOL_ERROR_DAMAGED, "expected a default for this argument too");
        defaults = parameter && parameter->a;
        if (!at_operator(p, ")"))
            expect_operator(p, ",");
    }
    expect_operator(p, ")");
    node->body = parse_function_body(p, "endmacro", &caller);
    if (caller)
        append(&parameters, with_text(new_node(p, NODE_NAME, node->at), caller));
    take_list(p, node, &parameters);
    return node;
}

/* Parses "call f() %}...", the output of a call in which the block's body is the argument caller.
 */
static struct node *parse_call_block(struct parser *p, struct node *node)
{
    const struct token *caller;
    if (at_operator(p, "("))
        return fail(p, p->token->at, SMOL_ERROR_UNSUPPORTED,
                    "a call block with arguments is not supported");
    struct node *call = node->a = parse_expression(p);
    if (!call)
        return NULL;
    if (call->kind != NODE_CALL)
        return fail(p, call->at, SMOL_ERROR_DAMAGED, "expected a call");
    struct node *argument =
        with_text(new_node(p, NODE_NAMED, node->at), &(struct token){.text = "caller", .size = 6});
    struct node *block = argument ? argument->a = new_node(p, NODE_CALL_BODY, node->at) : NULL;
    if (!block)
        return NULL;
    block->body = parse_function_body(p, "endcall", &caller);
    if (caller)
        return fail(p, caller->at, SMOL_ERROR_UNSUPPORTED,
                    "caller within a call block is not supported");
    struct node **end = &call->named;
    while (*end)
        end = &(*end)->next;
    *end = argument;
    return node;
}

static struct node *parse_filter_block(struct parser *p, struct node *node)
{
    node->b = parse_filter(p, new_node(p, NODE_BLOCK_TEXT, node->at));
    while (!p->status && skip_operator(p, "|"))
        node->b = parse_filter(p, node->b);
    node->body = parse_whole_body(p, "endfilter");
    return node;
}

static struct node *parse_with(struct parser *p, struct node *node)
{
    struct chain list = {0};
    while (!p->status && p->token->type == TOKEN_NAME) {
        struct node *set = new_node(p, NODE_SET, p->token->at);
        struct node *target = parse_name_target(p);
        if (!set || !expect_operator(p, "="))
            return NULL;
        set->a = target;
        set->b = parse_expression(p);
        append(&list, set);
        if (!skip_operator(p, ","))
            break;
    }
    take_list(p, node, &list);
    node->body = parse_whole_body(p, "endwith");
    return node;
}

/* Parses a generation block. It acts like a function of its own: its body cannot break out of an
 * enclosing loop. */
static struct node *parse_generation(struct parser *p, struct node *node)
{
    unsigned loops = p->loops;
    p->loops = 0;
    node->body = parse_whole_body(p, "endgeneration");
    p->loops = loops;
    return node;
}

static struct node *parse_jump(struct parser *p, struct node *node)
{
    if (p->loops == 0)
        return fail(p, node->at, SMOL_ERROR_DAMAGED, "there is no loop here to break or continue");
    return node;
}

static const struct {
    const char *name;
    enum node_kind kind;
    struct node *(*parse)(struct parser *, struct node *);
} statements[] = {
    {"if", NODE_IF, parse_if},
    {"for", NODE_FOR, parse_for},
    {"set", NODE_SET, parse_set},
    {"macro", NODE_MACRO, parse_macro},
    {"call", NODE_OUTPUT, parse_call_block},
    {"filter", NODE_FILTER_BLOCK, parse_filter_block},
    {"with", NODE_WITH, parse_with},
    {"generation", NODE_GENERATION, parse_generation},
    {"break", NODE_BREAK, parse_jump},
    {"continue", NODE_CONTINUE, parse_jump},
};

/* Parses a statement after "{%", up to the end of the tag that ends the statement. */
static struct node *parse_statement(struct parser *p)
{
    const struct token *token = expect_name(p);
    struct node *node = NULL;
    size_t i = 0, n = sizeof statements / sizeof statements[0];
    if (!token || !go_deeper(p))
        return NULL;
    while (i < n && !token_is(token, TOKEN_NAME, statements[i].name))
        i++;
    if (i == n)
        return fail_unsupported(p, token, "the tag");
    if ((node = new_node(p, statements[i].kind, token->at)))
        node = statements[i].parse(p, node);
    p->depth--;
    if (!p->status && p->token++->type != TOKEN_BLOCK_END)
        return fail(p, p->token[-1].at, SMOL_ERROR_DAMAGED, "expected the end of the tag");
    return node;
}

static struct node *parse_output(struct parser *p)
{
    size_t at = p->token++->at;
    struct node *node = wrap(p, NODE_OUTPUT, at, parse_expressions(p));
    if (!p->status && p->token++->type != TOKEN_VARIABLE_END)
        return fail(p, p->token[-1].at, SMOL_ERROR_DAMAGED, "expected an operator or }}");
    return node;
}

/* Returns whether the next token is one of the words; NULL ends the list. */
static bool at_any(const struct parser *p, const char *const words[])
{
    for (; words && *words; words++)
        if (at_name(p, *words))
            return true;
    return false;
}

/* Parses statements up to a tag with one of `ends` (NULL: up to the end of the template). */
static struct node *parse_statements(struct parser *p, const char *const ends[])
{
    struct chain body = {0};
    while (!p->status && p->token->type != TOKEN_END) {
        const struct token *token = p->token;
        if (token->type == TOKEN_DATA) {
            append(&body, with_text(new_node(p, NODE_DATA, token->at), token));
            p->token++;
        } else if (token->type == TOKEN_VARIABLE_BEGIN) {
            append(&body, parse_output(p));
        } else {
            p->token++;
            if (at_any(p, ends))
                return body.first;
            append(&body, parse_statement(p));
        }
    }
    if (ends && !p->status)
        return fail(p, p->token->at, SMOL_ERROR_DAMAGED, "a block has no end");
    return body.first;
}

smol_status smol_template_parse(const char *text, size_t size, struct template_tree *tree,
                                smol_error *error)
{
    struct parser parser = {.tree = tree, .error = error};
    *tree = (struct template_tree){0};
    smol_status status = smol_template_lex(text, size, &tree->source, error);
    if (status)
        return status;
    parser.token = tree->source.tokens;
    tree->body = parse_statements(&parser, NULL);
    return parser.status;
}

void smol_template_tree_free(struct template_tree *tree)
{
    while (tree->last_made) {
        struct node *node = tree->last_made;
        tree->last_made = node->made_before;
        free(node);
    }
    smol_template_source_free(&tree->source);
    *tree = (struct template_tree){0};
}
