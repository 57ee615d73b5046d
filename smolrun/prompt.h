/* The prompt that the settings name. */
#ifndef SMOL_SMOLRUN_PROMPT_H
#define SMOL_SMOLRUN_PROMPT_H

#include "smolrun/settings.h"

/* The ids of a conversation, up to where the answer starts. The caller frees *ids with smol_free.
 * Errors: as smol_chat_tokenize, UNSUPPORTED for a template that writes nothing. */
smol_status smol_prompt_chat(const smol_model *model, smol_chat_params chat, uint32_t **ids,
                             size_t *n, smol_error *error);

/* The ids of settings->text: as a text (smol_text_prompt), or with settings->chat as a user's
 * message, up to where the answer starts. The caller frees *ids with smol_free. Errors: as
 * smol_text_prompt and smol_prompt_chat, USAGE for a system message without a chat. */
smol_status smol_prompt_read(const struct settings *settings, const smol_model *model,
                             uint32_t **ids, size_t *n, smol_error *error);

#endif
