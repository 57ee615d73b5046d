/* Calibration statistics of models of tiny_blob.h, which tests damage, and conversions of these
 * models with them. Call make_tokenizer first. */
#ifndef SMOL_TESTS_UNIT_TINY_STATS_H
#define SMOL_TESTS_UNIT_TINY_STATS_H

#include "common/hash.h"
#include "convert/calibration/stats_file.h"
#include "convert/weights/mix.h"
#include "convert/weights/weights.h"
#include "tests/unit/tiny_blob.h"

enum { TINY_STATS_BYTES = 16384, TINY_TENSORS = 64, TINY_BLOB_BYTES = 1 << 18 };

/* The bytes of the file; the place of its records follows from `header`, which tests leave alone.
 */
struct tiny_stats {
    struct stats_header header;
    _Alignas(64) uint8_t bytes[TINY_STATS_BYTES];
    size_t size;
};

/* Returns the model of latent vectors, with narrow records. */
static inline const struct blob_model *tiny_latent(void)
{
    static struct blob_model model;
    model = latent_model();
    model.intermediate_size = 9;
    model.n_heads = 2;
    model.latent.value_dim = 16;
    return &model;
}

/* Returns the weights: numbers of similar size in each tensor. */
static inline struct weights tiny_weights(const struct blob_model *model, const struct mix *mix,
                                          const struct stats_file *stats)
{
    static float values[19 * 35];
    static struct safetensors_tensor tensors[TINY_TENSORS];
    static const struct safetensors_tensor *sources[TINY_TENSORS];
    size_t n = smol_tensor_count(model);
    if (n > TINY_TENSORS)
        abort();
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        values[i] = sinf((float)(7 * i + 1));
    for (size_t i = 0; i < n; i++) {
        tensors[i] = (struct safetensors_tensor){
            .name = "tiny", .path = "tiny", .dtype = ST_F32, .data = (const uint8_t *)values};
        sources[i] = &tensors[i];
    }
    return (struct weights){.family = smol_family_of(model, false),
                            .model = model,
                            .sources = sources,
                            .mix = mix,
                            .stats = stats};
}

/* Makes all digests of the file right. */
static inline void repair_stats(struct tiny_stats *stats)
{
    struct stats_header header = {0};
    size_t start = stats_header_size(&stats->header);
    memcpy(&header, stats->bytes, start);
    uint64_t digest = smol_digest(&header, start);
    memcpy(stats->bytes + start, &digest, sizeof digest);
    for (size_t i = 0; i < smol_stats_count(&stats->header); i++) {
        uint8_t *record = stats->bytes + smol_stats_offset(&stats->header, i);
        size_t size = (size_t)smol_stats_bytes(&stats->header, i);
        digest = smol_stats_digest(&header, i, record, size);
        memcpy(record + size, &digest, sizeof digest);
    }
}

/* Returns the place of element (i, k), i at most k, of a record, or of sensitivity i. */
static inline float *stats_element(struct tiny_stats *stats, size_t record, size_t i, size_t k)
{
    size_t width = smol_stats_width(&stats->header, record);
    float *values = (void *)(stats->bytes + smol_stats_offset(&stats->header, record));
    return values + (stats_is_gram(&stats->header, record) ? i * width - i * (i + 1) / 2 + k : i);
}

/* Makes good statistics. Channel i of record r is 1 + (i + r) % 5 times a number that depends on
 * the token, plus its own noise. */
static inline void make_stats(const struct blob_model *model, enum stats_kind kind,
                              struct tiny_stats *stats)
{
    const struct mix none = {0};
    const struct weights weights = tiny_weights(model, &none, NULL);
    struct stats_header *header = &stats->header;
    *stats = (struct tiny_stats){.header = {.kind = kind, .n_tokens = 100, .n_windows = 1}};
    smol_stats_describe(model, header);
    size_t n = smol_stats_count(header);
    stats->size = (size_t)smol_stats_offset(header, n);
    if (stats->size > sizeof stats->bytes ||
        smol_weights_key(&weights, &header->model_key, NULL) != SMOL_OK)
        abort();
    memcpy(stats->bytes, header, stats_header_size(header));
    for (size_t r = 0; r < n; r++) {
        size_t width = smol_stats_width(header, r);
        for (size_t i = 0; i < width; i++)
            for (size_t k = i; k < (stats_is_gram(header, r) ? width : i + 1); k++)
                *stats_element(stats, r, i, k) =
                    (float)((1 + (i + r) % 5) * (1 + (k + r) % 5)) + (i == k ? 2 : 0);
    }
    repair_stats(stats);
}

/* A sink that keeps the blob in memory. */
static inline smol_status keep_bytes(void *target, uint64_t offset, const void *data, size_t size,
                                     smol_error *error)
{
    (void)error;
    if (offset + size > TINY_BLOB_BYTES)
        abort();
    memcpy((uint8_t *)target + offset, data, size);
    return SMOL_OK;
}

/* Converts the model to `dtype` with the statistics into blob (TINY_BLOB_BYTES), and sets *size. */
static inline smol_status convert_tiny(const struct blob_model *model,
                                       const struct stats_file *stats, enum blob_dtype dtype,
                                       struct pool *pool, uint8_t *blob, size_t *size,
                                       smol_error *error)
{
    struct blob_contents contents = contents_of(model);
    const struct blob_sink sink = {keep_bytes, blob};
    struct blob_writer *writer = NULL;
    smol_status status = smol_mix_make(model, dtype, &contents.mix, error);
    if (!status)
        status = smol_writer_open_sink(&sink, &contents, &writer, error);
    const struct weights weights = tiny_weights(model, &contents.mix, stats);
    if (!status)
        status = smol_weights_write(&weights, pool, writer, true, error);
    if (status)
        smol_writer_abort(writer);
    else
        status = smol_writer_finish(writer, error);
    *size = (size_t)smol_writer_plan(&contents, &(struct section_plan){0});
    smol_mix_free(&contents.mix);
    return status;
}

#endif
