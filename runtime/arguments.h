/* The arguments of calls in styles that do not write JSON, turned into JSON byte by byte. */
#ifndef SMOL_RUNTIME_ARGUMENTS_H
#define SMOL_RUNTIME_ARGUMENTS_H

#include "common/buffer.h"
#include "format/template.h"
#include "runtime/constrain/json_tree.h"

enum argument_place {
    ARGUMENT_KEY,    /* before or in a name, or before the end of an object */
    ARGUMENT_VALUE,  /* before a value, or the end of a list */
    ARGUMENT_WORD,   /* in a number or a word */
    ARGUMENT_QUOTE,  /* in the quote that opens a string */
    ARGUMENT_STRING, /* in a string */
    ARGUMENT_TAG,    /* of XML: before a name, or before the end */
    ARGUMENT_NAME,   /* of XML */
    ARGUMENT_START,  /* after that, in what may begin a section of CDATA */
    ARGUMENT_TEXT,   /* of XML: in a value that may be a string */
    ARGUMENT_CLOSE,  /* of XML: after a section, before the end of the value */
    ARGUMENT_AFTER,  /* after a value, or a name with quotes */
};

struct argument_reader {
    const struct tool_style_texts *texts;
    const struct json_node *schema; /* of the arguments, or NULL */
    enum argument_place place;
    struct buffer open; /* the brackets that are open, in JSON's form */
    struct buffer held; /* a name, a word, or what may be a quote */
    const char *quote;  /* ends the string */
    bool escaped;       /* after a backslash in a string of JSON */
    bool quoted;        /* in a string of JSON within a value of XML */
    bool is_key;        /* of the string */
    bool is_string;     /* of the value in XML */
    bool is_first;      /* of the next name in XML */
};

enum argument_step { ARGUMENTS_CONTINUE, ARGUMENTS_END, ARGUMENTS_WRONG };

/* Begins arguments, after name_end. Zeros are a new reader. `schema`, or NULL, tells which
 * arguments of XML are strings. */
void smol_arguments_begin(struct argument_reader *r, const struct tool_style_texts *texts,
                          const struct json_node *schema, struct buffer *out);

/* Reads the next byte and appends what is known of the JSON text to `out`. */
enum argument_step smol_arguments_byte(struct argument_reader *r, char c, struct buffer *out);

void smol_arguments_free(struct argument_reader *r);

#endif
