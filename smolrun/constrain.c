/* Constraints of command lines, see constrain.h. */
#include "smolrun/constrain.h"

#include <stdlib.h>
#include <string.h>

#include "cli/json_out.h"
#include "cli/standard.h"
#include "cli/text.h"

/* --- of the command line ---------------------------------------------------------------------- */

/* Sets *list to the choices "a,b" as a JSON list; the caller frees its text. */
static smol_status list_choices(const char *choices, struct buffer *list, smol_error *error)
{
    struct held_output held;
    smol_status status = smol_held_start(&held, error);
    if (status)
        return status;
    struct json_out json = {.file = held.file};
    smol_json_open(&json, '[');
    for (const char *end; choices; choices = *end ? end + 1 : NULL) {
        end = choices + strcspn(choices, ",");
        smol_json_text(&json, choices, (size_t)(end - choices));
    }
    smol_json_close(&json, ']');
    return smol_held_take(&held, list, error);
}

/* Checks that at most one constraint is given, and that the options for schemas have one: that of
 * the command line, or those of --jsonl's requests. */
static smol_status check_options(const struct settings *settings, smol_error *error)
{
    const char *const names[] = {"--json-schema", "--regex", "--grammar", "--choices"};
    const char *const given[] = {settings->json_schema, settings->regex, settings->grammar,
                                 settings->choices};
    const char *first = NULL;
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        if (given[i] && first)
            return smol_fail(error, SMOL_ERROR_USAGE, "%s and %s: give only one of them", first,
                             names[i]);
        if (given[i])
            first = names[i];
    }
    if ((settings->any_order || settings->json_space) && !settings->json_schema && !settings->jsonl)
        return smol_fail(error, SMOL_ERROR_USAGE, "%s needs --json-schema: add it, or leave out %s",
                         settings->any_order ? "--any-order" : "--json-space",
                         settings->any_order ? "--any-order" : "--json-space");
    return SMOL_OK;
}

static smol_status compile(const struct settings *settings, const smol_model *model,
                           smol_constraint_kind kind, const char *text, size_t size,
                           smol_constraint **constraint, smol_error *error)
{
    const smol_constraint_params params = {
        .kind = kind,
        .text = text,
        .size = size,
        .json_space = smol_settings_json_space(settings),
        .any_order = settings->any_order,
    };
    return smol_constraint_create(model, &params, constraint, error);
}

smol_status smol_constrain(const struct settings *settings, const smol_model *model,
                           smol_constraint **constraint, smol_error *error)
{
    *constraint = NULL;
    smol_status status = check_options(settings, error);
    if (status)
        return status;
    if (settings->regex)
        return compile(settings, model, SMOL_CONSTRAINT_REGEX, settings->regex,
                       strlen(settings->regex), constraint, error);
    if (settings->choices) {
        struct buffer list = {0};
        status = list_choices(settings->choices, &list, error);
        if (!status)
            status = compile(settings, model, SMOL_CONSTRAINT_CHOICES, list.text, list.size,
                             constraint, error);
        smol_free(list.text);
        return status;
    }
    if (!settings->json_schema && !settings->grammar)
        return SMOL_OK;
    struct text_in file;
    struct input input = settings->constraint_file;
    status = smol_text_read_input(&input, &file, error);
    if (status)
        return status;
    status = compile(settings, model,
                     settings->grammar ? SMOL_CONSTRAINT_GRAMMAR : SMOL_CONSTRAINT_JSON_SCHEMA,
                     file.text, file.size, constraint, error);
    free(file.owned);
    return status;
}

/* --- of sessions ------------------------------------------------------------------------------ */

/* The start of a place; its ids follow. */
struct place_head {
    char magic[4];
    uint32_t n;
    uint64_t digest; /* of the constraint */
};
static const char place_magic[] = {'h', 'e', 'l', 'd'};

size_t smol_place_size(const void *data, size_t size)
{
    struct place_head head;
    if (size < sizeof head)
        return 0;
    memcpy(&head, data, sizeof head);
    if (memcmp(head.magic, place_magic, sizeof place_magic) != 0 ||
        head.n > (size - sizeof head) / sizeof(uint32_t))
        return 0;
    return sizeof head + head.n * sizeof(uint32_t);
}

smol_status smol_place_store(struct buffer *place, const smol_constraint *constraint,
                             const smol_matcher *matcher, smol_error *error)
{
    size_t n;
    const uint32_t *ids = smol_matcher_ids(matcher, &n);
    struct place_head head = {.n = (uint32_t)n, .digest = smol_constraint_digest(constraint)};
    memcpy(head.magic, place_magic, sizeof place_magic);
    place->size = 0;
    smol_buffer_add(place, (const char *)&head, sizeof head);
    smol_buffer_add(place, (const char *)ids, n * sizeof *ids);
    return place->failed ? smol_fail_memory(error, "the session") : SMOL_OK;
}

smol_status smol_place_find(const struct buffer *place, smol_constraint *constraint,
                            smol_matcher **matcher, smol_error *error)
{
    struct place_head head = {.n = 0};
    *matcher = NULL;
    if (place->size > 0)
        memcpy(&head, place->text, sizeof head);
    if (place->size > 0 && (!constraint || head.digest != smol_constraint_digest(constraint)))
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "the last answer was cut off inside a constraint, which is %s: continue "
                         "it with the same one",
                         constraint ? "not this one" : "missing");
    smol_status status = constraint ? smol_matcher_create(constraint, matcher, error) : SMOL_OK;
    for (uint32_t i = 0; !status && i < head.n; i++) {
        uint32_t id;
        memcpy(&id, place->text + sizeof head + i * sizeof id, sizeof id);
        status = smol_matcher_accept(*matcher, id, error);
    }
    return status;
}
