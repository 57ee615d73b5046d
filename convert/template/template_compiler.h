/* Compiles chat templates into the code described in format/template.h. */
#ifndef SMOL_CONVERT_TEMPLATE_COMPILER_H
#define SMOL_CONVERT_TEMPLATE_COMPILER_H

#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/error.h"
#include "format/template.h"

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

/* template_builder.c: a section under construction: constants, functions and operations. Starts
 * zeroed. Each table is a byte buffer; if memory runs out, the buffer's `failed` is set. */
struct template_builder {
    struct buffer constants, functions, operations, variables, text;
    enum tool_style tool_style;
};

uint32_t smol_builder_string(struct template_builder *builder, const char *text, size_t size);
uint32_t smol_builder_constant(struct template_builder *builder, enum constant_type type,
                               uint64_t value);

/* Builds a section from the tables; *section is empty after an error. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_builder_finish(struct template_builder *builder, uint32_t name, uint32_t reason,
                                size_t source_size, struct template_section *section,
                                smol_error *error);
void smol_builder_free(struct template_builder *builder);

/* tool_style.c: recognizes how a chat template writes calls of tools. Returns the style of the
 * template that is used for conversations with tools. TOOLS_NONE: it has no tools, or writes calls
 * in an unknown form. */
enum tool_style smol_tool_style_find(const struct template_input *input);

#endif
