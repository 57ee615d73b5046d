/* The special tokens that chat templates refer to by name, as defined by the reference's
 * tokenizer. */
#ifndef SMOL_CONVERT_TEMPLATE_TOKENS_H
#define SMOL_CONVERT_TEMPLATE_TOKENS_H

#include "convert/base/settings.h"
#include "convert/template/template_compiler.h"

struct template_tokens {
    struct template_token *items; /* (n), owned; names and texts are borrowed from the files */
    size_t n;
    struct json_settings map; /* special_tokens_map.json if it is used */
};

/* Reads the tokens from tokenizer_config.json: the keys that end in _token, and the names in
 * extra_special_tokens. If that file does not list added tokens (added_tokens_decoder), it predates
 * them, and special_tokens_map.json in `folder` is read too, as in the reference. The caller closes
 * *tokens, also after an error. Errors: SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED, SMOL_ERROR_MEMORY. */
smol_status smol_template_tokens_open(const char *folder, const struct json_settings *config,
                                      struct template_tokens *tokens, smol_error *error);
void smol_template_tokens_close(struct template_tokens *tokens);

#endif
