/* One pass through the model, shared by its stages and threads. Its rows are tokens of one or more
 * sequences. Products treat all rows alike; code that depends on the sequence (positions, keys and
 * values, logits) finds it through the row's segment. */
#ifndef SMOL_RUNTIME_PASS_H
#define SMOL_RUNTIME_PASS_H

#include <stdatomic.h>

#include "runtime/engine/engine.h"
#include "runtime/engine/kv.h"
#include "runtime/engine/observer.h"
#include "runtime/engine/state.h"

/* A sequence in a pass: its next tokens, which are neighbouring rows, its KV cache and its
 * states. */
struct segment {
    struct kv_cache *kv;
    struct sequence_state *state;
    const atomic_bool *cancelled; /* set when its result is no longer needed */
    const uint32_t *ids;          /* (n) */
    size_t n;                     /* at least 1 */
    size_t row;                   /* row of the first token */
    size_t position;              /* of the first token in its sequence */
    size_t first_partial;         /* single token: index of its first span in attention's memory */
    atomic_flag failed;           /* set by the first thread that fills *error */
    smol_error *error;
};

/* The state that all threads share. */
struct pass {
    struct engine *e;
    const struct blob_model *m;
    struct segment *segments; /* (n_segments), in order of rows */
    size_t n_segments;
    size_t n;                    /* rows, 1 to engine->n_rows */
    struct segment **segment_of; /* (n), in the engine's memory */
    size_t n_logits;
    size_t logits_row[BATCH];        /* (n_logits): rows whose logits are requested, ascending */
    float *logits[BATCH];            /* (n_logits): destinations, (vocab_size) each */
    bool wants_states;               /* keep the rows after the final norm in e->normed */
    const struct observer *observer; /* or NULL */
    atomic_bool unfinished;          /* a thread has left because all segments were cancelled */
    atomic_flag failed;              /* set by the first thread that fills *error */
    smol_status status;
    smol_error *error;
};

/* One thread's view of the pass. */
struct worker {
    struct pass *pass;
    struct pool_thread *thread;
};

/* Returns the position of row t in its sequence. */
static inline size_t pass_position(const struct pass *pass, size_t t)
{
    const struct segment *segment = pass->segment_of[t];
    return segment->position + (t - segment->row);
}

/* Reports a NaN or infinity in `what` at that layer and row as an error of the row's sequence. */
void smol_pass_fail_numeric(struct pass *pass, const char *what, size_t layer, size_t t);

/* Calls smol_pass_fail_numeric if x[0..n) has a NaN or infinity. */
void smol_pass_check_finite(struct pass *pass, const float *x, size_t n, const char *what,
                            size_t layer, size_t t);

/* Returns the bytes [offset, offset + size) of a tensor and checks their digests. A mismatch is an
 * error of the pass. */
const void *smol_pass_bytes(struct pass *pass, const struct blob_tensor *tensor, uint64_t offset,
                            uint64_t size);

/* Returns a vector (norm, bias) and checks its digests; NULL for a tensor that the model lacks. */
const float *smol_pass_vector(struct pass *pass, const struct blob_tensor *tensor);

/* Calls work for every row of the pass, as one stage. A thread processes runs of rows whose
 * quantized copies share no cache line with those of other threads. */
typedef void token_work(struct pass *pass, size_t layer, size_t t);
void smol_pass_each_token(const struct worker *w, token_work *work, size_t layer);

/* Calls work for consecutive ranges that make up [0, total), as one stage, with at most
 * `per_thread` ranges for each thread. A thread processes neighbouring ranges, because long
 * sequential reads are the fastest. More than one range per thread lets fast threads take over work
 * from slow ones. */
typedef void range_work(struct pass *pass, const void *argument, size_t begin, size_t end);
void smol_pass_each_range(const struct worker *w, size_t total, size_t per_thread, range_work *work,
                          const void *argument);

/* forward.c: runs all rows of a pass through the model and writes the requested logits. The
 * sequences' KV caches must have room for the rows. An error of one sequence (SMOL_ERROR_NUMERIC)
 * is stored in its segment's *error and does not affect the others. An error of the whole pass is
 * returned: SMOL_ERROR_DAMAGED (a chunk's digest). */
smol_status smol_forward(struct pass *pass);

#endif
