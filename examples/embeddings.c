/* Prints how similar each text is to the first: the cosine of their embeddings, which are made as
 * an embedding model's checkpoint says, and are the means of the hidden states of other models.
 *
 *     cc -o embeddings embeddings.c $(pkg-config --cflags --libs smol) -lm
 *     ./embeddings FILE.smol "a red boat" "the boat is red" "seven is a number" */
#include <math.h>
#include <smol.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double cosine(const float *a, const float *b, size_t n)
{
    double ab = 0, aa = 0, bb = 0;
    size_t i;
    for (i = 0; i < n; i++) {
        ab += (double)a[i] * b[i];
        aa += (double)a[i] * a[i];
        bb += (double)b[i] * b[i];
    }
    return ab / sqrt(aa * bb);
}

/* Computes the embedding of a text. Empties the context first. */
static smol_status embed(const smol_model *model, smol_context *context, const char *text,
                         float *embedding, smol_error *error)
{
    static smol_tokenize_params params; /* zeros are the defaults */
    uint32_t *ids;
    size_t n;
    params.whole_text = 1;
    params.truncate = 1; /* to the model's longest text */
    if (smol_tokenize(model, text, strlen(text), &params, &ids, &n, error))
        return error->status;
    smol_context_truncate(context, 0);
    smol_embed(context, ids, n, SMOL_POOL_MODEL, embedding, error);
    smol_free(ids);
    return error->status;
}

int main(int argc, char **argv)
{
    smol_model *model = NULL;
    smol_context *context = NULL;
    float *first = NULL, *other;
    smol_error error;
    size_t n;
    int i;

    if (argc < 3) {
        fprintf(stderr, "usage: %s FILE.smol TEXT...\n", argv[0]);
        return 2;
    }
    if (!smol_model_open(argv[1], NULL, &model, &error) &&
        !smol_context_create(model, NULL, &context, &error)) {
        n = smol_model_get_info(model).embedding_size;
        first = (float *)calloc(2 * n, sizeof *first);
        other = first + n;
        for (i = 2; first && i < argc; i++) {
            if (embed(model, context, argv[i], i == 2 ? first : other, &error))
                break;
            printf("%.6f  %s\n", cosine(first, i == 2 ? first : other, n), argv[i]);
        }
    }
    if (error.status)
        fprintf(stderr, "%s\n", error.message);
    free(first);
    smol_context_free(context);
    smol_model_close(model);
    return (int)error.status;
}
