/* One pass through the model, as its stages and its threads see it. Its rows are tokens, of one
 * sequence or of several: the products take all rows alike; what looks at a sequence (positions,
 * keys and values, logits) finds it through the row's segment. */
#ifndef SMOL_RUNTIME_PASS_H
#define SMOL_RUNTIME_PASS_H

#include <stdatomic.h>

#include "runtime/engine/engine.h"
#include "runtime/engine/kv.h"

/* A sequence in a pass: its next tokens, which are neighbouring rows, and its KV cache. */
struct segment {
    struct kv_cache *kv;
    const atomic_bool *cancelled; /* its result is no longer needed */
    const uint32_t *ids;          /* (n) */
    size_t n;                     /* at least 1 */
    size_t row;                   /* of the first one */
    size_t position;              /* of the first one in its sequence */
    size_t first_partial; /* of a single token: where its spans begin in attention's memory */
    atomic_flag failed;   /* taken by the first thread that fills *error */
    smol_error *error;
};

/* Shared by all threads. */
struct pass {
    struct engine *e;
    const struct blob_model *m;
    struct segment *segments; /* (n_segments), by row */
    size_t n_segments;
    size_t n;                          /* rows, 1 to BATCH */
    struct segment *segment_of[BATCH]; /* (n) */
    size_t n_logits;
    size_t logits_row[BATCH]; /* (n_logits): rows whose logits are wanted, ascending */
    float *logits[BATCH];     /* (n_logits): (vocab_size) each, where they go */
    bool wants_states;        /* the rows after the final norm stay in e->normed */
    atomic_bool unfinished;   /* a thread has left, as all segments were cancelled */
    atomic_flag failed;       /* taken by the first thread that fills *error */
    smol_status status;
    smol_error *error;
};

/* One thread's view of the pass. */
struct worker {
    struct pass *pass;
    struct pool_thread *thread;
};

/* The position of row t in its sequence. */
static inline size_t pass_position(const struct pass *pass, size_t t)
{
    const struct segment *segment = pass->segment_of[t];
    return segment->position + (t - segment->row);
}

/* A NaN or infinity in `what` at that layer and row: an error of the row's sequence. */
void smol_pass_fail_numeric(struct pass *pass, const char *what, size_t layer, size_t t);

/* smol_pass_fail_numeric, if x[0..n) has a NaN or infinity. */
void smol_pass_check_finite(struct pass *pass, const float *x, size_t n, const char *what,
                            size_t layer, size_t t);

/* The bytes [offset, offset + size) of a tensor, digests checked. */
const void *smol_pass_bytes(struct pass *pass, const struct blob_tensor *tensor, uint64_t offset,
                            uint64_t size);

/* A vector (norm, bias). */
const float *smol_pass_vector(struct pass *pass, const struct blob_tensor *tensor);

/* One stage: calls work for every row of the pass. Threads get runs of rows, whose quantized
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
