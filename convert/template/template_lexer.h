/* Splits a chat template into tokens, as jinja2 does with trim_blocks and lstrip_blocks. */
#ifndef SMOL_CONVERT_TEMPLATE_LEXER_H
#define SMOL_CONVERT_TEMPLATE_LEXER_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

enum token_type {
    TOKEN_DATA, /* text between tags */
    TOKEN_VARIABLE_BEGIN,
    TOKEN_VARIABLE_END,
    TOKEN_BLOCK_BEGIN,
    TOKEN_BLOCK_END,
    TOKEN_NAME,
    TOKEN_STRING, /* without quotes and escapes */
    TOKEN_INTEGER,
    TOKEN_REAL,
    TOKEN_OPERATOR,
    TOKEN_END,
};

struct token {
    enum token_type type;
    size_t at;        /* offset in the source */
    const char *text; /* (size), not terminated */
    size_t size;
    union {
        int64_t integer;
        double real;
    };
};

/* The source of a template, with "\n" as its line break, and its tokens. */
struct template_source {
    char *text; /* (size), owned */
    size_t size;
    char *pool; /* owned: the contents of strings */
    size_t n_pool;
    size_t *lines; /* (n_lines), owned: start of each line */
    size_t n_lines;
    struct token *tokens; /* (n_tokens), owned; the last is TOKEN_END */
    size_t n_tokens, capacity;
};

/* Reads text[0..size). The caller frees *source, also after an error. Errors: SMOL_ERROR_DAMAGED
 * (jinja2 refuses the text too), SMOL_ERROR_UNSUPPORTED, both with the message "line L, column C:
 * ..."; SMOL_ERROR_MEMORY. */
smol_status smol_template_lex(const char *text, size_t size, struct template_source *source,
                              smol_error *error);
void smol_template_source_free(struct template_source *source);

/* Returns the line of an offset, counted from 1. O(log lines): a line may be as long as the
 * template. */
unsigned smol_template_line(const struct template_source *source, size_t at);

/* Fills *error with "line L, column C: ..." and returns `status`. Columns are characters, counted
 * from 1; counting takes time proportional to the line. */
smol_status smol_template_refuse(const struct template_source *source, size_t at, smol_error *error,
                                 smol_status status, const char *format, ...)
    __attribute__((format(printf, 5, 6), cold));

#endif
