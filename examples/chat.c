/* A conversation: reads lines and prints answers. The context keeps the conversation, so that a
 * turn evaluates only its new tokens.
 *
 *     cc -o chat chat.c $(pkg-config --cflags --libs smol)
 *     ./chat FILE.smol */
#include <smol.h>
#include <stdio.h>
#include <string.h>

enum { MOST_MESSAGES = 200, MOST_BYTES = 4096, MOST_TOKENS = 256 };

static char texts[MOST_MESSAGES][MOST_BYTES];
static smol_chat_message messages[MOST_MESSAGES];
static size_t n_messages;

static void add(const char *role, size_t size)
{
    messages[n_messages].role = role;
    messages[n_messages].content = texts[n_messages];
    messages[n_messages++].size = size;
}

/* Prints the answer's text as it arrives, and appends it to the last message. */
static int hear(void *user, const char *text, size_t size, uint32_t id)
{
    size_t *had = &messages[n_messages - 1].size;
    (void)user;
    (void)id;
    if (size > MOST_BYTES - *had)
        return 1; /* ends the answer */
    memcpy(texts[n_messages - 1] + *had, text, size);
    *had += size;
    return fwrite(text, 1, size, stdout) < size || fflush(stdout);
}

static void reply(const smol_model *model, smol_context *context, smol_sampler *sampler,
                  smol_error *error)
{
    static smol_generate_params params; /* zeros are the defaults */
    static smol_chat_params chat;
    smol_generate_result result;
    uint32_t *ids;
    size_t n, n_seen, same = 0;
    const uint32_t *seen = smol_context_ids(context, &n_seen);
    chat.messages = messages, chat.n_messages = n_messages, chat.add_generation_prompt = 1;
    if (smol_chat_tokenize(model, &chat, &ids, &n, error))
        return;
    while (same < smol_context_length(context) && same + 1 < n && ids[same] == seen[same])
        same++; /* at least one token must be evaluated */
    smol_context_truncate(context, same);
    params.max_tokens = MOST_TOKENS;
    params.on_text = hear, params.new_text = 1;
    add("assistant", 0);
    smol_generate(context, sampler, ids + same, n - same, &params, &result, error);
    printf("\n");
    smol_free(ids);
}

int main(int argc, char **argv)
{
    smol_model *model = NULL;
    smol_context *context = NULL;
    smol_sampler *sampler = NULL;
    smol_error error;
    if (!smol_model_open(argc > 1 ? argv[1] : "", NULL, &model, &error) &&
        !smol_context_create(model, NULL, &context, &error) &&
        !smol_sampler_create(NULL, &sampler, &error))
        while (n_messages + 2 <= MOST_MESSAGES && !error.status &&
               fgets(texts[n_messages], MOST_BYTES, stdin)) {
            add("user", strcspn(texts[n_messages], "\n"));
            reply(model, context, sampler, &error);
        }
    if (error.status)
        fprintf(stderr, "%s\n", error.message);
    smol_sampler_free(sampler);
    smol_context_free(context);
    smol_model_close(model);
    return (int)error.status;
}
