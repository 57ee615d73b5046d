/* Conversations that are too long lose their oldest turns, see body.h. */
#include <stdlib.h>
#include <string.h>

#include "smolserve/body.h"
#include "smolserve/server.h"

/* The part of a list of messages that may be dropped: text[head..end) of its JSON. */
struct turns {
    size_t head; /* the first message after the system messages at the start */
    size_t end;  /* the start of a later message of a user, or head: nothing may be dropped */
};

/* Reads the role of the message at `json`. */
static smol_status read_role(struct json_reader json, char *scratch, size_t *length)
{
    bool found;
    smol_status status = smol_member_seek(&json, scratch, "role", &found);
    return status ? status : smol_json_string(&json, scratch, length);
}

/* Finds turns of at least `least` bytes, or all but the last one if they are shorter. Turns begin
 * with a user's message, so that calls keep their results. `scratch` has room for the text. */
static smol_status find_turns(const char *text, size_t least, char *scratch, struct turns *turns,
                              smol_error *error)
{
    const uint8_t *start = (const uint8_t *)text;
    struct json_reader json = {.start = start,
                               .at = start,
                               .end = start + strlen(text),
                               .name = "messages",
                               .fault = "invalid",
                               .advice = "",
                               .status = SMOL_ERROR_USAGE,
                               .error = error};
    bool more, in_head = true;
    size_t length = 0;
    smol_status status = smol_json_begin(&json, '[', &more);
    while (!status && more && (in_head || turns->end < turns->head + least)) {
        smol_json_peek(&json);
        size_t at = (size_t)(json.at - start);
        status = read_role(json, scratch, &length);
        bool first = in_head;
        in_head = in_head && (smol_member_is(scratch, length, "system") ||
                              smol_member_is(scratch, length, "developer"));
        if (first && !in_head)
            turns->head = turns->end = at;
        else if (!in_head && smol_member_is(scratch, length, "user"))
            turns->end = at;
        if (!status)
            status = smol_json_skip(&json);
        if (!status)
            status = smol_json_more(&json, ']', &more);
    }
    return status;
}

/* Drops turns of at least `least` bytes, if there are that many. */
static smol_status drop_turns(char *text, size_t least, bool *dropped, smol_error *error)
{
    struct turns turns = {0};
    char *scratch = malloc(strlen(text) + 1);
    if (!scratch)
        return smol_fail_memory(error, "a request");
    smol_status status = find_turns(text, least, scratch, &turns, error);
    free(scratch);
    *dropped = !status && turns.end > turns.head;
    if (*dropped)
        memmove(text + turns.head, text + turns.end, strlen(text + turns.end) + 1);
    return status;
}

smol_status smol_chat_shorten(struct job *job, smol_chat_params chat, struct prompt *prompt,
                              smol_error *error)
{
    char *text = job->request.messages;
    size_t capacity = job->generator->capacity, answer = capacity / 4;
    smol_status status = SMOL_OK;
    bool dropped = true;
    answer = job->request.max_tokens < answer ? job->request.max_tokens : answer;
    while (!status && prompt->n > capacity - answer) {
        size_t size = strlen(text);
        double keeps = (double)size * (double)(capacity - answer) / (double)prompt->n;
        /* some more, so that few rounds are needed */
        status = drop_turns(text, size - (size_t)(keeps * 15 / 16), &dropped, error);
        if (status || !dropped)
            break;
        smol_free(prompt->ids);
        prompt->ids = NULL;
        chat.messages_json = text;
        status =
            smol_prompt_messages(job->generator->model, &chat, &prompt->ids, &prompt->n, error);
    }
    return status;
}
