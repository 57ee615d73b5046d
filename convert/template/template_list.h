/* The chat templates that a checkpoint has, by name, where the reference looks for them: files,
 * chat_template.jinja being "default" and additional_chat_templates/NAME.jinja the others, or, when
 * there are none, the key chat_template of tokenizer_config.json. */
#ifndef SMOL_CONVERT_TEMPLATE_LIST_H
#define SMOL_CONVERT_TEMPLATE_LIST_H

#include <stddef.h>

#include "common/error.h"
#include "convert/base/settings.h"

struct listed_template {
    char *name;         /* owned */
    char *path;         /* owned: of the file that it is in */
    const json_t *text; /* of the key, borrowed from tokenizer_config.json; NULL: the file is the
                           template */
};

struct template_list {
    struct listed_template *items; /* (n), owned; a name stands there once */
    size_t n, capacity;
    json_t *places; /* in items, by name; owned: a stranger's list may be long */
};

/* Lists those of the checkpoint in `folder`, whose tokenizer_config.json is `config`. Files are not
 * read. The caller closes it, after an error too. Errors: SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED (a
 * key that is not what it should be), SMOL_ERROR_MEMORY. */
smol_status smol_template_list_open(const char *folder, const struct json_settings *config,
                                    struct template_list *list, smol_error *error);
void smol_template_list_close(struct template_list *list);

/* The template of that name, or NULL. */
const struct listed_template *smol_template_list_find(const struct template_list *list,
                                                      const char *name);

#endif
