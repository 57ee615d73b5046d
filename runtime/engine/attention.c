/* Attention (see attention.h). Positions are grouped into blocks of KV_BLOCK, and blocks into spans
 * of SPAN_BLOCKS. Within a span, a query's softmax runs from block to block (the kernels'
 * `attend`); the results of the spans are combined from the first to the last. Blocks and spans
 * start at fixed positions, so a query's result has the same bits whichever sequences share its
 * batch and whichever thread computes which span.
 *
 * The queries of a segment that share a key-value head are its rows: (n tokens, heads per key-value
 * head). A tile is QUERY_TILE of these rows, which pass through the cache together. In a segment of
 * several tokens, each tile is one work item. A single token has few tiles, so each span of a tile
 * is one work item, and `partials` holds the spans' results until all are complete. */
#include "runtime/engine/attention.h"

#include <float.h>
#include <string.h>

#include "common/checked.h"
#include "common/memory.h"
#include "format/model.h"
#include "runtime/engine/hadamard.h"
#include "runtime/engine/pass.h"
#include "runtime/kernels/math.h"

enum { SPAN_BLOCKS = 4, SPAN = SPAN_BLOCKS * KV_BLOCK };

static size_t count_spans(size_t n_positions)
{
    return (n_positions + SPAN - 1) / SPAN;
}

/* --- memory ------------------------------------------------------------------------------- */

/* Returns the floats of the values of a query whose head has `dim` channels. */
static size_t value_stride(size_t dim)
{
    return round_up(dim, 16);
}

/* Returns the most channels of a head. */
static size_t most_channels(const struct engine *e)
{
    return smol_most_head_dim(&e->network->model);
}

/* Returns the number of floats in the states of n queries: values, sums and maxima. */
static size_t state_floats(const struct engine *e, size_t n)
{
    return n * (value_stride(most_channels(e)) + 16) + round_up(n, 16);
}

/* Returns the number of floats of a block's values where the cache has none. */
static size_t spread_floats(const struct engine *e)
{
    return model_has_latent(&e->network->model) ? KV_BLOCK * value_stride(most_channels(e)) : 0;
}

/* Returns the number of floats in one thread's working memory: a tile's queries and scores, two
 * states, and a block's values. */
static size_t thread_floats(const struct engine *e)
{
    size_t dim = most_channels(e);
    return round_up(QUERY_TILE * (dim + KV_BLOCK) + 2 * state_floats(e, QUERY_TILE), 16) +
           spread_floats(e);
}

/* Points `a` at the states of `n` queries in `memory`. */
static void place_state(struct attention *a, float *memory, size_t n)
{
    a->values = memory;
    a->sums = a->values + n * value_stride(a->head_dim);
    a->max = a->sums + n * 16;
}

float *smol_attention_floats(size_t n, size_t each)
{
    uint64_t size = (uint64_t)n * each * sizeof(float);
    void *memory = fits_memory(size) ? smol_aligned_alloc(CACHE_LINE, (size_t)size) : NULL;
    return memory ? memset(memory, 0, (size_t)size) : NULL;
}

size_t smol_attention_spans(size_t n_positions)
{
    return count_spans(n_positions);
}

smol_status smol_attention_reserve(struct engine *e, size_t n_spans, smol_error *error)
{
    struct attention_memory *memory = &e->attention;
    size_t n_heads = e->network->model.n_heads;
    if (!memory->threads)
        memory->threads = smol_attention_floats(smol_pool_size(e->pool), thread_floats(e));
    if (!memory->threads)
        return smol_fail_memory(error, "attention");
    if (n_spans <= memory->n_spans)
        return SMOL_OK;
    float *partials = smol_attention_floats(n_spans, state_floats(e, n_heads));
    if (!partials)
        return smol_fail_memory(error, "attention");
    smol_free(memory->partials);
    memory->partials = partials;
    memory->n_spans = n_spans;
    return SMOL_OK;
}

void smol_attention_free(struct attention_memory *memory)
{
    smol_free(memory->threads);
    smol_free(memory->partials);
    *memory = (struct attention_memory){0};
}

size_t smol_attention_bytes(const struct engine *e)
{
    const struct attention_memory *memory = &e->attention;
    size_t n_heads = e->network->model.n_heads;
    size_t threads = memory->threads ? smol_pool_size(e->pool) * thread_floats(e) : 0;
    return (threads + memory->n_spans * state_floats(e, n_heads)) * sizeof(float);
}

/* --- states ------------------------------------------------------------------------------- */

void smol_attention_reset(const struct attention *a, size_t stride)
{
    for (size_t j = 0; j < a->n; j++)
        a->max[j] = -FLT_MAX;
    memset(a->sums, 0, a->n * 16 * sizeof(float));
    memset(a->values, 0, a->n * stride * sizeof(float));
}

/* x = x * a + y * b, n elements */
static void blend(float *x, float a, const float *y, float b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] * a + y[i] * b;
}

/* Adds query `i` of `next`, a later span, to query `j` of `total`, after rescaling both to the
 * larger maximum. A query that sees no position of that span does not change. */
static void combine(const struct attention *total, size_t j, const struct attention *next, size_t i,
                    size_t stride)
{
    float max = next->max[i] > total->max[j] ? next->max[i] : total->max[j];
    float a = math_exp(total->max[j] - max), b = math_exp(next->max[i] - max);
    total->max[j] = max;
    blend(total->sums + j * 16, a, next->sums + i * 16, b, 16);
    blend(total->values + j * stride, a, next->values + i * stride, b, stride);
}

/* Adds a head's sink to query `j`, after all spans: as a span of one position with that score,
 * whose value is zero (the learned bias of the softmax's denominator of gpt-oss; OpenAI, 2025). */
static void add_sink(const struct attention *total, size_t j, float sink, size_t stride)
{
    float max = sink > total->max[j] ? sink : total->max[j];
    float a = math_exp(total->max[j] - max), b = math_exp(sink - max);
    for (size_t i = 0; i < 16; i++)
        total->sums[j * 16 + i] *= a;
    total->sums[j * 16] += b;
    for (size_t c = 0; c < total->head_dim; c++)
        total->values[j * stride + c] *= a;
}

/* Writes the weighted mean of the values to out (head_dim). `sink` is the head's, or NULL. */
static void finish(const struct attention *total, size_t j, size_t stride, const float *sink,
                   enum kv_type type, float *out)
{
    if (sink)
        add_sink(total, j, *sink, stride);
    float sum = math_sum_lanes(total->sums + j * 16);
    for (size_t c = 0; c < total->head_dim; c++)
        out[c] = total->values[j * stride + c] / sum;
    if (type == KV_INT4)
        smol_hadamard_inverse(out, 1, total->head_dim);
}

/* --- tiles -------------------------------------------------------------------------------- */

/* Some rows of a segment at one layer and key-value head. */
struct tile {
    struct engine *e;
    const struct segment *segment;
    size_t layer, kv_head;
    size_t head_dim, heads_per_kv; /* of the layer */
    size_t row, n_rows;
    const float *sinks; /* (n_heads), or NULL */
    void *values;       /* room for a block's values where the cache has none */
};

static size_t heads_per_kv(const struct engine *e, size_t layer)
{
    const struct blob_model *m = &e->network->model;
    return m->n_heads / smol_kv_heads(m, (uint32_t)layer);
}

static size_t channels(const struct engine *e, size_t layer)
{
    return smol_head_dim(&e->network->model, (uint32_t)layer);
}

static size_t row_position(const struct tile *tile, size_t j)
{
    return tile->segment->position + (tile->row + j) / tile->heads_per_kv;
}

/* Returns the head of row j. */
static size_t row_head(const struct tile *tile, size_t j)
{
    return tile->kv_head * tile->heads_per_kv + (tile->row + j) % tile->heads_per_kv;
}

/* Returns the query of row j, which its result replaces. */
static float *row_query(const struct tile *tile, size_t j)
{
    size_t t = tile->segment->row + (tile->row + j) / tile->heads_per_kv;
    size_t head = t * tile->e->network->model.n_heads + row_head(tile, j);
    return tile->e->query + head * tile->head_dim;
}

/* Returns the sinks of a layer (n_heads), or NULL if it has none. */
static const float *layer_sinks(struct pass *pass, size_t layer)
{
    return smol_pass_vector(pass, pass->e->network->layers[layer].tensor[ROLE_ATTN_SINKS]);
}

/* Returns the first position that a query at `position` sees. */
static size_t first_seen(const struct engine *e, size_t layer, size_t position)
{
    size_t window = e->network->model.sliding_window;
    bool windowed = e->network->layers[layer].bits & LAYER_WINDOWED;
    return windowed && position >= window ? position + 1 - window : 0;
}

/* Returns the first span that a tile starting at `position` sees. */
static size_t first_span(const struct engine *e, size_t layer, size_t position)
{
    return first_seen(e, layer, position) / SPAN;
}

/* Returns the position after the last one that row j sees: its own, or in an encoder the last one
 * of its window or of the text, which is whole. */
static size_t end_seen(const struct tile *tile, size_t j)
{
    const struct network *network = tile->e->network;
    size_t position = row_position(tile, j);
    size_t end = tile->segment->position + tile->segment->n;
    if (!blob_sees_ahead(network->blob))
        return position + 1;
    if (network->layers[tile->layer].bits & LAYER_WINDOWED &&
        end - position > network->model.sliding_window)
        end = position + network->model.sliding_window;
    return end;
}

/* Returns the positions that row j sees in the block that begins at `start`. */
static struct kv_range seen_range(const struct tile *tile, size_t j, size_t start)
{
    size_t position = row_position(tile, j), end = end_seen(tile, j);
    size_t first = first_seen(tile->e, tile->layer, position);
    end = end > start ? end - start : 0;
    end = end < KV_BLOCK ? end : KV_BLOCK;
    first = first > start ? first - start : 0;
    return (struct kv_range){(uint32_t)(first < end ? first : end), (uint32_t)end};
}

/* Writes the rows' scaled queries to the columns of queries (head_dim, QUERY_TILE). */
static void gather_queries(const struct tile *tile, float *queries)
{
    size_t dim = tile->head_dim;
    float scale = tile->e->network->model.attention_scale;
    for (size_t j = 0; j < tile->n_rows; j++) {
        const float *query = row_query(tile, j);
        for (size_t i = 0; i < dim; i++)
            queries[i * QUERY_TILE + j] = query[i] * scale;
    }
}

/* Computes the attention of all rows of the tile over one span. */
static void attend_span(const struct tile *tile, size_t span, const struct attention *a)
{
    const struct kv_cache *kv = tile->segment->kv;
    size_t last = (end_seen(tile, tile->n_rows - 1) - 1) / KV_BLOCK;
    size_t first = first_seen(tile->e, tile->layer, row_position(tile, 0)) / KV_BLOCK;
    smol_attention_reset(a, round_up(a->head_dim, 16));
    for (size_t block = span * SPAN_BLOCKS; block < (span + 1) * SPAN_BLOCKS; block++) {
        if (block < first || block > last)
            continue;
        struct kv_range seen[QUERY_TILE];
        for (size_t j = 0; j < tile->n_rows; j++)
            seen[j] = seen_range(tile, j, block * KV_BLOCK);
        struct kv_block view = smol_kv_block(kv, tile->layer, tile->kv_head, block);
        if (!view.v)
            smol_kv_spread(kv, tile->layer, &view, tile->values);
        tile->e->kernels->attend[kv->type](a, &view, seen);
    }
}

/* Computes the attention of all rows of the tile over all spans, in the memory of thread
 * `index`. */
static void attend_tile(const struct tile *tile, unsigned index)
{
    struct engine *e = tile->e;
    size_t dim = tile->head_dim, stride = value_stride(dim);
    float *queries = e->attention.threads + index * thread_floats(e);
    float *scores = queries + QUERY_TILE * dim, *states = scores + QUERY_TILE * KV_BLOCK;
    struct attention total = {
        .n = tile->n_rows,
        .head_dim = dim,
        .queries = queries,
        .scores = scores,
        .softcap = e->network->model.attention_softcap,
    };
    struct attention next = total;
    place_state(&total, states, QUERY_TILE);
    place_state(&next, states + state_floats(e, QUERY_TILE), QUERY_TILE);

    gather_queries(tile, queries);
    size_t first = first_span(e, tile->layer, row_position(tile, 0));
    size_t n_spans = count_spans(end_seen(tile, tile->n_rows - 1));
    attend_span(tile, first, &total);
    for (size_t span = first + 1; span < n_spans; span++) {
        attend_span(tile, span, &next);
        for (size_t j = 0; j < tile->n_rows; j++)
            combine(&total, j, &next, j, stride);
    }
    for (size_t j = 0; j < tile->n_rows; j++)
        finish(&total, j, stride, tile->sinks ? tile->sinks + row_head(tile, j) : NULL,
               tile->segment->kv->type, row_query(tile, j));
}

/* --- a single token ----------------------------------------------------------------------- */

void smol_attention_place(struct pass *pass)
{
    size_t n_spans = 0;
    for (size_t i = 0; i < pass->n_segments; i++) {
        struct segment *segment = &pass->segments[i];
        segment->first_partial = n_spans;
        n_spans += segment->n == 1 ? count_spans(segment->position + 1) : 0;
    }
}

/* Returns the states of all heads at one span of a segment. */
static struct attention partial(const struct engine *e, const struct segment *segment, size_t layer,
                                size_t span)
{
    const struct blob_model *m = &e->network->model;
    struct attention a = {
        .n = m->n_heads, .head_dim = channels(e, layer), .softcap = m->attention_softcap};
    place_state(
        &a, e->attention.partials + (segment->first_partial + span) * state_floats(e, m->n_heads),
        m->n_heads);
    return a;
}

/* Computes one span of a tile of a single token, whose rows are neighbouring heads. */
static void attend_partly(const struct tile *tile, size_t span, unsigned index)
{
    struct engine *e = tile->e;
    size_t head = tile->kv_head * tile->heads_per_kv + tile->row;
    struct attention a = partial(e, tile->segment, tile->layer, span);
    a.n = tile->n_rows;
    float *queries = e->attention.threads + index * thread_floats(e);
    gather_queries(tile, queries);
    a.queries = queries;
    a.scores = queries + QUERY_TILE * a.head_dim;
    a.max += head;
    a.sums += head * 16;
    a.values += head * value_stride(a.head_dim);
    attend_span(tile, span, &a);
}

void smol_attention_finish(struct pass *pass, size_t layer, size_t t)
{
    const struct segment *segment = pass->segment_of[t];
    if (segment->n > 1)
        return; /* attend_tile has finished it */
    const struct engine *e = pass->e;
    const struct blob_model *m = pass->m;
    size_t start = first_span(e, layer, segment->position);
    size_t n_spans = count_spans(segment->position + 1);
    const float *sinks = layer_sinks(pass, layer);
    struct attention total = partial(e, segment, layer, start);
    size_t stride = value_stride(total.head_dim);
    for (size_t head = 0; head < m->n_heads; head++) {
        for (size_t span = start + 1; span < n_spans; span++) {
            struct attention next = partial(e, segment, layer, span);
            combine(&total, head, &next, head, stride);
        }
        finish(&total, head, stride, sinks ? sinks + head : NULL, segment->kv->type,
               e->query + (t * m->n_heads + head) * total.head_dim);
    }
}

/* --- the stage ---------------------------------------------------------------------------- */

/* The split of a segment into work items: (key-value heads, tiles, spans). */
struct cut {
    size_t n_rows, n_tiles;
    size_t first_span, n_spans; /* n_spans 1: one item covers all spans */
};

static struct cut cut_segment(const struct engine *e, const struct segment *segment, size_t layer)
{
    size_t n_rows = segment->n * heads_per_kv(e, layer);
    struct cut cut = {n_rows, (n_rows + QUERY_TILE - 1) / QUERY_TILE, 0, 1};
    if (segment->n == 1) {
        cut.first_span = first_span(e, layer, segment->position);
        cut.n_spans = count_spans(segment->position + 1) - cut.first_span;
    }
    return cut;
}

static size_t count_items(const struct engine *e, const struct cut *cut, size_t layer)
{
    return smol_kv_heads(&e->network->model, (uint32_t)layer) * cut->n_tiles * cut->n_spans;
}

static void attend_item(struct pass *pass, const struct segment *segment, const struct cut *cut,
                        size_t layer, size_t item, unsigned thread)
{
    struct engine *e = pass->e;
    size_t span = item % cut->n_spans, rest = item / cut->n_spans;
    size_t row = rest % cut->n_tiles * QUERY_TILE, rows = cut->n_rows - row;
    const struct tile tile = {
        .e = e,
        .segment = segment,
        .layer = layer,
        .kv_head = rest / cut->n_tiles,
        .head_dim = channels(e, layer),
        .heads_per_kv = heads_per_kv(e, layer),
        .row = row,
        .n_rows = rows < QUERY_TILE ? rows : QUERY_TILE,
        .sinks = layer_sinks(pass, layer),
        .values = e->attention.threads + (thread + 1) * thread_floats(e) - spread_floats(e),
    };
    if (segment->n == 1)
        attend_partly(&tile, cut->first_span + span, thread);
    else
        attend_tile(&tile, thread);
}

void smol_attend(const struct worker *w, size_t layer)
{
    struct pass *pass = w->pass;
    size_t n_items = 0;
    for (size_t i = 0; i < pass->n_segments; i++) {
        const struct cut cut = cut_segment(pass->e, &pass->segments[i], layer);
        n_items += count_items(pass->e, &cut, layer);
    }
    struct pool_stage stage = pool_stage(w->thread, (uint32_t)n_items);
    while (smol_pool_claim(&stage)) {
        const struct segment *segment = pass->segments;
        struct cut cut = cut_segment(pass->e, segment, layer);
        size_t item = stage.item;
        for (size_t n; item >= (n = count_items(pass->e, &cut, layer)); item -= n)
            cut = cut_segment(pass->e, ++segment, layer);
        attend_item(pass, segment, &cut, layer, item, w->thread->index);
    }
}
