/* Finds and compiles a checkpoint's chat template. See template.h. */
#include "convert/template/template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/hash.h"
#include "common/utf8.h"
#include "convert/template/template_list.h"

enum { MAX_SHOWN = 300 };

/* The state while the template is located and compiled. */
struct search {
    const struct chat_template_choice *choice;
    struct template_list list;
    struct template_input input;
    const char *place; /* file that contains the template, or folder of several */
    struct chat_template *found;
    smol_error *error;
};

static smol_status read_file(struct search *search, const char *path, int which,
                             struct template_text *text)
{
    struct chat_template_file *file = &search->found->files[which];
    smol_status status = smol_file_read(path, SIZE_MAX, &file->view, search->error);
    if (status)
        return status;
    file->mark = (struct json_mark){file->view.size, smol_digest(file->view.data, file->view.size)};
    file->path = strdup(path);
    text->text = (const char *)file->view.data;
    text->size = file->view.size;
    return file->path ? SMOL_OK : smol_fail_memory(search->error, "a file name");
}

static smol_status read_listed(struct search *search, const struct listed_template *item, int which,
                               struct template_text *text)
{
    text->name = item->name;
    if (!item->text)
        return read_file(search, item->path, which, text);
    text->text = json_string_value(item->text);
    text->size = json_string_length(item->text);
    return SMOL_OK;
}

/* Lists the names of the available templates for a message, truncated to MAX_SHOWN - 1 bytes. */
static const char *show_names(const struct template_list *list, char out[MAX_SHOWN])
{
    size_t length = 0;
    snprintf(out, MAX_SHOWN, "none");
    for (size_t i = 0; i < list->n && length < MAX_SHOWN; i++)
        length += (size_t)snprintf(out + length, MAX_SHOWN - length, "%s%.64s", i ? ", " : "",
                                   list->items[i].name);
    return out;
}

/* Returns the folder, or the file that takes its place. */
static const char *place_of(const struct chat_template_choice *choice)
{
    return choice->folder ? choice->folder : choice->config->path;
}

/* --- selection ------------------------------------------------------------------------------- */

static smol_status take_named(struct search *search, const char *name)
{
    char names[MAX_SHOWN];
    const struct listed_template *item = smol_template_list_find(&search->list, name);
    if (!item || smol_utf8_well_formed((const uint8_t *)name, strlen(name)) < strlen(name))
        return smol_fail(search->error, SMOL_ERROR_USAGE,
                         "%.200s: has no chat template \"%.64s\": choose one of these: %s",
                         place_of(search->choice), name, show_names(&search->list, names));
    search->input.name = name;
    search->place = item->path;
    return read_listed(search, item, CHAT_PLAIN, &search->input.plain);
}

/* Chooses as the reference does: "tool_use", if it exists, for conversations with tools. Without a
 * "default", conversations without tools are refused. */
static smol_status take_default(struct search *search)
{
    static const char none[] =
        "{{ raise_exception('there is no chat template for conversations without tools') }}";
    struct template_input *input = &search->input;
    const struct listed_template *plain = smol_template_list_find(&search->list, "default");
    const struct listed_template *tools = smol_template_list_find(&search->list, "tool_use");
    smol_status status = SMOL_OK;
    input->name = !tools  ? "default"
                  : plain ? "default, and tool_use with tools"
                          : "tool_use, with tools only";
    if (plain && tools && !plain->text)
        search->place = place_of(search->choice);
    else if (plain)
        search->place = plain->path;
    else if (tools)
        search->place = tools->path;
    input->plain = (struct template_text){"default", none, sizeof none - 1};
    if (plain)
        status = read_listed(search, plain, CHAT_PLAIN, &input->plain);
    if (!status && tools)
        status = read_listed(search, tools, CHAT_TOOLS, &input->tools);
    return status;
}

/* --- compilation ----------------------------------------------------------------------------- */

static smol_status compile(struct search *search)
{
    struct template_tokens tokens;
    struct chat_template *found = search->found;
    smol_status status = smol_template_tokens_open(search->choice->folder, search->choice->config,
                                                   &tokens, search->error);
    search->input.tokens = tokens.items;
    search->input.n_tokens = tokens.n;
    found->tokens_mark = tokens.map.mark;
    if (!status)
        status =
            smol_template_compile(&search->input, &found->section, &found->reason, search->error);
    smol_template_tokens_close(&tokens);
    return status;
}

/* Stores a section without code: the checkpoint has templates, but no default. */
static smol_status compile_none(struct search *search)
{
    char names[MAX_SHOWN];
    smol_error why;
    smol_fail(&why, SMOL_ERROR_UNSUPPORTED, "none is the default: choose one with --template: %s",
              show_names(&search->list, names));
    search->input.name = "none";
    search->place = place_of(search->choice);
    return smol_template_without_code(&search->input, &why, &search->found->section,
                                      &search->found->reason, search->error);
}

static smol_status find_and_compile(struct search *search)
{
    const struct chat_template_choice *choice = search->choice;
    const struct template_list *list = &search->list;
    search->input.name = "default";
    if (choice->file) {
        search->place = choice->file;
        smol_status status = read_file(search, choice->file, CHAT_PLAIN, &search->input.plain);
        return status ? status : compile(search);
    }
    smol_status status =
        smol_template_list_open(choice->folder, choice->config, &search->list, search->error);
    if (status || (list->n == 0 && !choice->name))
        return status;
    if (!choice->name && !smol_template_list_find(list, "default") &&
        !smol_template_list_find(list, "tool_use"))
        return compile_none(search);
    status = choice->name ? take_named(search, choice->name) : take_default(search);
    return status ? status : compile(search);
}

smol_status smol_chat_template_open(const struct chat_template_choice *choice,
                                    struct chat_template *template, smol_error *error)
{
    struct search search = {.choice = choice, .found = template, .error = error};
    *template = (struct chat_template){0};
    smol_status status = find_and_compile(&search);
    if (!status && search.place && !(template->place = strdup(search.place)))
        status = smol_fail_memory(error, "a file name");
    for (size_t i = 0; i < N_CHAT_TEMPLATES; i++)
        smol_file_close(&template->files[i].view);
    smol_template_list_close(&search.list);
    return status;
}

void smol_chat_template_close(struct chat_template *template)
{
    for (size_t i = 0; i < N_CHAT_TEMPLATES; i++)
        free(template->files[i].path);
    free(template->place);
    free(template->section.data);
    *template = (struct chat_template){0};
}
