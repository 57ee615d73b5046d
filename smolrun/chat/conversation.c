/* Messages, see conversation.h. */
#include "smolrun/chat/conversation.h"

#include <stdlib.h>
#include <string.h>

#include "cli/print.h"
#include "common/memory.h"
#include "smolrun/chat/signals.h"
#include "smolrun/prompt.h"

#define PACK_MAGIC "chat"
enum { MAGIC_SIZE = 4 };

static bool add(struct conversation *c, enum role role, const char *text, size_t size)
{
    char *copy = GROW(c->messages, c->n, &c->room) ? malloc(size + 1) : NULL;
    if (!copy)
        return false;
    memcpy(copy, text, size);
    c->messages[c->n++] = (struct message){role, copy, size};
    return true;
}

smol_status smol_conversation_add(struct conversation *conversation, enum role role,
                                  const char *text, size_t size, smol_error *error)
{
    if (add(conversation, role, size ? text : "", size))
        return SMOL_OK;
    return smol_fail_memory(error, "the conversation");
}

smol_status smol_conversation_extend(struct conversation *conversation, const char *text,
                                     size_t size, smol_error *error)
{
    struct message *last = &conversation->messages[conversation->n - 1];
    char *longer = realloc(last->text, last->size + size + 1);
    if (!longer)
        return smol_fail_memory(error, "the conversation");
    if (size > 0)
        memcpy(longer + last->size, text, size);
    last->text = longer;
    last->size += size;
    return SMOL_OK;
}

void smol_conversation_pop(struct conversation *conversation)
{
    free(conversation->messages[--conversation->n].text);
}

const struct message *smol_conversation_system(const struct conversation *conversation)
{
    const struct message *first = conversation->messages;
    return conversation->n > 0 && first->role == ROLE_SYSTEM ? first : NULL;
}

static size_t n_system(const struct conversation *conversation)
{
    return smol_conversation_system(conversation) ? 1 : 0;
}

void smol_conversation_clear(struct conversation *conversation, bool all)
{
    size_t kept = all ? 0 : n_system(conversation);
    while (conversation->n > kept)
        smol_conversation_pop(conversation);
    if (!all)
        return;
    free(conversation->messages);
    *conversation = (struct conversation){0};
}

bool smol_conversation_ends_with(const struct conversation *conversation, enum role role)
{
    return conversation->n > 0 && conversation->messages[conversation->n - 1].role == role;
}

size_t smol_conversation_droppable(const struct conversation *conversation)
{
    size_t n = conversation->n - n_system(conversation);
    return n > 0 ? (n - 1) / 2 * 2 : 0;
}

void smol_conversation_drop(struct conversation *conversation, size_t n_dropped)
{
    struct message *oldest = conversation->messages + n_system(conversation);
    for (size_t i = 0; i < n_dropped; i++)
        free(oldest[i].text);
    conversation->n -= n_dropped;
    memmove(oldest, oldest + n_dropped,
            (conversation->n - n_system(conversation)) * sizeof *oldest);
}

static int is_interrupted(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    (void)done;
    (void)total;
    return smol_chat_interrupted();
}

smol_status smol_conversation_ids(const struct conversation *conversation, size_t n_dropped,
                                  const struct settings *settings, const smol_model *model,
                                  uint32_t **ids, size_t *n, smol_error *error)
{
    static const char *const names[] = {
        [ROLE_SYSTEM] = "system", [ROLE_USER] = "user", [ROLE_ASSISTANT] = "assistant"};
    smol_chat_message *messages = calloc(conversation->n, sizeof *messages);
    if (!messages)
        return smol_fail_memory(error, "the conversation");
    size_t n_messages = 0;
    for (size_t i = 0; i < conversation->n; i++) {
        const struct message *message = &conversation->messages[i];
        if (i < n_system(conversation) || i >= n_system(conversation) + n_dropped)
            messages[n_messages++] =
                (smol_chat_message){names[message->role], message->text, message->size};
    }
    const smol_chat_params chat = {.messages = messages,
                                   .n_messages = n_messages,
                                   .add_generation_prompt = 1,
                                   .now = &settings->now,
                                   .on_progress = is_interrupted};
    smol_status status = smol_prompt_chat(settings, model, chat, ids, n, error);
    free(messages);
    return status;
}

void smol_conversation_pack(const struct conversation *conversation, struct buffer *bytes)
{
    smol_buffer_add(bytes, PACK_MAGIC, MAGIC_SIZE);
    for (size_t i = 0; i < conversation->n; i++) {
        const struct message *message = &conversation->messages[i];
        const uint32_t head[] = {message->role, (uint32_t)message->size};
        smol_buffer_add(bytes, (const char *)head, sizeof head);
        smol_buffer_add(bytes, message->text, message->size);
    }
}

/* Returns whether a message of that role may come next. A system message comes first or not at all;
 * users and assistants take turns. */
static bool may_follow(const struct conversation *c, uint32_t role)
{
    if (role == ROLE_SYSTEM)
        return c->n == 0;
    if (role == ROLE_USER)
        return !smol_conversation_ends_with(c, ROLE_USER);
    return role == ROLE_ASSISTANT && smol_conversation_ends_with(c, ROLE_USER);
}

bool smol_conversation_unpack(struct conversation *conversation, const void *bytes, size_t size)
{
    const char *data = bytes, *end;
    if (size < MAGIC_SIZE || memcmp(data, PACK_MAGIC, MAGIC_SIZE) != 0)
        return false; /* also if `bytes` is NULL: a session without data */
    for (end = data + size, data += MAGIC_SIZE; data < end;) {
        uint32_t head[2];
        if ((size_t)(end - data) < sizeof head)
            return false;
        memcpy(head, data, sizeof head);
        data += sizeof head;
        if ((size_t)(end - data) < head[1] || !may_follow(conversation, head[0]) ||
            !add(conversation, (enum role)head[0], data, head[1]))
            return false;
        data += head[1];
    }
    return true;
}
