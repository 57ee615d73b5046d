/* Tests of damage to small calibration statistics, exhaustively: no flipped bit, truncation or
 * appended byte passes, and with repaired digests every flip is refused or makes a good blob; and
 * of the places of records. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "format/reader.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/temporary_fixture.h"
#include "tests/unit/tiny_stats.h"
#include "tests/unit/unit.h"

/* The model of latent vectors has a longer file: it takes every 17th case. */
#define FEWER (model == &odd_model ? 1 : 17)
#define BIT_STRIDE ((samples_only() ? 67 : 1) * FEWER)
#define REPAIRED_STRIDE ((samples_only() ? 997 : 13) * FEWER)

static smol_error error;
static const struct blob_model *model;
static struct tiny_stats stats;
static struct pool *pool;

/* The file, with room for an appended byte: a change in memory changes it immediately. */
static struct {
    char path[128];
    uint8_t *bytes;
    int fd;
} image;

static int set_up(void **state)
{
    temporary_set_up(state);
    make_tokenizer();
    snprintf(image.path, sizeof image.path, "%s/stats", temporary.folder);
    image.fd = open(image.path, O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_true(image.fd >= 0 && ftruncate(image.fd, TINY_STATS_BYTES) == 0);
    image.bytes = mmap(NULL, TINY_STATS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, image.fd, 0);
    assert_true(image.bytes != MAP_FAILED);
    assert_int_equal(smol_pool_create(1, &pool, &error), SMOL_OK);
    return 0;
}

static int tear_down(void **state)
{
    smol_pool_destroy(pool);
    munmap(image.bytes, TINY_STATS_BYTES);
    close(image.fd);
    return temporary_tear_down(state);
}

static int choose_plain_model(void **state)
{
    (void)state;
    model = &odd_model;
    return 0;
}

#define ON_PLAIN_MODEL(name) TEST_WITH(name, choose_plain_model, NULL)

static int choose_latent_model(void **state)
{
    (void)state;
    model = tiny_latent();
    return 0;
}

#define ON_LATENT_MODEL(name) TEST_WITH(name, choose_latent_model, NULL)

static void store(enum stats_kind kind)
{
    make_stats(model, kind, &stats);
    assert_int_equal(ftruncate(image.fd, (off_t)stats.size), 0);
    memcpy(image.bytes, stats.bytes, stats.size);
}

/* Opens the file and reads all of its records. */
static smol_status open_and_read(struct stats_file *file)
{
    const float *values;
    smol_status status = smol_stats_open(image.path, file, &error);
    if (!status)
        status = smol_stats_belong(file, model, stats.header.model_key, &error);
    for (size_t i = 0; !status && i < smol_stats_count(&file->header); i++)
        status = smol_stats_read(file, i, &values, &error);
    return status;
}

static smol_status read_file(void)
{
    struct stats_file file;
    smol_status status = open_and_read(&file);
    smol_stats_close(&file);
    return status;
}

static void check_every_bit(enum stats_kind kind)
{
    store(kind);
    assert_int_equal(read_file(), SMOL_OK);
    for (size_t bit = 0; bit < stats.size * 8; bit += BIT_STRIDE) {
        image.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        smol_status status = read_file();
        image.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (status != (bit / 8 < STATS_MAGIC_SIZE ? SMOL_ERROR_UNSUPPORTED : SMOL_ERROR_DAMAGED))
            fail_msg("bit %zu of byte %zu: status %d", bit % 8, bit / 8, status);
    }
    assert_int_equal(read_file(), SMOL_OK); /* all flips were undone */
}

ON_PLAIN_MODEL(every_flipped_bit_is_refused)
{
    check_every_bit(STATS_DIAGONAL);
    check_every_bit(STATS_GRAM);
}

ON_LATENT_MODEL(every_flipped_bit_of_heads_is_refused)
{
    check_every_bit(STATS_DIAGONAL);
    check_every_bit(STATS_GRAM);
}

ON_PLAIN_MODEL(every_truncation_is_refused)
{
    store(STATS_DIAGONAL);
    for (size_t size = stats.size; size-- > 0;) {
        assert_int_equal(ftruncate(image.fd, (off_t)size), 0);
        smol_status status = read_file();
        if (status != (size < STATS_MAGIC_SIZE ? SMOL_ERROR_UNSUPPORTED : SMOL_ERROR_DAMAGED))
            fail_msg("%zu of %zu bytes: status %d", size, stats.size, status);
    }
}

ON_PLAIN_MODEL(appended_bytes_are_refused)
{
    store(STATS_DIAGONAL);
    assert_int_equal(ftruncate(image.fd, (off_t)stats.size + 1), 0);
    assert_int_equal(read_file(), SMOL_ERROR_DAMAGED);
}

/* Converts with the file if it can be read; the blob is good. */
static smol_status convert(enum blob_dtype dtype)
{
    static _Alignas(64) uint8_t bytes[TINY_BLOB_BYTES];
    struct stats_file file;
    struct blob blob;
    size_t size;
    smol_status status = open_and_read(&file);
    if (!status) {
        assert_int_equal(convert_tiny(model, &file, dtype, pool, bytes, &size, &error), SMOL_OK);
        assert_int_equal(
            smol_blob_open_bytes(bytes, size, "tiny.smol", VERIFY_AT_OPEN, &blob, &error), SMOL_OK);
        smol_blob_close(&blob);
    }
    smol_stats_close(&file);
    return status;
}

static void flip_with_right_digests(void)
{
    size_t n_refused = 0, n_harmless = 0;
    make_stats(model, STATS_GRAM, &stats);
    for (size_t bit = 0; bit < stats.size * 8; bit += REPAIRED_STRIDE) {
        store(STATS_GRAM);
        stats.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        repair_stats(&stats);
        memcpy(image.bytes, stats.bytes, stats.size);
        if (convert(DTYPE_INT8 + bit % 4) == SMOL_OK)
            n_harmless++;
        else
            n_refused++;
    }
    assert_true(n_refused > 0 && n_harmless > n_refused);
}

ON_PLAIN_MODEL(flips_with_right_digests_are_refused_or_harmless)
{
    flip_with_right_digests();
}

ON_LATENT_MODEL(flips_of_heads_with_right_digests_are_refused_or_harmless)
{
    flip_with_right_digests();
}

/* --- records that are no Gram matrices -------------------------------------------------------- */

/* Converts with element (i, k) of a matrix set to a value. */
static void check_record(size_t record, float value, size_t i, size_t k, smol_status expected)
{
    store(STATS_GRAM);
    *stats_element(&stats, record, i, k) = value;
    repair_stats(&stats);
    memcpy(image.bytes, stats.bytes, stats.size);
    assert_int_equal(convert(DTYPE_INT4), expected);
}

/* Converts with element (i, k) of each matrix in turn set to a value. */
static void check_value(float value, size_t i, size_t k, smol_status expected)
{
    for (size_t record = 0; record <= stats_output(&stats.header); record++)
        check_record(record, value, i, k, expected);
}

/* Does what check_value does for each matrix of queries and heads, the narrowest of which has three
 * rows. */
static void check_head(float value, size_t i, size_t k, smol_status expected)
{
    size_t record = stats_output(&stats.header) + 1;
    for (; record < smol_stats_sensitivities(&stats.header); record++)
        check_record(record, value, i, k, expected);
}

ON_PLAIN_MODEL(records_that_are_no_gram_matrices_are_refused)
{
    make_stats(model, STATS_GRAM, &stats);
    check_value(NAN, 0, 3, SMOL_ERROR_DAMAGED);
    check_value(NAN, 4, 4, SMOL_ERROR_DAMAGED);
    check_value(INFINITY, 2, 2, SMOL_ERROR_DAMAGED);
    check_value(-INFINITY, 1, 5, SMOL_ERROR_DAMAGED);
    check_value(-1e-30f, 6, 6, SMOL_ERROR_DAMAGED);
    check_value(-60, 0, 1, SMOL_ERROR_DAMAGED); /* more than twice the largest square, 27 */
}

ON_PLAIN_MODEL(odd_records_make_good_blobs)
{
    make_stats(model, STATS_GRAM, &stats);
    check_value(0, 3, 3, SMOL_OK);
    check_value(3e38f, 0, 0, SMOL_OK);
    check_value(3e38f, 6, 6, SMOL_OK);
    check_value(1e-45f, 5, 5, SMOL_OK);
    check_value(-50, 0, 1, SMOL_OK);
}

ON_LATENT_MODEL(records_of_heads_that_are_no_gram_matrices_are_refused)
{
    make_stats(model, STATS_GRAM, &stats);
    assert_int_equal(smol_stats_sensitivities(&stats.header) - stats_output(&stats.header), 11);
    check_head(NAN, 0, 1, SMOL_ERROR_DAMAGED);
    check_head(NAN, 2, 2, SMOL_ERROR_DAMAGED);
    check_head(INFINITY, 0, 0, SMOL_ERROR_DAMAGED);
    check_head(-1e-30f, 1, 1, SMOL_ERROR_DAMAGED);
    check_head(-60, 0, 2, SMOL_ERROR_DAMAGED);
    check_head(0, 1, 1, SMOL_OK);
    check_head(3e38f, 0, 0, SMOL_OK);
    check_head(1e-45f, 2, 2, SMOL_OK);
}

ON_LATENT_MODEL(heads_without_inputs_make_good_blobs)
{
    make_stats(model, STATS_GRAM, &stats);
    for (size_t record = stats_output(&stats.header) + 1;
         record < smol_stats_sensitivities(&stats.header); record++) {
        store(STATS_GRAM);
        memset(stats.bytes + smol_stats_offset(&stats.header, record), 0,
               (size_t)smol_stats_bytes(&stats.header, record));
        repair_stats(&stats);
        memcpy(image.bytes, stats.bytes, stats.size);
        assert_int_equal(convert(DTYPE_INT4), SMOL_OK);
    }
}

/* --- places of records --------------------------------------------------------------------- */

TEST(layers_with_experts_are_counted_among_any_number_of_layers)
{
    enum { N_EXPERTS = 3 };
    struct stats_header header = {.minor = 1, .n_experts = N_EXPERTS};
    for (size_t i = 0; i < STATS_LAYERS; i++)
        header.sparse[i / 8] |= (uint8_t)((i % 3 == 1 || i % 64 == 63) << i % 8);
    for (header.n_layers = 1; header.n_layers <= STATS_LAYERS; header.n_layers++) {
        uint32_t last = header.n_layers - 1;
        size_t before = 0;
        for (uint32_t i = 0; i < last; i++)
            before += layers_have(header.sparse, i);
        struct stats_place place = {STATS_EXPERT, last, 2};
        size_t record = smol_stats_record(&header, place);
        bool is_sparse = layers_have(header.sparse, last);
        assert_int_equal(record, stats_output(&header) + 1 + 2 * (before * N_EXPERTS + 2));
        assert_int_equal(smol_stats_experts(&header), (before + is_sparse) * N_EXPERTS);
        if (is_sparse)
            assert_int_equal(smol_stats_layer(&header, record), last);
    }
}

int main(void)
{
    return run_all_tests("statistics", set_up, tear_down);
}
