/* Which variable a name stands for: the scopes of a chat template, as jinja2's compiler has them.
 */
#ifndef SMOL_CONVERT_TEMPLATE_SCOPE_H
#define SMOL_CONVERT_TEMPLATE_SCOPE_H

#include "convert/template/template_parser.h"

/* What a variable holds where its scope begins. */
enum symbol_start {
    START_PARAMETER, /* what was put into it before */
    START_UNDEFINED,
    START_RESOLVED, /* the caller's variable of that name */
    START_COPY,     /* of the variable of that name in the scopes around */
};

struct symbol {
    const char *name; /* (size), the source's */
    size_t size;
    enum symbol_start start;
    uint32_t slot, function;
    struct symbol *copied; /* START_COPY */
    struct symbol *next;
};

struct scope {
    struct scope *outer; /* or NULL */
    uint32_t function;   /* whose slots it takes */
    uint32_t *n_slots;   /* of that function so far */
    struct symbol *symbols, **end;
    bool failed;   /* out of memory */
    bool too_many; /* more variables than a function may have */
};

struct scope smol_scope(struct scope *outer, uint32_t function, uint32_t *n_slots);
void smol_scope_free(struct scope *scope);

/* A variable that is filled before the scope begins: the target of a loop, an argument. */
struct symbol *smol_scope_declare(struct scope *scope, const char *name, size_t size);

/* Finds the variables of the scope: those that statements or expressions in it assign to, and those
 * that they read and nobody around has. Bodies with scopes of their own are left out. */
void smol_scope_read(struct scope *scope, const struct node *nodes);

/* The variable of that name in this scope or around it, or NULL. */
struct symbol *smol_scope_find(struct scope *scope, const char *name, size_t size);

/* --- what is in a tree -------------------------------------------------------------------- */

/* Whether any of the nodes, in a list or below, is of that kind and, unless name is NULL, has that
 * name. */
bool smol_tree_has(const struct node *nodes, enum node_kind kind, const char *name, size_t size);

#endif
