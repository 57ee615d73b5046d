/* Tests of damage to small blobs, exhaustively: no flipped bit, truncation or appended byte passes
 * verification, and running a damaged blob computes the same logits or returns an error. */
#include <fcntl.h>
#include <sys/mman.h>

#include "common/checked.h"
#include "format/reader.h"
#include "smol.h"
#include "tests/unit/guarded.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/temporary_fixture.h"
#include "tests/unit/tiny_blob.h"
#include "tests/unit/unit.h"

#define BIT_STRIDE (samples_only() ? 509 : 1)
#define BYTE_STRIDE (samples_only() ? 127 : 1)

static smol_error error;

/* A blob in a mapped file: a change in memory changes the file immediately. */
static struct image {
    char path[128];
    uint8_t *bytes;
    size_t size;
    uint64_t tables_end; /* end of header and tables; zeros follow, then the data */
    uint64_t data_offset;
} image;

static void make_image(struct blob_contents contents)
{
    struct file_view view;
    make_tokenizer();
    snprintf(image.path, sizeof image.path, "%s/tiny.smol", temporary.folder);
    assert_int_equal(write_blob(image.path, true, &contents, &error), SMOL_OK);
    assert_int_equal(smol_file_map(image.path, &view, &error), SMOL_OK);
    image.size = view.size;
    smol_file_close(&view);
    int fd = open(image.path, O_RDWR);
    image.bytes = mmap(NULL, image.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(fd >= 0 && image.bytes != MAP_FAILED);
    close(fd);
    const struct blob_header *header = (const void *)image.bytes;
    const struct blob_section *last = (const void *)(header + 1);
    while (last[1].kind < SECTION_FIRST_DATA)
        last++;
    image.tables_end = last->offset + last->size;
    image.data_offset = header->data_offset;
}

static int set_up(void **state)
{
    temporary_set_up(state);
    make_image(contents_of(&odd_model));
    return 0;
}

static int tear_down(void **state)
{
    munmap(image.bytes, image.size);
    return temporary_tear_down(state);
}

static void flip(size_t bit)
{
    image.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
}

/* --- verification ----------------------------------------------------------------------------- */

/* Verifies a file with these bytes, as `smolconv verify` does. */
static smol_status verify(const void *data, size_t size)
{
    struct blob blob;
    smol_status status =
        smol_blob_open_bytes(data, size, "tiny.smol", VERIFY_AT_OPEN, &blob, &error);
    if (!status)
        smol_blob_close(&blob);
    return status;
}

TEST(every_flipped_bit_is_refused_by_verification)
{
    const size_t version = offsetof(struct blob_header, major);
    assert_int_equal(verify(image.bytes, image.size), SMOL_OK);
    for (size_t bit = 0; bit < image.size * 8; bit += BIT_STRIDE) {
        flip(bit);
        smol_status status = verify(image.bytes, image.size);
        flip(bit);
        bool another_major = bit / 8 == version || bit / 8 == version + 1;
        if (status != (another_major ? SMOL_ERROR_UNSUPPORTED : SMOL_ERROR_DAMAGED))
            fail_msg("bit %zu of byte %zu: status %d", bit % 8, bit / 8, status);
    }
    assert_int_equal(verify(image.bytes, image.size), SMOL_OK); /* all flips were undone */
}

/* The remaining bytes end less than 64 bytes before inaccessible memory. */
TEST(every_truncation_is_refused_by_verification)
{
    struct guarded room = guarded_new(image.size, BLOB_ALIGN);
    for (size_t size = image.size; size-- > 0;) {
        size_t left = round_up(size, BLOB_ALIGN);
        uint8_t *start = (uint8_t *)room.data + (round_up(image.size, BLOB_ALIGN) - left);
        if (size == left || size == image.size - 1)
            memcpy(start, image.bytes, size);
        if (verify(start, size) != SMOL_ERROR_DAMAGED)
            fail_msg("%zu of %zu bytes", size, image.size);
    }
    guarded_free(&room);
}

TEST(every_number_of_appended_bytes_is_refused_by_verification)
{
    static const uint8_t fillings[] = {0, 0xff};
    enum { MOST = 2 * BLOB_CHUNK_SIZE + 1 };
    for (size_t i = 0; i < sizeof fillings; i++) {
        uint8_t *longer = aligned_alloc(BLOB_ALIGN, round_up(image.size + MOST, BLOB_ALIGN));
        assert_non_null(longer);
        memcpy(longer, image.bytes, image.size);
        memset(longer + image.size, fillings[i], MOST);
        for (size_t extra = 1; extra <= MOST; extra++)
            if (verify(longer, image.size + extra) != SMOL_ERROR_DAMAGED)
                fail_msg("%zu bytes appended", extra);
        free(longer);
    }
}

/* --- running ---------------------------------------------------------------------------------- */

enum { N_IDS = 3, MAX_VOCABULARY = 1000 };
static const uint32_t ids[N_IDS] = {1, 0, 18};
typedef float logits_t[N_IDS * MAX_VOCABULARY];

/* Computes the logits of a short prompt with the current file. */
static smol_status run(logits_t logits)
{
    static const smol_context_params one_thread = {.n_threads = 1};
    smol_model *model;
    smol_context *context = NULL;
    smol_status status = smol_model_open(image.path, NULL, &model, NULL);
    if (!status)
        status = smol_context_create(model, &one_thread, &context, NULL);
    if (!status)
        status = smol_eval(context, ids, N_IDS, N_IDS, logits, NULL);
    smol_context_free(context);
    smol_model_close(model);
    return status;
}

/* The results of runs with a damaged file. */
struct outcome {
    size_t refused, harmless;
};

/* Runs with one bit flipped: expects an error about damage, or the logits of the undamaged file. */
static void run_flipped(size_t bit, const logits_t expected, size_t n, struct outcome *outcome)
{
    static logits_t logits;
    memset(logits, 0xff, sizeof logits);
    flip(bit);
    smol_status status = run(logits);
    flip(bit);
    if (status == SMOL_OK && memcmp(logits, expected, n * sizeof *logits) == 0)
        outcome->harmless++;
    else if (status == SMOL_ERROR_DAMAGED || status == SMOL_ERROR_UNSUPPORTED)
        outcome->refused++;
    else
        fail_msg("bit %zu of byte %zu: status %d", bit % 8, bit / 8, status);
}

TEST(no_flipped_bit_of_header_or_tables_changes_what_is_run)
{
    static logits_t expected;
    struct outcome outcome = {0};
    assert_int_equal(run(expected), SMOL_OK);
    for (size_t bit = 0; bit < image.tables_end * 8; bit += BIT_STRIDE)
        run_flipped(bit, expected, N_IDS * odd_model.vocab_size, &outcome);
    assert_int_equal(outcome.harmless, 0); /* a digest covers every bit */
}

TEST(no_flip_after_the_tables_changes_what_is_run)
{
    static logits_t expected;
    struct outcome outcome = {0};
    assert_int_equal(run(expected), SMOL_OK);
    for (size_t byte = image.tables_end; byte < image.size; byte += BYTE_STRIDE)
        run_flipped(byte * 8 + byte % 8, expected, N_IDS * odd_model.vocab_size, &outcome);
    assert_int_equal(outcome.harmless, 0); /* a model this small uses every chunk */
}

/* The data of a feature is in header and tables. */
static void check_feature(struct blob_contents contents)
{
    static logits_t expected;
    struct outcome outcome = {0};
    munmap(image.bytes, image.size);
    make_image(contents);
    assert_int_equal(verify(image.bytes, image.size), SMOL_OK);
    assert_int_equal(run(expected), SMOL_OK);
    for (size_t bit = 0; bit < image.tables_end * 8; bit += BIT_STRIDE) {
        flip(bit);
        smol_status status = verify(image.bytes, image.size);
        flip(bit);
        if (status != SMOL_ERROR_DAMAGED && status != SMOL_ERROR_UNSUPPORTED)
            fail_msg("bit %zu of byte %zu: status %d", bit % 8, bit / 8, status);
        run_flipped(bit, expected, N_IDS * rich_model.vocab_size, &outcome);
    }
    assert_int_equal(outcome.harmless, 0);
}

TEST(no_flipped_bit_of_a_feature_passes)
{
    check_feature(contents_of(&rich_model));
    const struct blob_model stateful = stateful_model(), hybrid = hybrid_model(),
                            latent = latent_model(), gates = head_gates_model(),
                            varied = varied_model(), partial = partial_model();
    check_feature(contents_of(&stateful));
    check_feature(contents_of(&hybrid));
    check_feature(contents_of(&latent));
    check_feature(contents_of(&gates));
    check_feature(contents_of(&varied));
    check_feature(contents_of(&partial));
}

TEST(no_flipped_bit_of_a_mix_passes)
{
    static logits_t expected;
    struct outcome outcome = {0};
    check_feature(mixed_contents_of(&odd_model));
    assert_int_equal(run(expected), SMOL_OK);
    for (size_t byte = image.data_offset; byte < image.size; byte += BYTE_STRIDE) {
        flip(byte * 8 + byte % 8);
        assert_int_equal(verify(image.bytes, image.size), SMOL_ERROR_DAMAGED);
        flip(byte * 8 + byte % 8);
        run_flipped(byte * 8 + byte % 8, expected, N_IDS * odd_model.vocab_size, &outcome);
    }
    assert_int_equal(outcome.harmless, 0);
}

/* Here, rows of the embedding that the prompt does not use are in chunks of their own. */
TEST(flips_in_chunks_that_are_not_used_change_nothing)
{
    static logits_t expected;
    struct outcome outcome = {0};
    struct blob_model model = odd_model;
    model.dtype = DTYPE_F32;
    model.hidden_size = 33;
    model.vocab_size = MAX_VOCABULARY;
    munmap(image.bytes, image.size);
    make_image(contents_of(&model));
    assert_int_equal(run(expected), SMOL_OK);
    for (size_t byte = image.data_offset; byte < image.size; byte += 97 * BYTE_STRIDE)
        run_flipped(byte * 8 + byte % 8, expected, N_IDS * model.vocab_size, &outcome);
    assert_true(outcome.harmless > 0 && outcome.refused > outcome.harmless);
}

int main(void)
{
    return run_all_tests("every bit", set_up, tear_down);
}
