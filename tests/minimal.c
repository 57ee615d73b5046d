/* The least that a program with a model in it needs: a text continued or, with a third word, a
 * message answered by the model's chat template. What it comes to as a static program is the size
 * of the library (scripts/check-static).
 *
 *     minimal FILE.smol TEXT [chat] */
#include <stdio.h>
#include <string.h>

#include "smol.h"

static int print_text(void *user, const char *text, size_t size, uint32_t id)
{
    (void)user, (void)id;
    return fwrite(text, 1, size, stdout) < size;
}

static smol_status read_prompt(const smol_model *model, const char *text, int chat, uint32_t **ids,
                               size_t *n, smol_error *error)
{
    smol_chat_message message = {"user", text, strlen(text)};
    smol_chat_params params = {.messages = &message, .n_messages = 1, .add_generation_prompt = 1};
    return chat ? smol_chat_tokenize(model, &params, ids, n, error)
                : smol_tokenize(model, text, strlen(text), &(smol_tokenize_params){.whole_text = 1},
                                ids, n, error);
}

int main(int argc, char **argv)
{
    smol_model *model = NULL;
    smol_context *context = NULL;
    smol_sampler *sampler = NULL;
    smol_sampler_params sampling = {.temperature = 0.8F, .seed = 42};
    smol_generate_params params = {.max_tokens = 40, .on_text = print_text};
    smol_generate_result result;
    smol_error error = {SMOL_OK, ""};
    uint32_t *ids = NULL;
    size_t n = 0;
    if (argc < 3)
        return SMOL_ERROR_USAGE;
    smol_status status = smol_model_open(argv[1], NULL, &model, &error);
    if (!status)
        status = smol_context_create(model, NULL, &context, &error);
    if (!status)
        status = read_prompt(model, argv[2], argc > 3, &ids, &n, &error);
    if (!status)
        status = smol_sampler_create(&sampling, &sampler, &error);
    if (!status)
        status = smol_generate(context, sampler, ids, n, &params, &result, &error);
    if (status)
        fprintf(stderr, "%s\n", error.message);
    else
        putchar('\n');
    smol_free(ids);
    smol_sampler_free(sampler);
    smol_context_free(context);
    smol_model_close(model);
    return (int)status;
}
