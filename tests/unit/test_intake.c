/* Tests of blobs that arrive in pieces: for any sizes of the pieces, each chunk is accepted or
 * refused as soon as it is complete, and the intake neither waits for nor allocates bytes that only
 * a header promises. */
#include <malloc.h>

#include "common/hash.h"
#include "convert/blob/intake.h"
#include "tests/unit/guarded.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/temporary_fixture.h"
#include "tests/unit/tiny_blob.h"
#include "tests/unit/unit.h"

#define STRIDE (samples_only() ? 61 : 1)

static smol_error error;
static struct guarded memory;
static uint8_t *bytes; /* (size): a blob; an inaccessible page follows it */
static size_t size;

static void make_blob(const struct blob_contents *contents)
{
    struct file_view view;
    snprintf(temporary.path, sizeof temporary.path, "%s/blob", temporary.folder);
    assert_int_equal(write_blob(temporary.path, true, contents, &error), SMOL_OK);
    assert_int_equal(smol_file_map(temporary.path, &view, &error), SMOL_OK);
    size = view.size;
    memory = guarded_new(size, 1);
    bytes = memory.data;
    memcpy(bytes, view.data, size);
    smol_file_close(&view);
}

/* One chunk each of front, tokenizer and weights; the last one is short. */
static int set_up_small(void **state)
{
    temporary_set_up(state);
    make_tokenizer();
    struct blob_contents contents = contents_of(&odd_model);
    make_blob(&contents);
    return 0;
}

/* A front of three chunks, a tokenizer of one, weights of three. */
static int set_up(void **state)
{
    static char notes[150000];
    struct blob_model model = odd_model;
    temporary_set_up(state);
    make_tokenizer();
    model.vocab_size = 2000;
    memset(notes, 'n', sizeof notes);
    struct blob_contents contents = contents_of(&model);
    contents.provenance = notes;
    contents.n_provenance = sizeof notes;
    make_blob(&contents);
    return 0;
}

static int tear_down(void **state)
{
    guarded_free(&memory);
    return temporary_tear_down(state);
}

#define ON_SMALL_BLOB(name) TEST_WITH(name, set_up_small, tear_down)
#define ON_LARGE_BLOB(name) TEST_WITH(name, set_up, tear_down)

static struct intake *new_intake(void)
{
    struct intake *intake;
    assert_int_equal(smol_intake_open("arriving.smol", &intake, &error), SMOL_OK);
    return intake;
}

static struct blob_header *header(void)
{
    static struct blob_header copy; /* the blob in memory is not aligned */
    memcpy(&copy, bytes, sizeof copy);
    return &copy;
}

/* Returns the number of verified bytes after n bytes have arrived: whole chunks after a complete
 * front. */
static uint64_t good_of(size_t n)
{
    uint64_t front = header()->data_offset;
    return n < front ? 0 : n == size ? size : n / BLOB_CHUNK_SIZE * BLOB_CHUNK_SIZE;
}

static void complains(smol_status status, smol_status expected, const char *part)
{
    assert_error(&error, status, expected, part);
    assert_ptr_equal(strstr(error.message, "arriving.smol: "), error.message);
}

/* Expects that a new intake refuses n bytes at once. */
static void refuses(size_t n, smol_status expected, const char *part)
{
    struct intake *intake = new_intake();
    complains(smol_intake_take(intake, bytes, n, &error), expected, part);
    smol_intake_close(intake);
}

/* --- arriving --------------------------------------------------------------------------------- */

ON_LARGE_BLOB(every_byte_by_itself_is_missed_until_it_comes)
{
    struct intake *intake = new_intake();
    complains(smol_intake_finish(intake, &error), SMOL_ERROR_DAMAGED, "ends within the front");
    for (size_t n = 1; n <= size; n++) {
        if (smol_intake_take(intake, bytes + n - 1, 1, &error))
            fail_msg("byte %zu: %s", n - 1, error.message);
        assert_int_equal(smol_intake_checked(intake), good_of(n));
        assert_int_equal(smol_intake_front(intake) != NULL, n >= header()->data_offset);
        if (n < size)
            complains(smol_intake_finish(intake, &error), SMOL_ERROR_DAMAGED, "ends ");
    }
    assert_int_equal(smol_intake_finish(intake, &error), SMOL_OK);
    smol_intake_close(intake);
}

ON_LARGE_BLOB(what_is_missing_is_counted)
{
    char part[64];
    for (size_t n = header()->data_offset; n < size; n += 9973) {
        struct intake *intake = new_intake();
        assert_int_equal(smol_intake_take(intake, bytes, n, &error), SMOL_OK);
        snprintf(part, sizeof part, "ends after %zu of %zu bytes: fetch the rest", n, size);
        complains(smol_intake_finish(intake, &error), SMOL_ERROR_DAMAGED, part);
        smol_intake_close(intake);
    }
}

ON_SMALL_BLOB(every_split_is_taken)
{
    for (size_t n = 0; n <= size; n += STRIDE) {
        struct intake *intake = new_intake();
        assert_int_equal(smol_intake_take(intake, bytes, n, &error), SMOL_OK);
        assert_int_equal(smol_intake_checked(intake), good_of(n));
        assert_int_equal(smol_intake_take(intake, bytes + n, size - n, &error), SMOL_OK);
        assert_int_equal(smol_intake_checked(intake), size);
        assert_int_equal(smol_intake_finish(intake, &error), SMOL_OK);
        smol_intake_close(intake);
    }
}

ON_LARGE_BLOB(pieces_of_any_size_are_taken)
{
    static const size_t steps[] = {2, 63, 64, 65, 4095, 65535, 65536, 65537, 131073, 1 << 20};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct intake *intake = new_intake();
        for (size_t at = 0; at < size; at += steps[i]) {
            size_t n = size - at < steps[i] ? size - at : steps[i];
            assert_int_equal(smol_intake_take(intake, bytes + at, n, &error), SMOL_OK);
        }
        assert_int_equal(smol_intake_finish(intake, &error), SMOL_OK);
        const struct blob *front = smol_intake_front(intake);
        assert_int_equal(front->model->vocab_size, 2000);
        assert_int_equal(front->n_chunks, (size - front->header->data_offset + 65535) / 65536);
        smol_intake_close(intake);
    }
}

ON_LARGE_BLOB(bytes_after_the_end_are_refused)
{
    for (size_t whole = 0; whole < 2; whole++) {
        struct intake *intake = new_intake();
        uint8_t *longer = malloc(size + 1);
        memcpy(longer, bytes, size);
        longer[size] = 0;
        if (whole)
            assert_int_equal(smol_intake_take(intake, longer, size, &error), SMOL_OK);
        smol_status status =
            smol_intake_take(intake, whole ? longer + size : longer, whole ? 1 : size + 1, &error);
        complains(status, SMOL_ERROR_DAMAGED, "bytes after the end");
        free(longer);
        smol_intake_close(intake);
    }
}

/* --- damage ----------------------------------------------------------------------------------- */

/* The report names the contents of the chunk and its range of bytes. */
static void names_the_chunk(size_t chunk_start)
{
    size_t end = chunk_start + BLOB_CHUNK_SIZE < size ? chunk_start + BLOB_CHUNK_SIZE : size;
    const char *what = end < size ? "weights, tensor embed" : "weights, tensor embed to output";
    if (chunk_start == header()->data_offset)
        what = "section tokenizer";
    char part[128];
    snprintf(part, sizeof part, "data damaged (%s, bytes %zu to %zu)", what, chunk_start, end - 1);
    complains(error.status, SMOL_ERROR_DAMAGED, part);
}

ON_SMALL_BLOB(every_damaged_byte_is_refused_and_nothing_after_it_is_good)
{
    size_t front = header()->data_offset;
    for (size_t i = 0; i < size; i += STRIDE) {
        struct intake *intake = new_intake();
        bytes[i] ^= 1 << i % 8;
        smol_status status = smol_intake_take(intake, bytes, size, &error);
        bytes[i] ^= 1 << i % 8;
        if (status != SMOL_ERROR_DAMAGED &&
            !(status == SMOL_ERROR_UNSUPPORTED && i >= 16 && i < 20))
            fail_msg("byte %zu: status %d: %s", i, status, error.message);
        uint64_t good = i < front ? 0 : i / BLOB_CHUNK_SIZE * BLOB_CHUNK_SIZE;
        assert_int_equal(smol_intake_checked(intake), good);
        if (i >= front)
            names_the_chunk(good);
        smol_intake_close(intake);
    }
}

/* A damaged chunk is refused at its last byte, not earlier or later. */
ON_LARGE_BLOB(damage_is_noticed_as_soon_as_the_chunk_is_whole)
{
    size_t start = header()->data_offset + BLOB_CHUNK_SIZE, end = start + BLOB_CHUNK_SIZE;
    struct intake *intake = new_intake();
    bytes[start] ^= 0x80;
    assert_int_equal(smol_intake_take(intake, bytes, end - 1, &error), SMOL_OK);
    assert_int_equal(smol_intake_checked(intake), start);
    assert_int_equal(smol_intake_take(intake, bytes + end - 1, 1, &error), SMOL_ERROR_DAMAGED);
    bytes[start] ^= 0x80;
    names_the_chunk(start);
    smol_intake_close(intake);
}

/* --- hostile headers -------------------------------------------------------------------------- */

static void set_header(struct blob_header changed)
{
    memcpy(bytes, &changed, sizeof changed);
}

/* Repairs the digest of the front. */
static void repair_front(void)
{
    struct blob_header changed = *header();
    changed.front_digest =
        smol_digest(bytes + BLOB_DIGEST_START, changed.data_offset - BLOB_DIGEST_START);
    set_header(changed);
}

ON_LARGE_BLOB(a_front_that_cannot_be_is_refused_with_the_header)
{
    const struct blob_header good = *header();
    const uint64_t offsets[] = {
        0,
        1,
        63,
        64,
        65535,
        65537,
        good.file_size + 65536,
        1ull << 32,
        1ull << 63,
        ~0ull - 65535,
        ~0ull,
        BLOB_MAX_FRONT + 65536ull,
    };
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        struct blob_header bad = good;
        bad.data_offset = offsets[i];
        if (offsets[i] > BLOB_MAX_FRONT)
            bad.file_size = INT64_MAX; /* the front must not be larger than the file */
        set_header(bad);
        struct intake *intake = new_intake();
        assert_int_equal(smol_intake_take(intake, bytes, sizeof bad - 1, &error), SMOL_OK);
        complains(smol_intake_take(intake, bytes + sizeof bad - 1, 1, &error), SMOL_ERROR_DAMAGED,
                  "data_offset is out of range (offset 32)");
        smol_intake_close(intake);
    }
    set_header(good);
}

/* Sizes in the header are compared with the tables, even if the digest is correct. */
ON_LARGE_BLOB(a_file_size_that_the_tables_contradict_is_refused_with_the_front)
{
    const struct blob_header good = *header();
    const uint64_t sizes[] = {good.data_offset, size - 1,   size + 1,
                              size + 65536,     1ull << 40, INT64_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct blob_header bad = good;
        bad.file_size = sizes[i];
        set_header(bad);
        refuses(good.data_offset, SMOL_ERROR_DAMAGED, "digest of header and tables");
        repair_front();
        refuses(good.data_offset, SMOL_ERROR_DAMAGED, "offset");
    }
    set_header(good);
}

/* The weights start after the tokenizer, at 0 if the end of the tokenizer is rounded up beyond
 * 2^64. */
ON_LARGE_BLOB(a_file_that_cannot_be_is_refused_with_the_header)
{
    const struct blob_header good = *header();
    const size_t n_front = good.data_offset;
    const uint64_t sizes[] = {1ull << 63, ~0ull - 65535, ~0ull - 9, ~0ull};
    uint8_t *copy = malloc(n_front);
    memcpy(copy, bytes, n_front);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct blob_header bad = good;
        struct blob_section last[2]; /* tokenizer, weights */
        uint8_t *table = bytes + sizeof bad + (good.n_sections - 2) * sizeof last[0];
        memcpy(last, table, sizeof last);
        last[0].size = sizes[i] - last[0].offset;
        last[1].offset = 0;
        last[1].size = bad.file_size = sizes[i];
        memcpy(table, last, sizeof last);
        set_header(bad);
        repair_front();
        refuses(sizeof bad, SMOL_ERROR_DAMAGED, "file_size is out of range (offset 24)");
        refuses(n_front, SMOL_ERROR_DAMAGED, "file_size is out of range (offset 24)");
        memcpy(bytes, copy, n_front);
    }
    free(copy);
}

ON_LARGE_BLOB(what_is_only_promised_is_not_allocated)
{
    if (SANITIZED)
        skip(); /* its allocator does not count */
    const struct blob_header good = *header();
    struct blob_header large = good;
    large.data_offset = BLOB_MAX_FRONT;
    large.file_size = 1ull << 39;
    set_header(large);
    struct mallinfo2 before = mallinfo2();
    struct intake *intake = new_intake();
    for (size_t n = 64; n <= size; n *= 2) {
        size_t half = n == 64 ? 0 : n / 2;
        assert_int_equal(smol_intake_take(intake, bytes + half, n - half, &error), SMOL_OK);
        struct mallinfo2 now = mallinfo2();
        size_t taken = now.uordblks + now.hblkhd - before.uordblks - before.hblkhd;
        assert_in_range(taken, n, 3 * n + 4 * BLOB_CHUNK_SIZE);
        assert_null(smol_intake_front(intake));
        assert_int_equal(smol_intake_checked(intake), 0);
    }
    smol_intake_close(intake);
    set_header(good);
}

ON_LARGE_BLOB(what_is_no_blob_is_refused_with_the_header)
{
    const struct blob_header good = *header();
    struct blob_header bad = good;
    bad.major = 2;
    set_header(bad);
    refuses(sizeof bad, SMOL_ERROR_UNSUPPORTED, "format version 2.0");
    bad = good;
    memcpy(bad.magic, "\x28\xb5\x2f\xfd", 4);
    set_header(bad);
    refuses(sizeof bad, SMOL_ERROR_UNSUPPORTED, "use `smolconv unpack`");
    memcpy(bad.magic, "none", 4);
    set_header(bad);
    refuses(sizeof bad, SMOL_ERROR_DAMAGED, "not a .smol blob");
    bad = good;
    bad.required_features = 1ull << 63;
    set_header(bad);
    repair_front();
    refuses(size, SMOL_ERROR_UNSUPPORTED, "needs features 0x8000000000000000");
    set_header(good);
}

int main(void)
{
    return run_all_tests("intake", NULL, NULL);
}
