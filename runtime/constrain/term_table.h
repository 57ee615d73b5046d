/* The inside of a table of terms, shared by term.c, term_settle.c and term_after.c. */
#ifndef SMOL_RUNTIME_TERM_TABLE_H
#define SMOL_RUNTIME_TERM_TABLE_H

#include "runtime/constrain/term.h"

enum term_kind {
    KIND_NOTHING,
    KIND_EMPTY,
    KIND_BYTES,   /* a: number of the set */
    KIND_LITERAL, /* a: place of the bytes, b: their number, 1 to TERM_LITERAL_SIZE */
    KIND_THEN,    /* a, which is no KIND_THEN, then b */
    KIND_REPEAT,  /* a, b to c times */
    KIND_ANY_OF,  /* a: place of the terms, ascending, b: their number, at least 2 */
    KIND_ALL_OF,  /* likewise */
    KIND_NOT,     /* every text but those of a */
    KIND_UNIT,    /* a */
    KIND_RULE,    /* a: number of the rule */
};

/* The questions about terms. */
enum question {
    MAY_END,  /* does it contain the empty string? */
    HAS_TEXT, /* does it contain any? */
    N_QUESTIONS,
};

/* An answer that may not be known yet; OPEN: that is being searched for. */
enum known { UNKNOWN, NO, YES, OPEN };

struct term_node {
    uint32_t a, b, c;
    uint8_t kind;
    uint8_t known[N_QUESTIONS]; /* enum known */
    bool regular;               /* contains no rule */
};

struct term_rule {
    term body; /* NO_BODY until it is defined */
    uint8_t known[N_QUESTIONS];
    bool open; /* the search for left recursion is within its body */
};
#define NO_BODY UINT32_MAX

enum {
    TERM_MAX_NODES = 1 << 20,
    TERM_MAX_LISTS = 1 << 24,  /* alternatives in all nodes */
    TERM_MAX_BYTES = 64 << 20, /* of rows */
    TERM_LITERAL_SIZE = 256,   /* bytes of a node: each one that is passed makes a new node */
    TERM_MAX_DEPTH = 1000,     /* of nested terms, in recursive functions */
    TERM_MAX_SEARCH = 1 << 18, /* terms visited to find out whether intersections are empty */
};

struct term_table {
    struct term_node *nodes; /* (n_nodes) */
    size_t n_nodes, nodes_capacity;
    uint32_t *slots; /* (n_slots, a power of two): numbers of nodes by hash; 0 is free */
    size_t n_slots;
    struct byte_set *sets; /* (n_sets), all different */
    size_t n_sets, sets_capacity;
    uint8_t *bytes; /* (n_bytes): of literals */
    size_t n_bytes, bytes_capacity;
    term *lists; /* (n_lists): of KIND_ANY_OF and KIND_ALL_OF */
    size_t n_lists, lists_capacity;
    struct term_rule *rules; /* (n_rules) */
    size_t n_rules, rules_capacity;
    term *stack; /* scratch of constructors and searches */
    size_t n_stack, stack_capacity;

    struct {
        size_t n_nodes, n_bytes, n_lists;
    } settled; /* what smol_terms_forget keeps; zeros before smol_terms_finish */
    term root;
    uint8_t class_of[256]; /* bytes that no set or literal tells apart have one class */
    uint8_t of_class[256]; /* (n_classes): a byte of each class */
    bool class_is_byte[256];
    size_t n_classes;
    uint32_t *row_of; /* (nodes_capacity): the row of a node, or 0 */
    term *rows;       /* (n_rows, n_classes): what follows a byte of each class, or NOT_YET */
    size_t n_rows, rows_capacity;
    size_t depth, n_searched;
    uint64_t n_steps, most_steps; /* of work: terms that are made or looked at */

    smol_status status; /* the first error */
    const char *reason;
};
#define NOT_YET UINT32_MAX
#define ALIVE 0x80000000u /* added to an entry that is known to contain a text, or is 0 */

/* Records an error, unless there is one. Returns TERM_NOTHING. */
term smol_term_fail(struct term_table *table, smol_status status, const char *reason);

/* Makes room for one more element of an array of the table. Returns false after an error. */
bool smol_term_grow(struct term_table *table, void *items, size_t *capacity, size_t n, size_t size);
#define TERM_ROOM(table, array)                                                                    \
    ((table)->n_##array < (table)->array##_capacity ||                                             \
     smol_term_grow(table, &(table)->array, &(table)->array##_capacity, (table)->n_##array,        \
                    sizeof *(table)->array))

/* Like smol_term_both for the terms on the table's scratch stack from `base` on, which are
 * removed; KIND_ANY_OF or KIND_ALL_OF. */
term smol_term_combine(struct term_table *table, enum term_kind kind, size_t base);
static inline bool smol_term_push(struct term_table *table, term a)
{
    if (table->status || !TERM_ROOM(table, stack))
        return false;
    table->stack[table->n_stack++] = a;
    return true;
}

/* Returns what is left of a literal after its first byte. */
term smol_term_rest(struct term_table *table, struct term_node literal);

/* Returns a repetition with one item less. */
term smol_term_fewer(struct term_table *table, struct term_node repeat);

/* Returns whether a term contains any text. The table has classes. */
bool smol_term_alive(struct term_table *table, term a);

/* Returns whether a term contains the empty string, from what is known of its parts: YES, NO or
 * UNKNOWN. */
enum known smol_term_end_of(const struct term_table *table, const struct term_node *node);

/* Returns smol_term_after, at once if it has been asked before. */
static inline term smol_term_step(struct term_table *table, term a, uint8_t byte)
{
    size_t row = table->row_of[a];
    uint32_t entry = row ? table->rows[row * table->n_classes + table->class_of[byte]] : NOT_YET;
    return entry - ALIVE < TERM_MAX_NODES ? entry - ALIVE : smol_term_after(table, a, byte);
}

#endif
