/* Untrusted calibration statistics. An input is what is done to good statistics of a tiny model,
 * which may attend to latent vectors: damages, then bytes that replace the start of the records,
 * before the digests are made right again or after; or the file itself. Statistics of which every
 * record can be read make a good blob. */
#include <math.h>
#include <stdbool.h>

#include "common/number.h"
#include "convert/weights/plan.h"
#include "tests/fuzz/files.h"
#include "tests/unit/tiny_stats.h"

struct way {
    uint8_t kind; /* its lowest bit: diagonals; the next: the model of latent vectors */
    uint8_t dtype;
    uint8_t repaired;  /* 1: the digests; 2 and 3: the rest of the input is the file */
    uint8_t n_damages; /* of the file */
    uint16_t length;   /* to cut it to; 0: none */
};

static struct built spoil(struct fuzz_input *in, const struct way *way, struct tiny_stats *stats)
{
    if (way->repaired % 4 > 1)
        return (struct built){exact_copy(in->data, in->size), in->size};
    size_t start = (size_t)smol_stats_offset(&stats->header, 0);
    fuzz_damage(in, way->n_damages % 4, stats->bytes, stats->size);
    size_t n = in->size < stats->size - start ? in->size : stats->size - start;
    fuzz_take(in, stats->bytes + start, n);
    if (way->repaired % 2)
        repair_stats(stats);
    size_t size = way->length ? way->length % (stats->size + 1) : stats->size;
    return (struct built){exact_copy(stats->bytes, size), size};
}

static void check_values(const struct stats_file *stats, size_t record, const float *values)
{
    size_t n = (size_t)(smol_stats_bytes(&stats->header, record) / sizeof *values);
    for (size_t i = 0; i < n; i++)
        CLAIM(f32_is_finite(values[i]));
    for (size_t i = 0; i < smol_stats_width(&stats->header, record); i++)
        CLAIM(stats_diagonal(stats, record, values, i) >= 0);
}

/* Reads all records. */
static smol_status read_records(const struct stats_file *stats, smol_error *error)
{
    const float *values;
    smol_status status = SMOL_OK;
    for (size_t i = 0; !status && i < smol_stats_count(&stats->header); i++) {
        status = smol_stats_read(stats, i, &values, error);
        if (!status)
            check_values(stats, i, values);
    }
    return status;
}

static uint64_t no_size(void *user, uint64_t bytes, size_t n_levels)
{
    (void)user;
    (void)bytes, (void)n_levels;
    return 0;
}

/* Chooses dtypes: the losses are numbers, and the goal holds. */
static void choose(const struct blob_model *model, const struct stats_file *stats,
                   struct pool *pool)
{
    struct dtype_losses losses[TINY_TENSORS];
    struct plan plan;
    const struct mix none = {0};
    const struct weights weights = tiny_weights(model, &none, stats);
    const struct goal goal = {GOAL_BITS, 40};
    CLAIM(!smol_losses_measure(&weights, pool, losses, NULL));
    for (size_t i = 0; i < smol_tensor_count(model); i++)
        for (size_t k = 0; k < N_CHOICES; k++)
            CLAIM(losses[i].nats[k] >= 0 && isfinite(losses[i].nats[k]));
    CLAIM(!smol_plan_make(model, losses, &goal, no_size, NULL, &plan, NULL));
    CLAIM(plan.bits <= 40 && isfinite(plan.nats));
    smol_mix_free(&plan.mix);
}

/* Converts the model; the blob is good. */
static void convert(const struct blob_model *model, const struct stats_file *stats,
                    enum blob_dtype dtype)
{
    static uint8_t bytes[TINY_BLOB_BYTES];
    static struct pool *pool;
    struct built blob = {NULL, 0};
    if (!pool && smol_pool_create(1, &pool, NULL))
        abort();
    choose(model, stats, pool);
    CLAIM(!convert_tiny(model, stats, dtype, pool, bytes, &blob.size, NULL));
    blob.data = exact_copy(bytes, blob.size);
    CLAIM(fuzz_is_whole(&blob));
    free(blob.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tiny_stats good, spoilt;
    struct fuzz_input in = {data, size};
    struct stats_file stats;
    smol_error error = {0};
    struct way way;
    fuzz_take(&in, &way, sizeof way);
    make_tokenizer();
    const struct blob_model *model = way.kind / 2 % 2 ? tiny_latent() : &odd_model;
    make_stats(model, way.kind % 2 ? STATS_DIAGONAL : STATS_GRAM, &good);
    spoilt = good;
    struct built file = spoil(&in, &way, &spoilt);
    bool same = file.size == good.size && memcmp(file.data, good.bytes, file.size) == 0;
    smol_status status = smol_stats_open(fuzz_write("stats", file.data, file.size), &stats, &error);
    if (!status)
        status = smol_stats_belong(&stats, model, good.header.model_key, &error);
    if (!status)
        status = read_records(&stats, &error);
    if (!status)
        convert(model, &stats, DTYPE_INT8 + way.dtype % 4);
    CLAIM(status == SMOL_OK || status == SMOL_ERROR_DAMAGED || status == SMOL_ERROR_UNSUPPORTED ||
          status == SMOL_ERROR_USAGE);
    CLAIM(same ? !status : !status || error.message[0]);
    smol_stats_close(&stats);
    free(file.data);
    return 0;
}
