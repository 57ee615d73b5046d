/* Evaluates token ids on one context, in parts of given sizes: for scripts that compare the logits
 * of one way with another's to the bit, or count what each part costs. It uses smol.h alone, so it
 * runs wherever smolrun does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "smol.h"

static const char usage[] =
    "usage: replay BLOB KV THREADS all|last SIZE... <IDS >LOGITS\n"
    "Evaluates the first SIZE of the ids, then as many as the next SIZE says; the last SIZE holds\n"
    "for what is left. Writes the logits after all tokens, or after the last one of each part.\n"
    "KV: default, f32, f16, int8 or int4.\n";

enum { MAX_IDS = 1 << 16 };

struct replay {
    smol_model *model;
    smol_context *context;
    size_t vocab_size;
    int all; /* logits of all tokens */
    size_t n;
    uint32_t ids[MAX_IDS];
};

/* Prints why not and returns 1. */
static int complain(const char *what)
{
    fprintf(stderr, "replay: %s\n", what);
    return 1;
}

static int open_model(struct replay *replay, char **words)
{
    static const char *const kv_names[] = {"default", "f32", "f16", "int8", "int4"};
    smol_error error;
    /* checked at open: the digests are no part of what a token costs */
    smol_model_params open = {.verify = SMOL_VERIFY_OPEN};
    smol_context_params params = {.n_threads = (uint32_t)strtoul(words[2], NULL, 10)};
    size_t kv = 0;
    while (kv < 5 && strcmp(words[1], kv_names[kv]) != 0)
        kv++;
    if (kv == 5 || params.n_threads == 0)
        return complain("KV or THREADS makes no sense");
    params.kv = (smol_kv)kv;
    if (smol_model_open(words[0], &open, &replay->model, &error) ||
        smol_context_create(replay->model, &params, &replay->context, &error))
        return complain(error.message);
    replay->vocab_size = smol_model_get_info(replay->model).vocab_size;
    return 0;
}

/* One part: `size` tokens from `first` on, and their logits to standard output. */
static int evaluate(struct replay *replay, size_t first, size_t size)
{
    smol_error error;
    size_t n_logits = replay->all ? size : 1;
    float *logits = calloc(n_logits * replay->vocab_size, sizeof *logits);
    if (!logits)
        return complain("out of memory");
    int failed = 0;
    if (smol_eval(replay->context, replay->ids + first, size, n_logits, logits, &error))
        failed = complain(error.message);
    else if (fwrite(logits, sizeof *logits, n_logits * replay->vocab_size, stdout) !=
             n_logits * replay->vocab_size)
        failed = complain("cannot write the logits");
    free(logits);
    return failed;
}

static int evaluate_parts(struct replay *replay, char **sizes, int n_sizes)
{
    size_t done = 0;
    for (int i = 0; done < replay->n; i += i + 1 < n_sizes) {
        size_t size = strtoul(sizes[i], NULL, 10), left = replay->n - done;
        if (size == 0)
            return complain("a SIZE is 0 or no number");
        size = size < left ? size : left;
        if (evaluate(replay, done, size))
            return 1;
        done += size;
    }
    return fflush(stdout) ? complain("cannot write the logits") : 0;
}

int main(int argc, char **argv)
{
    static struct replay replay;
    if (argc < 6 || (strcmp(argv[4], "all") != 0 && strcmp(argv[4], "last") != 0)) {
        fputs(usage, stderr);
        return 2;
    }
    replay.all = strcmp(argv[4], "all") == 0;
    while (replay.n < MAX_IDS && scanf("%u", &replay.ids[replay.n]) == 1)
        replay.n++;
    int failed = open_model(&replay, argv + 1) || evaluate_parts(&replay, argv + 5, argc - 5);
    smol_context_free(replay.context);
    smol_model_close(replay.model);
    return failed;
}
