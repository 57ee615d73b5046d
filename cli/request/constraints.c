/* Constraints of requests, see constraints.h. */
#include "cli/request/constraints.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"

enum {
    N_KEPT = sizeof((struct constraints *)0)->kept / sizeof(void *),
    UNUSED_BYTES = 64 << 20,
};

void smol_constraints_init(struct constraints *c, const smol_model *model,
                           smol_json_space json_space, int any_order)
{
    *c = (struct constraints){.model = model, .json_space = json_space, .any_order = any_order};
    threads_mutex_init(&c->mutex);
}

static void drop(struct compiled_constraint *compiled)
{
    smol_constraint_free(compiled->constraint);
    free(compiled->of.text);
    free(compiled->of.tool_choice);
    free(compiled->of.answer_schema);
    free(compiled);
}

/* Returns whether two texts, which may be NULL, are equal. */
static bool equal(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static struct compiled_constraint *find_equal(const struct constraints *c,
                                              const struct wanted_constraint *wanted)
{
    for (size_t i = 0; i < c->n; i++) {
        const struct wanted_constraint *of = &c->kept[i]->of;
        if (of->kind == wanted->kind && of->size == wanted->size &&
            memcmp(of->text, wanted->text, of->size) == 0 && of->one_call == wanted->one_call &&
            of->reasoning == wanted->reasoning && equal(of->tool_choice, wanted->tool_choice) &&
            equal(of->answer_schema, wanted->answer_schema))
            return c->kept[i];
    }
    return NULL;
}

/* Drops constraints that no request uses, the longest unused first, until the others take little
 * memory and there is a free place. */
static void drop_unused(struct constraints *c)
{
    for (;;) {
        struct compiled_constraint **oldest = NULL;
        size_t bytes = 0;
        for (struct compiled_constraint **one = c->kept; one < c->kept + c->n; one++) {
            bytes += (*one)->users == 0 ? smol_constraint_bytes((*one)->constraint) : 0;
            if ((*one)->users == 0 && (!oldest || (*one)->last_use < (*oldest)->last_use))
                oldest = one;
        }
        if (!oldest || (bytes <= UNUSED_BYTES && c->n < N_KEPT))
            return;
        drop(*oldest);
        *oldest = c->kept[--c->n];
    }
}

/* Copies what a request wants. Returns false if memory ran out; drop frees the rest. */
static bool copy_wanted(const struct wanted_constraint *wanted, struct wanted_constraint *copy)
{
    *copy = *wanted;
    copy->text = malloc(wanted->size + 1);
    copy->tool_choice = wanted->tool_choice ? strdup(wanted->tool_choice) : NULL;
    copy->answer_schema = wanted->answer_schema ? strdup(wanted->answer_schema) : NULL;
    if (!copy->text || !copy->tool_choice != !wanted->tool_choice ||
        !copy->answer_schema != !wanted->answer_schema)
        return false;
    memcpy(copy->text, wanted->text, wanted->size);
    copy->text[wanted->size] = '\0'; /* readers of calls take tools as a terminated text */
    return true;
}

static smol_status compile(const struct constraints *c, const struct wanted_constraint *wanted,
                           struct compiled_constraint **out, smol_error *error)
{
    const smol_constraint_params params = {
        .kind = wanted->kind,
        .text = wanted->text,
        .size = wanted->size,
        .json_space = c->json_space,
        .any_order = c->any_order,
        .tool_choice = wanted->tool_choice,
        .answer_schema = wanted->answer_schema,
        .one_call = wanted->one_call,
        .reasoning = wanted->reasoning,
    };
    struct compiled_constraint *compiled = calloc(1, sizeof *compiled);
    smol_status status =
        compiled && copy_wanted(wanted, &compiled->of)
            ? smol_constraint_create(c->model, &params, &compiled->constraint, error)
            : smol_fail_memory(error, "a constraint");
    if (status && compiled)
        drop(compiled);
    else
        *out = compiled;
    return status;
}

static struct compiled_constraint *use(struct constraints *c, struct compiled_constraint *compiled)
{
    compiled->users++;
    compiled->last_use = ++c->n_uses;
    return compiled;
}

struct compiled_constraint *smol_constraints_find(struct constraints *c,
                                                  const struct wanted_constraint *wanted)
{
    threads_mutex_lock(&c->mutex);
    struct compiled_constraint *compiled = find_equal(c, wanted);
    if (compiled)
        use(c, compiled);
    threads_mutex_unlock(&c->mutex);
    return compiled;
}

smol_status smol_constraints_get(struct constraints *c, const struct wanted_constraint *wanted,
                                 struct compiled_constraint **out, smol_error *error)
{
    struct compiled_constraint *compiled;
    *out = smol_constraints_find(c, wanted);
    smol_status status = *out ? SMOL_OK : compile(c, wanted, &compiled, error);
    if (*out || status)
        return status;
    threads_mutex_lock(&c->mutex);
    compiled->kept = c->n < N_KEPT;
    if (compiled->kept)
        c->kept[c->n++] = compiled;
    *out = use(c, compiled);
    threads_mutex_unlock(&c->mutex);
    return SMOL_OK;
}

void smol_constraints_release(struct constraints *c, struct compiled_constraint *compiled)
{
    if (!compiled)
        return;
    threads_mutex_lock(&c->mutex);
    bool last = --compiled->users == 0 && !compiled->kept;
    drop_unused(c);
    threads_mutex_unlock(&c->mutex);
    if (last)
        drop(compiled);
}

void smol_constraints_free(struct constraints *c)
{
    for (size_t i = 0; i < c->n; i++)
        drop(c->kept[i]);
    threads_mutex_destroy(&c->mutex);
}
