/* Prompts: token ids of texts and chats, from the command line or from a request. */
#ifndef SMOL_SMOLRUN_PROMPT_H
#define SMOL_SMOLRUN_PROMPT_H

#include "smolrun/settings.h"

/* The caller frees *ids with smol_free. */

/* Reads a list of ids below vocab_size, separated by white space or commas, from the argument, or
 * from standard input if it is "-". *n may be 0. Errors: USAGE, FILE, MEMORY. */
smol_status smol_prompt_list(const char *argument, uint32_t vocab_size, uint32_t **ids, size_t *n,
                             smol_error *error);

/* Tokenizes the argument, or standard input if it is "-". Errors: as smol_prompt_text, and FILE. */
smol_status smol_prompt_argument(const char *argument, const smol_model *model, uint32_t **ids,
                                 size_t *n, smol_error *error);

/* Reads an open file, which it closes, and tokenizes all of it. *n may be 0. Errors: as
 * smol_tokenize, and FILE. */
smol_status smol_prompt_file(struct input file, const smol_model *model, uint32_t **ids, size_t *n,
                             smol_error *error);

/* Tokenizes a conversation up to the start of the answer. The template gets the variables of
 * --template-arg and those of chat.variables_json, which override the former. Errors: as
 * smol_chat_tokenize, and USAGE (--template-arg), UNSUPPORTED (the template writes nothing). */
smol_status smol_prompt_chat(const struct settings *settings, const smol_model *model,
                             smol_chat_params chat, uint32_t **ids, size_t *n, smol_error *error);

/* Tokenizes settings->text: a text, or with settings->chat a user's message. Errors: as
 * smol_prompt_argument and smol_prompt_chat, and USAGE (--system or --template-arg without
 * --chat). */
smol_status smol_prompt_read(const struct settings *settings, const smol_model *model,
                             uint32_t **ids, size_t *n, smol_error *error);

#endif
