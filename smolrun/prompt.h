/* Prompts: token ids of what the user passes on the command line or in a request. */
#ifndef SMOL_SMOLRUN_PROMPT_H
#define SMOL_SMOLRUN_PROMPT_H

#include "smolrun/settings.h"

/* In all of these, the caller frees *ids with smol_free. */

/* The ids of a list of ids below vocab_size, separated by white space or commas: the argument, or
 * for "-" standard input. *n may be 0. Errors: USAGE, FILE, MEMORY. */
smol_status smol_prompt_list(const char *argument, uint32_t vocab_size, uint32_t **ids, size_t *n,
                             smol_error *error);

/* The ids of text[0..size), special tokens recognized; bos for an empty text. `on_progress` (may be
 * NULL) is as for smol_tokenize. Errors: USAGE (the text is empty and the model has no bos),
 * MEMORY, CANCELLED. */
smol_status smol_prompt_text(const char *text, size_t size, const smol_model *model,
                             smol_on_progress *on_progress, void *user, uint32_t **ids, size_t *n,
                             smol_error *error);

/* The ids of the argument, or for "-" of standard input. Errors: as smol_prompt_text, FILE. */
smol_status smol_prompt_argument(const char *argument, const smol_model *model, uint32_t **ids,
                                 size_t *n, smol_error *error);

/* The ids of a conversation up to where the answer starts. The template gets the variables of
 * --template-arg, and those of chat.variables_json, which win. Errors: as smol_chat_tokenize, USAGE
 * (--template-arg), UNSUPPORTED (the template writes nothing). */
smol_status smol_prompt_chat(const struct settings *settings, const smol_model *model,
                             smol_chat_params chat, uint32_t **ids, size_t *n, smol_error *error);

/* The ids of settings->text: a text, or with settings->chat a user's message. Errors: as
 * smol_prompt_argument and smol_prompt_chat, USAGE (--system or --template-arg without --chat). */
smol_status smol_prompt_read(const struct settings *settings, const smol_model *model,
                             uint32_t **ids, size_t *n, smol_error *error);

#endif
