/* Selects and compiles the chat template of a checkpoint. */
#ifndef SMOL_CONVERT_TEMPLATE_H
#define SMOL_CONVERT_TEMPLATE_H

#include "common/error.h"
#include "common/file.h"
#include "convert/base/settings.h"
#include "convert/template/template_compiler.h"

/* Where to look for the template. See template_list.h. */
struct chat_template_choice {
    const char *folder; /* folder of the checkpoint; NULL: only `config` has templates */
    const char *name; /* template to use; NULL: as in the reference, "tool_use" if it exists and the
                         conversation has tools, otherwise "default" */
    const char *file; /* path of a template that overrides all others; or NULL */
    const struct json_settings *config; /* tokenizer_config.json */
};

/* A file that contains only a template. */
struct chat_template_file {
    char *path; /* owned; NULL: no file */
    struct file_view view;
    struct json_mark mark;
};

enum { CHAT_PLAIN, CHAT_TOOLS, N_CHAT_TEMPLATES };

struct chat_template {
    struct template_section section; /* empty if the checkpoint has no template */
    const char *reason; /* why the section has no code, or NULL; points into the section */
    char *place;        /* owned: file or folder of the template; NULL: no template */
    struct chat_template_file files[N_CHAT_TEMPLATES];
    struct json_mark tokens_mark; /* mark of special_tokens_map.json if it was used */
};

/* Finds and compiles the template. The caller closes it, also after an error. Errors:
 * SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED (a key has the wrong type), SMOL_ERROR_USAGE (no template of
 * that name), SMOL_ERROR_MEMORY. An unsupported template is not an error (see `reason`); neither
 * are several templates without a "default" or "tool_use". */
smol_status smol_chat_template_open(const struct chat_template_choice *choice,
                                    struct chat_template *template, smol_error *error);
void smol_chat_template_close(struct chat_template *template);

#endif
