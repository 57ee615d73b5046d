/* Continues several prompts together: each step reads the weights once for all of them.
 *
 *     cc -o batch batch.c $(pkg-config --cflags --libs smol)
 *     ./batch FILE.smol "Once upon a time" "The fox" ... */
#include <smol.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_REQUESTS = 32, MOST_TOKENS = 40 };
static struct request {
    smol_eval_part part; /* its context, the next ids, and the place for the logits */
    uint32_t *prompt, answer[MOST_TOKENS];
    size_t n;
    int done;
} requests[MOST_REQUESTS];
static smol_model *model;
static smol_error error;

static void begin(struct request *r, const char *text)
{
    static smol_context_params params; /* zeros are the defaults */
    static smol_tokenize_params whole;
    whole.whole_text = 1;
    params.share = requests[0].part.context; /* all contexts share the threads of the first one */
    r->part.logits = (float *)calloc(smol_model_get_info(model).vocab_size, sizeof(float));
    r->part.n_logits = 1;
    if (!r->part.logits)
        error.status = SMOL_ERROR_MEMORY;
    else if (!smol_context_create(model, &params, &r->part.context, &error))
        smol_tokenize(model, text, strlen(text), &whole, &r->prompt, &r->part.n, &error);
    r->part.ids = r->prompt;
}

/* Appends the most likely token to the answer, unless it ends the answer. */
static void take_best(struct request *r)
{
    size_t i, best = 0, n = smol_model_get_info(model).vocab_size;
    for (i = 1; i < n; i++)
        best = r->part.logits[i] > r->part.logits[best] ? i : best;
    r->answer[r->n] = (uint32_t)best;
    r->part.ids = &r->answer[r->n];
    r->part.n = 1;
    r->done = smol_model_is_stop_id(model, (uint32_t)best) || ++r->n == MOST_TOKENS;
}

int main(int argc, char **argv)
{
    smol_eval_part parts[MOST_REQUESTS];
    struct request *r, *end = requests + (argc > 2 ? argc - 2 : 0);
    size_t n = 1, size;
    if (end == requests || end > requests + MOST_REQUESTS)
        return fprintf(stderr, "usage: %s FILE.smol PROMPT...\n", argv[0]), 2;
    smol_model_open(argv[1], NULL, &model, &error);
    for (r = requests; r < end && !error.status; r++)
        begin(r, argv[r - requests + 2]);
    while (n > 0 && !error.status) {
        for (n = 0, r = requests; r < end; r++)
            if (!r->done)
                parts[n++] = r->part;
        smol_eval_many(parts, n, &error);
        for (r = requests; r < end && !error.status; r++)
            if (!r->done)
                take_best(r);
    }
    for (r = requests; r < end; r++) {
        char *text = NULL;
        if (!error.status && !smol_detokenize(model, r->answer, r->n, 0, &text, &size, &error))
            printf("%s%.*s\n", argv[r - requests + 2], (int)size, text);
        smol_free(text);
        smol_free(r->prompt);
        free(r->part.logits);
        smol_context_free(r->part.context);
    }
    fprintf(stderr, error.status ? "%s\n" : "%s", error.message);
    smol_model_close(model);
    return (int)error.status;
}
