/* Lists the chat templates of a checkpoint. Files are in order of their names, independent of the
 * folder's order. See template_list.h. */
#include "convert/template/template_list.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/memory.h"
#include "common/text.h"

static const char folder_name[] = "additional_chat_templates", ending[] = ".jinja";

const struct listed_template *smol_template_list_find(const struct template_list *list,
                                                      const char *name)
{
    const json_t *place = json_object_get(list->places, name);
    return place ? &list->items[json_integer_value(place)] : NULL;
}

/* Adds a template named name[0..size), or replaces the one with that name: as in the reference, the
 * last one counts. Takes ownership of `path`. */
static smol_status add(struct template_list *list, const char *name, size_t size, char *path,
                       const json_t *text, smol_error *error)
{
    struct listed_template item = {strndup(name, size), path, text};
    if (!item.name || !item.path || !GROW(list->items, list->n, &list->capacity))
        goto fail;
    const json_t *place = json_object_get(list->places, item.name);
    if (place) {
        struct listed_template *earlier = &list->items[json_integer_value(place)];
        free(earlier->name);
        free(earlier->path);
        *earlier = item;
        return SMOL_OK;
    }
    if (json_object_set_new_nocheck(list->places, item.name, json_integer((json_int_t)list->n)))
        goto fail; /* file names are not necessarily UTF-8 */
    list->items[list->n++] = item;
    return SMOL_OK;
fail:
    free(item.name);
    free(item.path);
    return smol_fail_memory(error, "the list of chat templates");
}

/* --- files ----------------------------------------------------------------------------------- */

static int is_template(const struct dirent *entry)
{
    return ends_with(entry->d_name, ending);
}

static smol_status list_folder(const char *path, struct template_list *list, smol_error *error)
{
    struct dirent **entries = NULL;
    int n = scandir(path, &entries, is_template, alphasort);
    if (n < 0 && (errno == ENOENT || errno == ENOTDIR))
        return SMOL_OK;
    smol_status status = n < 0 ? smol_fail_errno(error, path, "list") : SMOL_OK;
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;
        if (!status)
            status = add(list, name, strlen(name) - (sizeof ending - 1), smol_path_join(path, name),
                         NULL, error);
        free(entries[i]);
    }
    free(entries);
    return status;
}

static smol_status list_files(const char *folder, struct template_list *list, smol_error *error)
{
    char *single = smol_path_join(folder, "chat_template.jinja");
    char *more = smol_path_join(folder, folder_name);
    smol_status status = SMOL_OK;
    if (!single || !more)
        status = smol_fail_memory(error, "a file name");
    else if (!smol_is_missing(single)) {
        status = add(list, "default", strlen("default"), single, NULL, error);
        single = NULL;
    }
    if (!status)
        status = list_folder(more, list, error);
    free(single);
    free(more);
    return status;
}

/* --- tokenizer_config.json ------------------------------------------------------------------- */

/* Adds the entries of a list of named templates. */
static smol_status list_entries(const struct json_settings *config, const json_t *entries,
                                struct template_list *list, smol_error *error)
{
    smol_status status = SMOL_OK;
    for (size_t i = 0; !status && i < json_array_size(entries); i++) {
        const json_t *entry = json_array_get(entries, i);
        const json_t *name = json_object_get(entry, "name");
        const json_t *text = json_object_get(entry, "template");
        if (!json_is_string(name) || !json_is_string(text))
            return smol_fail(error, SMOL_ERROR_DAMAGED,
                             "%s: chat_template: entry %zu has no name or no template: correct it",
                             config->path, i);
        status = add(list, json_string_value(name), json_string_length(name), strdup(config->path),
                     text, error);
    }
    return status;
}

/* Adds the templates of the key: a string is the default, a list has names. */
static smol_status list_key(const struct json_settings *config, struct template_list *list,
                            smol_error *error)
{
    json_t *value = smol_setting(config, "chat_template");
    if (!value)
        return SMOL_OK;
    if (json_is_array(value))
        return list_entries(config, value, list, error);
    if (!json_is_string(value))
        return smol_setting_fail(config, SMOL_ERROR_DAMAGED, "chat_template",
                                 "expected a string or a list of templates");
    return add(list, "default", strlen("default"), strdup(config->path), value, error);
}

smol_status smol_template_list_open(const char *folder, const struct json_settings *config,
                                    struct template_list *list, smol_error *error)
{
    *list = (struct template_list){.places = json_object()};
    if (!list->places)
        return smol_fail_memory(error, "the list of chat templates");
    smol_status status = folder ? list_files(folder, list, error) : SMOL_OK;
    if (!status && list->n == 0)
        status = list_key(config, list, error);
    return status;
}

void smol_template_list_close(struct template_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        free(list->items[i].name);
        free(list->items[i].path);
    }
    free(list->items);
    json_decref(list->places);
    *list = (struct template_list){0};
}
