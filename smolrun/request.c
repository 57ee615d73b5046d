/* Requests, see request.h. */
#include "smolrun/request.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "cli/json_in.h"
#include "smolrun/prompt.h"

/* A request that is being read, before the value of a member. */
struct request_reader {
    struct json_reader json;
    struct request *request;
    const char *field; /* the member's name */
    char *scratch;     /* room for any string of the line, decoded */
    uint32_t seen;     /* a bit for each field */
};

static smol_status fail_field(struct request_reader *r, const char *what)
{
    return smol_fail(r->json.error, SMOL_ERROR_USAGE, "%s: %s", r->field, what);
}

static bool is_word(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && memcmp(text, word, length) == 0;
}

/* --- values ------------------------------------------------------------------------------- */

/* Makes a terminated copy, which the request owns. */
static smol_status copy(struct request_reader *r, const void *text, size_t size, char **out)
{
    *out = malloc(size + 1);
    if (!*out)
        return smol_fail_memory(r->json.error, "a request");
    memcpy(*out, text, size);
    (*out)[size] = '\0';
    return SMOL_OK;
}

static bool next_is_number(struct request_reader *r)
{
    int c = smol_json_peek(&r->json);
    return c == '-' || (c >= '0' && c <= '9');
}

static smol_status read_whole(struct request_reader *r, uint64_t most, uint64_t *out)
{
    struct json_number number = {0};
    smol_status status = SMOL_OK;
    bool is_number = next_is_number(r);
    if (is_number)
        status = smol_json_number(&r->json, &number);
    if (status)
        return status;
    if (!is_number || !smol_json_to_u64(&number, out) || *out > most)
        return smol_fail(r->json.error, SMOL_ERROR_USAGE,
                         "%s: expected a whole number from 0 to %llu", r->field,
                         (unsigned long long)most);
    return SMOL_OK;
}

static smol_status read_real(struct request_reader *r, float low, float high, float *out)
{
    struct json_number number;
    double real = -1;
    smol_status status = SMOL_OK;
    if (next_is_number(r)) {
        status = smol_json_number(&r->json, &number);
        if (!status)
            status = smol_json_to_real(&r->json, &number, &real);
    }
    if (status)
        return status;
    if (!(real >= (double)low && real <= (double)high))
        return smol_fail(r->json.error, SMOL_ERROR_USAGE, "%s: expected a number from %g to %g",
                         r->field, (double)low, (double)high);
    *out = (float)real;
    return SMOL_OK;
}

/* Skips the value and copies its JSON text. */
static smol_status copy_value(struct request_reader *r, char **out)
{
    smol_json_peek(&r->json);
    const uint8_t *start = r->json.at;
    smol_status status = smol_json_skip(&r->json);
    return status ? status : copy(r, start, (size_t)(r->json.at - start), out);
}

/* --- fields ------------------------------------------------------------------------------- */

enum { MAX_ECHO = 256 }; /* bytes of a value that an answer repeats */

/* Copies the JSON text from `start` to the reader's position. */
static smol_status copy_echo(struct request_reader *r, const uint8_t *start, char **out)
{
    size_t size = (size_t)(r->json.at - start);
    return size > MAX_ECHO ? fail_field(r, "longer than 256 bytes") : copy(r, start, size, out);
}

static smol_status set_id(struct request_reader *r)
{
    int c = smol_json_peek(&r->json);
    const uint8_t *start = r->json.at;
    struct json_number number;
    int64_t integer;
    size_t length;
    smol_status status = SMOL_OK;
    bool is_number = next_is_number(r);
    if (is_number)
        status = smol_json_number(&r->json, &number);
    else if (c == '"')
        status = smol_json_string(&r->json, NULL, &length);
    if (status)
        return status;
    if (is_number ? !smol_json_to_i64(&number, &integer) : c != '"')
        return fail_field(r, "expected a string or an integer of 64 bits");
    return copy_echo(r, start, &r->request->id);
}

/* Accepts any name, because only one model is loaded. */
static smol_status set_model(struct request_reader *r)
{
    size_t length;
    if (smol_json_peek(&r->json) != '"')
        return fail_field(r, "expected a string");
    const uint8_t *start = r->json.at;
    smol_status status = smol_json_string(&r->json, NULL, &length);
    return status ? status : copy_echo(r, start, &r->request->model);
}

static smol_status set_stream(struct request_reader *r)
{
    if (smol_json_word(&r->json, "false"))
        return SMOL_OK;
    if (smol_json_word(&r->json, "true"))
        return fail_field(r, "an answer is one line: leave it out, or set it to false");
    return fail_field(r, "expected true or false");
}

static smol_status set_prompt(struct request_reader *r)
{
    if (smol_json_peek(&r->json) != '"')
        return fail_field(r, "expected a string");
    smol_status status = smol_json_string(&r->json, r->scratch, &r->request->n_prompt);
    return status ? status : copy(r, r->scratch, r->request->n_prompt, &r->request->prompt);
}

/* Copies a list for chat templates, as JSON. */
static smol_status copy_list(struct request_reader *r, char **out)
{
    if (smol_json_peek(&r->json) != '[')
        return fail_field(r, "expected a list");
    return copy_value(r, out);
}

static smol_status set_messages(struct request_reader *r)
{
    return copy_list(r, &r->request->messages);
}

static smol_status set_tools(struct request_reader *r)
{
    return copy_list(r, &r->request->tools);
}

static smol_status set_documents(struct request_reader *r)
{
    return copy_list(r, &r->request->documents);
}

static smol_status set_variables(struct request_reader *r)
{
    if (smol_json_peek(&r->json) != '{')
        return fail_field(r, "expected an object");
    return copy_value(r, &r->request->variables);
}

static smol_status set_max_tokens(struct request_reader *r)
{
    uint64_t n = 0;
    smol_status status = read_whole(r, UINT32_MAX, &n);
    r->request->max_tokens = (size_t)n;
    return status;
}

static smol_status set_temperature(struct request_reader *r)
{
    return read_real(r, 0, FLT_MAX, &r->request->sampler.temperature);
}

static smol_status set_top_k(struct request_reader *r)
{
    uint64_t k = 0;
    smol_status status = read_whole(r, UINT32_MAX, &k);
    r->request->sampler.top_k = (uint32_t)k;
    return status;
}

static smol_status set_top_p(struct request_reader *r)
{
    float *top_p = &r->request->sampler.top_p;
    smol_status status = read_real(r, 0, 1, top_p);
    if (*top_p == 0)
        *top_p = FLT_MIN; /* as on the command line (settings.c) */
    return status;
}

static smol_status set_min_p(struct request_reader *r)
{
    return read_real(r, 0, 1, &r->request->sampler.min_p);
}

static smol_status set_repetition_penalty(struct request_reader *r)
{
    return read_real(r, FLT_MIN, FLT_MAX, &r->request->sampler.repetition_penalty);
}

static smol_status set_seed(struct request_reader *r)
{
    return read_whole(r, INT64_MAX, &r->request->sampler.seed);
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
        return fail_field(r, "expected strings, not empty and without NUL");
    if (stop->n == OPTION_MAX_TEXTS)
        return fail_field(r, "more than 64 strings");
    status = copy(r, r->scratch, n, &own);
    if (!status)
        stop->items[stop->n++] = own;
    return status;
}

static smol_status set_stop(struct request_reader *r)
{
    bool more;
    r->request->stop.n = 0;
    r->request->own_stop = true;
    if (smol_json_peek(&r->json) != '[')
        return add_stop(r);
    smol_status status = smol_json_begin(&r->json, '[', &more);
    while (!status && more) {
        status = add_stop(r);
        if (!status)
            status = smol_json_more(&r->json, ']', &more);
    }
    return status;
}

static smol_status set_logprobs(struct request_reader *r)
{
    uint64_t n = 0;
    smol_status status = read_whole(r, MAX_LOGPROBS, &n);
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
enum { FORMAT_TEXT, FORMAT_JSON_OBJECT, N_FORMATS = sizeof formats / sizeof formats[0] };

/* Moves the reader into an object to the value of a member. *found is false if it is not there. */
static smol_status seek(struct json_reader *json, char *scratch, const char *name, bool *found)
{
    size_t length;
    bool more = false;
    *found = false;
    smol_status status = smol_json_begin(json, '{', &more);
    while (!status && more) {
        status = smol_json_name(json, scratch, &length);
        *found = !status && is_word(scratch, length, name);
        if (status || *found)
            return status;
        status = smol_json_skip(json);
        if (!status)
            status = smol_json_more(json, '}', &more);
    }
    return status;
}

/* Copies the constraint at the reader: a text, decoded, or a value, as JSON. */
static smol_status copy_constraint(struct request_reader *r, struct json_reader at)
{
    struct wanted_constraint *format = &r->request->format;
    smol_json_peek(&at);
    const uint8_t *start = at.at;
    bool is_text = format->kind == SMOL_CONSTRAINT_REGEX || format->kind == SMOL_CONSTRAINT_GRAMMAR;
    if (is_text && *start != '"')
        return fail_field(r, "expected a string in it");
    smol_status status =
        is_text ? smol_json_string(&at, r->scratch, &format->size) : smol_json_skip(&at);
    if (status)
        return status;
    if (!is_text)
        format->size = (size_t)(at.at - start);
    return copy(r, is_text ? (const void *)r->scratch : start, format->size, &format->text);
}

/* Finds the type's member, and in json_schema's that of the schema itself. */
static smol_status find_constraint(struct request_reader *r, struct json_reader at,
                                   const char *member)
{
    bool found;
    smol_status status = seek(&at, r->scratch, member, &found);
    if (!status && found && strcmp(member, "json_schema") == 0) {
        if (smol_json_peek(&at) != '{')
            return fail_field(r, "json_schema must be an object");
        status = seek(&at, r->scratch, "schema", &found);
    }
    if (status)
        return status;
    return found ? copy_constraint(r, at) : fail_field(r, "the constraint of its type is missing");
}

static smol_status set_response_format(struct request_reader *r)
{
    static const char any_object[] = "{\"type\":\"object\"}";
    struct wanted_constraint *format = &r->request->format;
    size_t length = 0, i = 0;
    bool found = false;
    if (smol_json_peek(&r->json) != '{')
        return fail_field(r, "expected an object");
    struct json_reader start = r->json, at = r->json;
    smol_status status = smol_json_skip(&r->json);
    if (!status)
        status = seek(&at, r->scratch, "type", &found);
    if (!status && found && smol_json_peek(&at) == '"')
        status = smol_json_string(&at, r->scratch, &length);
    if (status)
        return status;
    while (i < N_FORMATS && !is_word(r->scratch, length, formats[i].type))
        i++;
    if (i == N_FORMATS)
        return fail_field(r,
                          "type must be text, json_object, json_schema, regex, grammar or choices");
    *format = (struct wanted_constraint){.given = true, .kind = formats[i].kind};
    if (i == FORMAT_JSON_OBJECT) {
        format->size = sizeof any_object - 1;
        return copy(r, any_object, format->size, &format->text);
    }
    return i == FORMAT_TEXT ? SMOL_OK : find_constraint(r, start, formats[i].member);
}

/* --- members ---------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    smol_status (*set)(struct request_reader *r);
} fields[] = {
    {"id", set_id},
    {"model", set_model},
    {"stream", set_stream},
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
    {"response_format", set_response_format},
};
enum { N_FIELDS = sizeof fields / sizeof fields[0] };

/* --- requests ----------------------------------------------------------------------------- */

/* Reads one member. A member whose value is null is ignored. */
static smol_status read_member(struct request_reader *r)
{
    size_t length, i = 0;
    smol_status status = smol_json_name(&r->json, r->scratch, &length);
    if (status)
        return status;
    while (i < N_FIELDS && !is_word(r->scratch, length, fields[i].name))
        i++;
    if (i == N_FIELDS)
        return smol_fail(r->json.error, SMOL_ERROR_USAGE, "%.*s: no such member of a request",
                         (int)(length < 64 ? length : 64), r->scratch);
    r->field = fields[i].name;
    if (r->seen & 1u << i)
        return fail_field(r, "appears twice");
    r->seen |= 1u << i;
    return smol_json_word(&r->json, "null") ? SMOL_OK : fields[i].set(r);
}

static smol_status begin(struct request_reader *r)
{
    smol_status status = smol_json_check_utf8(&r->json);
    if (!status && smol_json_peek(&r->json) != '{')
        status =
            smol_fail(r->json.error, SMOL_ERROR_USAGE, "request: expected an object (byte %zu)",
                      (size_t)(r->json.at - r->json.start));
    return status;
}

static smol_status read_all(struct request_reader *r)
{
    const struct request *request = r->request;
    bool more = false;
    smol_status status = begin(r);
    if (!status)
        status = smol_json_begin(&r->json, '{', &more);
    while (!status && more) {
        status = read_member(r);
        if (!status)
            status = smol_json_more(&r->json, '}', &more);
    }
    if (!status)
        status = smol_json_end(&r->json);
    if (status)
        return status;
    if (!request->prompt == !request->messages)
        return smol_fail(r->json.error, SMOL_ERROR_USAGE,
                         "request: expected either a prompt or messages");
    if (request->prompt && (request->tools || request->documents || request->variables))
        return smol_fail(r->json.error, SMOL_ERROR_USAGE,
                         "request: tools, documents and chat_template_kwargs need messages");
    return SMOL_OK;
}

/* Finds the id of a refused request, anywhere in the line, because the answer must have it too. */
static void find_id(struct request_reader *r)
{
    bool more = false;
    size_t length;
    smol_status status = begin(r);
    r->field = "id";
    if (!status)
        status = smol_json_begin(&r->json, '{', &more);
    while (!status && more && !r->request->id) {
        status = smol_json_name(&r->json, r->scratch, &length);
        bool is_id = is_word(r->scratch, length, "id");
        if (!status && is_id && smol_json_peek(&r->json) != 'n')
            status = set_id(r);
        else if (!status)
            status = smol_json_skip(&r->json);
        if (!status)
            status = smol_json_more(&r->json, '}', &more);
    }
}

static struct request_reader reader_of(const char *line, size_t size, struct request *request,
                                       char *scratch, smol_error *error)
{
    const uint8_t *start = (const uint8_t *)line;
    return (struct request_reader){
        .json = {.start = start,
                 .at = start,
                 .end = start + size,
                 .name = "request",
                 .fault = "not valid JSON",
                 .advice = "",
                 .status = SMOL_ERROR_USAGE,
                 .error = error},
        .request = request,
        .scratch = scratch,
    };
}

smol_status smol_request_read(const char *line, size_t size, const struct settings *settings,
                              struct request *request, smol_error *error)
{
    *request = (struct request){
        .sampler = settings->sampler,
        .max_tokens = settings->max_tokens,
        .stop = settings->stop,
        .logprobs = -1,
    };
    char *scratch = malloc(size + 1);
    if (!scratch)
        return smol_fail_memory(error, "a request");
    struct request_reader r = reader_of(line, size, request, scratch, error);
    smol_status status = read_all(&r);
    if (status && !request->id) {
        r = reader_of(line, size, request, scratch, NULL);
        find_id(&r);
    }
    free(scratch);
    return status;
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
    free(request->model);
    free(request->format.text);
    smol_request_drop_text(request);
    *request = (struct request){0};
}

smol_status smol_request_ids(const struct request *request, const struct settings *settings,
                             const smol_model *model, smol_on_progress *on_progress, void *user,
                             uint32_t **ids, size_t *n, smol_error *error)
{
    const smol_chat_params chat = {.messages_json = request->messages,
                                   .tools_json = request->tools,
                                   .documents_json = request->documents,
                                   .variables_json = request->variables,
                                   .now = &settings->now,
                                   .on_progress = on_progress,
                                   .user = user};
    if (request->prompt)
        return smol_prompt_text(request->prompt, request->n_prompt, model, on_progress, user, ids,
                                n, error);
    return smol_prompt_chat(settings, model, chat, ids, n, error);
}
