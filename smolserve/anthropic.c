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

/* Reads the member `type` of the object at the reader, one of `words`. The object has no other
 * members than `names`. */
static smol_status read_type(struct request_reader *r, const char *const *names,
                             const char *const *words, const char *what, size_t *index)
{
    struct request_reader inner = *r;
    if (smol_json_peek(&r->json) != '{')
        return smol_member_fail(r, "expected an object");
    smol_status status = smol_member_only(r, r->json, names);
    if (!status)
        status = smol_messages_find(r, "type", "\"", &inner.json);
    return status ? status : smol_member_word(&inner, words, what, index);
}

/* Moves `inner` to a member of the object at the reader. *found: it is there, and not null. */
static smol_status seek(struct request_reader *r, const char *name, struct request_reader *inner,
                        bool *found)
{
    *inner = *r;
    smol_status status = smol_member_seek(&inner->json, r->scratch, name, found);
    *found = !status && *found && !smol_json_word(&inner->json, "null");
    return status;
}

/* Copies the name of the tool that must be called. */
static smol_status copy_name(struct request_reader *r)
{
    struct request_reader inner = *r;
    size_t size;
    smol_status status = smol_messages_find(r, "name", "\"", &inner.json);
    if (!status)
        status = smol_member_text(&inner, &r->request->tool_choice, &size);
    if (!status && smol_is_choice_word(r->request->tool_choice))
        return smol_member_fail(r, "a tool called auto, none or required cannot be chosen");
    return status;
}

/* Reads {"type": WORD, "name": NAME, "disable_parallel_tool_use": FLAG}. */
static smol_status set_tool_choice(struct request_reader *r)
{
    static const char *const names[] = {"type", "name", "disable_parallel_tool_use", NULL};
    static const char *const words[] = {"auto", "any", "none", "tool", NULL};
    static const char *const choices[] = {"auto", "required", "none", NULL};
    struct request_reader inner;
    size_t i = 0;
    bool found = false;
    smol_status status =
        read_type(r, names, words, "expected auto, any, none or tool as `type`", &i);
    if (!status)
        status = seek(r, "disable_parallel_tool_use", &inner, &found);
    if (!status && found)
        status = smol_member_flag(&inner, &r->request->one_call);
    if (!status && choices[i])
        status = smol_member_copy(r, choices[i], strlen(choices[i]), &r->request->tool_choice);
    else if (!status)
        status = copy_name(r);
    return status ? status : smol_json_skip(&r->json);
}

/* Reads {"type": WORD, "budget_tokens": N, "display": WORD}. */
static smol_status set_thinking(struct request_reader *r)
{
    static const char *const names[] = {"type", "budget_tokens", "display", NULL};
    static const char *const words[] = {"adaptive", "enabled", "disabled", NULL};
    static const char *const displays[] = {"summarized", "updates", "omitted", NULL};
    enum { OMITTED = 2 };
    static const enum thinking kinds[] = {THINKING_DEFAULT, THINKING_ON, THINKING_OFF};
    struct request_reader inner;
    size_t i = 0, display = 0;
    bool found = false;
    smol_status status =
        read_type(r, names, words, "expected enabled, adaptive or disabled as `type`", &i);
    if (!status)
        status = seek(r, "budget_tokens", &inner, &found);
    if (!status && found)
        status = smol_set_reasoning_budget(&inner);
    if (!status)
        status = seek(r, "display", &inner, &found);
    if (!status && found)
        status = smol_member_word(&inner, displays,
                                  "display: expected summarized, updates or omitted", &display);
    smol_body_job(r)->omits_thinking = display == OMITTED;
    if (!status)
        r->request->thinking = kinds[i];
    return status ? status : smol_json_skip(&r->json);
}

/* Reads {"format": FORMAT, "effort": WORD}. */
static smol_status set_output_config(struct request_reader *r)
{
    static const char *const names[] = {"format", "effort", NULL};
    struct request_reader inner;
    bool found = false;
    if (smol_json_peek(&r->json) != '{')
        return smol_member_fail(r, "expected an object");
    smol_status status = smol_member_only(r, r->json, names);
    if (!status)
        status = seek(r, "format", &inner, &found);
    if (!status && found)
        status = smol_set_flat_format(&inner);
    if (!status)
        status = seek(r, "effort", &inner, &found);
    if (!status && found)
        status = smol_set_effort(&inner);
    return status ? status : smol_json_skip(&r->json);
}

/* Reads an edit of the context that keeps everything. */
static smol_status read_edit(struct request_reader *r)
{
    static const char *const names[] = {"type", "keep", NULL};
    static const char *const types[] = {"clear_thinking_20251015", NULL};
    static const char *const keeps[] = {"all", NULL};
    struct request_reader inner = *r;
    size_t i;
    smol_status status =
        read_type(r, names, types, "only clear_thinking_20251015 is supported", &i);
    if (!status)
        status = smol_messages_find(r, "keep", "\"", &inner.json);
    if (!status)
        status = smol_member_word(&inner, keeps, "only all is supported as `keep`", &i);
    return status ? status : smol_json_skip(&r->json);
}

/* Reads {"edits": EDITS}, which programs send that leave everything in the context. */
static smol_status set_context_management(struct request_reader *r)
{
    static const char *const names[] = {"edits", NULL};
    struct request_reader inner;
    bool found = false;
    size_t n;
    if (smol_json_peek(&r->json) != '{')
        return smol_member_fail(r, "expected an object");
    smol_status status = smol_member_only(r, r->json, names);
    if (!status)
        status = seek(r, "edits", &inner, &found);
    if (!status && found && smol_json_peek(&inner.json) != '[')
        return smol_member_fail(r, "edits must be a list");
    if (!status && found)
        status = smol_member_each(&inner, '[', read_edit, &n);
    return status ? status : smol_json_skip(&r->json);
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
