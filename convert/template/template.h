/* The chat template of a checkpoint: which one it is, and what is made of it. */
#ifndef SMOL_CONVERT_TEMPLATE_H
#define SMOL_CONVERT_TEMPLATE_H

#include "common/error.h"
#include "common/file.h"
#include "convert/base/settings.h"
#include "convert/template/template_compiler.h"

/* Where to look, see template_list.h. */
struct chat_template_choice {
    const char *folder; /* of the checkpoint */
    const char *name;   /* the one to take; NULL: as the reference does, "tool_use", where
                           there is one, when there are tools, and otherwise "default" */
    const char *file;   /* a template anywhere, which wins over all; or NULL */
    const struct json_settings *config; /* tokenizer_config.json */
};

/* A file that holds nothing but a template. */
struct chat_template_file {
    char *path; /* owned; NULL: there is none */
    struct file_view view;
    struct json_mark mark;
};

enum { CHAT_PLAIN, CHAT_TOOLS, N_CHAT_TEMPLATES };

struct chat_template {
    struct template_section section; /* empty: the checkpoint has no template */
    const char *reason;              /* why the section has no code, or NULL; the section's */
    char *place; /* owned: the file, or the folder, that it comes from; NULL: there is none */
    struct chat_template_file files[N_CHAT_TEMPLATES];
    struct json_mark tokens_mark; /* of special_tokens_map.json, where that counts */
};

/* Finds and compiles the template. The caller closes it, after an error too. Errors:
 * SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED (a key that is not what it should be), SMOL_ERROR_USAGE (no
 * template of that name), SMOL_ERROR_MEMORY. A template that is not supported is no error, see
 * `reason`; nor are several of which none is "default" or "tool_use". */
smol_status smol_chat_template_open(const struct chat_template_choice *choice,
                                    struct chat_template *template, smol_error *error);
void smol_chat_template_close(struct chat_template *template);

#endif
