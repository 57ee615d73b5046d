/* A request of smolrun --jsonl. An input is a line. What is accepted is what samplers and streams
 * accept, so that a request that is bad is refused before it takes a sequence's place; what of it
 * is kept as JSON is JSON by itself, the id of one line. */
#include "runtime/template/template_value.h"
#include "runtime/tokenizer/stream.h"
#include "smolrun/batch.h"
#include "tests/fuzz/fuzz.h"

/* Chat templates have limits of their own. */
static bool is_type(const char *json, enum value_type type)
{
    smol_error error;
    struct value value;
    struct machine machine = {.error = &error, .steps = TEMPLATE_STEPS};
    bool good = smol_template_read_json(&machine, "part", json, strlen(json), &value);
    bool is = good ? value.type == type : machine.status == SMOL_ERROR_UNSUPPORTED;
    smol_template_free(&machine);
    return is;
}

static void use(const struct line_request *line)
{
    const struct request *request = &line->common;
    smol_sampler *sampler;
    struct stream *stream;
    smol_error error;
    CLAIM(!request->prompt != !request->messages);
    CLAIM(!request->messages || is_type(request->messages, VALUE_LIST));
    CLAIM(!request->tools || (request->messages && is_type(request->tools, VALUE_LIST)));
    CLAIM(!request->documents || (request->messages && is_type(request->documents, VALUE_LIST)));
    CLAIM(!request->variables || (request->messages && is_type(request->variables, VALUE_DICT)));
    CLAIM(!line->id || is_type(line->id, VALUE_TEXT) || is_type(line->id, VALUE_INTEGER));
    CLAIM(!line->id || !strpbrk(line->id, "\r\n"));
    CLAIM(request->logprobs >= -1 && request->logprobs <= MAX_LOGPROBS);
    CLAIM(!smol_sampler_create(&request->sampler, &sampler, NULL));
    smol_sampler_free(sampler);
    CLAIM(!smol_stream_create(request->stop.items, request->stop.n, &stream, &error));
    smol_stream_free(stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct settings settings = {.max_tokens = 256, .sampler = {.top_p = 1, .seed = 42}};
    struct line_request request;
    smol_error error = {0};
    uint8_t *line = exact_copy(data, size);
    smol_status status = smol_line_read((const char *)line, size, &settings, &request, &error);
    CLAIM(status == error.status && (status == SMOL_OK || error.message[0]));
    CLAIM(status == SMOL_OK || status == SMOL_ERROR_USAGE || status == SMOL_ERROR_UNSUPPORTED);
    if (!status)
        use(&request);
    smol_line_free(&request);
    free(line);
    return 0;
}
