/* Continues a prompt, greedily.
 *
 *     cc -o generate generate.c $(pkg-config --cflags --libs smol)
 *     ./generate FILE.smol "Once upon a time" [TOKENS] */
#include <smol.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Prints text as it arrives. A result other than 0 would end the generation. */
static int show(void *user, const char *text, size_t size, uint32_t id)
{
    (void)user;
    (void)id;
    return fwrite(text, 1, size, stdout) < size || fflush(stdout);
}

int main(int argc, char **argv)
{
    smol_model *model = NULL;
    smol_context *context = NULL;
    smol_sampler *sampler = NULL;
    smol_tokenize_params whole_text;
    smol_generate_params params;
    smol_generate_result result;
    smol_error error;
    uint32_t *ids = NULL;
    size_t n;

    if (argc < 3) {
        fprintf(stderr, "usage: %s FILE.smol PROMPT [TOKENS]\n", argv[0]);
        return 2;
    }
    memset(&whole_text, 0, sizeof whole_text); /* zeros, and NULL below, are the defaults */
    memset(&params, 0, sizeof params);
    whole_text.whole_text = 1; /* with bos, if the model uses it */
    params.max_tokens = argc > 3 ? strtoul(argv[3], NULL, 10) : 40;
    params.on_text = show;

    if (smol_model_open(argv[1], NULL, &model, &error) ||
        smol_context_create(model, NULL, &context, &error) ||
        smol_sampler_create(NULL, &sampler, &error) ||
        smol_tokenize(model, argv[2], strlen(argv[2]), &whole_text, &ids, &n, &error) ||
        smol_generate(context, sampler, ids, n, &params, &result, &error))
        fprintf(stderr, "%s\n", error.message);
    else
        printf("\n");

    smol_free(ids);
    smol_sampler_free(sampler);
    smol_context_free(context);
    smol_model_close(model);
    return (int)error.status;
}
