/* The values of chat templates, modelled on Python's, with bounds on memory and steps. Lists,
 * tuples, dicts and text are immutable; only namespaces, loops and iterators change.
 *
 * Functions that can fail return false and fill machine->error. After a failure, the machine must
 * not be used again, except to free it. */
#ifndef SMOL_RUNTIME_TEMPLATE_VALUE_H
#define SMOL_RUNTIME_TEMPLATE_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "format/template.h"

enum {
    TEMPLATE_MEMORY = 64 << 20,  /* bytes for all values of a run, including the result */
    TEMPLATE_BLOCK = 64 << 10,   /* bytes of a block, see smol_template_alloc */
    TEMPLATE_STEPS = 1 << 25,    /* an operation, an element or 16 bytes of text is a step */
    TEMPLATE_STACK = 1 << 13,    /* values: slots and stacks of all calls */
    TEMPLATE_MAX_CALLS = 64,     /* nesting of macro calls */
    TEMPLATE_MAX_DEPTH = 64,     /* nesting of lists and dicts */
    TEMPLATE_MAX_RANGE = 100000, /* elements of a range, as in the reference */
    TEMPLATE_MAX_MEMBERS = 4096, /* members of an object in the caller's JSON text */
};

enum value_type {
    VALUE_MISSING = 0, /* a slot without a value; behaves like UNDEFINED */
    VALUE_UNDEFINED,
    VALUE_NONE,
    VALUE_BOOLEAN,
    VALUE_INTEGER,
    VALUE_REAL,
    VALUE_TEXT,
    VALUE_LIST,
    VALUE_TUPLE,
    VALUE_RANGE,
    VALUE_VIEW,     /* result of a dict method: can be counted and iterated, not indexed */
    VALUE_ITERATOR, /* result of map, select and similar filters: can be iterated once */
    VALUE_DICT,
    VALUE_NAMESPACE,
    VALUE_LOOP,
    VALUE_MACRO,
    VALUE_METHOD,
    VALUE_BUILTIN,
};

struct value {
    uint8_t type;     /* enum value_type */
    uint8_t argument; /* text without marks: 1 if it comes from the caller's arguments */
    uint8_t safe;     /* text: 1 if the filter `safe` returned it (Python's Markup) */
    uint32_t n;       /* number of bytes, elements, or pairs of a dict */
    union {
        bool boolean;
        int64_t integer;
        double real;
        const uint8_t *bytes;      /* UTF-8; for an undefined value, its name */
        const struct value *items; /* (n), for a dict (2 n): key, value, key, value ... */
        struct value_iterator *iterator;
        struct value_names *names;
        struct value_loop *loop;
        const struct value_method *method;
        uint32_t number; /* index of a function, or enum builtin */
    };
    const uint8_t *marks; /* text: (n), 1 for each byte that comes from the arguments; or NULL */
};

struct value_iterator {
    struct value list; /* VALUE_LIST */
    bool used;
};

struct value_names { /* attributes of a namespace */
    struct value *pairs;
    uint32_t n, capacity;
};

struct value_loop {
    const struct value *items; /* (n) */
    uint32_t n;
    uint32_t next;      /* index of the item after the current one; 0: not started */
    struct value *kept; /* (n), see OP_KEEP */
    uint32_t n_kept;
    struct value changed; /* arguments of the last loop.changed() */
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
    METHOD_FORMAT,
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

/* The local time for strftime_now. */
struct template_time {
    int year, month, day;     /* month 1..12, day 1..31 */
    int hour, minute, second; /* 0..60 */
};

/* A growing text in the machine's memory, with a mark for each byte. */
struct text_builder {
    uint8_t *bytes; /* (capacity), followed by (capacity) marks */
    size_t n, capacity;
};

/* A growing list of values in the machine's memory. */
struct value_list {
    struct value *items;
    uint32_t n, capacity;
};

/* A piece of a machine's memory, in a linked list. */
struct template_block {
    struct template_block *next;
    uint64_t values[];
};

/* The state of a run. The caller initializes code, error and steps, and frees it with
 * smol_template_free. */
struct machine {
    const struct template_code *code;
    smol_error *error;
    smol_status status; /* status of the failure, or SMOL_OK */
    bool exhausted;     /* the failure was that steps or memory ran out */
    struct template_block *blocks;
    uint8_t *rest; /* (n_rest), unused part of the current block, or NULL */
    size_t n_rest;
    size_t used;    /* bytes used by all values */
    uint64_t steps; /* number of steps left */
    unsigned line;  /* line of the current operation; 0: none */
    unsigned depth; /* recursion depth, see smol_value_enter */
    struct template_time time;
    struct value variables; /* VALUE_DICT: variables of the caller and of the template */
};

/* --- failures ----------------------------------------------------------------------------- */

/* Fills *machine->error with "line N: ..." and returns false. */
bool smol_template_fail(struct machine *machine, smol_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));

/* Fails because an operation does not accept the type of the value: "WHAT a list". */
bool smol_template_fail_type(struct machine *machine, const char *what, const struct value *value);

/* Fails because of a feature that the reference supports and this machine does not. */
bool smol_template_fail_unsupported(struct machine *machine, const char *what);

/* Enclose each function that calls itself on the parts of a value. smol_value_enter takes a step
 * and fails if values are nested more than TEMPLATE_MAX_DEPTH deep; smol_value_leave returns
 * true. */
bool smol_value_enter(struct machine *machine);
bool smol_value_leave(struct machine *machine);

/* Consumes 1 + bytes / 16 steps. */
bool smol_template_step(struct machine *machine, uint64_t bytes);

/* --- memory ------------------------------------------------------------------------------- */

/* Allocates n entries of `each` bytes, aligned to 8; returns NULL on failure. smol_template_free
 * frees all memory at once. */
void *smol_template_alloc(struct machine *machine, uint64_t n, size_t each);
void smol_template_free(struct machine *machine);

/* Appends at most 8 values. */
bool smol_value_list_add(struct machine *machine, struct value_list *list,
                         const struct value *values, uint32_t n);

bool smol_builder_add(struct machine *machine, struct text_builder *builder, const uint8_t *bytes,
                      size_t n, bool argument);
bool smol_builder_add_literal(struct machine *machine, struct text_builder *builder,
                              const char *text, bool argument);
/* Appends bytes [start, end) of a text. */
bool smol_builder_add_part(struct machine *machine, struct text_builder *builder,
                           const struct value *text, size_t start, size_t end);
bool smol_builder_add_code_point(struct machine *machine, struct text_builder *builder,
                                 uint32_t code_point, bool argument);
/* Returns the text so far. It shares the builder's memory: append nothing afterwards. */
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
/* Makes a text that does not come from the caller; the bytes must outlive the machine. */
static inline struct value value_text(const void *bytes, size_t n)
{
    return (struct value){.type = VALUE_TEXT, .n = (uint32_t)n, .bytes = bytes};
}

/* Makes a text of bytes [start, end) of another, whose memory it shares. */
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
/* Returns whether the value can be indexed by numbers. */
static inline bool is_sequence(const struct value *value)
{
    return value->type >= VALUE_LIST && value->type <= VALUE_RANGE;
}
/* Returns whether the value is an integer, or a boolean, which Python treats as an integer. */
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

const char *smol_value_type_name(const struct value *value); /* the name of the type in Python */
bool smol_value_truth(const struct value *value);
bool smol_value_equal(struct machine *machine, const struct value *a, const struct value *b,
                      bool *equal);
/* Sets *order to -1, 0 or 1, or to 2 if the values are unordered, as NaN is. Only numbers, texts,
 * lists and tuples have an order. */
bool smol_value_order(struct machine *machine, const struct value *a, const struct value *b,
                      int *order);
bool smol_value_contains(struct machine *machine, const struct value *container,
                         const struct value *item, bool *contains);

/* Finds the value of a key that equals `key`; sets *found to NULL if there is none. */
bool smol_dict_find(struct machine *machine, const struct value *dict, const struct value *key,
                    const struct value **found);

/* Puts a pair into pairs[0..*n), which must have room. A repeated key keeps its position and takes
 * the new value. */
bool smol_dict_put(struct machine *machine, struct value *pairs, uint32_t *n,
                   const struct value *key, const struct value *value);

/* Lists the items that a loop over the value visits, as a VALUE_LIST. This consumes an iterator. */
bool smol_value_iterate(struct machine *machine, const struct value *value, struct value *list);

/* Return the number of characters in a text, and the offset of the k-th (k is at most their
 * number). */
size_t smol_text_length(const struct value *text);
size_t smol_text_offset(const struct value *text, size_t k);

/* Returns the position of the first `needle` in bytes [start, text->n), or SIZE_MAX. */
size_t smol_text_find(const struct value *text, const struct value *needle, size_t start);

/* template_json.c: reads text[0..size), one JSON value of the caller's (messages, tools, documents,
 * variables), and marks all texts in it as arguments. The text must
 * outlive the value. Limits: TEMPLATE_MAX_DEPTH levels and TEMPLATE_MAX_MEMBERS members of an
 * object; of members with the same name, the last one counts. `name` describes the text in
 * messages. Errors: SMOL_ERROR_USAGE (not JSON, or not UTF-8; the machine may be used again if its
 * status is cleared), SMOL_ERROR_UNSUPPORTED (too deep or too large). */
bool smol_template_read_json(struct machine *machine, const char *name, const char *text,
                             size_t size, struct value *value);

#endif
