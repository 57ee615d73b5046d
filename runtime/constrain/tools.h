/* Answers that may call tools, as a term. */
#ifndef SMOL_RUNTIME_CONSTRAIN_TOOLS_H
#define SMOL_RUNTIME_CONSTRAIN_TOOLS_H

#include "format/template.h"
#include "format/tokenizer.h"
#include "runtime/constrain/schema.h"
#include "smol.h"

enum { TOOLS_MAX = 1024 }; /* tools of a conversation */

/* Sets *root to the answers with calls in the style `texts` of the tools in params->text, an
 * untrusted JSON list. Special tokens of the style stand for themselves (see trie.h). Errors:
 * SMOL_ERROR_USAGE (not such a list; params->tool_choice is not one of its tools) and those of
 * smol_schema_term, with the tool's name. */
smol_status smol_tools_term(struct term_table *table, const struct tokenizer_tables *tokenizer,
                            const struct tool_style_texts *texts,
                            const smol_constraint_params *params, term *root, smol_error *error);

#endif
