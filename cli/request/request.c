/* Requests, see request.h. */
#include "cli/request/request.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

/* --- members ---------------------------------------------------------------------------------- */

smol_status smol_set_prompt(struct request_reader *r)
{
    return smol_member_text(r, &r->request->prompt, &r->request->n_prompt);
}

smol_status smol_set_messages(struct request_reader *r)
{
    r->request->is_chat = true;
    return smol_member_copy_json(r, '[', &r->request->messages);
}

smol_status smol_set_documents(struct request_reader *r)
{
    return smol_member_copy_json(r, '[', &r->request->documents);
}

smol_status smol_set_variables(struct request_reader *r)
{
    return smol_member_copy_json(r, '{', &r->request->variables);
}

smol_status smol_set_generation_prompt(struct request_reader *r)
{
    bool added = false;
    smol_status status = smol_member_flag(r, &added);
    r->request->generation_prompt = added ? PROMPT_ADDED : PROMPT_LEFT_OUT;
    return status;
}

smol_status smol_set_continues(struct request_reader *r)
{
    return smol_member_flag(r, &r->request->continues);
}

smol_status smol_set_max_tokens(struct request_reader *r)
{
    uint64_t n = 0;
    smol_status status = smol_member_whole(r, UINT32_MAX, &n);
    r->request->max_tokens = (size_t)n;
    return status;
}

smol_status smol_set_temperature(struct request_reader *r)
{
    return smol_member_real(r, 0, FLT_MAX, &r->request->sampler.temperature);
}

smol_status smol_set_top_k(struct request_reader *r)
{
    uint64_t k = 0;
    smol_status status = smol_member_whole(r, UINT32_MAX, &k);
    r->request->sampler.top_k = (uint32_t)k;
    return status;
}

smol_status smol_set_top_p(struct request_reader *r)
{
    float *top_p = &r->request->sampler.top_p;
    smol_status status = smol_member_real(r, 0, 1, top_p);
    if (*top_p == 0)
        *top_p = FLT_MIN; /* as on the command line (settings.c) */
    return status;
}

smol_status smol_set_min_p(struct request_reader *r)
{
    return smol_member_real(r, 0, 1, &r->request->sampler.min_p);
}

smol_status smol_set_repetition_penalty(struct request_reader *r)
{
    return smol_member_real(r, FLT_MIN, FLT_MAX, &r->request->sampler.repetition_penalty);
}

smol_status smol_set_frequency_penalty(struct request_reader *r)
{
    return smol_member_real(r, -2, 2, &r->request->sampler.frequency_penalty);
}

smol_status smol_set_presence_penalty(struct request_reader *r)
{
    return smol_member_real(r, -2, 2, &r->request->sampler.presence_penalty);
}

/* Reads a member of logit_bias: {"ID": BIAS}. */
static smol_status add_bias(struct request_reader *r)
{
    smol_logit_bias bias;
    size_t length, i = 0;
    uint64_t id = 0;
    smol_status status = smol_json_name(&r->json, r->scratch, &length);
    if (status)
        return status;
    for (; i < length && i < 10 && r->scratch[i] >= '0' && r->scratch[i] <= '9'; i++)
        id = id * 10 + (uint64_t)(r->scratch[i] - '0');
    if (length == 0 || i < length || id >= SMOL_NO_TOKEN)
        return smol_member_fail(r, "expected token ids as names of its members");
    bias.id = (uint32_t)id;
    status = smol_member_real(r, -100, 100, &bias.bias);
    smol_buffer_add(&r->request->biases, (const char *)&bias, sizeof bias);
    return status;
}

smol_status smol_set_logit_bias(struct request_reader *r)
{
    struct request *request = r->request;
    size_t n;
    if (smol_json_peek(&r->json) != '{')
        return smol_member_fail(r, "expected an object");
    smol_status status = smol_member_each(r, '{', add_bias, &n);
    if (!status && request->biases.failed)
        status = smol_fail_memory(r->json.error, "a request");
    request->sampler.logit_bias = (const void *)request->biases.text;
    request->sampler.n_logit_bias = request->biases.size / sizeof(smol_logit_bias);
    return status;
}

smol_status smol_set_seed(struct request_reader *r)
{
    return smol_member_whole(r, INT64_MAX, &r->request->sampler.seed);
}

static smol_status add_stop(struct request_reader *r)
{
    struct option_texts *stop = &r->request->stop;
    char *own;
    size_t n = 0;
    smol_status status = SMOL_OK;
    bool is_string = smol_json_peek(&r->json) == '"';
    if (is_string)
        status = smol_json_string(&r->json, r->scratch, &n);
    if (status)
        return status;
    if (!is_string || n == 0 || memchr(r->scratch, '\0', n))
        return smol_member_fail(r, "expected strings, not empty and without NUL");
    if (stop->n == OPTION_MAX_TEXTS)
        return smol_member_fail(r, "more than 64 strings");
    status = smol_member_copy(r, r->scratch, n, &own);
    if (!status)
        stop->items[stop->n++] = own;
    return status;
}

smol_status smol_set_stop(struct request_reader *r)
{
    size_t n;
    r->request->stop.n = 0;
    r->request->own_stop = true;
    return smol_json_peek(&r->json) == '[' ? smol_member_each(r, '[', add_stop, &n) : add_stop(r);
}

smol_status smol_set_logprobs(struct request_reader *r)
{
    uint64_t n = 0;
    smol_status status = smol_member_whole(r, MAX_LOGPROBS, &n);
    r->request->logprobs = (int)n;
    return status;
}

/* --- response_format ------------------------------------------------------------------------- */

/* The types of response_format, and the member that has the constraint. */
static const struct {
    const char *type, *member;
    smol_constraint_kind kind;
} formats[] = {
    {"text", NULL, SMOL_CONSTRAINT_JSON_SCHEMA},
    {"json_object", NULL, SMOL_CONSTRAINT_JSON_SCHEMA},
    {"json_schema", "json_schema", SMOL_CONSTRAINT_JSON_SCHEMA},
    {"regex", "pattern", SMOL_CONSTRAINT_REGEX},
    {"grammar", "grammar", SMOL_CONSTRAINT_GRAMMAR},
    {"choices", "choices", SMOL_CONSTRAINT_CHOICES},
};
enum { FORMAT_JSON_OBJECT = 1, N_FORMATS = sizeof formats / sizeof formats[0] };

/* Copies the constraint at the reader: a text, decoded, or a value, as JSON. */
static smol_status copy_constraint(struct request_reader *r, struct json_reader at)
{
    struct wanted_constraint *format = &r->request->format;
    smol_json_peek(&at);
    const uint8_t *start = at.at;
    bool is_text = format->kind == SMOL_CONSTRAINT_REGEX || format->kind == SMOL_CONSTRAINT_GRAMMAR;
    if (is_text && *start != '"')
        return smol_member_fail(r, "expected a string in it");
    smol_status status =
        is_text ? smol_json_string(&at, r->scratch, &format->size) : smol_json_skip(&at);
    if (status)
        return status;
    if (!is_text)
        format->size = (size_t)(at.at - start);
    return smol_member_copy(r, is_text ? (const void *)r->scratch : start, format->size,
                            &format->text);
}

/* Finds the type's member, and in json_schema's that of the schema itself. A member of another
 * name may say more than is done. */
static smol_status find_constraint(struct request_reader *r, struct json_reader at,
                                   const char *member, bool flat)
{
    bool found;
    bool wraps = member && strcmp(member, "json_schema") == 0;
    const char *const plain[] = {"type", member, NULL};
    static const char *const schema[] = {"type", "schema", "name", "description", "strict", NULL};
    smol_status status = smol_member_only(r, at, wraps && flat ? schema : plain);
    if (status || !member)
        return status;
    status = smol_member_seek(&at, r->scratch, wraps && flat ? "schema" : member, &found);
    if (!status && found && wraps && !flat) {
        if (smol_json_peek(&at) != '{')
            return smol_member_fail(r, "json_schema must be an object");
        status = smol_member_only(r, at, schema + 1);
        if (!status)
            status = smol_member_seek(&at, r->scratch, "schema", &found);
    }
    if (status)
        return status;
    return found ? copy_constraint(r, at)
                 : smol_member_fail(r, "the constraint of its type is missing");
}

static smol_status set_format(struct request_reader *r, bool flat)
{
    static const char any_object[] = "{\"type\":\"object\"}";
    struct wanted_constraint *format = &r->request->format;
    size_t length = 0, i = 0;
    bool found = false;
    if (smol_json_peek(&r->json) != '{')
        return smol_member_fail(r, "expected an object");
    if (format->given)
        return smol_member_fail(r, "another member has a format too");
    struct json_reader start = r->json, at = r->json;
    smol_status status = smol_json_skip(&r->json);
    if (!status)
        status = smol_member_seek(&at, r->scratch, "type", &found);
    if (!status && found && smol_json_peek(&at) == '"')
        status = smol_json_string(&at, r->scratch, &length);
    if (status)
        return status;
    while (i < N_FORMATS && !smol_member_is(r->scratch, length, formats[i].type))
        i++;
    if (i == N_FORMATS)
        return smol_member_fail(
            r, "type must be text, json_object, json_schema, regex, grammar or choices");
    *format = (struct wanted_constraint){.given = true, .kind = formats[i].kind};
    status = find_constraint(r, start, formats[i].member, flat);
    if (status || i != FORMAT_JSON_OBJECT)
        return status;
    format->size = sizeof any_object - 1;
    return smol_member_copy(r, any_object, format->size, &format->text);
}

smol_status smol_set_response_format(struct request_reader *r)
{
    return set_format(r, false);
}

smol_status smol_set_flat_format(struct request_reader *r)
{
    return set_format(r, true);
}

/* --- the text --------------------------------------------------------------------------------- */

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
    free(request->tool_choice);
    free(request->format.text);
    free(request->biases.text);
    free(request->format.tool_choice);
    free(request->format.answer_schema);
    smol_request_drop_text(request);
    *request = (struct request){0};
}

smol_status smol_prompt_text(const char *text, size_t size, const smol_model *model,
                             smol_on_progress *on_progress, void *user, uint32_t **ids, size_t *n,
                             smol_error *error)
{
    const smol_tokenize_params params = {.parse_special = 1,
                                         .whole_text = 1,
                                         .on_progress = on_progress,
                                         .user = user,
                                         .truncate = (int)smol_model_get_info(model).is_encoder};
    smol_status status = smol_tokenize(model, text, size, &params, ids, n, error);
    if (status || *n > 0)
        return status;
    uint32_t bos = smol_model_get_info(model).bos_id;
    if (bos == SMOL_NO_TOKEN)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "the prompt is empty, and the model has no bos token to start from: pass "
                         "some text");
    smol_free(*ids);
    *ids = malloc(sizeof **ids);
    if (!*ids)
        return smol_fail_memory(error, "the prompt");
    (*ids)[0] = bos;
    *n = 1;
    return SMOL_OK;
}

smol_chat_params smol_request_chat(const struct request *request, const struct tm *now)
{
    const bool adds = request->generation_prompt == PROMPT_DEFAULT
                          ? !request->continues
                          : request->generation_prompt == PROMPT_ADDED;
    return (smol_chat_params){.messages_json = request->messages,
                              .tools_json = request->tools,
                              .parse_arguments = 1,
                              .documents_json = request->documents,
                              .variables_json = request->variables,
                              .add_generation_prompt = adds,
                              .continue_final_message = request->continues,
                              .now = now};
}

smol_status smol_prompt_messages(const smol_model *model, const smol_chat_params *chat,
                                 uint32_t **ids, size_t *n, smol_error *error)
{
    smol_status status = smol_chat_tokenize(model, chat, ids, n, error);
    if (status || *n > 0)
        return status;
    return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                     "the chat template writes nothing for these messages");
}
