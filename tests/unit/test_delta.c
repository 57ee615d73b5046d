/* Tests of deltas: decoding returns the coded bytes, and a delta with a flipped bit, truncation or
 * appended byte is refused. A flipped bit under a repaired digest is refused too, unless the result
 * is the same blob. */
#include <sys/mman.h>

#include "common/hash.h"
#include "convert/ship/delta.h"
#include "convert/ship/delta_coding.h"
#include "tests/unit/guarded.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/temporary_fixture.h"
#include "tests/unit/tiny_blob.h"
#include "tests/unit/unit.h"

#define BIT_STRIDE (few_samples() ? 19 : samples_only() ? 7 : 1)
#define SIZE_STRIDE (few_samples() ? 3 : 1)

static smol_error error;

/* --- a delta between two tiny blobs ----------------------------------------------------------- */

static char old_path[128], new_path[128], delta_path[128], result_path[128];
static struct blob old_blob;
static struct file_view delta; /* undamaged */
static int memory_file;        /* input of the test */

static void make_blob(const char *path, const struct blob_contents *contents)
{
    if (write_blob(path, true, contents, &error))
        fail_msg("%s", error.message);
}

static void make_delta(void)
{
    const struct delta_options options = {.n_threads = 2, .force = 1, .quiet = 1};
    if (smol_delta(old_path, new_path, delta_path, &options, &error))
        fail_msg("%s", error.message);
    assert_int_equal(smol_file_read(delta_path, SIZE_MAX, &delta, &error), SMOL_OK);
}

/* NEW has another temperature, another text of a token, and an additional bias in each layer, so
 * that the delta has parts of each kind, including copies from elsewhere. */
static int set_up(void **state)
{
    temporary_set_up(state);
    snprintf(old_path, sizeof old_path, "%s/old.smol", temporary.folder);
    snprintf(new_path, sizeof new_path, "%s/new.smol", temporary.folder);
    snprintf(delta_path, sizeof delta_path, "%s/tiny.smoldelta", temporary.folder);
    snprintf(result_path, sizeof result_path, "%s/result.smol", temporary.folder);
    make_tokenizer();
    struct blob_model model = odd_model;
    struct blob_generation defaults = generation;
    struct blob_contents contents = contents_of(&model);
    model.mlp_bias = 0;
    make_blob(old_path, &contents);
    model.mlp_bias = 1;
    defaults.temperature = 0.25f;
    contents.generation = &defaults;
    tokenizer.text[0] = 'b';
    make_blob(new_path, &contents);
    make_delta();
    assert_int_equal(smol_blob_open(old_path, true, VERIFY_FIRST_USE, &old_blob, &error), SMOL_OK);
    memory_file = memfd_create("delta", MFD_CLOEXEC);
    assert_true(memory_file >= 0);
    return 0;
}

static int tear_down(void **state)
{
    close(memory_file);
    smol_blob_close(&old_blob);
    smol_file_close(&delta);
    return temporary_tear_down(state);
}

#define WITH_DELTA(name) TEST_WITH(name, set_up, tear_down)

/* Applies a delta with these bytes. */
static smol_status apply(const void *data, size_t size)
{
    struct input input = {.fd = memory_file, .name = "tiny.smoldelta"};
    assert_int_equal(ftruncate(memory_file, 0), 0);
    assert_int_equal(pwrite(memory_file, data, size, 0), size);
    assert_int_equal(lseek(memory_file, 0, SEEK_SET), 0);
    return smol_delta_apply(&old_blob, &input, NULL, &error);
}

static uint8_t *copy_of_delta(void)
{
    uint8_t *copy = malloc(delta.size);
    assert_non_null(copy);
    memcpy(copy, delta.data, delta.size);
    return copy;
}

WITH_DELTA(the_result_is_the_new_blob_and_in_its_place)
{
    struct file_view new_file, result;
    assert_int_equal(smol_patch(old_path, delta_path, result_path, false, &error), SMOL_OK);
    assert_int_equal(smol_file_map(new_path, &new_file, &error), SMOL_OK);
    assert_int_equal(smol_file_map(result_path, &result, &error), SMOL_OK);
    assert_int_equal(result.size, new_file.size);
    assert_memory_equal(result.data, new_file.data, new_file.size);
    smol_file_close(&result);
    smol_file_close(&new_file);
}

/* --- damage ----------------------------------------------------------------------------------- */

WITH_DELTA(every_flipped_bit_is_refused)
{
    uint8_t *copy = copy_of_delta();
    assert_int_equal(apply(copy, delta.size), SMOL_OK);
    for (size_t bit = 0; bit < delta.size * 8; bit += BIT_STRIDE) {
        copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
        smol_status status = apply(copy, delta.size);
        copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
        smol_status due = SMOL_ERROR_DAMAGED;
        if (bit / 8 == 16 || bit / 8 == 17) /* major */
            due = SMOL_ERROR_UNSUPPORTED;
        if (bit == 3 * 8 + 3) /* D becomes L, as in a blob's magic */
            due = SMOL_ERROR_USAGE;
        if (status != due)
            fail_msg("bit %zu of byte %zu: status %d", bit % 8, bit / 8, status);
    }
    assert_int_equal(apply(copy, delta.size), SMOL_OK);
    free(copy);
}

WITH_DELTA(every_truncation_is_refused)
{
    for (size_t size = 0; size < delta.size; size += SIZE_STRIDE)
        if (apply(delta.data, size) != SMOL_ERROR_DAMAGED)
            fail_msg("%zu of %zu bytes", size, delta.size);
}

WITH_DELTA(appended_bytes_are_refused)
{
    uint8_t *longer = calloc(2, delta.size);
    assert_non_null(longer);
    memcpy(longer, delta.data, delta.size);
    for (size_t extra = 1; extra <= delta.size; extra += SIZE_STRIDE)
        if (apply(longer, delta.size + extra) != SMOL_ERROR_DAMAGED)
            fail_msg("%zu bytes appended", extra);
    free(longer);
}

/* --- damage that digests do not show ---------------------------------------------------------- */

/* Repairs all digests, as far as the parts are recognizable. */
static void repair(uint8_t *data, size_t size)
{
    struct delta_header header;
    struct delta_part part;
    memcpy(&header, data, sizeof header);
    header.digest = smol_digest(data + 16, sizeof header - 16);
    memcpy(data, &header, sizeof header);
    for (size_t at = sizeof header; size - at >= sizeof part;) {
        memcpy(&part, data + at, sizeof part);
        if (part.coded_size > size - at - sizeof part)
            break;
        part.digest = smol_digest(data + at + 8, sizeof part - 8 + part.coded_size);
        memcpy(data + at, &part, sizeof part);
        at += sizeof part + part.coded_size;
    }
}

/* Flips may only be accepted in unused fields, in alternative encodings of a frame, and in the
 * amount of history that it declares. */
WITH_DELTA(a_flipped_bit_whose_digest_is_right_is_refused_or_makes_no_difference)
{
    size_t n_taken = 0, n_header = 0;
    for (size_t bit = 0; bit < delta.size * 8; bit += BIT_STRIDE) {
        uint8_t *copy = copy_of_delta();
        copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
        repair(copy, delta.size);
        bool is_digest = memcmp(copy, delta.data, delta.size) == 0; /* the repair undid the flip */
        bool taken = apply(copy, delta.size) == SMOL_OK;
        assert_true(taken || !is_digest);
        n_taken += taken && !is_digest;
        bool minor = bit / 8 / 2 == 9, optional = bit / 8 / 8 == 5;
        n_header += taken && (minor || optional);
        if (bit / 8 < sizeof(struct delta_header) && taken)
            assert_true(is_digest || minor || optional);
        free(copy);
    }
    assert_true(n_header == 16 + 64 || BIT_STRIDE > 1);
    assert_true(n_taken < n_header + delta.size * 8 / 50);
}

WITH_DELTA(bytes_at_random_after_right_digests_are_refused_or_make_no_difference)
{
    uint64_t random = 1;
    for (int round = 0; round < 20000 / (few_samples() ? 20 : samples_only() ? 10 : 1); round++) {
        uint8_t *copy = copy_of_delta();
        for (int i = 0; i < 1 + round % 4; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            copy[(random >> 33) % delta.size] = (uint8_t)(random >> 25);
        }
        repair(copy, delta.size);
        apply(copy, delta.size); /* NEW's own digests decide */
        free(copy);
    }
}

/* --- coding ----------------------------------------------------------------------------------- */

static void fill(uint8_t *bytes, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = (uint8_t)(seed >> 40);
    }
}

/* Codes bytes[0..n) against old[0..n_old) and decodes the result, at the end of readable memory. */
static void comes_back(enum delta_method method, const uint8_t *bytes, size_t n, const uint8_t *old,
                       size_t n_old)
{
    struct delta_record *record = malloc(sizeof *record);
    struct delta_decoder decoder;
    struct guarded in = guarded_new(n, 1), from = guarded_new(n_old, 1), out = guarded_new(n, 1);
    assert_non_null(record);
    assert_int_equal(smol_delta_decoder_open(&decoder, &error), SMOL_OK);
    memcpy(in.data, bytes, n);
    memcpy(from.data, old, n_old);
    record->part = (struct delta_part){.method = method, .new_size = n, .old_size = n_old};
    for (int level = 1; level <= 19; level += 18) {
        assert_int_equal(smol_delta_encode(record, from.data, in.data, level, &error), SMOL_OK);
        memset(out.data, 0xa5, n);
        assert_int_equal(smol_delta_decode(&decoder, record, from.data, out.data), SMOL_OK);
        assert_memory_equal(out.data, bytes, n);
    }
    smol_delta_decoder_close(&decoder);
    guarded_free(&in);
    guarded_free(&from);
    guarded_free(&out);
    free(record);
}

TEST(whatever_is_coded_comes_back)
{
    static const size_t sizes[] = {1, 2, 3, 4, 64, 65, 1000, 65536, 300001};
    enum { MOST = 400000 };
    uint8_t *bytes = malloc(MOST), *old = malloc(MOST);
    assert_true(bytes && old);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t n = sizes[i];
        fill(bytes, n, i);
        fill(old, MOST, i % 2 ? i : 99 + i); /* equal or different bytes */
        comes_back(DELTA_ZSTD, bytes, n, old, 0);
        comes_back(DELTA_ZSTD, bytes, n, old, 1);
        comes_back(DELTA_ZSTD, bytes, n, old, MOST);
        comes_back(DELTA_BYTES, bytes, n, old, n);
        if (n % 2 == 0)
            comes_back(DELTA_HALVES, bytes, n, old, n);
    }
    free(bytes);
    free(old);
}

/* Codes all differences of 16 bits, from several numbers. */
TEST(every_difference_of_halves_comes_back)
{
    static const uint16_t starts[] = {0, 1, 0x7fff, 0x8000, 0xfffe, 0xffff, 0x3c00};
    static uint16_t old[65536], to[65536];
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        for (size_t j = 0; j < 65536; j++) {
            old[j] = starts[i];
            to[j] = (uint16_t)j;
        }
        comes_back(DELTA_HALVES, (const uint8_t *)to, sizeof to, (const uint8_t *)old, sizeof old);
    }
}

/* --- other failures --------------------------------------------------------------------------- */

WITH_DELTA(another_blob_than_the_delta_is_for_is_wrong_usage)
{
    struct blob new_blob;
    struct blob right = old_blob;
    assert_int_equal(smol_blob_open(new_path, true, VERIFY_FIRST_USE, &new_blob, &error), SMOL_OK);
    old_blob = new_blob;
    assert_int_equal(apply(delta.data, delta.size), SMOL_ERROR_USAGE);
    assert_non_null(strstr(error.message, "nothing to do"));
    old_blob = right;
    smol_blob_close(&new_blob);
    struct blob_header header = *right.header;
    header.front_digest ^= 1;
    old_blob.header = &header;
    assert_int_equal(apply(delta.data, delta.size), SMOL_ERROR_USAGE);
    assert_non_null(strstr(error.message, "not the blob that tiny.smoldelta was made for"));
    old_blob = right;
}

WITH_DELTA(an_input_that_cannot_be_read_is_a_failing_file)
{
    struct input input = {.fd = -1, .name = "gone"};
    assert_int_equal(smol_delta_apply(&old_blob, &input, NULL, &error), SMOL_ERROR_FILE);
    assert_non_null(strstr(error.message, "gone: cannot read"));
    assert_int_equal(smol_input_open("/no/such", &input, &error), SMOL_ERROR_FILE);
    smol_input_close(&input);
}

int main(void)
{
    return run_all_tests("delta", NULL, NULL);
}
