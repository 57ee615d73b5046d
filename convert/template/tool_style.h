/* Recognizes how a chat template writes calls of tools. */
#ifndef SMOL_CONVERT_TOOL_STYLE_H
#define SMOL_CONVERT_TOOL_STYLE_H

#include "convert/template/template_compiler.h"
#include "format/template.h"

/* Returns the style of the template that is used for conversations with tools. TOOLS_NONE: it has
 * no tools, or writes calls in an unknown form; smol_tool_style_missing tells them apart. */
enum tool_style smol_tool_style_find(const struct template_input *input);

/* Returns whether the template has tools whose calls have an unknown form. */
bool smol_tool_style_missing(const struct template_input *input);

#endif
