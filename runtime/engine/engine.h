/* An engine runs forward passes: kernels, threads, and the activations of one pass. Contexts that
 * are evaluated together share one. */
#ifndef SMOL_RUNTIME_ENGINE_H
#define SMOL_RUNTIME_ENGINE_H

#include "common/pool.h"
#include "runtime/engine/attention.h"
#include "runtime/engine/network.h"
#include "runtime/kernels/kernels.h"

/* The most tokens that pass through the layers together: enough to reuse a tile well, few enough
 * that their activations stay in the second-level cache. */
enum { BATCH = 128, CACHE_LINE = 64 /* bytes */ };

struct segment;

/* An expert that some rows of a pass use. */
struct expert_use {
    uint32_t expert;
    uint32_t first, n; /* its rows in the list of rows */
    uint32_t column;   /* its place in quantized copies: it has smol_quantized_stride(n) */
};

/* The working memory of a layer with experts, within the engine's. */
struct expert_memory {
    float *scores;           /* (n_rows, n_experts) */
    uint32_t *chosen;        /* (n_rows, n_used), ascending */
    float *weights;          /* (n_rows, n_used) */
    struct expert_use *uses; /* (n_uses), in ascending order of expert */
    size_t n_uses;
    uint32_t *rows;     /* (n_rows * n_used): rows of the pass, by expert */
    float *row_weights; /* (n_rows * n_used) */
    float *shared_gate; /* (n_rows): factors of the output of the MLP beside the experts */
    float *shared_out;  /* (n_rows, hidden_size): that output, if it has a norm of its own */
    /* Copies of rows, by expert: (n_rows * n_used, ...). int8 blobs use only the quantized ones. */
    float *input, *gated;
    struct quantized input_q, gated_q;
};

struct engine {
    const struct network *network;
    const struct kernels *kernels;
    struct pool *pool;
    size_t n_contexts; /* contexts that share the engine */
    size_t n_rows;     /* the most of a pass: BATCH, or as many as an encoder's longest text has */
    struct segment **segment_of; /* (n_rows): of the pass, see pass.h */

    /* The activations, (n_rows, ...) each, all within `memory`. */
    void *memory;
    size_t memory_bytes;
    float *x;         /* (hidden_size): the residual stream */
    float *normed;    /* (hidden_size): a block's input, or its output before the addition to x */
    float *query;     /* (n_heads * head_dim); attention's output replaces it */
    float *key;       /* (n_kv_heads * head_dim) */
    float *value;     /* (n_kv_heads * head_dim); with latent vectors heads' queries, then values */
    float *gated;     /* (mlp_width): the MLP's activation; unused by int8 blobs */
    size_t mlp_width; /* of the layer with the widest MLP */
    float *attention_gate; /* (gate_width), with BLOCK_ATTENTION_GATE only */
    float *query_down;     /* (latent.q_rank) */
    /* Layers with states only: */
    float *mixed;     /* (smol_states_inputs): the convolution's inputs, or B, C and x */
    float *convolved; /* (smol_states_width): the output before the last product; gates before */
    float *mixer_step, *mixer_decay; /* (states.n_heads): of recurrences */
    float *cosine, *sine;            /* (smol_inv_freq_count): RoPE at each token's position */
    /* With inputs of layers only: */
    float *inputs;     /* (n_layers, input_width) */
    float *input_gate; /* (input_width): the activation before the last product */
    /* Quantized copies of normed, query, the MLP's activation and convolved, for int8 blobs. Those
     * of embedding models are wide. */
    struct quantized normed_q, query_q, gated_q, convolved_q;
    struct quantized input_q; /* of input_gate */
    /* With latent vectors only: of query_down, and of each head's input, one after the other. */
    struct quantized query_down_q, heads_q;

    struct expert_memory experts;
    struct attention_memory attention;
    float *relative; /* working memory of relative.c, with BLOCK_RELATIVE only */
};

/* Creates an engine with `n_threads` threads (0: one per processor) for one context. A further
 * context shares it by incrementing n_contexts. The network must outlive it. *engine is NULL on
 * failure. Errors: SMOL_ERROR_USAGE, SMOL_ERROR_MEMORY. */
smol_status smol_engine_create(const struct network *network, unsigned n_threads,
                               struct engine **engine, smol_error *error);

/* Releases one context's share; the last call frees the engine. NULL is allowed. */
void smol_engine_release(struct engine *engine);

/* Returns the number of bytes allocated. */
size_t smol_engine_bytes(const struct engine *engine);

#endif
