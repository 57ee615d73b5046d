/* POST /v1/messages and /v1/messages/count_tokens, in the form of Anthropic's interface. Reads the
 * request; blocks.c reads its conversation, anthropic_answer.c writes the answer. */
#include "smolserve/anthropic.h"

#include <stdlib.h>
#include <string.h>

#include "cli/request/calls.h"
#include "cli/request/reasoning.h"
#include "smolserve/messages.h"
#include "smolserve/server.h"

/* --- members ---------------------------------------------------------------------------------- */

static smol_status set_system(struct request_reader *r)
{
    struct buffer out = {0};
    int c = smol_json_peek(&r->json);
    if (c == '"')
        return smol_member_copy_json(r, 0, &smol_body_job(r)->instructions);
    if (c != '[')
        return smol_member_fail(r, "expected a string or a list of texts");
    smol_status status = smol_messages_join(r, &out);
    smol_buffer_add(&out, "", 1);
    smol_body_job(r)->instructions = out.text;
    return !status && out.failed ? smol_fail_memory(r->json.error, "a request") : status;
}

/* Reads an object with a member `type`, see smol_body_object. */
static smol_status read_typed(struct request_reader *r, const struct object_member *rows, size_t n)
{
    struct json_reader ignored;
    if (smol_json_peek(&r->json) != '{')
        return smol_member_fail(r, "expected an object");
    smol_status status = smol_messages_find(r, "type", "\"", &ignored);
    return status ? status : smol_body_object(r, rows, n);
}

/* --- which tool is called --------------------------------------------------------------------- */

static smol_status set_choice(struct request_reader *r)
{
    static const char *const words[] = {"auto", "any", "none", "tool", NULL};
    static const char *const choices[] = {"auto", "required", "none", NULL}; /* then a name */
    size_t i = 0;
    smol_status status =
        smol_member_word(r, words, "expected auto, any, none or tool as `type`", &i);
    if (status || !choices[i])
        return status;
    return smol_member_copy(r, choices[i], strlen(choices[i]), &r->request->tool_choice);
}

static smol_status set_chosen(struct request_reader *r)
{
    size_t size;
    if (r->request->tool_choice)
        return smol_member_fail(r, "a name is only for the type tool");
    smol_status status = smol_member_text(r, &r->request->tool_choice, &size);
    if (!status && smol_is_choice_word(r->request->tool_choice))
        return smol_member_fail(r, "a tool called auto, none or required cannot be chosen");
    return status;
}

static smol_status set_one_call(struct request_reader *r)
{
    return smol_member_flag(r, &r->request->one_call);
}

static smol_status set_tool_choice(struct request_reader *r)
{
    static const struct object_member rows[] = {
        {"type", set_choice}, {"name", set_chosen}, {"disable_parallel_tool_use", set_one_call}};
    smol_status status = read_typed(r, rows, sizeof rows / sizeof rows[0]);
    return status || r->request->tool_choice
               ? status
               : smol_member_fail(r, "expected the name of a tool in it");
}

/* --- thinking and output ---------------------------------------------------------------------- */

static smol_status set_thinking_type(struct request_reader *r)
{
    static const char *const words[] = {"adaptive", "enabled", "disabled", NULL};
    static const enum thinking kinds[] = {THINKING_DEFAULT, THINKING_ON, THINKING_OFF};
    size_t i = 0;
    smol_status status =
        smol_member_word(r, words, "expected enabled, adaptive or disabled as `type`", &i);
    if (!status)
        r->request->thinking = kinds[i];
    return status;
}

static smol_status set_display(struct request_reader *r)
{
    static const char *const words[] = {"summarized", "updates", "omitted", NULL};
    enum { OMITTED = 2 };
    size_t i = 0;
    smol_status status =
        smol_member_word(r, words, "expected summarized, updates or omitted as `display`", &i);
    smol_body_job(r)->omits_thinking = i == OMITTED;
    return status;
}

static smol_status set_thinking(struct request_reader *r)
{
    static const struct object_member rows[] = {{"type", set_thinking_type},
                                                {"budget_tokens", smol_set_reasoning_budget},
                                                {"display", set_display}};
    return read_typed(r, rows, sizeof rows / sizeof rows[0]);
}

static smol_status set_output_config(struct request_reader *r)
{
    static const struct object_member rows[] = {{"format", smol_set_flat_format},
                                                {"effort", smol_set_effort}};
    return smol_body_object(r, rows, sizeof rows / sizeof rows[0]);
}

/* --- what changes no answer ------------------------------------------------------------------- */

static smol_status check_edit_type(struct request_reader *r)
{
    static const char *const words[] = {"clear_thinking_20251015", NULL};
    return smol_member_word(r, words, "only clear_thinking_20251015 is supported", &(size_t){0});
}

static smol_status check_keep(struct request_reader *r)
{
    static const char *const words[] = {"all", NULL};
    return smol_member_word(r, words, "only all is supported as `keep`", &(size_t){0});
}

/* Reads an edit of the context that keeps everything. */
static smol_status read_edit(struct request_reader *r)
{
    static const struct object_member rows[] = {{"type", check_edit_type}, {"keep", check_keep}};
    struct json_reader ignored;
    struct request_reader start = *r;
    smol_status status = read_typed(r, rows, sizeof rows / sizeof rows[0]);
    return status ? status : smol_messages_find(&start, "keep", "\"", &ignored);
}

static smol_status set_edits(struct request_reader *r)
{
    size_t n;
    return smol_json_peek(&r->json) == '[' ? smol_member_each(r, '[', read_edit, &n)
                                           : smol_member_fail(r, "edits must be a list");
}

static smol_status set_context_management(struct request_reader *r)
{
    static const struct object_member rows[] = {{"edits", set_edits}};
    return smol_body_object(r, rows, 1);
}

static smol_status set_speed(struct request_reader *r)
{
    static const char *const words[] = {"standard", NULL};
    return smol_member_word(r, words, "expected standard: this server has one speed", &(size_t){0});
}

static smol_status set_service_tier(struct request_reader *r)
{
    static const char *const words[] = {"auto", "standard_only", NULL};
    return smol_member_word(r, words, "expected auto or standard_only: this server has one tier",
                            &(size_t){0});
}

/* --- the request ------------------------------------------------------------------------------ */

static const struct request_member members[] = {
    {"messages", smol_anthropic_set_messages},
    {"model", smol_body_model},
    {"max_tokens", smol_set_max_tokens},
    {"system", set_system},
    {"stream", smol_body_stream},
    {"stop_sequences", smol_set_stop},
    {"temperature", smol_set_temperature},
    {"top_k", smol_set_top_k},
    {"top_p", smol_set_top_p},
    {"seed", smol_set_seed},
    {"tools", smol_anthropic_set_tools},
    {"tool_choice", set_tool_choice},
    {"thinking", set_thinking},
    {"output_config", set_output_config},
    {"output_format", smol_set_flat_format},
    {"metadata", smol_body_inert},
    {"service_tier", set_service_tier},
    {"speed", set_speed},
    {"cache_control", smol_body_inert}, /* all prefixes are kept while there is room */
    {"diagnostics", smol_body_inert},
    REQUEST_CHAT_MEMBERS,
    {"context_management", set_context_management},
    {"container", smol_body_unsupported},
    {"inference_geo", smol_body_unsupported},
    {"mcp_servers", smol_body_unsupported},
    {"thread", smol_body_unsupported},
};

/* Drops the first text of a system message if it is Claude Code's note about its version and the
 * conversation: it is not for the model, and conversations with the same instructions would share
 * no beginning. An empty message is none. */
static void clean_instructions(struct job *job)
{
    static const char note[] = "\"x-anthropic-billing-header:";
    char *text = job->instructions;
    if (text && strncmp(text, note, sizeof note - 1) == 0) {
        const char *rest = strstr(text, "\\n"); /* after the last letter of the first text */
        rest = rest ? rest + 2 : "\"";
        memmove(text + 1, rest, strlen(rest) + 1);
    }
    if (text && strcmp(text, "\"\"") == 0) {
        free(text);
        job->instructions = NULL;
    }
}

static smol_status check_messages(struct job *job, const char **param, smol_error *error)
{
    *param = "messages";
    if (!job->request.messages)
        return smol_fail(error, SMOL_ERROR_USAGE, "messages: missing");
    clean_instructions(job);
    return smol_messages_instruct(job, error);
}

static smol_status check_count(struct job *job, const char **param, smol_error *error)
{
    job->stream = false; /* the members are those of a message */
    return check_messages(job, param, error);
}

/* The effort is a hint, unlike OpenAI's: many programs always send one. */
static smol_status prepare_messages(struct job *job, smol_error *error)
{
    if (!smol_chat_reads(job->generator->model, "reasoning_effort"))
        job->request.effort = NULL;
    return smol_chat_prepare(job, error);
}

/* --- endpoints -------------------------------------------------------------------------------- */

const struct endpoint smol_endpoint_messages = {
    .path = "/v1/messages",
    .id_prefix = "msg_",
    .work = WORK_GENERATE,
    .members = members,
    .n_members = sizeof members / sizeof members[0],
    .check = check_messages,
    .prepare = prepare_messages,
    .write = smol_anthropic_whole,
    .write_event = smol_anthropic_news,
    .write_end = smol_anthropic_end,
    .write_error = smol_anthropic_error,
    .write_refusal = smol_anthropic_refusal,
};

const struct endpoint smol_endpoint_count_tokens = {
    .path = "/v1/messages/count_tokens",
    .id_prefix = "msg_",
    .work = WORK_TOKENS,
    .members = members,
    .n_members = sizeof members / sizeof members[0],
    .check = check_count,
    .prepare = prepare_messages,
    .write = smol_anthropic_count,
    .write_refusal = smol_anthropic_refusal,
};
