/* Attention to a block of the KV cache, for each type of the cache. */
#include "tests/kernels/check_kernels.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/checked.h"
#include "common/number.h"
#include "tests/kernels/buffers.h"

static size_t element_size(enum kv_type type)
{
    return type == KV_F32 ? 4 : type == KV_F16 ? 2 : 1;
}

/* Returns the bytes of K or V of a block. */
static size_t k_bytes(enum kv_type type, size_t dim)
{
    return KV_BLOCK * (type == KV_INT4 ? (dim + 1) / 2 : dim * element_size(type));
}

static size_t v_bytes(enum kv_type type, size_t dim)
{
    return KV_BLOCK * (type == KV_INT4 ? kv_v_stride(dim) : round_up(dim, 16) * element_size(type));
}

/* --- operands -------------------------------------------------------------------------------- */

static void random_element(void *data, size_t i, enum kv_type type)
{
    float value = random_float();
    if (type == KV_F32)
        ((float *)data)[i] = value;
    else if (type == KV_F16)
        ((uint16_t *)data)[i] = f16_from_f32(value);
    else
        ((int8_t *)data)[i] = random_step();
}

/* One block of which positions from `furthest` on were never written: buffers start with random
 * bytes, NaN among them. */
static struct kv_block random_block(enum kv_type type, size_t dim, size_t furthest)
{
    size_t stride = round_up(dim, 16), size = element_size(type);
    uint8_t *k = buffer_new(k_bytes(type, dim), 16);
    uint8_t *v = buffer_new(v_bytes(type, dim), 16);
    for (size_t i = 0; i < furthest && type != KV_INT4; i++) { /* any byte is two int4 elements */
        memset(v + i * stride * size, 0, stride * size);       /* the padding stays so */
        for (size_t c = 0; c < dim; c++) {
            random_element(k, c * KV_BLOCK + i, type);
            random_element(v, i * stride + c, type);
        }
    }
    struct kv_block block = {k, v, NULL, NULL};
    if (type == KV_INT8 || type == KV_INT4) {
        float *k_scale = buffer_new(KV_BLOCK * sizeof(float), sizeof(float));
        float *v_scale = buffer_new(KV_BLOCK * sizeof(float), sizeof(float));
        float k_unit = random_bits() % 4 ? 0x1p-5f : 0; /* all scores 0, or -0 */
        for (size_t i = 0; i < furthest; i++) {
            k_scale[i] = fabsf(random_float()) * k_unit;
            v_scale[i] = fabsf(random_float()) * 0x1p-5f;
        }
        block.k_scale = k_scale;
        block.v_scale = v_scale;
    }
    return block;
}

/* Draws the positions that each query sees, from the first or from anywhere; returns the most. */
static size_t random_ranges(struct kv_range seen[QUERY_TILE], size_t n)
{
    enum { ANY, SAME, CAUSAL, KINDS };
    size_t kind = random_bits() % KINDS, first = random_within(0, KV_BLOCK);
    size_t furthest = 0;
    bool windows = random_bits() & 1;
    for (size_t j = 0; j < n; j++) {
        size_t end = kind == ANY ? random_within(0, KV_BLOCK) : kind == SAME ? first : first + j;
        end = end < KV_BLOCK ? end : KV_BLOCK;
        seen[j] = (struct kv_range){windows ? (uint32_t)random_within(0, end) : 0, (uint32_t)end};
        furthest = end > furthest ? end : furthest;
    }
    return furthest;
}

/* Attention that has seen nothing yet. */
static struct attention attention_new(size_t n, size_t dim, const float *queries, float softcap)
{
    size_t stride = round_up(dim, 16);
    const struct attention a = {
        .n = n,
        .head_dim = dim,
        .queries = queries,
        .max = floats_new(n),
        .sums = floats_new(n * 16),
        .values = floats_new(n * stride),
        .scores = floats_new(n * KV_BLOCK),
        .softcap = softcap,
    };
    for (size_t j = 0; j < n; j++)
        a.max[j] = -FLT_MAX;
    memset(a.sums, 0, n * 16 * sizeof *a.sums);
    memset(a.values, 0, n * stride * sizeof *a.values);
    return a;
}

/* --- the test -------------------------------------------------------------------------------- */

/* Compares the results of query j. */
static bool same_query(const struct attention *want, const struct attention *got, size_t j)
{
    size_t stride = round_up(want->head_dim, 16);
    if (!same_floats("maximum", want->max + j, got->max + j, 1))
        return false;
    return same_floats("partial sum", want->sums + j * 16, got->sums + j * 16, 16) &&
           same_floats("value", want->values + j * stride, got->values + j * stride, stride);
}

/* Blocks one after the other, each rescaling what is there. */
static bool run(const struct kernels *set, enum kv_type type)
{
    enum { BLOCKS = 3 };
    static const float scales[] = {0.125f, 8, 0x1p-140f}; /* usual; weights 0 and 1; all equal */
    float scale = scales[random_bits() % 3];
    size_t dim = random_within(1, 160), n = random_within(1, QUERY_TILE);
    float *queries = floats_new(dim * QUERY_TILE);
    for (size_t i = 0; i < dim * QUERY_TILE; i++)
        queries[i] *= scale;
    float softcap = random_bits() & 1 ? 0 : fabsf(random_float()) * 30;
    struct attention want = attention_new(n, dim, queries, softcap);
    struct attention got = attention_new(n, dim, queries, softcap);
    for (int i = 0; i < BLOCKS; i++) {
        struct kv_range seen[QUERY_TILE];
        size_t furthest = random_ranges(seen, n);
        describe("block %d, head_dim %zu, %zu queries, scale %g, softcap %g, %zu positions", i, dim,
                 n, (double)scale, (double)softcap, furthest);
        struct kv_block block = random_block(type, dim, furthest);
        smol_kernels_scalar.attend[type](&want, &block, seen);
        set->attend[type](&got, &block, seen);
        for (size_t j = 0; j < n; j++)
            if (!same_query(&want, &got, j))
                return false;
    }
    return true;
}

/* --- benchmarks ------------------------------------------------------------------------------ */

enum { DIM = 64, PLACES = 64 };

struct bench_operands {
    const struct kernels *set;
    enum kv_type type;
    struct attention attention;
    struct kv_block blocks[PLACES];
};

static void attend_once(const void *operands, size_t place)
{
    const struct bench_operands *o = operands;
    struct kv_range seen[QUERY_TILE];
    for (size_t j = 0; j < o->attention.n; j++)
        seen[j] = (struct kv_range){0, KV_BLOCK};
    o->set->attend[o->type](&o->attention, &o->blocks[place], seen);
}

/* Blocks one end the other, as the cache of a long text has them. */
static void bench(const struct kernels *set, enum kv_type type)
{
    static _Alignas(64) uint8_t k[PLACES][DIM * KV_BLOCK * 4], v[PLACES][DIM * KV_BLOCK * 4];
    static float queries[QUERY_TILE * DIM], scales[KV_BLOCK], max[QUERY_TILE];
    static float sums[QUERY_TILE * 16], values[QUERY_TILE * DIM], scores[QUERY_TILE * KV_BLOCK];
    static const size_t n_queries[] = {3, QUERY_TILE};
    struct bench_operands o = {set, type, {0, DIM, queries, max, sums, values, scores, 0}, {{0}}};
    const float *block_scales = type == KV_INT8 || type == KV_INT4 ? scales : NULL;
    for (size_t i = 0; i < PLACES; i++)
        o.blocks[i] = (struct kv_block){k[i], v[i], block_scales, block_scales};
    for (size_t i = 0; i < 2; i++)
        for (size_t places = 1; places <= PLACES; places *= PLACES) {
            char shape[64];
            o.attention.n = n_queries[i];
            const struct work work = {
                .mul_adds = (double)(2 * o.attention.n * DIM * KV_BLOCK),
                .bytes = (double)(k_bytes(type, DIM) + v_bytes(type, DIM)),
            };
            snprintf(shape, sizeof shape, "%zu queries, %zu block%s", o.attention.n, places,
                     places == 1 ? "" : "s");
            bench_line(shape, work, attend_once, &o, places);
        }
}

#define CHECK(type, TYPE)                                                                          \
    static bool run_##type(const struct kernels *set)                                              \
    {                                                                                              \
        return run(set, TYPE);                                                                     \
    }                                                                                              \
    static void bench_##type(const struct kernels *set)                                            \
    {                                                                                              \
        bench(set, TYPE);                                                                          \
    }                                                                                              \
    const struct kernel_check check_attend_##type = {"attend_" #type, run_##type, bench_##type}

CHECK(f32, KV_F32);
CHECK(f16, KV_F16);
CHECK(int8, KV_INT8);
CHECK(int4, KV_INT4);
