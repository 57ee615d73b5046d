/* The chat template of a checkpoint: which one it is, and what is made of it. */
#ifndef SMOL_CONVERT_TEMPLATE_H
#define SMOL_CONVERT_TEMPLATE_H

#include "common/error.h"
#include "convert/checkpoint/settings.h"
#include "convert/template/template_compiler.h"

/* Where to look. chat_template.jinja wins over the key in tokenizer_config.json, as in the
 * reference; a name other than "default" is looked for in additional_chat_templates/NAME.jinja, and
 * in the key where that is a list of templates with names. */
struct chat_template_choice {
    const char *folder;            /* of the checkpoint */
    const char *name;              /* NULL: "default" */
    const char *file;              /* a template anywhere, which wins over all; or NULL */
    const struct settings *config; /* tokenizer_config.json */
};

struct chat_template {
    struct template_section section; /* empty: the checkpoint has no template */
    const char *reason;              /* why the section has no code, or NULL; the section's */
    char *file;                      /* owned: where the template comes from; NULL: there is none */
    struct json_mark mark;           /* of a file that holds nothing but the template */
    struct json_mark tokens_mark;    /* of special_tokens_map.json, where that counts */
};

/* Finds and compiles the template. The caller closes it, after an error too. Errors: STATUS_FILE,
 * STATUS_DAMAGED (a key that is not what it should be), STATUS_USAGE (no template of that name),
 * STATUS_MEMORY. A template that is not supported is no error, see `reason`. */
enum status smol_chat_template_open(const struct chat_template_choice *choice,
                                    struct chat_template *template, struct error *error);
void smol_chat_template_close(struct chat_template *template);

#endif
