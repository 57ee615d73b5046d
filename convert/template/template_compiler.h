/* Chat templates as the code of format/template.h. */
#ifndef SMOL_CONVERT_TEMPLATE_COMPILER_H
#define SMOL_CONVERT_TEMPLATE_COMPILER_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* A whole template section. */
struct template_section {
    uint8_t *data; /* (size), owned (free) */
    size_t size;
};

/* A special token that templates know by name, such as bos_token. Both terminated. */
struct template_token {
    const char *name, *text;
};

/* The source of a template. */
struct template_text {
    const char *name; /* for messages; terminated */
    const char *text; /* (size) */
    size_t size;
};

/* What is compiled. */
struct template_input {
    const char *name; /* of all that is compiled; terminated */
    struct template_text plain;
    struct template_text tools; /* what runs in place of `plain` when `tools` is not None; its text
                                   NULL: there is none */
    const struct template_token *tokens; /* (n_tokens) */
    size_t n_tokens;
};

/* Compiles a template, or two. What is not supported gives a section without code, which says why,
 * and SMOL_OK too: *reason, the section's, is then a terminated text ("line L, column C: ...", of
 * two templates after the name of one), otherwise NULL. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_template_compile(const struct template_input *input,
                                  struct template_section *section, const char **reason,
                                  smol_error *error);

/* A section without code, whose reason is the message of `said`. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_template_without_code(const struct template_input *input, const smol_error *said,
                                       struct template_section *section, const char **reason,
                                       smol_error *error);

#endif
