/* The functions of the Python package's shared library besides those of smol.h: they collect the
 * results of a generation and compute probabilities, so that the library never calls Python. A
 * callback in Python would need the interpreter's lock for each token, and would lose a Ctrl-C,
 * because ctypes ignores exceptions in callbacks. */
#ifndef SMOL_PYTHON_COLLECTOR_H
#define SMOL_PYTHON_COLLECTOR_H

#include "cli/request/likelihood.h"
#include "smol.h"

/* Collects an answer: the `user` of smol_collect_text and smol_collect_token. Zeros are empty.
 * The caller frees the texts of the buffers with smol_free. */
struct collector {
    struct buffer text, ids, logprobs; /* logprobs: 1 + n_logprobs of struct ranked a token */
    int32_t wants_logprobs;            /* 1: collects them */
    uint32_t n_logprobs;               /* alternatives for each token, at most MAX_LOGPROBS */
    smol_reasoning_reader *reader;     /* or NULL: nothing is reasoning */
    struct buffer reasoning;
    size_t n_reasoning_tokens;
};

/* A smol_on_text. Cancels if memory ran out. */
SMOL_API int smol_collect_text(void *user, const char *text, size_t size, uint32_t id);

/* Takes what the reader of reasoning holds back. */
SMOL_API void smol_collect_end(struct collector *collector);

/* A smol_on_token. */
SMOL_API void smol_collect_token(void *user, uint32_t id, const float *logits, size_t n);

/* Runs steps of generations[0..n) until one more of them has finished, `nanoseconds` are over or,
 * with `until_text`, any of them has text or reasoning in its collector. Runs at least one step. */
SMOL_API void smol_collect_run(smol_generation *const *generations,
                               struct collector *const *collectors, size_t n, uint64_t nanoseconds,
                               int until_text);

/* The parts of an answer with calls of tools: the `user` of smol_collect_part. */
struct part_collector {
    struct buffer text;  /* of all parts, one after the other */
    struct buffer parts; /* struct collected_part */
};
struct collected_part {
    uint32_t part; /* smol_tool_part */
    uint32_t size; /* of its text */
};

/* A smol_on_tool_part. Cancels if memory ran out. */
SMOL_API int smol_collect_part(void *user, smol_tool_part part, const char *text, size_t size);

/* Reports progress to a thread that waits: the `user` of smol_collect_progress. */
struct progress {
    uint64_t done, total;
    int32_t cancel; /* set to 1 by the thread that waits */
};

/* A smol_on_progress. */
SMOL_API int smol_collect_progress(void *user, uint64_t done, uint64_t total);

/* Describes the tokens next[0..n) as continuations of logits (n, vocab_size): their
 * log-probabilities go to log_probs (n), and to choices (n), unless NULL, their ranks and the most
 * likely tokens. Logits must be finite. */
SMOL_API void smol_collect_choices(const float *logits, size_t n, size_t vocab_size,
                                   const uint32_t *next, double *log_probs, struct choice *choices);

/* smol_exp and smol_digest, under names that are exported. */
SMOL_API double smol_collect_exp(double x);
SMOL_API uint64_t smol_collect_digest(const void *data, size_t size);

#endif
