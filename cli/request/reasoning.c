/* Reasoning of requests, see reasoning.h. */
#include "cli/request/reasoning.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"

const char *const smol_reasoning_words[] = {"auto", "deepseek", "none", NULL};

smol_status smol_set_reasoning_format(struct request_reader *r)
{
    size_t i;
    smol_status status = smol_member_word(
        r, smol_reasoning_words, "expected auto, deepseek (which means the same) or none", &i);
    if (!status)
        r->request->raw_reasoning = i == REASONING_NONE;
    return status;
}

smol_status smol_set_reasoning_budget(struct request_reader *r)
{
    struct json_number number;
    uint64_t n = SIZE_MAX;
    int64_t negative = 0;
    smol_status status = SMOL_OK;
    if (smol_json_peek(&r->json) != '-') {
        status = smol_member_whole(r, UINT32_MAX, &n);
    } else {
        status = smol_json_number(&r->json, &number);
        if (!status && (!smol_json_to_i64(&number, &negative) || negative != -1))
            return smol_member_fail(r, "expected a whole number, or -1: no limit");
    }
    r->request->reasoning_budget = (size_t)n;
    return status;
}

/* --- effort ----------------------------------------------------------------------------------- */

static const char *const efforts[] = {"none", "minimal", "low", "medium",
                                      "high", "xhigh",   "max", NULL};
enum { EFFORT_NONE = 0, EFFORT_MEDIUM = 3 }; /* the latter is what models do by themselves */

smol_status smol_set_effort(struct request_reader *r)
{
    size_t i;
    smol_status status =
        smol_member_word(r, efforts, "expected none, minimal, low, medium, high, xhigh or max", &i);
    if (!status)
        r->request->effort = efforts[i];
    return status;
}

/* Sets a variable of the template to a JSON value, unless the request sets it. */
static smol_status add_variable(struct request *request, const char *name, const char *value,
                                smol_error *error)
{
    struct buffer out = {0};
    const char *own = request->variables ? request->variables : "{}";
    bool empty = own[1 + strspn(own + 1, " \t\r\n")] == '}';
    smol_buffer_print(&out, "{\"%s\": %s%s", name, value, empty ? "" : ", "); /* the last counts */
    smol_buffer_add(&out, own + 1, strlen(own));
    if (out.failed) {
        free(out.text);
        return smol_fail_memory(error, "a request");
    }
    free(request->variables);
    request->variables = out.text;
    return SMOL_OK;
}

/* Sets the variables with which templates turn reasoning on and off. */
static smol_status set_switches(struct request *request, const smol_model *model, const char *value,
                                smol_error *error)
{
    static const char *const switches[] = {"enable_thinking", "thinking"};
    smol_status status = SMOL_OK;
    for (size_t i = 0; i < sizeof switches / sizeof switches[0] && !status; i++)
        if (smol_chat_reads(model, switches[i]))
            status = add_variable(request, switches[i], value, error);
    return status;
}

smol_status smol_request_apply_effort(struct request *request, const smol_model *model,
                                      smol_error *error)
{
    char value[16];
    smol_status status = SMOL_OK;
    bool off = request->thinking == THINKING_OFF || request->effort == efforts[EFFORT_NONE];
    if (off)
        request->reasoning_budget = 0;
    if (off || request->thinking == THINKING_ON)
        status = set_switches(request, model, off ? "false" : "true", error);
    if (status || off || !request->effort)
        return status;
    snprintf(value, sizeof value, "\"%s\"", request->effort);
    if (smol_chat_reads(model, "reasoning_effort"))
        return add_variable(request, "reasoning_effort", value, error);
    if (request->effort == efforts[EFFORT_MEDIUM])
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                     "reasoning_effort: the model's chat template has no levels: use none or "
                     "medium, or limit the reasoning with thinking_budget_tokens");
}

/* --- answers ---------------------------------------------------------------------------------- */

bool smol_request_separates(const struct request *request)
{
    return request->is_chat && !request->raw_reasoning;
}

smol_status smol_request_settle_begun(struct request *request, const smol_model *model,
                                      const uint32_t *prompt, size_t n, smol_error *error)
{
    smol_reasoning reasoning;
    if (!request->continues)
        return SMOL_OK;
    smol_status status = smol_reasoning_after(model, prompt, n, &reasoning, error);
    if (!status && reasoning != SMOL_REASONING_BEGUN) {
        request->raw_reasoning = true;
        request->reasoning_budget = SIZE_MAX;
    }
    return status;
}

smol_status smol_request_reasoning(const struct request *request, const smol_model *model,
                                   const uint32_t *prompt, size_t n,
                                   struct wanted_constraint *constraint, smol_error *error)
{
    const char *choice = constraint->tool_choice;
    bool any_text = choice && !constraint->answer_schema &&
                    (strcmp(choice, "auto") == 0 || strcmp(choice, "none") == 0);
    constraint->reasoning = SMOL_REASONING_NONE;
    return smol_request_separates(request) || any_text
               ? smol_reasoning_after(model, prompt, n, &constraint->reasoning, error)
               : SMOL_OK;
}
