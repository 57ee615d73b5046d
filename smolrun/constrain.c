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

/* Sets the kind and the text of the constraint, if there is one. */
static smol_status read_constraint(const struct settings *settings,
                                   struct wanted_constraint *wanted, smol_error *error)
{
    struct buffer text = {0};
    struct text_in file;
    struct input input = settings->constraint_file;
    smol_status status = SMOL_OK;
    wanted->kind = settings->regex     ? SMOL_CONSTRAINT_REGEX
                   : settings->choices ? SMOL_CONSTRAINT_CHOICES
                   : settings->grammar ? SMOL_CONSTRAINT_GRAMMAR
                                       : SMOL_CONSTRAINT_JSON_SCHEMA;
    if (settings->regex) {
        smol_buffer_add(&text, settings->regex, strlen(settings->regex));
    } else if (settings->choices) {
        status = list_choices(settings->choices, &text, error);
    } else if (settings->grammar || settings->json_schema) {
        status = smol_text_read_input(&input, &file, error);
        if (status)
            return status;
        smol_buffer_add(&text, file.text, file.size);
        free(file.owned);
    } else {
        return SMOL_OK;
    }
    smol_buffer_add(&text, "", 1); /* an empty one is a text too */
    wanted->given = true;
    wanted->text = text.text;
    wanted->size = text.size - 1;
    return text.failed ? smol_fail_memory(error, "the constraint") : status;
}

smol_status smol_constrain_read(const struct settings *settings, struct wanted_constraint *wanted,
                                smol_error *error)
{
    *wanted = (struct wanted_constraint){0};
    smol_status status = check_options(settings, error);
    return status ? status : read_constraint(settings, wanted, error);
}

smol_status smol_constrain(const struct settings *settings, const smol_model *model,
                           const struct wanted_constraint *wanted, smol_constraint **constraint,
                           smol_error *error)
{
    const smol_constraint_params params = {
        .kind = wanted->kind,
        .text = wanted->text,
        .size = wanted->size,
        .json_space = smol_settings_json_space(settings),
        .any_order = settings->any_order,
        .reasoning = wanted->reasoning,
    };
    smol_constraint_free(*constraint);
    *constraint = NULL;
    return wanted->given ? smol_constraint_create(model, &params, constraint, error) : SMOL_OK;
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

static struct place_head head_of(const struct buffer *place)
{
    struct place_head head = {.n = 0};
    if (place->size > 0)
        memcpy(&head, place->text, sizeof head);
    return head;
}

/* Returns whether a place is one in a constraint. An empty one is in any. */
static bool fits(const struct buffer *place, const smol_constraint *constraint)
{
    return place->size == 0 ||
           (constraint && head_of(place).digest == smol_constraint_digest(constraint));
}

/* Compiles the constraint again with the reasoning that the answer had, if the place is in another
 * one: wanted->reasoning is then what fits, if any does. */
static smol_status refit(const struct buffer *place, const struct settings *settings,
                         const smol_model *model, struct wanted_constraint *wanted,
                         smol_constraint **constraint, smol_error *error)
{
    smol_status status = SMOL_OK;
    for (int i = SMOL_REASONING_NONE; i <= SMOL_REASONING_BEGUN; i++) {
        if (status || !wanted->given || fits(place, *constraint))
            break;
        wanted->reasoning = (smol_reasoning)i;
        status = smol_constrain(settings, model, wanted, constraint, error);
    }
    return status;
}

smol_status smol_place_find(const struct buffer *place, const struct settings *settings,
                            const smol_model *model, struct wanted_constraint *wanted,
                            smol_constraint **constraint, smol_matcher **matcher, smol_error *error)
{
    struct place_head head = head_of(place);
    *matcher = NULL;
    smol_status status = refit(place, settings, model, wanted, constraint, error);
    if (status)
        return status;
    if (!fits(place, *constraint))
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "the last answer was cut off inside a constraint, which is %s: continue "
                         "it with the same one",
                         *constraint ? "not this one" : "missing");
    if (*constraint)
        status = smol_matcher_create(*constraint, matcher, error);
    for (uint32_t i = 0; !status && i < head.n; i++) {
        uint32_t id;
        memcpy(&id, place->text + sizeof head + i * sizeof id, sizeof id);
        status = smol_matcher_accept(*matcher, id, error);
    }
    return status;
}
