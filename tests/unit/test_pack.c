/* Tests of packing and unpacking from inside: the seek table's bytes, the journal, and cuts and
 * damage anywhere in a packed file. tests/oracle/test_pack.py tests separate processes. */
#include <sys/stat.h>

#include "common/file.h"
#include "convert/ship/pack.h"
#include "convert/ship/seek_table.h"
#include "format/packed.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/temporary_fixture.h"
#include "tests/unit/tiny_blob.h"
#include "tests/unit/unit.h"

#define STRIDE (samples_only() ? 37 : 1)

static smol_error error;
static char blob_path[128], packed_path[128], input[128], output[128], part[128];
static struct file_view blob, packed;

/* Makes a blob of several frames that packs into few bytes: most of it is one letter. */
static int set_up(void **state)
{
    static char notes[PACKED_PIECE + 70000];
    const struct pack_options options = {.level = 19, .n_threads = 1, .quiet = 1};
    temporary_set_up(state);
    make_tokenizer();
    memset(notes, 'n', sizeof notes);
    struct blob_contents contents = contents_of(&odd_model);
    contents.provenance = notes;
    contents.n_provenance = sizeof notes;
    snprintf(blob_path, sizeof blob_path, "%s/blob.smol", temporary.folder);
    snprintf(packed_path, sizeof packed_path, "%s/blob.smol.zst", temporary.folder);
    snprintf(input, sizeof input, "%s/input", temporary.folder);
    snprintf(output, sizeof output, "%s/out.smol", temporary.folder);
    snprintf(part, sizeof part, "%s/out.smol.part", temporary.folder);
    assert_int_equal(write_blob(blob_path, true, &contents, &error), SMOL_OK);
    assert_int_equal(smol_pack(blob_path, packed_path, &options, &error), SMOL_OK);
    assert_int_equal(smol_file_read(blob_path, 1 << 22, &blob, &error), SMOL_OK);
    assert_int_equal(smol_file_read(packed_path, 1 << 20, &packed, &error), SMOL_OK);
    assert_in_range(packed.size, 1000, 20000);
    return 0;
}

static int tear_down(void **state)
{
    smol_file_close(&blob);
    smol_file_close(&packed);
    return temporary_tear_down(state);
}

#define IN_FOLDER(name) TEST_WITH(name, set_up, tear_down)

static bool exists(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

/* Unpacks data[0..size). */
static smol_status unpack(const void *data, size_t size, bool resume, struct unpack_rest *rest)
{
    const struct unpack_options options = {.n_threads = 1, .resume = resume, .quiet = 1};
    temporary_write(&temporary, "input", data, size);
    return smol_unpack(input, output, &options, rest, &error);
}

static void restored(void)
{
    struct file_view view;
    assert_int_equal(smol_file_read(output, 1 << 22, &view, &error), SMOL_OK);
    assert_int_equal(view.size, blob.size);
    assert_memory_equal(view.data, blob.data, blob.size);
    smol_file_close(&view);
    assert_int_equal(unlink(output), 0);
    assert_false(exists(part));
}

/* --- the seek table --------------------------------------------------------------------------- */

IN_FOLDER(the_seek_table_has_the_bytes_of_the_published_format)
{
    static const uint8_t expected[] = {
        0x5e, 0x2a, 0x4d, 0x18, 33, 0, 0, 0, /* skippable frame, 33 bytes */
        0x01, 0x02, 0,    0,    0,  0, 4, 0, /* 513 bytes hold 262144 */
        0xff, 0xff, 0x03, 0,    0,  0, 4, 0, /* 262143 hold 262144 */
        7,    0,    0,    0,    5,  0, 0, 0, /* 7 hold 5 */
        3,    0,    0,    0,    0,           /* 3 frames, no checksums */
        0xb1, 0xea, 0x92, 0x8f,
    };
    struct seek_table table = {0};
    uint8_t *bytes;
    size_t size;
    smol_seek_table_add(&table, 513, &error);
    smol_seek_table_add(&table, 262143, &error);
    smol_seek_table_add(&table, 7, &error);
    assert_int_equal(table.end, 513 + 262143 + 7);
    assert_int_equal(smol_seek_table_encode(&table, 2 * 262144 + 5, &bytes, &size, &error), 0);
    assert_int_equal(size, sizeof expected);
    assert_memory_equal(bytes, expected, size);
    free(bytes);
    smol_seek_table_free(&table);
}

IN_FOLDER(a_seek_table_grows_and_is_cut)
{
    struct seek_table table = {0};
    uint64_t ends[1001] = {0};
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(smol_seek_table_add(&table, UINT32_MAX - i, &error), SMOL_OK);
        ends[i + 1] = ends[i] + UINT32_MAX - i;
    }
    for (size_t n = 1000; n-- > 0;) {
        smol_seek_table_cut(&table, n);
        assert_int_equal(table.n, n);
        assert_int_equal(table.end, ends[n]);
    }
    smol_seek_table_cut(&table, 5); /* already has fewer */
    assert_int_equal(table.n, 0);
    smol_seek_table_free(&table);
}

/* --- the journal ------------------------------------------------------------------------------ */

static const struct blob_header header = {.file_size = 1000, .front_digest = 0x0123456789abcdef};
static const uint32_t sizes[] = {1, 262144, 77, 5000};
enum { N_SIZES = sizeof sizes / sizeof sizes[0], ENTRY = 16 };

static struct output write_journal(void)
{
    struct output out;
    assert_int_equal(smol_output_resume(output, false, &out, &error), SMOL_OK);
    struct journal journal = smol_journal_start(&header);
    for (size_t i = 0; i < N_SIZES; i++)
        assert_int_equal(smol_journal_add(&journal, &out, sizes[i], &error), SMOL_OK);
    return out;
}

/* Reads the journal, which must contain the first n frames. */
static void journal_holds(const struct output *out, const struct blob_header *of, size_t n)
{
    struct seek_table table = {0};
    assert_int_equal(smol_journal_read(smol_journal_start(of), out, &table, &error), SMOL_OK);
    assert_int_equal(table.n, n);
    assert_memory_equal(table.sizes ? table.sizes : sizes, sizes, n * sizeof sizes[0]);
    smol_seek_table_free(&table);
}

IN_FOLDER(a_journal_is_read_up_to_the_first_entry_that_is_cut_or_damaged)
{
    struct output out = write_journal();
    journal_holds(&out, &header, N_SIZES);
    for (size_t i = 0; i < N_SIZES * ENTRY * 8; i++) {
        uint8_t byte;
        size_t n, at = header.file_size + i / 8;
        smol_output_read(&out, at, &byte, 1, &n, &error);
        uint8_t flipped = byte ^ (uint8_t)(1 << i % 8);
        smol_output_write(&out, at, &flipped, 1, &error);
        journal_holds(&out, &header, i / 8 / ENTRY);
        smol_output_write(&out, at, &byte, 1, &error);
    }
    for (size_t size = N_SIZES * ENTRY; size-- > 0;) {
        assert_int_equal(smol_output_truncate(&out, header.file_size + size, &error), SMOL_OK);
        journal_holds(&out, &header, size / ENTRY);
    }
    smol_output_discard(&out);
}

IN_FOLDER(the_journal_of_another_blob_is_empty)
{
    struct output out = write_journal();
    struct blob_header other = header;
    other.front_digest ^= 1;
    journal_holds(&out, &other, 0);
    other = header;
    other.file_size += ENTRY;
    journal_holds(&out, &other, 0);
    smol_output_discard(&out);
}

/* --- cut and damaged -------------------------------------------------------------------------- */

IN_FOLDER(every_truncation_is_refused_and_leaves_nothing)
{
    struct unpack_rest rest;
    for (size_t size = 0; size < packed.size; size += STRIDE) {
        smol_status status = unpack(packed.data, size, false, &rest);
        assert_error(&error, status, SMOL_ERROR_DAMAGED, "ends ");
        assert_false(rest.is_known || exists(output));
    }
    assert_int_equal(unpack(packed.data, packed.size, false, &rest), SMOL_OK);
    restored();
}

IN_FOLDER(every_byte_that_is_appended_is_refused)
{
    struct unpack_rest rest;
    uint8_t *longer = calloc(1, packed.size + 256);
    memcpy(longer, packed.data, packed.size);
    for (int byte = 0; byte < 256; byte += samples_only() ? 16 : 1) {
        longer[packed.size] = (uint8_t)byte;
        assert_error(&error, unpack(longer, packed.size + 1, false, &rest), SMOL_ERROR_DAMAGED,
                     "bytes after the seek table");
    }
    memcpy(longer + packed.size, packed.data, 200); /* a second file */
    assert_int_equal(unpack(longer, packed.size + 200, false, &rest), SMOL_ERROR_DAMAGED);
    free(longer);
}

/* Some bits of zstd's format are unused: a flip there must not change the blob. */
IN_FOLDER(every_flipped_bit_is_refused_or_changes_nothing)
{
    size_t harmless = 0;
    struct unpack_rest rest;
    uint8_t *bytes = malloc(packed.size);
    memcpy(bytes, packed.data, packed.size);
    for (size_t i = 0; i < packed.size * 8; i += 9 * STRIDE) {
        bytes[i / 8] ^= 1 << i % 8;
        smol_status status = unpack(bytes, packed.size, false, &rest);
        bytes[i / 8] ^= 1 << i % 8;
        if (status == SMOL_OK) {
            restored();
            harmless++;
        } else if (status != SMOL_ERROR_DAMAGED && status != SMOL_ERROR_UNSUPPORTED) {
            fail_msg("bit %zu: status %d: %s", i, status, error.message);
        }
        assert_false(exists(output));
    }
    assert_true(harmless < packed.size / 100);
    free(bytes);
}

/* --- resuming --------------------------------------------------------------------------------- */

/* Cuts the file after `size` bytes; the download must resume at the reported position. */
static void goes_on_after(size_t size)
{
    struct unpack_rest rest;
    assert_int_equal(unpack(packed.data, size, true, &rest), SMOL_ERROR_DAMAGED);
    assert_true(rest.is_known);
    assert_in_range(rest.position, 0, size);
    assert_int_equal(exists(part), rest.position > 0);
    size_t kept = (size_t)rest.position;
    assert_int_equal(unpack(packed.data + kept, packed.size - kept, true, &rest), SMOL_OK);
    assert_false(rest.is_known);
    restored();
}

IN_FOLDER(a_file_that_is_cut_anywhere_goes_on)
{
    for (size_t size = 0; size < packed.size; size += samples_only() ? 499 : 97)
        goes_on_after(size);
    goes_on_after(packed.size - 1);
}

/* Damaged or incomplete bytes in the kept part must not get into the blob. */
IN_FOLDER(a_kept_part_that_is_damaged_anywhere_is_continued_from_what_is_good)
{
    struct unpack_rest rest;
    struct file_view kept;
    assert_int_equal(unpack(packed.data, packed.size - 30, true, &rest), SMOL_ERROR_DAMAGED);
    const uint64_t end = rest.position;
    assert_int_equal(smol_file_read(part, 1 << 22, &kept, &error), SMOL_OK);
    uint8_t *bytes = malloc(kept.size);
    for (size_t i = 64; i < kept.size; i += i < blob.size ? 4999 : 5) {
        memcpy(bytes, kept.data, kept.size);
        bytes[i] ^= 1;
        temporary_write(&temporary, "out.smol.part", bytes, kept.size);
        assert_int_equal(unpack("", 0, true, &rest), SMOL_ERROR_DAMAGED);
        assert_true(rest.is_known && rest.position < end);
        size_t from = (size_t)rest.position;
        assert_int_equal(unpack(packed.data + from, packed.size - from, true, &rest), SMOL_OK);
        restored();
    }
    for (size_t size = kept.size; size > 0; size -= size > blob.size ? 1 : 70001) {
        temporary_write(&temporary, "out.smol.part", kept.data, size);
        assert_int_equal(unpack(packed.data, packed.size, true, &rest), SMOL_OK);
        restored();
        if (size <= 70001)
            break;
    }
    free(bytes);
    smol_file_close(&kept);
}

/* Cutting off the journal is the last step before the rename. */
IN_FOLDER(a_part_that_lacks_only_its_name_gets_it)
{
    struct unpack_rest rest;
    temporary_write(&temporary, "out.smol.part", blob.data, blob.size);
    assert_int_equal(unpack("", 0, true, &rest), SMOL_OK);
    restored();
}

IN_FOLDER(a_part_that_is_not_ours_is_refused_and_left)
{
    struct unpack_rest rest;
    temporary_write(&temporary, "out.smol.part", packed.data, packed.size); /* by another program */
    assert_error(&error, unpack(packed.data, packed.size, true, &rest), SMOL_ERROR_FILE,
                 "out.smol.part: not an unfinished blob: remove it");
    assert_false(rest.is_known);
    assert_true(exists(part));
}

int main(void)
{
    return run_all_tests("pack", NULL, NULL);
}
