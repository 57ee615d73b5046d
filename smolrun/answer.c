/* Answers, see batch.h. */
#include "smolrun/batch.h"

#include <stdlib.h>
#include <unistd.h>

#include "cli/request/likelihood.h"
#include "cli/request/reasoning.h"
#include "cli/standard.h"
#include "cli/terminal.h"

const char *const smol_finish_words[] = {
    [SMOL_FINISH_STOP] = "stop",
    [SMOL_FINISH_LENGTH] = "length",
    [SMOL_FINISH_CONTEXT_FULL] = "context_full",
};

/* --- collecting --------------------------------------------------------------------------- */

int smol_answer_text(void *user, const char *text, size_t size, uint32_t id)
{
    struct answer *answer = user;
    bool added = smol_parts_add(&answer->parts, text, size, id);
    if (id != SMOL_NO_TOKEN)
        smol_buffer_add(&answer->ids, (const char *)&id, sizeof id);
    return !added || answer->ids.failed || answer->logprobs.failed;
}

smol_status smol_answer_end(struct answer *answer, smol_error *error)
{
    bool ended = smol_parts_end(&answer->parts);
    smol_parts_close(&answer->parts);
    return ended ? SMOL_OK : smol_fail_memory(error, "an answer");
}

void smol_answer_token(void *user, uint32_t id, const float *logits, size_t n)
{
    struct answer *answer = user;
    if (answer->request.common.logprobs >= 0)
        smol_logprobs_add(&answer->logprobs, (size_t)answer->request.common.logprobs, id, logits,
                          n);
}

size_t smol_answer_bytes(const struct answer *answer)
{
    return answer->parts.text.capacity + answer->parts.reasoning.capacity + answer->ids.capacity +
           answer->logprobs.capacity;
}

void smol_answer_free(struct answer *answer)
{
    smol_line_free(&answer->request);
    smol_parts_free(&answer->parts);
    free(answer->ids.text);
    free(answer->logprobs.text);
    *answer = (struct answer){0};
}

/* --- chats of the command line ------------------------------------------------------------ */

smol_status smol_answer_begin(const struct settings *settings, const smol_model *model,
                              const uint32_t *prompt, size_t n, struct wanted_constraint *wanted,
                              struct answer_parts *parts, smol_error *error)
{
    const struct request request = {.is_chat = true,
                                    .reasoning_budget = settings->reasoning_budget};
    smol_parts_free(parts);
    smol_status status = smol_request_reasoning(&request, model, prompt, n, wanted, error);
    return status ? status
                  : smol_parts_begin(parts, &request, wanted->given ? wanted : NULL, model, prompt,
                                     n, error);
}

/* The text is dimmed only while it is printed, so that no signal leaves the terminal so. */
static void show_reasoning(const char *text, size_t size,
                           void (*print)(const char *text, size_t size))
{
    bool colors = smol_terminal_colors();
    fputs(colors ? "\033[2m" : "", stdout);
    print(text, size);
    fputs(colors ? "\033[0m" : "", stdout);
}

void smol_answer_show(struct answer_parts *parts, bool *reasons,
                      void (*print)(const char *text, size_t size))
{
    static const char title[] = "[reasoning]\n";
    if (parts->reasoning.size > 0 && isatty(STDOUT_FILENO)) {
        if (!*reasons && !smol_terminal_colors())
            print(title, sizeof title - 1);
        show_reasoning(parts->reasoning.text, parts->reasoning.size, print);
        *reasons = true;
    }
    if (parts->text.size > 0) {
        if (*reasons)
            show_reasoning("\n\n", 2, print);
        *reasons = false;
        print(parts->text.text, parts->text.size);
    }
    buffer_clear(&parts->reasoning);
    buffer_clear(&parts->text);
}

/* --- printing ----------------------------------------------------------------------------- */

static void print_ids(struct json_out *json, const struct buffer *ids)
{
    const uint32_t *id = (const void *)ids->text;
    smol_json_member_open(json, "ids", '[');
    for (size_t i = 0; i < ids->size / sizeof *id; i++)
        smol_json_whole(json, id[i]);
    smol_json_close(json, ']');
}

/* Writes the members of an open object. Text that is only a part of a character becomes U+FFFD. */
static smol_status print_logprob(struct json_out *json, const smol_model *model,
                                 const struct ranked *one, smol_error *error)
{
    size_t size;
    const char *text;
    smol_status status = smol_token_text(model, one->id, &text, &size, NULL, error);
    if (status)
        return status;
    smol_json_member_whole(json, "id", one->id);
    smol_json_key(json, "text");
    smol_json_text(json, text, size);
    smol_json_member_real(json, "logprob", one->log_probability);
    return SMOL_OK;
}

static smol_status print_logprobs(struct json_out *json, const smol_model *model,
                                  const struct answer *answer, smol_error *error)
{
    smol_status status = SMOL_OK;
    const struct ranked *next = (const void *)answer->logprobs.text;
    size_t n_tokens = answer->ids.size / sizeof(uint32_t);
    size_t n_all = answer->logprobs.size / sizeof *next;
    if (answer->request.common.logprobs < 0)
        return status;
    smol_json_member_open(json, "logprobs", '[');
    for (size_t i = 0; !status && i < n_tokens; i++) {
        smol_json_open(json, '{');
        status = print_logprob(json, model, next++, error);
        smol_json_member_open(json, "top", '[');
        for (size_t j = 1; !status && j < n_all / n_tokens; j++, next++) {
            if (next->id == SMOL_NO_TOKEN)
                continue;
            smol_json_open(json, '{');
            status = print_logprob(json, model, next, error);
            smol_json_close(json, '}');
        }
        smol_json_close(json, ']');
        smol_json_close(json, '}');
    }
    smol_json_close(json, ']');
    return status;
}

static void print_usage(struct json_out *json, const struct answer *answer)
{
    const smol_generate_result *result = &answer->result;
    smol_json_member_open(json, "usage", '{');
    smol_json_member_whole(json, "prompt_tokens", result->n_prompt);
    smol_json_member_whole(json, "completion_tokens", result->n_generated);
    smol_json_member_whole(json, "total_tokens", result->n_prompt + result->n_generated);
    smol_parts_print_details(answer->parts.n_reasoning_tokens, json);
    smol_json_close(json, '}');
}

static void print_error(struct json_out *json, const smol_error *error)
{
    static const char *const codes[] = {
        [SMOL_ERROR_USAGE] = "usage",
        [SMOL_ERROR_FILE] = "file",
        [SMOL_ERROR_DAMAGED] = "damaged",
        [SMOL_ERROR_UNSUPPORTED] = "unsupported",
        [SMOL_ERROR_MEMORY] = "memory",
        [SMOL_ERROR_NUMERIC] = "numeric",
        [SMOL_ERROR_CONTEXT_FULL] = "context_full",
    };
    smol_json_member_open(json, "error", '{');
    smol_json_member_text(json, "code", codes[error->status]);
    smol_json_member_text(json, "message", error->message);
    smol_json_close(json, '}');
}

void smol_answer_members(struct json_out *json, const struct answer *answer)
{
    const struct answer_parts *parts = &answer->parts;
    if (parts->reasoning.size > 0) {
        smol_json_key(json, "reasoning");
        smol_json_text(json, parts->reasoning.text, parts->reasoning.size);
    }
    smol_json_key(json, "text");
    smol_json_text(json, parts->text.text, parts->text.size);
    smol_calls_print(&parts->calls, answer->prompt_digest, json);
    print_ids(json, &answer->ids);
    bool calls = parts->calls.n > 0 && answer->result.finish == SMOL_FINISH_STOP &&
                 !parts->call_cut; /* by a stop string */
    smol_json_member_text(json, "finish_reason",
                          calls ? "tool_calls" : smol_finish_words[answer->result.finish]);
}

smol_status smol_answer_print(const struct answer *answer, const smol_model *model, uint64_t index,
                              smol_error *error)
{
    struct held_output held;
    smol_status status = smol_held_start(&held, error);
    if (status)
        return status;
    struct json_out json = {.file = held.file};
    smol_json_open(&json, '{');
    smol_json_member_whole(&json, "index", index);
    if (answer->request.id)
        smol_json_member_value(&json, "id", answer->request.id);
    if (answer->request.model)
        smol_json_member_value(&json, "model", answer->request.model);
    if (answer->error.status) {
        print_error(&json, &answer->error);
    } else {
        smol_answer_members(&json, answer);
        status = print_logprobs(&json, model, answer, error);
        print_usage(&json, answer);
    }
    smol_json_close(&json, '}');
    fputc('\n', held.file);
    return smol_held_release(&held, status, error);
}
