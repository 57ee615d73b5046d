/* The special tokens that chat templates know by name, as the reference's tokenizer has them. */
#ifndef SMOL_CONVERT_TEMPLATE_TOKENS_H
#define SMOL_CONVERT_TEMPLATE_TOKENS_H

#include "convert/base/settings.h"
#include "convert/template/template_compiler.h"

struct template_tokens {
    struct template_token *items; /* (n), owned; names and texts are the files' own */
    size_t n;
    struct json_settings map; /* special_tokens_map.json, where it counts */
};

/* Reads them from tokenizer_config.json: the keys that end in _token, and the names in
 * extra_special_tokens. Where that file does not list added tokens (added_tokens_decoder), it is of
 * a time when special_tokens_map.json in `folder` was the one that counted, as it still does then.
 * The caller closes *tokens, after an error too. Errors: SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED,
 * SMOL_ERROR_MEMORY. */
smol_status smol_template_tokens_open(const char *folder, const struct json_settings *config,
                                      struct template_tokens *tokens, smol_error *error);
void smol_template_tokens_close(struct template_tokens *tokens);

#endif
