/* The values that a chat template computes with, as Python has them, in memory and steps that are
 * bounded. Lists, tuples, dicts and text never change once made; only namespaces, loops and
 * iterators do.
 *
 * Functions that can fail return false, with machine->error filled, and are not to be called again
 * on that machine then. */
#ifndef SMOL_RUNTIME_TEMPLATE_VALUE_H
#define SMOL_RUNTIME_TEMPLATE_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "format/template.h"

enum {
    TEMPLATE_MEMORY = 64 << 20,  /* bytes for all values of a run, the result included */
    TEMPLATE_BLOCK = 64 << 10,   /* bytes of them that are asked for at once */
    TEMPLATE_STEPS = 1 << 25,    /* operations, elements and 16 bytes of text count one each */
    TEMPLATE_STACK = 1 << 13,    /* values: slots and stacks of all calls */
    TEMPLATE_MAX_CALLS = 64,     /* macros that call each other */
    TEMPLATE_MAX_DEPTH = 64,     /* lists and dicts within each other */
    TEMPLATE_MAX_RANGE = 100000, /* elements of a range, as in the reference */
    TEMPLATE_MAX_MEMBERS = 4096, /* of an object of the caller's JSON text */
};

enum value_type {
    VALUE_MISSING = 0, /* a slot that nothing was put in; behaves like UNDEFINED */
    VALUE_UNDEFINED,
    VALUE_NONE,
    VALUE_BOOLEAN,
    VALUE_INTEGER,
    VALUE_REAL,
    VALUE_TEXT,
    VALUE_LIST,
    VALUE_TUPLE,
    VALUE_RANGE,
    VALUE_VIEW,     /* what dict methods give: can be counted and iterated, not indexed */
    VALUE_ITERATOR, /* what map, select and the like give: can be iterated once */
    VALUE_DICT,
    VALUE_NAMESPACE,
    VALUE_LOOP,
    VALUE_MACRO,
    VALUE_METHOD,
    VALUE_BUILTIN,
};

struct value {
    uint8_t type;     /* enum value_type */
    uint8_t argument; /* text without marks: 1 when it stems from the caller's arguments */
    uint32_t n;       /* bytes, elements, or pairs of a dict */
    union {
        bool boolean;
        int64_t integer;
        double real;
        const uint8_t *bytes;      /* UTF-8; of an undefined value, its name */
        const struct value *items; /* (n), of a dict (2 n): key, value, key, value ... */
        struct value_iterator *iterator;
        struct value_names *names;
        struct value_loop *loop;
        const struct value_method *method;
        uint32_t number; /* of a function, or enum builtin */
    };
    const uint8_t *marks; /* text: (n), 1 for each byte that stems from the arguments; or NULL */
};

struct value_iterator {
    struct value list; /* VALUE_LIST */
    bool used;
};

struct value_names { /* a namespace's attributes */
    struct value *pairs;
    uint32_t n, capacity;
};

struct value_loop {
    const struct value *items; /* (n) */
    uint32_t n;
    uint32_t next;      /* the current item is before this one; 0: none yet */
    struct value *kept; /* (n), see OP_KEEP */
    uint32_t n_kept;
    struct value changed; /* what loop.changed() was last asked about */
};

enum method {
    METHOD_DICT_KEYS = 0,
    METHOD_DICT_VALUES,
    METHOD_DICT_ITEMS,
    METHOD_DICT_GET,
    METHOD_DICT_COPY,
    METHOD_LIST_COUNT,
    METHOD_LIST_INDEX,
    METHOD_LIST_COPY,
    METHOD_LOOP_CYCLE,
    METHOD_LOOP_CHANGED,
    METHOD_STRIP,
    METHOD_LSTRIP,
    METHOD_RSTRIP,
    METHOD_SPLIT,
    METHOD_RSPLIT,
    METHOD_SPLITLINES,
    METHOD_STARTSWITH,
    METHOD_ENDSWITH,
    METHOD_UPPER,
    METHOD_LOWER,
    METHOD_TITLE,
    METHOD_CAPITALIZE,
    METHOD_REPLACE,
    METHOD_JOIN,
    METHOD_FIND,
    METHOD_RFIND,
    METHOD_COUNT,
    METHOD_INDEX,
    METHOD_PARTITION,
    METHOD_RPARTITION,
    METHOD_REMOVEPREFIX,
    METHOD_REMOVESUFFIX,
    METHOD_ISSPACE,
    METHOD_ZFILL,
    METHOD_UNSUPPORTED,
};

struct value_method {
    struct value receiver;
    enum method number;
    const char *name;
};

enum builtin {
    BUILTIN_RANGE = 0,
    BUILTIN_DICT,
    BUILTIN_NAMESPACE,
    BUILTIN_RAISE_EXCEPTION,
    BUILTIN_STRFTIME_NOW,
    BUILTIN_UNSUPPORTED, /* lipsum, cycler, joiner */
};

/* The local time, for strftime_now. */
struct template_time {
    int year, month, day;     /* month 1..12, day 1..31 */
    int hour, minute, second; /* 0..60 */
};

/* Text that grows, in the machine's memory: each byte with its mark. */
struct text_builder {
    uint8_t *bytes; /* (capacity), and as many marks after them */
    size_t n, capacity;
};

/* A piece of a machine's memory, in a list. */
struct template_block {
    struct template_block *next;
    uint64_t values[];
};

/* Made by naming code, error and steps; the caller frees it with smol_template_free. */
struct machine {
    const struct template_code *code;
    smol_error *error;
    smol_status status; /* what went wrong, or SMOL_OK */
    bool exhausted;     /* it was that steps or memory ran out */
    struct template_block *blocks;
    uint8_t *rest; /* (n_rest), of the block that is being filled, or NULL */
    size_t n_rest;
    size_t used;    /* bytes of all values */
    uint64_t steps; /* that are left */
    unsigned line;  /* of the operation that runs; 0: none */
    unsigned depth; /* of functions that call themselves */
    struct template_time time;
    struct value variables; /* VALUE_DICT: the caller's and the template's */
};

/* --- failures ----------------------------------------------------------------------------- */

/* Fills *machine->error with "line N: ..." and returns false. */
bool smol_template_fail(struct machine *machine, smol_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));

/* The same for a value of a type that an operation has no use for: "WHAT a list". */
bool smol_template_fail_type(struct machine *machine, const char *what, const struct value *value);

/* The same for something that the reference can do and this machine cannot. */
bool smol_template_fail_unsupported(struct machine *machine, const char *what);

/* Around functions that call themselves on what a value holds: a step each, and values may lie at
 * most TEMPLATE_MAX_DEPTH within each other. value_leave returns true. */
bool smol_value_enter(struct machine *machine);
bool smol_value_leave(struct machine *machine);

/* Takes 1 + bytes / 16 steps. */
bool smol_template_step(struct machine *machine, uint64_t bytes);

/* --- memory ------------------------------------------------------------------------------- */

/* Memory for n entries of `each` bytes, aligned to 8; NULL on failure. It is kept until all of it
 * is freed at once. */
void *smol_template_alloc(struct machine *machine, uint64_t n, size_t each);
void smol_template_free(struct machine *machine);

bool smol_builder_add(struct machine *machine, struct text_builder *builder, const uint8_t *bytes,
                      size_t n, bool argument);
bool smol_builder_add_literal(struct machine *machine, struct text_builder *builder,
                              const char *text, bool argument);
/* Adds bytes [start, end) of a text. */
bool smol_builder_add_part(struct machine *machine, struct text_builder *builder,
                           const struct value *text, size_t start, size_t end);
bool smol_builder_add_code_point(struct machine *machine, struct text_builder *builder,
                                 uint32_t code_point, bool argument);
/* The text so far, which lies in the builder: add nothing more. */
struct value smol_builder_text(const struct text_builder *builder);

/* --- making values ------------------------------------------------------------------------ */

static inline struct value value_none(void)
{
    return (struct value){.type = VALUE_NONE};
}
static inline struct value value_boolean(bool boolean)
{
    return (struct value){.type = VALUE_BOOLEAN, .boolean = boolean};
}
static inline struct value value_integer(int64_t integer)
{
    return (struct value){.type = VALUE_INTEGER, .integer = integer};
}
static inline struct value value_real(double real)
{
    return (struct value){.type = VALUE_REAL, .real = real};
}
static inline struct value value_undefined(const uint8_t *name, uint32_t n)
{
    return (struct value){.type = VALUE_UNDEFINED, .n = n, .bytes = name};
}
static inline struct value value_items(enum value_type type, const struct value *items, uint32_t n)
{
    return (struct value){.type = (uint8_t)type, .n = n, .items = items};
}
/* Text that is not the caller's; it must outlive the machine. */
static inline struct value value_text(const void *bytes, size_t n)
{
    return (struct value){.type = VALUE_TEXT, .n = (uint32_t)n, .bytes = bytes};
}

/* Bytes [start, end) of a text, which they are shared with. */
static inline struct value value_part(const struct value *text, size_t start, size_t end)
{
    struct value part = *text;
    part.bytes += start;
    part.n = (uint32_t)(end - start);
    if (part.marks)
        part.marks += start;
    return part;
}

bool smol_value_iterator(struct machine *machine, struct value list, struct value *out);

/* --- looking at values -------------------------------------------------------------------- */

static inline bool is_undefined(const struct value *value)
{
    return value->type <= VALUE_UNDEFINED;
}
static inline bool is_text(const struct value *value)
{
    return value->type == VALUE_TEXT;
}
static inline bool is_number(const struct value *value)
{
    return value->type >= VALUE_BOOLEAN && value->type <= VALUE_REAL;
}
/* What can be indexed by numbers. */
static inline bool is_sequence(const struct value *value)
{
    return value->type >= VALUE_LIST && value->type <= VALUE_RANGE;
}
/* An integer, or a boolean, which is one to Python. */
static inline bool is_integral(const struct value *value)
{
    return value->type == VALUE_BOOLEAN || value->type == VALUE_INTEGER;
}
static inline int64_t integral(const struct value *value)
{
    return value->type == VALUE_BOOLEAN ? value->boolean : value->integer;
}
static inline bool text_is(const struct value *value, const char *text)
{
    size_t n = __builtin_strlen(text);
    return is_text(value) && value->n == n && __builtin_memcmp(value->bytes, text, n) == 0;
}
static inline bool text_argument(const struct value *text, size_t i)
{
    return text->marks ? text->marks[i] : text->argument;
}

const char *smol_value_type_name(const struct value *value); /* as Python calls it */
bool smol_value_truth(const struct value *value);
bool smol_value_equal(struct machine *machine, const struct value *a, const struct value *b,
                      bool *equal);
/* *order: -1, 0 or 1, or 2 where there is none, as of NaN. Only numbers, texts, lists and tuples
 * are ordered. */
bool smol_value_order(struct machine *machine, const struct value *a, const struct value *b,
                      int *order);
bool smol_value_contains(struct machine *machine, const struct value *container,
                         const struct value *item, bool *contains);

/* The value of a key that equals `key`, or NULL. */
bool smol_dict_find(struct machine *machine, const struct value *dict, const struct value *key,
                    const struct value **found);

/* What a loop over the value goes through, as a VALUE_LIST; an iterator is used up. */
bool smol_value_iterate(struct machine *machine, const struct value *value, struct value *list);

/* Characters of a text, and where the k-th begins (k at most their number). */
size_t smol_text_length(const struct value *text);
size_t smol_text_offset(const struct value *text, size_t k);

/* Where needle first stands in bytes [start, text->n), or SIZE_MAX. */
size_t smol_text_find(const struct value *text, const struct value *needle, size_t start);

#endif
