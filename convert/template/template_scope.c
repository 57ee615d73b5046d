/* Resolves names to variables by the rules of jinja2's idtracking.py. See template_scope.h. */
#include "convert/template/template_scope.h"

#include <stdlib.h>
#include <string.h>

#include "format/template.h"

struct scope smol_scope(struct scope *outer, uint32_t function, uint32_t *n_slots)
{
    return (struct scope){.outer = outer, .function = function, .n_slots = n_slots};
}

void smol_scope_free(struct scope *scope)
{
    for (struct symbol *symbol = scope->symbols; symbol;) {
        struct symbol *next = symbol->next;
        free(symbol);
        symbol = next;
    }
    scope->symbols = NULL;
}

static struct symbol *find_here(const struct scope *scope, const char *name, size_t size)
{
    struct symbol *symbol = scope->symbols;
    while (symbol && !(symbol->size == size && memcmp(symbol->name, name, size) == 0))
        symbol = symbol->next;
    return symbol;
}

struct symbol *smol_scope_find(struct scope *scope, const char *name, size_t size)
{
    struct symbol *symbol = NULL;
    for (; scope && !symbol; scope = scope->outer)
        symbol = find_here(scope, name, size);
    return symbol;
}

static struct symbol *add(struct scope *scope, const char *name, size_t size,
                          enum symbol_start start)
{
    if (*scope->n_slots >= TEMPLATE_MAX_STACK) { /* also bounds the time of a search */
        scope->too_many = true;
        return NULL;
    }
    struct symbol *symbol = calloc(1, sizeof *symbol);
    if (!symbol) {
        scope->failed = true;
        return NULL;
    }
    *symbol = (struct symbol){.name = name, .size = size, .start = start};
    symbol->slot = (*scope->n_slots)++;
    symbol->function = scope->function;
    if (!scope->end)
        scope->end = &scope->symbols;
    *scope->end = symbol;
    scope->end = &symbol->next;
    return symbol;
}

struct symbol *smol_scope_declare(struct scope *scope, const char *name, size_t size)
{
    struct symbol *symbol = find_here(scope, name, size);
    return symbol ? symbol : add(scope, name, size, START_PARAMETER);
}

static void load(struct scope *scope, const struct node *name)
{
    if (!smol_scope_find(scope, name->text, name->size))
        add(scope, name->text, name->size, START_RESOLVED);
}

/* Adds a variable for an assignment. `branch`: the statement is in an `if`, so that the caller's
 * variable may remain visible. */
static void store(struct scope *scope, const struct node *name, bool branch)
{
    if (find_here(scope, name->text, name->size))
        return;
    struct symbol *around = smol_scope_find(scope->outer, name->text, name->size);
    struct symbol *symbol = add(scope, name->text, name->size,
                                around   ? START_COPY
                                : branch ? START_RESOLVED
                                         : START_UNDEFINED);
    if (symbol)
        symbol->copied = around;
}

static void read_list(struct scope *scope, const struct node *nodes, bool branch);

static void read_expression(struct scope *scope, const struct node *node)
{
    if (!node)
        return;
    if (node->kind == NODE_NAME)
        load(scope, node);
    read_expression(scope, node->a);
    read_expression(scope, node->b);
    read_expression(scope, node->c);
    for (const struct node *each = node->list; each; each = each->next)
        read_expression(scope, each);
    for (const struct node *each = node->named; each; each = each->next)
        read_expression(scope, each);
}

static void read_target(struct scope *scope, const struct node *node, bool branch)
{
    if (node->kind == NODE_NAME)
        store(scope, node, branch);
    else
        read_expression(scope, node->kind == NODE_MEMBER ? node->a : NULL);
    for (const struct node *each = node->list; each; each = each->next)
        read_target(scope, each, branch);
}

static void read_node(struct scope *scope, const struct node *node, bool branch)
{
    switch (node->kind) {
    case NODE_DATA:
    case NODE_BREAK:
    case NODE_CONTINUE:
    case NODE_GENERATION:
        break;
    case NODE_IF:
        read_expression(scope, node->a);
        read_list(scope, node->body, true);
        read_list(scope, node->rest, true);
        break;
    case NODE_FOR:
        read_expression(scope, node->b);
        break;
    case NODE_SET:
        read_expression(scope, node->b);
        read_target(scope, node->a, branch);
        break;
    case NODE_SET_BLOCK:
        read_target(scope, node->a, branch);
        break;
    case NODE_MACRO:
        store(scope, node, branch);
        break;
    case NODE_FILTER_BLOCK:
        read_expression(scope, node->b);
        break;
    case NODE_WITH:
        for (const struct node *each = node->list; each; each = each->next)
            read_expression(scope, each->b);
        break;
    default:
        read_expression(scope, node);
    }
}

static void read_list(struct scope *scope, const struct node *nodes, bool branch)
{
    for (; nodes; nodes = nodes->next)
        read_node(scope, nodes, branch);
}

void smol_scope_read(struct scope *scope, const struct node *nodes)
{
    read_list(scope, nodes, false);
}

bool smol_tree_any(const struct node *nodes, tree_test *test, const void *what)
{
    for (; nodes; nodes = nodes->next) {
        const struct node *parts[] = {nodes->a,     nodes->b,    nodes->c,   nodes->list,
                                      nodes->named, nodes->body, nodes->rest};
        if (test(nodes, what))
            return true;
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
            if (smol_tree_any(parts[i], test, what))
                return true;
    }
    return false;
}

/* Returns whether a node has the kind and, if that has one, the name of another. */
static bool is_like(const struct node *node, const void *other)
{
    const struct node *like = other;
    return node->kind == like->kind &&
           (!like->text ||
            (node->size == like->size && memcmp(node->text, like->text, like->size) == 0));
}

bool smol_tree_has(const struct node *nodes, enum node_kind kind, const char *name, size_t size)
{
    return smol_tree_any(nodes, is_like, &(struct node){.kind = kind, .text = name, .size = size});
}
