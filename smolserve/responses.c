/* POST /v1/responses: the part of OpenAI's newer interface that needs no memory of earlier
 * requests. Reads the request; response.c writes the answer. */
#include "smolserve/responses.h"

#include <stdlib.h>
#include <string.h>

#include "cli/request/reasoning.h"
#include "smolserve/messages.h"

/* The only message of an input that is a text. */
static smol_status wrap_text(struct request_reader *r)
{
    struct buffer out = {0};
    const uint8_t *start = r->json.at;
    smol_status status = smol_json_string(&r->json, NULL, &(size_t){0});
    if (status)
        return status;
    smol_buffer_print(&out, "[{\"role\": \"user\", \"content\": ");
    smol_buffer_add(&out, (const char *)start, (size_t)(r->json.at - start));
    smol_buffer_add(&out, "}]", 3); /* and a 0 */
    r->request->messages = out.text;
    r->request->is_chat = true;
    return out.failed ? smol_fail_memory(r->json.error, "a request") : SMOL_OK;
}

static smol_status set_input(struct request_reader *r)
{
    return smol_json_peek(&r->json) == '"' ? wrap_text(r) : smol_chat_set_items(r);
}

static smol_status set_instructions(struct request_reader *r)
{
    if (smol_json_peek(&r->json) != '"')
        return smol_member_fail(r, "expected a string");
    return smol_member_copy_json(r, 0, &smol_body_job(r)->instructions);
}

/* Reads {"format": FORMAT, "verbosity": WORD}, which the response repeats if it has a format. The
 * members of a JSON schema are those of FORMAT itself. */
static smol_status set_text(struct request_reader *r)
{
    static const struct object_member rows[] = {{"format", smol_set_flat_format},
                                                {"verbosity", smol_body_verbosity}};
    struct request_reader start = *r;
    smol_status status = smol_body_object(r, rows, 2);
    if (!status && r->request->format.given)
        status = smol_member_copy_json(&start, '{', &smol_body_job(r)->text);
    return status;
}

/* A summary is left out, as OpenAI may do: the reasoning itself is in the answer. */
static smol_status set_summary(struct request_reader *r)
{
    static const char *const words[] = {"auto", "concise", "detailed", NULL};
    return smol_member_word(r, words, "expected auto, concise or detailed in summary",
                            &(size_t){0});
}

/* Reads {"effort": WORD, "summary": WORD}. */
static smol_status set_reasoning(struct request_reader *r)
{
    static const struct object_member rows[] = {{"effort", smol_set_effort},
                                                {"summary", set_summary}};
    return smol_body_object(r, rows, 2);
}

static smol_status set_truncation(struct request_reader *r)
{
    static const char *const words[] = {"disabled", "auto", NULL};
    size_t i = 0;
    smol_status status = smol_member_word(r, words, "expected auto or disabled", &i);
    smol_body_job(r)->truncates = i > 0;
    return status;
}

/* All but the first are parts of items that no answer of this server has. */
static smol_status read_include(struct request_reader *r)
{
    static const char *const words[] = {"message.output_text.logprobs",
                                        "reasoning.encrypted_content",
                                        "file_search_call.results",
                                        "web_search_call.results",
                                        "web_search_call.action.sources",
                                        "message.input_image.image_url",
                                        "computer_call_output.output.image_url",
                                        "code_interpreter_call.outputs",
                                        NULL};
    size_t i = 1;
    smol_status status = smol_member_word(r, words, "expected names of parts", &i);
    smol_body_job(r)->logprobs_given |= i == 0;
    return status;
}

static smol_status set_include(struct request_reader *r)
{
    size_t n;
    return smol_json_peek(&r->json) == '[' ? smol_member_each(r, '[', read_include, &n)
                                           : smol_member_fail(r, "expected a list");
}

static const struct request_member members[] = {
    {"input", set_input},
    {"instructions", set_instructions},
    {"model", smol_body_model},
    {"max_output_tokens", smol_set_max_tokens},
    {"text", set_text},
    {"stream", smol_body_stream},
    {"stream_options", smol_body_stream_options},
    {"truncation", set_truncation},
    REQUEST_MEMBERS,
    REQUEST_CHAT_MEMBERS,
    BODY_INERT_MEMBERS,
    {"tools", smol_chat_set_flat_tools},
    {"tool_choice", smol_set_tool_choice},
    {"parallel_tool_calls", smol_set_parallel_calls},
    {"max_tool_calls", smol_body_unsupported},
    {"previous_response_id", smol_body_unsupported},
    {"conversation", smol_body_unsupported},
    {"prompt", smol_body_unsupported},
    {"background", smol_body_unsupported},
    {"background_options", smol_body_unsupported},
    {"context_management", smol_body_unsupported},
    {"access_programs", smol_body_unsupported},
    {"image", smol_body_unsupported},
    {"moderation", smol_body_unsupported},
    {"include", set_include},
    {"reasoning", set_reasoning},
    REQUEST_REASONING_MEMBERS,
    {"top_logprobs", smol_set_logprobs},
};

static smol_status check_logprobs(struct job *job, const char **param, smol_error *error)
{
    int *logprobs = &job->request.logprobs;
    if (*logprobs > 0 && !job->logprobs_given) {
        *param = "top_logprobs";
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "top_logprobs: only with message.output_text.logprobs in include");
    }
    if (!job->logprobs_given)
        *logprobs = -1;
    else if (*logprobs < 0)
        *logprobs = 0;
    return SMOL_OK;
}

static smol_status check_response(struct job *job, const char **param, smol_error *error)
{
    smol_status status = check_logprobs(job, param, error);
    if (status)
        return status;
    if (!job->request.messages) {
        *param = "input";
        return smol_fail(error, SMOL_ERROR_USAGE, "input: missing");
    }
    return smol_messages_instruct(job, error);
}

const struct endpoint smol_endpoint_responses = {
    .path = "/v1/responses",
    .id_prefix = "resp_",
    .work = WORK_GENERATE,
    .members = members,
    .n_members = sizeof members / sizeof members[0],
    .check = check_response,
    .prepare = smol_chat_prepare,
    .write = smol_response_whole,
    .write_event = smol_response_news,
    .write_end = smol_response_end,
    .write_error = smol_response_error,
};
