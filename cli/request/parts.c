/* Parts of answers, see parts.h. */
#include "cli/request/parts.h"

#include <stdlib.h>
#include <string.h>

#include "cli/request/likelihood.h"
#include "cli/request/reasoning.h"

/* The newest tokens are of the text: a piece of it has just been found. Some may be of the
 * reasoning, whose last bytes were held back. */
static void take_waiting(struct answer_parts *parts)
{
    size_t most = (parts->n_tokens - parts->n_reasoning_tokens) * parts->ranked_size;
    if (most < parts->waiting.size)
        smol_buffer_keep_last(&parts->waiting, most);
    smol_buffer_add(&parts->logprobs, parts->waiting.text, parts->waiting.size);
    buffer_clear(&parts->waiting);
}

static int add_part(void *user, smol_tool_part part, const char *text, size_t size)
{
    struct answer_parts *parts = user;
    parts->in_call = part == SMOL_TOOL_CALL || part == SMOL_TOOL_ARGUMENTS;
    if (part == SMOL_TOOL_TEXT)
        take_waiting(parts);
    else
        buffer_clear(&parts->waiting);
    return !smol_calls_add(&parts->calls, &parts->text, part, text, size) || parts->logprobs.failed;
}

smol_status smol_parts_begin(struct answer_parts *parts, const struct request *request,
                             const struct wanted_constraint *constraint, const smol_model *model,
                             const uint32_t *prompt, size_t n, smol_error *error)
{
    bool calls = constraint && constraint->kind == SMOL_CONSTRAINT_TOOLS;
    bool schema = calls && constraint->answer_schema;
    bool reasons = !constraint || constraint->reasoning != SMOL_REASONING_NONE;
    smol_reply reply = schema       ? SMOL_REPLY_TOOLS_SCHEMA
                       : calls      ? SMOL_REPLY_TOOLS
                       : constraint ? SMOL_REPLY_CONSTRAINED
                                    : SMOL_REPLY_FREE;
    smol_status status = SMOL_OK;
    parts->ranked_size = (size_t)(1 + request->logprobs) * sizeof(struct ranked);
    if (smol_request_separates(request) && (reasons || calls))
        status =
            smol_reasoning_reader_create(model, prompt, n, reply, &parts->reasoning_reader, error);
    if (!status && request->is_chat && request->reasoning_budget < SIZE_MAX && reasons)
        status = smol_reasoning_limit_create(model, prompt, n, reply, request->reasoning_budget,
                                             &parts->limit, error);
    if (!status && calls)
        status = smol_tool_reader_create(model, constraint->text, add_part, parts,
                                         &parts->tool_reader, error);
    if (!status && schema)
        smol_tool_reader_calls_first(parts->tool_reader);
    return status;
}

void smol_parts_set(const struct answer_parts *parts, smol_generate_params *params)
{
    params->show_special = parts->tool_reader ? 1 : parts->reasoning_reader ? 2 : 0;
    params->reasoning_limit = parts->limit;
}

static bool add_reply(struct answer_parts *parts, const char *text, size_t size)
{
    if (parts->tool_reader)
        return smol_tool_reader_add(parts->tool_reader, text, size, NULL) == SMOL_OK;
    smol_buffer_add(&parts->text, text, size);
    if (size > 0)
        take_waiting(parts);
    return !parts->text.failed && !parts->logprobs.failed;
}

/* Takes what the reader of reasoning has found. */
static bool take(struct answer_parts *parts, const smol_reasoning_parts *found)
{
    smol_buffer_add(&parts->reasoning, found->reasoning, found->n_reasoning);
    parts->n_reasoning_tokens = found->n_tokens;
    return !parts->reasoning.failed && add_reply(parts, found->reply, found->n_reply);
}

/* Does what smol_parts_add does, apart from counting. */
static bool add(struct answer_parts *parts, const char *text, size_t size, uint32_t id)
{
    smol_reasoning_parts found;
    if (!parts->reasoning_reader)
        return add_reply(parts, text, size);
    if (smol_reasoning_reader_add(parts->reasoning_reader, text, size, id, &found, NULL))
        return false;
    if (size > 0 && found.n_reply == 0 && found.n_held == 0)
        buffer_clear(&parts->waiting); /* reasoning, a marker, or white space that is left out */
    return take(parts, &found);
}

bool smol_parts_add(struct answer_parts *parts, const char *text, size_t size, uint32_t id)
{
    parts->n_tokens += id != SMOL_NO_TOKEN;
    bool added = add(parts, text, size, id);
    if (size > 0)
        parts->n_told = parts->waiting.size;
    return added;
}

bool smol_parts_end(struct answer_parts *parts)
{
    smol_reasoning_parts found;
    bool good = true;
    parts->waiting.size = parts->n_told; /* the rest is of a stop string */
    if (parts->reasoning_reader)
        good = !smol_reasoning_reader_end(parts->reasoning_reader, &found, NULL) &&
               take(parts, &found);
    parts->call_cut = parts->in_call;
    const size_t n_calls = parts->calls.n;
    if (good && parts->tool_reader)
        good = !smol_tool_reader_end(parts->tool_reader, NULL);
    parts->call_cut |= parts->calls.n > n_calls; /* one whose arguments have not begun */
    return good;
}

void smol_parts_print_details(size_t n_reasoning_tokens, struct json_out *json)
{
    if (n_reasoning_tokens == 0)
        return;
    smol_json_member_open(json, "completion_tokens_details", '{');
    smol_json_member_whole(json, "reasoning_tokens", n_reasoning_tokens);
    smol_json_close(json, '}');
}

void smol_parts_close(struct answer_parts *parts)
{
    smol_reasoning_reader_free(parts->reasoning_reader);
    smol_reasoning_limit_free(parts->limit);
    smol_tool_reader_free(parts->tool_reader);
    parts->reasoning_reader = NULL;
    parts->limit = NULL;
    parts->tool_reader = NULL;
}

void smol_parts_free(struct answer_parts *parts)
{
    smol_parts_close(parts);
    free(parts->reasoning.text);
    free(parts->text.text);
    free(parts->logprobs.text);
    free(parts->waiting.text);
    smol_calls_free(&parts->calls);
    *parts = (struct answer_parts){0};
}
