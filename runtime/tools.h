/* The style in which a model calls tools. */
#ifndef SMOL_RUNTIME_TOOLS_H
#define SMOL_RUNTIME_TOOLS_H

#include "format/template.h"
#include "smol.h"

/* Returns the texts of the model's style. Errors: SMOL_ERROR_UNSUPPORTED (none is known). */
smol_status smol_tool_texts(const smol_model *model, const struct tool_style_texts **texts,
                            smol_error *error);

#endif
