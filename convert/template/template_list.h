/* The chat templates of a checkpoint by name, and the special tokens that they refer to. Templates
 * are searched in the same order as in the reference: the
 * file chat_template.jinja ("default") and the files additional_chat_templates/NAME.jinja; if there
 * are none, the key chat_template of tokenizer_config.json. */
#ifndef SMOL_CONVERT_TEMPLATE_LIST_H
#define SMOL_CONVERT_TEMPLATE_LIST_H

#include <stddef.h>

#include "common/error.h"
#include "convert/base/settings.h"
#include "convert/template/template_compiler.h"

struct listed_template {
    char *name;         /* owned */
    char *path;         /* owned: path of the file that contains it */
    const json_t *text; /* value of the key, borrowed from tokenizer_config.json; NULL: the file is
                           the template */
};

struct template_list {
    struct listed_template *items; /* (n), owned; names are unique */
    size_t n, capacity;
    json_t *places; /* owned: index in `items` by name, because an untrusted list may be long */
};

/* Lists the templates of the checkpoint in `folder`, whose tokenizer_config.json is `config`,
 * without reading the files. The caller closes the list, also after an error. Errors:
 * SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED (a key has the wrong type), SMOL_ERROR_MEMORY. */
smol_status smol_template_list_open(const char *folder, const struct json_settings *config,
                                    struct template_list *list, smol_error *error);
void smol_template_list_close(struct template_list *list);

/* Returns the template of that name, or NULL. */
const struct listed_template *smol_template_list_find(const struct template_list *list,
                                                      const char *name);

/* template_tokens.c: the special tokens by name, as defined by the reference's tokenizer. */
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
