/* One call of smol_forward as its parts and its threads see it. */
#ifndef SMOL_RUNTIME_PASS_H
#define SMOL_RUNTIME_PASS_H

#include <stdatomic.h>

#include "runtime/context.h"

/* Shared by all threads. */
struct pass {
    struct smol_context *c;
    const struct blob_model *m;
    const uint32_t *ids;
    size_t n;     /* tokens in the batch */
    size_t first; /* position of the first one */
    size_t n_logits;
    float *logits;
    atomic_flag failed; /* taken by the first thread that fills *error */
    enum status status;
    struct error *error;
};

/* One thread's view of the pass. */
struct worker {
    struct pass *pass;
    struct pool_thread *thread;
};

/* Notes an error. Errors do not stop the pass, whose reads and writes stay in bounds whatever the
 * bytes; the first one becomes its result. */
void smol_pass_fail(struct pass *pass, const struct error *error);

/* A NaN or infinity in `what` at that layer and token of the batch. */
void smol_pass_fail_numeric(struct pass *pass, const char *what, size_t layer, size_t token);

/* That, if x[0..n) has one. */
void smol_pass_check_finite(struct pass *pass, const float *x, size_t n, const char *what,
                            size_t layer, size_t token);

/* The bytes [offset, offset + size) of a tensor, digests checked. */
const void *smol_pass_bytes(struct pass *pass, const struct blob_tensor *tensor, uint64_t offset,
                            uint64_t size);

/* A vector (norm, bias). */
const float *smol_pass_vector(struct pass *pass, const struct blob_tensor *tensor);

/* One stage: calls work for every token of the pass. Threads get runs of tokens, whose quantized
 * copies share no cache line with those of others. */
typedef void token_work(struct pass *pass, size_t layer, size_t t);
void smol_pass_each_token(const struct worker *w, token_work *work, size_t layer);

/* One stage: calls work for ranges that make up [0, total), at most `per_thread` for each thread,
 * which get neighbouring ones: memory is read best in long runs, and more than one range lets fast
 * threads take over from slow ones. */
typedef void range_work(struct pass *pass, const void *argument, size_t begin, size_t end);
void smol_pass_each_range(const struct worker *w, size_t total, size_t per_thread, range_work *work,
                          const void *argument);

#endif
