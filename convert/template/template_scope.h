/* The scopes of a chat template, which map names to variables as jinja2's compiler does. */
#ifndef SMOL_CONVERT_TEMPLATE_SCOPE_H
#define SMOL_CONVERT_TEMPLATE_SCOPE_H

#include "convert/template/template_parser.h"

/* The initial value of a variable in its scope. */
enum symbol_start {
    START_PARAMETER, /* a value stored before the scope begins */
    START_UNDEFINED,
    START_RESOLVED, /* the caller's variable of that name */
    START_COPY,     /* a copy of the variable of that name in an enclosing scope */
};

struct symbol {
    const char *name; /* (size), points into the source */
    size_t size;
    enum symbol_start start;
    uint32_t slot, function;
    struct symbol *copied; /* START_COPY */
    struct symbol *next;
};

struct scope {
    struct scope *outer; /* or NULL */
    uint32_t function;   /* function whose slots it uses */
    uint32_t *n_slots;   /* number of slots of that function so far */
    struct symbol *symbols, **end;
    bool failed;   /* out of memory */
    bool too_many; /* more variables than a function may have */
};

struct scope smol_scope(struct scope *outer, uint32_t function, uint32_t *n_slots);
void smol_scope_free(struct scope *scope);

/* Declares a variable that is set before the scope begins: a loop target or an argument. */
struct symbol *smol_scope_declare(struct scope *scope, const char *name, size_t size);

/* Finds the variables of the scope: those that its statements or expressions assign to, and those
 * that they read and no enclosing scope defines. Skips bodies that have their own scope. */
void smol_scope_read(struct scope *scope, const struct node *nodes);

/* Returns the variable of that name in this scope or an enclosing one, or NULL. */
struct symbol *smol_scope_find(struct scope *scope, const char *name, size_t size);

/* --- tree searches ------------------------------------------------------------------------ */

typedef bool tree_test(const struct node *node, const void *what);

/* Returns whether the test is true of any of the nodes in the list, or of any descendant. */
bool smol_tree_any(const struct node *nodes, tree_test *test, const void *what);

/* Returns whether any of the nodes in the list, or any descendant, has that kind and, unless name
 * is NULL, that name. */
bool smol_tree_has(const struct node *nodes, enum node_kind kind, const char *name, size_t size);

#endif
