/* Requests, see request.h. The JSON reader is that of chat templates: fixed memory, bounded depth.
 */
#include "smolrun/request.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/template/template_json.h"
#include "smolrun/prompt.h"
#include "smolrun/text_in.h"

/* A request that is being read. */
struct reading {
    struct machine machine;
    struct request *request;
    uint32_t seen; /* a bit for each field */
};

/* One member's value, and as it stands in the line. */
struct member {
    const char *name;
    const struct value *value;
    const char *text;
    size_t size;
};

static bool fail(struct reading *r, const struct member *m, const char *what)
{
    return smol_template_fail(&r->machine, SMOL_ERROR_USAGE, "%s: %s", m->name, what);
}

/* --- values ------------------------------------------------------------------------------- */

/* A terminated copy, which the request owns. */
static bool copy(struct reading *r, const void *text, size_t size, char **out)
{
    *out = malloc(size + 1);
    if (!*out)
        return smol_template_fail(&r->machine, SMOL_ERROR_MEMORY, "out of memory for a request");
    memcpy(*out, text, size);
    (*out)[size] = '\0';
    return true;
}

static bool read_whole(struct reading *r, const struct member *m, uint64_t most, uint64_t *out)
{
    const struct value *value = m->value;
    if (value->type != VALUE_INTEGER || value->integer < 0 || (uint64_t)value->integer > most)
        return smol_template_fail(&r->machine, SMOL_ERROR_USAGE,
                                  "%s: a whole number from 0 to %llu is due", m->name,
                                  (unsigned long long)most);
    *out = (uint64_t)value->integer;
    return true;
}

static bool read_real(struct reading *r, const struct member *m, float low, float high, float *out)
{
    const struct value *value = m->value;
    double number = value->type == VALUE_INTEGER ? (double)value->integer
                    : value->type == VALUE_REAL  ? value->real
                                                 : -1;
    if (!(number >= (double)low && number <= (double)high))
        return smol_template_fail(&r->machine, SMOL_ERROR_USAGE,
                                  "%s: a number from %g to %g is due", m->name, (double)low,
                                  (double)high);
    *out = (float)number;
    return true;
}

/* --- fields ------------------------------------------------------------------------------- */

static bool set_id(struct reading *r, const struct member *m)
{
    enum { MAX_ID = 256 };
    if (m->value->type != VALUE_INTEGER && !is_text(m->value))
        return fail(r, m, "a text or a whole number is due");
    if (m->size > MAX_ID)
        return fail(r, m, "longer than 256 bytes");
    return copy(r, m->text, m->size, &r->request->id);
}

static bool set_prompt(struct reading *r, const struct member *m)
{
    if (!is_text(m->value))
        return fail(r, m, "a text is due");
    r->request->n_prompt = m->value->n;
    return copy(r, m->value->bytes, m->value->n, &r->request->prompt);
}

/* What chat templates get, as JSON. */
static bool copy_list(struct reading *r, const struct member *m, char **out)
{
    if (m->value->type != VALUE_LIST)
        return fail(r, m, "a list is due");
    return copy(r, m->text, m->size, out);
}

static bool set_messages(struct reading *r, const struct member *m)
{
    return copy_list(r, m, &r->request->messages);
}

static bool set_tools(struct reading *r, const struct member *m)
{
    return copy_list(r, m, &r->request->tools);
}

static bool set_documents(struct reading *r, const struct member *m)
{
    return copy_list(r, m, &r->request->documents);
}

static bool set_variables(struct reading *r, const struct member *m)
{
    if (m->value->type != VALUE_DICT)
        return fail(r, m, "an object is due");
    return copy(r, m->text, m->size, &r->request->variables);
}

static bool set_max_tokens(struct reading *r, const struct member *m)
{
    uint64_t n = 0;
    if (!read_whole(r, m, UINT32_MAX, &n))
        return false;
    r->request->max_tokens = (size_t)n;
    return true;
}

static bool set_temperature(struct reading *r, const struct member *m)
{
    return read_real(r, m, 0, FLT_MAX, &r->request->sampler.temperature);
}

static bool set_top_k(struct reading *r, const struct member *m)
{
    uint64_t k = 0;
    if (!read_whole(r, m, UINT32_MAX, &k))
        return false;
    r->request->sampler.top_k = (uint32_t)k;
    return true;
}

static bool set_top_p(struct reading *r, const struct member *m)
{
    float *top_p = &r->request->sampler.top_p;
    if (!read_real(r, m, 0, 1, top_p))
        return false;
    *top_p = *top_p == 0 ? FLT_MIN : *top_p; /* as on the command line (settings.c) */
    return true;
}

static bool set_min_p(struct reading *r, const struct member *m)
{
    return read_real(r, m, 0, 1, &r->request->sampler.min_p);
}

static bool set_repetition_penalty(struct reading *r, const struct member *m)
{
    return read_real(r, m, FLT_MIN, FLT_MAX, &r->request->sampler.repetition_penalty);
}

static bool set_seed(struct reading *r, const struct member *m)
{
    return read_whole(r, m, INT64_MAX, &r->request->sampler.seed);
}

static bool add_stop(struct reading *r, const struct member *m, const struct value *text)
{
    struct option_texts *stop = &r->request->stop;
    char *own;
    if (!is_text(text) || text->n == 0 || memchr(text->bytes, '\0', text->n))
        return fail(r, m, "texts are due, not empty and without NUL");
    if (stop->n == OPTION_MAX_TEXTS)
        return fail(r, m, "too many texts");
    if (!copy(r, text->bytes, text->n, &own))
        return false;
    stop->items[stop->n++] = own;
    return true;
}

static bool set_stop(struct reading *r, const struct member *m)
{
    r->request->stop.n = 0;
    r->request->own_stop = true;
    if (m->value->type != VALUE_LIST)
        return add_stop(r, m, m->value);
    for (uint32_t i = 0; i < m->value->n; i++)
        if (!add_stop(r, m, &m->value->items[i]))
            return false;
    return true;
}

static bool set_logprobs(struct reading *r, const struct member *m)
{
    uint64_t n = 0;
    if (!read_whole(r, m, MAX_LOGPROBS, &n))
        return false;
    r->request->logprobs = (int)n;
    return true;
}

static const struct {
    const char *name;
    bool (*set)(struct reading *r, const struct member *m);
} fields[] = {
    {"id", set_id},
    {"prompt", set_prompt},
    {"messages", set_messages},
    {"tools", set_tools},
    {"documents", set_documents},
    {"chat_template_kwargs", set_variables},
    {"max_tokens", set_max_tokens},
    {"temperature", set_temperature},
    {"top_k", set_top_k},
    {"top_p", set_top_p},
    {"min_p", set_min_p},
    {"repetition_penalty", set_repetition_penalty},
    {"seed", set_seed},
    {"stop", set_stop},
    {"logprobs", set_logprobs},
};
enum { N_FIELDS = sizeof fields / sizeof fields[0] };

/* --- the whole ---------------------------------------------------------------------------- */

/* null is as if the member were not there. */
static bool set_member(void *user, const struct value *name, const struct value *value,
                       const char *text, size_t size)
{
    struct reading *r = user;
    for (size_t i = 0; i < N_FIELDS; i++) {
        const struct member member = {fields[i].name, value, text, size};
        if (!text_is(name, fields[i].name))
            continue;
        if (r->seen & 1u << i)
            return fail(r, &member, "given twice");
        r->seen |= 1u << i;
        return value->type == VALUE_NONE || fields[i].set(r, &member);
    }
    return smol_template_fail(&r->machine, SMOL_ERROR_USAGE, "%.*s: no such member of a request",
                              (int)(name->n < 64 ? name->n : 64), (const char *)name->bytes);
}

static void read(struct reading *r, const char *line, size_t size)
{
    if (!smol_template_read_members(&r->machine, "request", line, size, set_member, r))
        return;
    const struct request *request = r->request;
    if (!request->prompt == !request->messages)
        smol_template_fail(&r->machine, SMOL_ERROR_USAGE,
                           "request: a prompt or messages are due, one of them");
    else if (request->prompt && (request->tools || request->documents || request->variables))
        smol_template_fail(&r->machine, SMOL_ERROR_USAGE,
                           "request: tools, documents and chat_template_kwargs go with messages");
}

/* Members come in any order, and an answer has the id of its request where that made no sense too.
 */
static bool set_id_alone(void *user, const struct value *name, const struct value *value,
                         const char *text, size_t size)
{
    struct reading *r = user;
    const struct member member = {"id", value, text, size};
    bool wanted = text_is(name, "id") && value->type != VALUE_NONE && !r->request->id;
    return !wanted || set_id(r, &member);
}

static void find_id(struct request *request, const char *line, size_t size)
{
    smol_error detail;
    struct reading r = {.machine = {.error = &detail, .steps = TEMPLATE_STEPS}, .request = request};
    smol_template_read_members(&r.machine, "request", line, size, set_id_alone, &r);
    smol_template_free(&r.machine);
}

smol_status smol_request_read(const char *line, size_t size, const struct settings *settings,
                              struct request *request, smol_error *error)
{
    struct reading r = {.machine = {.error = error, .steps = TEMPLATE_STEPS}, .request = request};
    *request = (struct request){
        .sampler = settings->sampler,
        .max_tokens = settings->max_tokens,
        .stop = settings->stop,
        .logprobs = -1,
    };
    read(&r, line, size);
    smol_template_free(&r.machine);
    if (r.machine.status && !request->id)
        find_id(request, line, size);
    return r.machine.status;
}

void smol_request_drop_text(struct request *request)
{
    free(request->prompt);
    free(request->messages);
    free(request->tools);
    free(request->documents);
    free(request->variables);
    request->prompt = request->messages = NULL;
    request->tools = request->documents = request->variables = NULL;
}

void smol_request_free(struct request *request)
{
    for (size_t i = 0; request->own_stop && i < request->stop.n; i++)
        free((char *)(uintptr_t)request->stop.items[i]);
    free(request->id);
    smol_request_drop_text(request);
    *request = (struct request){0};
}

smol_status smol_request_ids(const struct request *request, const struct settings *settings,
                             const smol_model *model, uint32_t **ids, size_t *n, smol_error *error)
{
    const smol_chat_params chat = {.messages_json = request->messages,
                                   .tools_json = request->tools,
                                   .documents_json = request->documents,
                                   .variables_json = request->variables,
                                   .now = &settings->now};
    if (request->prompt)
        return smol_text_prompt_ids(request->prompt, request->n_prompt, model, ids, n, error);
    return smol_prompt_chat(model, chat, ids, n, error);
}
