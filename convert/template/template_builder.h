/* A template section under construction: constants, functions and operations. */
#ifndef SMOL_CONVERT_TEMPLATE_BUILDER_H
#define SMOL_CONVERT_TEMPLATE_BUILDER_H

#include "common/buffer.h"
#include "convert/template/template_compiler.h"
#include "format/template.h"

/* Starts zeroed. Each table is a byte buffer; if memory runs out, the buffer's `failed` is set. */
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

#endif
