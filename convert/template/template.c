/* The checkpoint's chat template, see template.h. */
#include "convert/template/template.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/file.h"
#include "common/hash.h"
#include "convert/template/template_tokens.h"

/* A search for the template. */
struct search {
    const struct chat_template_choice *choice;
    const char *name;      /* that is looked for */
    struct file_view file; /* or the file with the template alone */
    struct chat_template *found;
    struct error *error;
};

/* --- files ----------------------------------------------------------------------------------- */

static bool is_missing(const char *path)
{
    struct stat info;
    return lstat(path, &info) && (errno == ENOENT || errno == ENOTDIR);
}

static enum status read_file(struct search *search, const char *path)
{
    enum status status = smol_file_read(path, SIZE_MAX, &search->file, search->error);
    if (status)
        return status;
    search->found->mark =
        (struct json_mark){search->file.size, smol_digest(search->file.data, search->file.size)};
    search->found->file = strdup(path);
    return search->found->file ? STATUS_OK : smol_fail_memory(search->error, "a file name");
}

/* Reads `folder`/`name` where it is there; *there: the checkpoint has its templates in files. */
static enum status read_beside(struct search *search, const char *name, bool *there)
{
    char *path = smol_path_join(search->choice->folder, name);
    if (!path)
        return smol_fail_memory(search->error, "a file name");
    *there = !is_missing(path);
    enum status status = *there ? read_file(search, path) : STATUS_OK;
    free(path);
    return status;
}

/* chat_template.jinja, or additional_chat_templates/NAME.jinja. */
static enum status find_file(struct search *search, bool *there)
{
    static const char folder[] = "additional_chat_templates/", ending[] = ".jinja";
    if (strcmp(search->name, "default") == 0)
        return read_beside(search, "chat_template.jinja", there);
    if (strchr(search->name, '/'))
        return smol_fail(search->error, STATUS_USAGE, "--template %.200s: a name is due",
                         search->name);
    size_t size = sizeof folder + sizeof ending + strlen(search->name);
    char *path = malloc(size);
    if (!path)
        return smol_fail_memory(search->error, "a file name");
    snprintf(path, size, "%s%s%s", folder, search->name, ending);
    enum status status = read_beside(search, path, there);
    free(path);
    return status;
}

/* --- tokenizer_config.json ------------------------------------------------------------------- */

/* The template of that name in a list, or NULL. */
static enum status find_in_list(struct search *search, const json_t *list, const json_t **text)
{
    *text = NULL;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        const json_t *name = json_object_get(entry, "name");
        const json_t *template = json_object_get(entry, "template");
        if (!json_is_string(name) || !json_is_string(template))
            return smol_fail(search->error, STATUS_DAMAGED,
                             "%s: chat_template: entry %zu has no name or no template: correct it",
                             search->choice->config->path, i);
        if (strcmp(json_string_value(name), search->name) == 0)
            *text = template; /* the last one counts, as in the reference */
    }
    return STATUS_OK;
}

/* The key chat_template: a text, which is the default, or a list of templates with names. */
static enum status find_in_config(struct search *search, const json_t **text)
{
    json_t *value = smol_setting(search->choice->config, "chat_template");
    bool is_default = strcmp(search->name, "default") == 0;
    *text = NULL;
    if (!value)
        return STATUS_OK;
    if (json_is_array(value))
        return find_in_list(search, value, text);
    if (!json_is_string(value))
        return smol_setting_fail(search->choice->config, STATUS_DAMAGED, "chat_template", value,
                                 "a text or a list of templates is due");
    if (is_default)
        *text = value;
    return STATUS_OK;
}

/* --- the whole ------------------------------------------------------------------------------- */

static enum status compile(struct search *search, const char *text, size_t size)
{
    struct template_tokens tokens;
    enum status status = smol_template_tokens_open(search->choice->folder, search->choice->config,
                                                   &tokens, search->error);
    const struct template_input input = {search->name, text, size, tokens.items, tokens.n};
    search->found->tokens_mark = tokens.map.mark;
    if (!status)
        status = smol_template_compile(&input, &search->found->section, &search->found->reason,
                                       search->error);
    smol_template_tokens_close(&tokens);
    return status;
}

static enum status find_and_compile(struct search *search)
{
    const json_t *text = NULL;
    bool there = search->choice->file != NULL;
    enum status status =
        there ? read_file(search, search->choice->file) : find_file(search, &there);
    if (status)
        return status;
    if (there)
        return compile(search, (const char *)search->file.data, search->file.size);
    status = find_in_config(search, &text);
    if (status || (!text && !search->choice->name))
        return status;
    if (!text)
        return smol_fail(search->error, STATUS_USAGE,
                         "%s: has no chat template \"%.64s\": see the names in it",
                         search->choice->config->path, search->name);
    search->found->file = strdup(search->choice->config->path);
    if (!search->found->file)
        return smol_fail_memory(search->error, "a file name");
    return compile(search, json_string_value(text), json_string_length(text));
}

enum status smol_chat_template_open(const struct chat_template_choice *choice,
                                    struct chat_template *template, struct error *error)
{
    struct search search = {.choice = choice,
                            .name = choice->name ? choice->name : "default",
                            .found = template,
                            .error = error};
    *template = (struct chat_template){0};
    enum status status = find_and_compile(&search);
    smol_file_close(&search.file);
    return status;
}

void smol_chat_template_close(struct chat_template *template)
{
    free(template->section.data);
    free(template->file);
    *template = (struct chat_template){0};
}
