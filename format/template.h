/* The chat template of a blob: a Jinja template, compiled to instructions of a stack machine.
 * FORMAT.md, 5.11, defines each instruction; runtime/template/template_vm.c executes them. */
#ifndef SMOL_FORMAT_TEMPLATE_H
#define SMOL_FORMAT_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* The section starts with this struct. The tables follow without gaps, in the order of the counts
 * here. Function 0 is the template itself, the others are its macros. */
struct blob_template {
    uint32_t n_constants;  /* struct template_constant */
    uint32_t n_functions;  /* struct template_function; 0: the template could not be compiled */
    uint32_t n_operations; /* struct template_operation */
    uint32_t n_variables;  /* struct template_variable */
    uint32_t n_text_bytes; /* bytes of the text pool */
    uint32_t name; /* constant, a string: the name of the template in the checkpoint, for display */
    uint32_t reason;      /* constant, a string: why it was not compiled, or NO_CONSTANT */
    uint32_t source_size; /* bytes of the template's source, for display */
    uint32_t tool_style;  /* enum tool_style; with FEATURE_TOOLS, not 0 */
    uint32_t reserved[7];
};
#define NO_CONSTANT UINT32_MAX

/* How a model writes a call of a tool. FORMAT.md, 5.11, has an example of each. */
enum tool_style {
    TOOLS_NONE = 0, /* the template has no tools, or their calls have an unknown form */
    TOOLS_HERMES,
    TOOLS_LLAMA3,
    TOOLS_MISTRAL,
    TOOLS_MISTRAL_ARGS,
    TOOLS_GRANITE,
    TOOLS_FUNCTION_GEMMA,
    TOOLS_GEMMA,
    TOOLS_PYTHON,
    TOOLS_QWEN_XML,
    TOOLS_PYTHON_LINES,
    TOOLS_DEEPSEEK,
    TOOLS_HUNYUAN,
    TOOLS_PHI4,
    TOOLS_FUNCTION,
    TOOLS_NEMOTRON,
    TOOLS_MISTRAL_ID,
    TOOLS_XLAM,
    TOOLS_PYTHONIC,
    TOOLS_FUNCTOOLS,
    TOOLS_PYTHON_BLOCK,
    TOOLS_HAMMER,
    TOOLS_APRIEL,
    TOOLS_MINICPM_XML,
    TOOLS_COHERE,
    N_TOOL_STYLES,
};

enum constant_type {
    CONSTANT_NONE = 0,
    CONSTANT_FALSE,
    CONSTANT_TRUE,
    CONSTANT_INTEGER,
    CONSTANT_REAL,
    CONSTANT_STRING,
};
struct template_constant {
    uint32_t type;   /* enum constant_type */
    uint32_t length; /* CONSTANT_STRING: bytes, UTF-8; otherwise 0 */
    uint64_t value;  /* an i64, an f64, the start in the text pool, or 0 */
};

struct template_function {
    uint32_t start;        /* first operation; functions are adjacent */
    uint32_t n_operations; /* at least 1 */
    uint32_t n_parameters; /* the first slots are the parameters */
    uint32_t n_slots;
    uint32_t max_stack;  /* most values on the stack, not counting slots */
    uint32_t name;       /* constant, a string */
    uint32_t parameters; /* first of the constants that are the parameters' names, strings */
    uint32_t reserved;
};

/* A variable in addition to the caller's: a special token. */
struct template_variable {
    uint32_t name, value; /* constants, strings */
};

struct template_operation {
    uint8_t code; /* enum template_opcode */
    uint8_t a;
    uint16_t line; /* of the source, for messages; at most 65535 */
    uint32_t b;
};

/* The effect on the stack is written as (before -> after). */
enum template_opcode {
    /* output */
    OP_TEXT = 0,      /* ( -> ) writes constant b, a string */
    OP_PRINT,         /* (value -> ) writes it */
    OP_CAPTURE,       /* ( -> ) starts capturing the output */
    OP_CAPTURED,      /* ( -> text) ends the capture and pushes its text */
    OP_CAPTURE_LEAVE, /* ( -> ) ends the capture and drops its text */
    /* values */
    OP_CONSTANT,  /* ( -> value) constant b */
    OP_UNDEFINED, /* ( -> value) undefined, named by constant b */
    OP_RESOLVE,   /* ( -> value) the caller's variable named by constant b */
    OP_GET,       /* ( -> value) slot b; of function 0 if a is 1 */
    OP_SET,       /* (value -> ) slot b; of function 0 if a is 1 */
    OP_LIST,      /* (b values -> list) */
    OP_TUPLE,     /* (b values -> tuple) */
    OP_DICT,      /* (b times key, value -> dict) */
    OP_FUNCTION,  /* ( -> macro) function b */
    OP_POP,       /* (value -> ) */
    OP_DUP,       /* (x -> x x) */
    OP_SWAP,      /* (x y -> y x) */
    OP_TUCK,      /* (x y -> y x y) */
    OP_UNPACK,    /* (sequence of b -> last ... first) */
    /* operators */
    OP_ATTRIBUTE, /* (value -> value) .name, constant b */
    OP_ITEM,      /* (value key -> value) */
    OP_SLICE,     /* (value start stop step -> value) */
    OP_NOT,       /* (value -> boolean) */
    OP_UNARY,     /* (value -> value) a: enum template_unary */
    OP_BINARY,    /* (x y -> value) a: enum template_binary */
    OP_COMPARE,   /* (x y -> boolean) a: enum template_compare */
    OP_CONCAT,    /* (b values -> text) */
    OP_STORE,     /* (namespace value -> ) sets its attribute, constant b */
    /* calls: a positional values, then b times a constant string and a value for it */
    OP_CALL,   /* (callee ... -> value) */
    OP_FILTER, /* (value ... -> value) b: filter, bits 0..15, and named arguments, 16..31 */
    OP_TEST,   /* (value ... -> boolean) as OP_FILTER, for a test */
    OP_GIVEN,  /* ( -> ) jumps to b if parameter a was passed */
    OP_RETURN, /* ( -> ) the end of a function */
    /* jumps, to operation b of the function */
    OP_JUMP,       /* ( -> ) */
    OP_JUMP_FALSE, /* (value -> ) jumps if it is false */
    OP_AND,        /* (value -> value) jumps if it is false, otherwise (value -> ) */
    OP_OR,         /* (value -> value) jumps if it is true, otherwise (value -> ) */
    /* loops */
    OP_LOOP,     /* (iterable -> loop) */
    OP_NEXT,     /* (loop -> loop item), or after the last, (loop -> loop) and jumps to b */
    OP_KEEP,     /* (loop value -> loop) keeps the item if value is true, see OP_REWIND */
    OP_REWIND,   /* (loop -> loop) starts again, with the kept items */
    OP_LOOP_END, /* (loop -> ) jumps to b if it had an item */
    /* a call whose number of arguments is known only when it runs */
    OP_CALL_LIST, /* (callee list ... -> value) as OP_CALL, the list has those by position */
    N_TEMPLATE_CODES,
};

enum template_unary { UNARY_MINUS = 0, UNARY_PLUS, N_TEMPLATE_UNARIES };
enum template_binary {
    BINARY_ADD = 0,
    BINARY_SUBTRACT,
    BINARY_MULTIPLY,
    BINARY_DIVIDE,
    BINARY_FLOOR_DIVIDE,
    BINARY_MODULO,
    BINARY_POWER,
    N_TEMPLATE_BINARIES,
};
enum template_compare {
    COMPARE_EQUAL = 0,
    COMPARE_UNEQUAL,
    COMPARE_LESS,
    COMPARE_LESS_EQUAL,
    COMPARE_GREATER,
    COMPARE_GREATER_EQUAL,
    COMPARE_IN,
    COMPARE_NOT_IN,
    N_TEMPLATE_COMPARES,
};

enum template_filter {
    FILTER_TRIM = 0,
    FILTER_TOJSON,
    FILTER_DEFAULT,
    FILTER_ITEMS,
    FILTER_LENGTH,
    FILTER_UPPER,
    FILTER_LOWER,
    FILTER_CAPITALIZE,
    FILTER_TITLE,
    FILTER_JOIN,
    FILTER_MAP,
    FILTER_SELECT,
    FILTER_REJECT,
    FILTER_SELECTATTR,
    FILTER_REJECTATTR,
    FILTER_FIRST,
    FILTER_LAST,
    FILTER_REPLACE,
    FILTER_STRING,
    FILTER_INT,
    FILTER_FLOAT,
    FILTER_LIST,
    FILTER_REVERSE,
    FILTER_INDENT,
    FILTER_UNIQUE,
    FILTER_SORT,
    FILTER_DICTSORT,
    FILTER_ABS,
    FILTER_MIN,
    FILTER_MAX,
    FILTER_SUM,
    FILTER_SAFE,
    FILTER_FORMAT,
    N_TEMPLATE_FILTERS,
};

enum template_test {
    TEST_DEFINED = 0,
    TEST_UNDEFINED,
    TEST_NONE,
    TEST_STRING,
    TEST_MAPPING,
    TEST_SEQUENCE,
    TEST_ITERABLE,
    TEST_NUMBER,
    TEST_INTEGER,
    TEST_FLOAT,
    TEST_BOOLEAN,
    TEST_TRUE,
    TEST_FALSE,
    TEST_CALLABLE,
    TEST_ODD,
    TEST_EVEN,
    TEST_DIVISIBLEBY,
    TEST_EQUAL,
    TEST_UNEQUAL,
    TEST_LESS,
    TEST_LESS_EQUAL,
    TEST_GREATER,
    TEST_GREATER_EQUAL,
    TEST_IN,
    N_TEMPLATE_TESTS,
};

enum {
    TEMPLATE_MAX_OPERATIONS = 1 << 20,
    TEMPLATE_MAX_CONSTANTS = 1 << 20,
    TEMPLATE_MAX_FUNCTIONS = 1 << 10,
    TEMPLATE_MAX_STACK = 1 << 10, /* largest max_stack and n_slots of a function */
    TEMPLATE_MAX_CAPTURES = 32,   /* nested captures in a function */
    TEMPLATE_MAX_SOURCE = 1 << 20,
};

/* A template section as typed pointers into it. */
struct template_code {
    struct blob_template header;
    const struct template_constant *constants;
    const struct template_function *functions;
    const struct template_operation *operations;
    const struct template_variable *variables;
    const uint8_t *text;
};

/* Checks the section data[0..size), aligned to 8 bytes, and fills *code; the section must outlive
 * it. On success every rule of FORMAT.md holds: jumps stay within their function, operands exist,
 * and every path to an operation has the same heights of stack and captures, which are never below
 * zero and never above max_stack and TEMPLATE_MAX_CAPTURES. Errors: SMOL_ERROR_DAMAGED,
 * SMOL_ERROR_MEMORY. */
smol_status smol_template_open(const uint8_t *data, size_t size, struct template_code *code,
                               smol_error *error);

/* Returns by how many values a valid operation changes the height of the stack if execution
 * continues after it. */
int64_t smol_template_growth(const struct template_operation *operation);

/* Return the number of the filter or test with this name in templates, or -1. Aliases, such as
 * "count", have the same number. */
int smol_template_find_filter(const char *name, size_t length);
int smol_template_find_test(const char *name, size_t length);

/* How the arguments of a call are written. */
enum argument_syntax {
    ARGUMENTS_JSON,
    ARGUMENTS_GEMMA,  /* {key:value,...}, names without quotes, strings raw between `quote` */
    ARGUMENTS_PYTHON, /* (key=value, ...), the strings of JSON, True, False and None */
    ARGUMENTS_XML,    /* (key NAME key_end VALUE after)*, then </function> */
};

#define CDATA_OPEN "<![CDATA["
#define CDATA_CLOSE "]]>"

/* Whether the calls of a group are between brackets. */
enum call_brackets {
    CALLS_PLAIN,
    CALLS_LISTED,
    CALLS_INDENTED, /* a list with each call on a line of its own, after four blanks */
    CALLS_EITHER,   /* one call, or a list */
};

/* An answer is free text, then groups of calls. A group is
 *     marker space CALL (list_next CALL)* end
 * and a CALL `{"name": "NAME", "ARGUMENTS": {...}}`, with `"NUMBER": "0", ` before its name where
 * `number` is not NULL, or where `arguments` is NULL
 * call NAME (id ID)? name_end, the arguments, call_end; a name_end of one byte opens the arguments.
 * `at_start` stands in place of the marker, which is what the two and a call begin with. Texts are
 * terminated. */
struct tool_style_texts {
    const char *marker;    /* begins a group, and is often one special token */
    char space[2];         /* after it; the model may leave it out */
    const char *arguments; /* name of the member with the arguments */
    const char *name;      /* and of that with the name; NULL: "name" */
    const char *number;    /* and of one before it, whose string is a number; NULL: there is none */
    const char *call, *name_end;
    const char *id;       /* before 9 letters and digits; NULL: there are none */
    const char *call_end; /* NULL: nothing ends a call */
    enum argument_syntax syntax;
    const char *quote; /* around strings of ARGUMENTS_GEMMA; what `after` begins with */
    const char *comma; /* between arguments of ARGUMENTS_PYTHON; NULL: ", " */
    const char *key, *key_end, *after; /* of ARGUMENTS_XML */
    bool cdata; /* its strings may be sections of CDATA; those with <, & or a line feed must */
    enum call_brackets brackets;
    const char *list_next; /* between calls of a group; NULL: it has one call */
    const char *end;       /* the model may leave out a line feed that it begins with */
    const char *next;      /* between groups; NULL: there is one group */
    const char *at_start;  /* begins the answer before a group; NULL: text may come before */
};

/* Returns the name and the texts of a style; NULL for TOOLS_NONE. */
const char *smol_tool_style_name(enum tool_style style);
const struct tool_style_texts *smol_tool_style_texts(enum tool_style style);

#endif
