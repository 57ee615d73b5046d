/* Constraints of command lines, see constrain.h. */
#include "smolrun/constrain.h"

#include <stdlib.h>
#include <string.h>

#include "cli/json_out.h"
#include "cli/text.h"

/* --- of the command line ---------------------------------------------------------------------- */

/* Returns the choices "a,b" as a JSON list; the caller frees it. */
static smol_status list_choices(const char *choices, char **list, size_t *size, smol_error *error)
{
    FILE *file = open_memstream(list, size);
    if (!file)
        return smol_fail_memory(error, "the choices");
    struct json_out json = {.file = file};
    smol_json_open(&json, '[');
    for (const char *end; choices; choices = *end ? end + 1 : NULL) {
        end = choices + strcspn(choices, ",");
        smol_json_text(&json, choices, (size_t)(end - choices));
    }
    smol_json_close(&json, ']');
    bool failed = ferror(file);
    if (fclose(file) != 0 || failed) {
        free(*list);
        *list = NULL;
        return smol_fail_memory(error, "the choices");
    }
    return SMOL_OK;
}

/* Checks that at most one constraint is given. */
static smol_status check_single(const struct settings *settings, smol_error *error)
{
    const char *const names[] = {"--json-schema", "--regex", "--grammar", "--choices"};
    const char *const given[] = {settings->json_schema, settings->regex, settings->grammar,
                                 settings->choices};
    const char *first = NULL;
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        if (given[i] && first)
            return smol_fail(error, SMOL_ERROR_USAGE, "%s and %s: give one of them", first,
                             names[i]);
        if (given[i])
            first = names[i];
    }
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
        .json_space = (smol_json_space)settings->json_space,
        .any_order = settings->any_order,
    };
    return smol_constraint_create(model, &params, constraint, error);
}

smol_status smol_constrain(const struct settings *settings, const smol_model *model,
                           smol_constraint **constraint, smol_error *error)
{
    *constraint = NULL;
    smol_status status = check_single(settings, error);
    if (status)
        return status;
    if (settings->regex)
        return compile(settings, model, SMOL_CONSTRAINT_REGEX, settings->regex,
                       strlen(settings->regex), constraint, error);
    if (settings->choices) {
        char *list;
        size_t size;
        status = list_choices(settings->choices, &list, &size, error);
        if (!status)
            status =
                compile(settings, model, SMOL_CONSTRAINT_CHOICES, list, size, constraint, error);
        free(list);
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

/* --- of requests ----------------------------------------------------------------------------- */

static void drop(struct compiled *compiled)
{
    smol_constraint_free(compiled->constraint);
    free(compiled->of.text);
    *compiled = (struct compiled){0};
}

/* Returns a free place, or that of the constraint that is unused for the longest time. Every
 * sequence uses at most one, so there is always one. */
static struct compiled *find_place(struct constraints *c)
{
    struct compiled *oldest = NULL;
    if (c->n < sizeof c->compiled / sizeof c->compiled[0])
        return &c->compiled[c->n++];
    for (size_t i = 0; i < c->n; i++)
        if (c->compiled[i].users == 0 && (!oldest || c->compiled[i].last_use < oldest->last_use))
            oldest = &c->compiled[i];
    drop(oldest);
    return oldest;
}

static struct compiled *find_equal(struct constraints *c, const struct wanted_constraint *wanted)
{
    for (size_t i = 0; i < c->n; i++) {
        const struct wanted_constraint *of = &c->compiled[i].of;
        if (of->text && of->kind == wanted->kind && of->size == wanted->size &&
            memcmp(of->text, wanted->text, of->size) == 0)
            return &c->compiled[i];
    }
    return NULL;
}

static smol_status add(struct constraints *c, const struct settings *settings,
                       const smol_model *model, const struct wanted_constraint *wanted,
                       struct compiled **out, smol_error *error)
{
    smol_constraint *constraint;
    char *text = malloc(wanted->size + 1);
    if (!text)
        return smol_fail_memory(error, "a constraint");
    smol_status status =
        compile(settings, model, wanted->kind, wanted->text, wanted->size, &constraint, error);
    if (status) {
        free(text);
        return status;
    }
    memcpy(text, wanted->text, wanted->size);
    *out = find_place(c);
    **out = (struct compiled){{true, wanted->kind, text, wanted->size}, constraint, 0, 0};
    return SMOL_OK;
}

smol_status smol_constraints_get(struct constraints *constraints, const struct settings *settings,
                                 const smol_model *model, const struct wanted_constraint *wanted,
                                 smol_constraint **constraint, smol_error *error)
{
    struct compiled *found = find_equal(constraints, wanted);
    smol_status status = found ? SMOL_OK : add(constraints, settings, model, wanted, &found, error);
    *constraint = NULL;
    if (status)
        return status;
    found->users++;
    found->last_use = ++constraints->n_uses;
    *constraint = found->constraint;
    return SMOL_OK;
}

void smol_constraints_release(struct constraints *constraints, const smol_constraint *constraint)
{
    for (size_t i = 0; i < constraints->n; i++)
        if (constraints->compiled[i].constraint == constraint)
            constraints->compiled[i].users--;
}

void smol_constraints_free(struct constraints *constraints)
{
    for (size_t i = 0; i < constraints->n; i++)
        drop(&constraints->compiled[i]);
}
