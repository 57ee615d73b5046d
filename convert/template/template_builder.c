/* Builds template sections. See template_compiler.h. */
#include "convert/template/template_compiler.h"

#include <stdlib.h>
#include <string.h>

enum { LOOK_BACK = 256 }; /* number of recent constants searched for a duplicate */

static uint32_t count(const struct buffer *table, size_t each)
{
    return (uint32_t)(table->size / each);
}

static uint32_t add_constant(struct template_builder *builder,
                             const struct template_constant *constant)
{
    uint32_t index = count(&builder->constants, sizeof *constant);
    smol_buffer_add(&builder->constants, (const char *)constant, sizeof *constant);
    return index;
}

/* Returns the index of an equal constant among the last LOOK_BACK, or NO_CONSTANT. */
static uint32_t find_constant(const struct template_builder *builder,
                              const struct template_constant *wanted, const char *text)
{
    uint32_t n = count(&builder->constants, sizeof *wanted);
    for (uint32_t i = n; i > 0 && n - i < LOOK_BACK; i--) {
        struct template_constant have;
        memcpy(&have, builder->constants.text + (i - 1) * sizeof have, sizeof have);
        if (have.type != wanted->type || have.length != wanted->length)
            continue;
        if (!text ? have.value == wanted->value
                  : have.length == 0 ||
                        memcmp(builder->text.text + have.value, text, have.length) == 0)
            return i - 1;
    }
    return NO_CONSTANT;
}

uint32_t smol_builder_string(struct template_builder *builder, const char *text, size_t size)
{
    const struct template_constant constant = {CONSTANT_STRING, (uint32_t)size, builder->text.size};
    uint32_t found = find_constant(builder, &constant, text);
    if (found != NO_CONSTANT || builder->text.failed || builder->constants.failed)
        return found;
    smol_buffer_add(&builder->text, text, size);
    return add_constant(builder, &constant);
}

uint32_t smol_builder_constant(struct template_builder *builder, enum constant_type type,
                               uint64_t value)
{
    const struct template_constant constant = {type, 0, value};
    uint32_t found = find_constant(builder, &constant, NULL);
    return found != NO_CONSTANT ? found : add_constant(builder, &constant);
}

smol_status smol_builder_finish(struct template_builder *builder, uint32_t name, uint32_t reason,
                                size_t source_size, struct template_section *section,
                                smol_error *error)
{
    const struct blob_template header = {
        .n_constants = count(&builder->constants, sizeof(struct template_constant)),
        .n_functions = count(&builder->functions, sizeof(struct template_function)),
        .n_operations = count(&builder->operations, sizeof(struct template_operation)),
        .n_variables = count(&builder->variables, sizeof(struct template_variable)),
        .n_text_bytes = (uint32_t)builder->text.size,
        .name = name,
        .reason = reason,
        .source_size = (uint32_t)source_size,
        .tool_style = builder->tool_style,
    };
    const struct buffer *const tables[] = {&builder->constants, &builder->functions,
                                           &builder->operations, &builder->variables,
                                           &builder->text};
    struct buffer out = {0};
    smol_buffer_add(&out, (const char *)&header, sizeof header);
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        out.failed |= tables[i]->failed;
        smol_buffer_add(&out, tables[i]->text, tables[i]->size);
    }
    *section = (struct template_section){0};
    if (out.failed) {
        free(out.text);
        return smol_fail_memory(error, "the chat template");
    }
    *section = (struct template_section){(uint8_t *)out.text, out.size};
    return SMOL_OK;
}

void smol_builder_free(struct template_builder *builder)
{
    free(builder->constants.text);
    free(builder->functions.text);
    free(builder->operations.text);
    free(builder->variables.text);
    free(builder->text.text);
    *builder = (struct template_builder){0};
}
