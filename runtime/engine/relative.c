/* Attention with relative positions, see mixer.h: the distance between query and key chooses a
 * number that is added to the score (T5's buckets; Raffel et al., 2020: Exploring the Limits of
 * Transfer Learning). Only encoders have it, whose texts are whole in a pass, so keys and values
 * are read where the products left them, and the cache has none.
 *
 * The kernels know nothing of it. Each query gets QUERY_TILE further channels, 1 at its place in
 * the tile and 0 elsewhere, and channel i of a block's keys is what the distance from query i adds.
 * The sum of products of a query and a key then ends with that number times 1, and with zeros.
 *
 * A text's head is one item of the stage. Its tiles and blocks begin at fixed positions, and its
 * softmax runs over all blocks, so the bits depend on the text only. */
#include "runtime/engine/relative.h"

#include <string.h>

#include "common/checked.h"
#include "runtime/engine/attention.h"
#include "runtime/engine/pass.h"
#include "runtime/kernels/math.h"

enum { HALF = RELATIVE_BUCKETS / 2, EXACT = HALF / 2 };

/* --- buckets ------------------------------------------------------------------------------ */

size_t smol_relative_bucket(size_t query, size_t key)
{
    /* the least distances of buckets 8 to 15: 8 * 16^(i / 8), the next whole number */
    static const size_t least[HALF - EXACT] = {8, 12, 16, 23, 32, 46, 64, 91};
    size_t distance = key > query ? key - query : query - key;
    size_t bucket = distance < EXACT ? distance : EXACT - 1;
    for (size_t i = 0; i < HALF - EXACT && distance >= least[i]; i++)
        bucket++;
    return bucket + (key > query ? HALF : 0);
}

/* --- memory ------------------------------------------------------------------------------- */

/* One thread's working memory. Padding is zero. */
struct work {
    size_t channels, stride; /* of queries and keys; of values */
    float *biases;           /* (2 * n_rows): of a head, by position of the key less query's */
    float *keys;             /* (n_blocks, channels, KV_BLOCK) */
    float *values;           /* (n_blocks, KV_BLOCK, stride) */
    float *queries;          /* (channels, QUERY_TILE) */
    float *scores;           /* (QUERY_TILE, KV_BLOCK) */
    float *max, *sums;       /* (QUERY_TILE), (QUERY_TILE, 16) */
    float *out;              /* (QUERY_TILE, stride) */
};

enum { N_ARRAYS = 8 }; /* of struct work */

/* Sets the widths of `work`, and the floats that each array takes, in the order of struct work.
 * Returns their sum. */
static size_t measure_work(const struct engine *e, struct work *work, size_t floats[N_ARRAYS])
{
    size_t rows = round_up(e->n_rows, KV_BLOCK), sum = 0;
    size_t channels = work->channels = e->network->model.head_dim + QUERY_TILE;
    size_t stride = work->stride = round_up(channels, 16);
    const size_t least[N_ARRAYS] = {
        2 * rows,
        rows * channels,
        rows * stride,
        channels * QUERY_TILE,
        QUERY_TILE * KV_BLOCK,
        QUERY_TILE,
        QUERY_TILE * 16,
        QUERY_TILE * stride,
    };
    for (size_t i = 0; i < N_ARRAYS; i++) {
        floats[i] = round_up(least[i], CACHE_LINE / sizeof(float));
        sum += floats[i];
    }
    return sum;
}

static size_t thread_floats(const struct engine *e)
{
    struct work work;
    size_t floats[N_ARRAYS];
    return measure_work(e, &work, floats);
}

/* Divides the memory of a thread. */
static void place_work(const struct engine *e, size_t thread, struct work *work)
{
    size_t floats[N_ARRAYS];
    float **const arrays[N_ARRAYS] = {
        &work->biases, &work->keys, &work->values, &work->queries,
        &work->scores, &work->max,  &work->sums,   &work->out,
    };
    float *memory = e->relative + thread * measure_work(e, work, floats);
    for (size_t i = 0; i < N_ARRAYS; memory += floats[i++])
        *arrays[i] = memory;
}

smol_status smol_relative_init(struct engine *e, smol_error *error)
{
    if (!(e->network->model.blocks & BLOCK_RELATIVE))
        return SMOL_OK;
    e->relative = smol_attention_floats(smol_pool_size(e->pool), thread_floats(e));
    return e->relative ? SMOL_OK : smol_fail_memory(error, "attention");
}

size_t smol_relative_bytes(const struct engine *e)
{
    return e->relative ? smol_pool_size(e->pool) * thread_floats(e) * sizeof(float) : 0;
}

/* --- a head of a text --------------------------------------------------------------------- */

struct head {
    const struct pass *pass;
    const struct segment *segment;
    size_t index, n_blocks;
    struct work work;
};

/* Sets biases[n + i] to that of a key i positions after the query, for -n < i < n. */
static void fill_biases(struct pass *pass, const struct head *head)
{
    const struct blob_tensor *tensor = pass->e->network->outer.tensor[ROLE_RELATIVE];
    const float *table = smol_pass_vector(pass, tensor);
    size_t n = head->segment->n;
    for (size_t i = 0; i < n; i++) {
        head->work.biases[n + i] = table[smol_relative_bucket(0, i) * tensor->cols + head->index];
        head->work.biases[n - i] = table[smol_relative_bucket(i, 0) * tensor->cols + head->index];
    }
}

/* Copies the text's keys and values to blocks, whose other channels stay. */
static void fill_blocks(const struct head *head)
{
    const struct engine *e = head->pass->e;
    const struct blob_model *m = head->pass->m;
    const struct work *work = &head->work;
    size_t dim = m->head_dim, width = m->n_kv_heads * dim;
    size_t first = head->segment->row * width + head->index / (m->n_heads / m->n_kv_heads) * dim;
    for (size_t i = 0; i < head->segment->n; i++) {
        const float *key = e->key + first + i * width;
        float *column = work->keys + i / KV_BLOCK * KV_BLOCK * work->channels + i % KV_BLOCK;
        for (size_t c = 0; c < dim; c++)
            column[c * KV_BLOCK] = key[c];
        memcpy(work->values + i * work->stride, e->value + first + i * width, dim * sizeof *key);
    }
}

static float *query_of(const struct head *head, size_t position)
{
    const struct blob_model *m = head->pass->m;
    size_t row = head->segment->row + position;
    return head->pass->e->query + (row * m->n_heads + head->index) * m->head_dim;
}

/* Sets the further channels of a block's keys for the queries from `first` on. */
static void place_biases(const struct head *head, size_t first, size_t n, size_t block)
{
    size_t start = block * KV_BLOCK, length = head->segment->n;
    size_t end = length - start < KV_BLOCK ? length - start : KV_BLOCK;
    float *channel =
        head->work.keys + (block * head->work.channels + head->pass->m->head_dim) * KV_BLOCK;
    for (size_t j = 0; j < n; j++)
        memcpy(channel + j * KV_BLOCK, head->work.biases + length + start - (first + j),
               end * sizeof *channel);
}

/* Replaces the n queries from position `first` on by their attention to the whole text. */
static void attend_tile(const struct head *head, size_t first, size_t n)
{
    const struct work *work = &head->work;
    const struct blob_model *m = head->pass->m;
    const struct attention a = {
        .n = n,
        .head_dim = work->channels,
        .queries = work->queries,
        .max = work->max,
        .sums = work->sums,
        .values = work->out,
        .scores = work->scores,
    };
    for (size_t j = 0; j < n; j++) {
        const float *query = query_of(head, first + j);
        for (size_t c = 0; c < m->head_dim; c++)
            work->queries[c * QUERY_TILE + j] = query[c] * m->attention_scale;
        work->queries[(m->head_dim + j) * QUERY_TILE + j] = 1;
    }
    smol_attention_reset(&a, work->stride);
    for (size_t block = 0; block < head->n_blocks; block++) {
        struct kv_range seen[QUERY_TILE];
        size_t left = head->segment->n - block * KV_BLOCK;
        place_biases(head, first, n, block);
        for (size_t j = 0; j < n; j++)
            seen[j] = (struct kv_range){0, (uint32_t)(left < KV_BLOCK ? left : KV_BLOCK)};
        const struct kv_block view = {.k = work->keys + block * work->channels * KV_BLOCK,
                                      .v = work->values + block * KV_BLOCK * work->stride};
        head->pass->e->kernels->attend[KV_F32](&a, &view, seen);
    }
    for (size_t j = 0; j < n; j++) {
        float *out = query_of(head, first + j), sum = math_sum_lanes(work->sums + j * 16);
        for (size_t c = 0; c < m->head_dim; c++)
            out[c] = work->out[j * work->stride + c] / sum;
    }
}

void smol_relative_attend(const struct worker *w)
{
    struct pass *pass = w->pass;
    size_t n_heads = pass->m->n_heads;
    struct head head = {.pass = pass};
    place_work(pass->e, w->thread->index, &head.work);
    struct pool_stage stage = pool_stage(w->thread, (uint32_t)(pass->n_segments * n_heads));
    while (smol_pool_claim(&stage)) {
        head.segment = &pass->segments[stage.item / n_heads];
        head.index = stage.item % n_heads;
        size_t n = head.segment->n;
        head.n_blocks = (n + KV_BLOCK - 1) / KV_BLOCK;
        fill_biases(pass, &head);
        fill_blocks(&head);
        for (size_t first = 0; first < n; first += QUERY_TILE)
            attend_tile(&head, first, n - first < QUERY_TILE ? n - first : QUERY_TILE);
    }
}
