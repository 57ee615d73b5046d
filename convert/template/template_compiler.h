/* Compiles chat templates into the code described in format/template.h. */
#ifndef SMOL_CONVERT_TEMPLATE_COMPILER_H
#define SMOL_CONVERT_TEMPLATE_COMPILER_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* A complete template section. */
struct template_section {
    uint8_t *data; /* (size), owned (free) */
    size_t size;
};

/* A special token that templates refer to by name, such as bos_token. Both strings are
 * terminated. */
struct template_token {
    const char *name, *text;
};

/* The source of a template. */
struct template_text {
    const char *name; /* used in messages; terminated */
    const char *text; /* (size) */
    size_t size;
};

/* The input of the compiler. */
struct template_input {
    const char *name; /* name of the whole section; terminated */
    struct template_text plain;
    struct template_text tools; /* replaces `plain` if the variable `tools` is not None; text is
                                   NULL if there is no such template */
    const struct template_token *tokens; /* (n_tokens) */
    size_t n_tokens;
};

/* Compiles one or two templates. An unsupported template yields a section without code and SMOL_OK;
 * then *reason points to a terminated text in the section ("line L, column C: ...", prefixed with
 * the template's name if there are two). Otherwise *reason is NULL. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_template_compile(const struct template_input *input,
                                  struct template_section *section, const char **reason,
                                  smol_error *error);

/* Makes a section without code whose reason is the message of `said`. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_template_without_code(const struct template_input *input, const smol_error *said,
                                       struct template_section *section, const char **reason,
                                       smol_error *error);

#endif
