/* The syntax tree of a chat template. */
#ifndef SMOL_CONVERT_TEMPLATE_PARSER_H
#define SMOL_CONVERT_TEMPLATE_PARSER_H

#include "convert/template/template_lexer.h"

enum node_kind {
    /* statements */
    NODE_DATA,         /* text */
    NODE_OUTPUT,       /* a */
    NODE_IF,           /* a: condition, body, rest: elif or else */
    NODE_FOR,          /* a: target, b: iterable, c: condition or NULL, body, rest: else */
    NODE_SET,          /* a: target, b: value */
    NODE_SET_BLOCK,    /* a: target, b: filters of NODE_BLOCK_TEXT, body */
    NODE_MACRO,        /* text: name, list: NODE_NAME with a: default or NULL, body */
    NODE_FILTER_BLOCK, /* b: filters of NODE_BLOCK_TEXT, body */
    NODE_WITH,         /* list: NODE_SET, body */
    NODE_GENERATION,   /* body */
    NODE_BREAK,
    NODE_CONTINUE,
    /* expressions */
    NODE_NONE,
    NODE_BOOLEAN,    /* integer */
    NODE_INTEGER,    /* integer */
    NODE_REAL,       /* real */
    NODE_STRING,     /* text */
    NODE_NAME,       /* text */
    NODE_MEMBER,     /* as a target: text "." of the namespace a, a NODE_NAME */
    NODE_TUPLE,      /* list */
    NODE_LIST,       /* list */
    NODE_DICT,       /* list: key, value, key, value ... */
    NODE_ATTRIBUTE,  /* a, text */
    NODE_ITEM,       /* a, b */
    NODE_SLICE,      /* a, list: start, stop, step */
    NODE_CALL,       /* a, list, named; b: what * spreads, or NULL */
    NODE_FILTER,     /* a, op: enum template_filter, list, named */
    NODE_TEST,       /* a, op: enum template_test, list, named */
    NODE_NAMED,      /* an argument: text, a */
    NODE_NOT,        /* a */
    NODE_UNARY,      /* a, op: enum template_unary */
    NODE_BINARY,     /* a, b, op: enum template_binary */
    NODE_COMPARE,    /* a, list of NODE_OPERAND */
    NODE_OPERAND,    /* a, op: enum template_compare */
    NODE_CONCAT,     /* list */
    NODE_AND,        /* a, b */
    NODE_OR,         /* a, b */
    NODE_CHOICE,     /* b if a else c; c may be NULL */
    NODE_BLOCK_TEXT, /* the text written by the enclosing block */
    NODE_CALL_BODY,  /* body: of a call block, the argument caller */
};

struct node {
    enum node_kind kind;
    int op;
    unsigned height; /* height of the expression tree below this node */
    size_t at;       /* offset in the source */
    struct node *a, *b, *c;
    struct node *list, *named, *body, *rest;
    struct node *next; /* next in the list that contains this node */
    const char *text;  /* (size), points into the source */
    size_t size;
    int64_t integer;
    double real;
    struct node *made_before; /* previously allocated node, for smol_template_tree_free */
};

struct template_tree {
    struct template_source source;
    struct node *body;
    struct node *last_made;
};

/* Parses text[0..size). The caller frees *tree, also after an error. Errors: see
 * smol_template_lex. */
smol_status smol_template_parse(const char *text, size_t size, struct template_tree *tree,
                                smol_error *error);
void smol_template_tree_free(struct template_tree *tree);

#endif
