/* Conversations through a chat template, independent of the model. */
#ifndef SMOL_RUNTIME_CHAT_H
#define SMOL_RUNTIME_CHAT_H

#include <stdbool.h>

#include "common/error.h"
#include "format/template.h"
#include "smol.h"

/* Writes to the model's log why its chat template cannot be used, if it cannot. */
void smol_chat_log(const smol_model *model);

/* Returns whether the model has a chat template that this release can run. */
bool smol_chat_supported(const smol_model *model);

/* Formats a conversation as smol_chat_format does. The template must be compiled. */
smol_status smol_chat_run(const struct template_code *code, const smol_chat_params *params,
                          smol_chat_text *text, smol_error *error);

/* tools.c: returns the texts of the style in which the model calls tools. Errors:
 * SMOL_ERROR_UNSUPPORTED (none is known). */
smol_status smol_tool_texts(const smol_model *model, const struct tool_style_texts **texts,
                            smol_error *error);

#endif
