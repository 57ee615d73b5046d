/* Tests of the writer of blobs: equal contents give equal bytes, and a failure leaves no file. */
#include <signal.h>
#include <sys/resource.h>

#include "tests/unit/blob_image.h"

static bool file_is(const char *text)
{
    char bytes[16] = "";
    FILE *file = fopen(path, "rb");
    size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    return n == strlen(text) && memcmp(bytes, text, n) == 0;
}

ON_IMAGE(the_same_contents_give_the_same_bytes)
{
    make_blob(&odd_model); /* again, while the first one is mapped */
    struct file_view view;
    assert_int_equal(smol_file_read(path, SIZE_MAX, &view, &error), SMOL_OK);
    assert_int_equal(view.size, image.size);
    assert_memory_equal(view.data, image.pristine, image.size);
    smol_file_close(&view);
}

ON_IMAGE(the_pieces_that_data_comes_in_do_not_matter)
{
    const struct blob_contents contents = contents_of(&odd_model);
    struct blob_writer *writer;
    struct output output;
    const uint8_t *data = image.pristine + section(SECTION_WEIGHTS)->offset;
    size_t size = section(SECTION_WEIGHTS)->size;
    assert_int_equal(smol_output_open(path, true, &output, &error), SMOL_OK);
    assert_int_equal(smol_writer_open(&output, &contents, &writer, &error), SMOL_OK);
    for (size_t at = 0, n = 1; at < size; at += n, n = n * 3 % 1013 + 1) {
        n = n < size - at ? n : size - at;
        assert_int_equal(smol_writer_append(writer, data + at, n, &error), SMOL_OK);
    }
    assert_int_equal(smol_writer_finish(writer, &error), SMOL_OK);
    check_round_trip(&odd_model, true);
}

IN_FOLDER(blobs_larger_than_the_writers_buffer_are_whole)
{
    struct blob_model model = wide_model();
    model.vocab_size = 900;
    model.intermediate_size = 900; /* about 1.2 MiB */
    make_blob(&model);
    check_round_trip(&model, true);
}

IN_FOLDER(an_existing_file_is_kept_without_force)
{
    const struct blob_contents contents = contents_of(&odd_model);
    temporary_write_text(&temporary, "tiny.smol", "old");
    complains(write_blob(path, false, &contents, &error), SMOL_ERROR_FILE, "exists already");
    assert_true(file_is("old"));
    assert_int_equal(write_blob(path, true, &contents, &error), SMOL_OK);
    check_round_trip(&odd_model, true);
    assert_int_equal(temporary_count(&temporary), 1);
}

IN_FOLDER(giving_up_leaves_nothing_behind)
{
    const struct blob_contents contents = contents_of(&odd_model);
    struct blob_writer *writer;
    struct output output;
    assert_int_equal(smol_output_open(path, false, &output, &error), SMOL_OK);
    assert_int_equal(smol_writer_open(&output, &contents, &writer, &error), SMOL_OK);
    assert_int_equal(append_tensors(writer, &contents, &error), SMOL_OK);
    smol_writer_abort(writer);
    assert_int_equal(temporary_count(&temporary), 0);
    smol_writer_abort(NULL);
}

/* Writes a blob while the size of files is limited to `limit` bytes. */
static smol_status write_within(rlim_t limit, const struct blob_contents *contents)
{
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    const struct rlimit small = {limit, old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    smol_status status = write_blob(path, true, contents, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    return status;
}

IN_FOLDER(a_failing_write_keeps_the_old_file_and_leaves_nothing_behind)
{
    struct blob_model model = wide_model(); /* larger than the writer's buffer of 1 MiB */
    model.intermediate_size = 1800;
    const struct blob_contents contents = contents_of(&model);
    make_blob(&model);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_true(info.st_size > 1 << 20);
    for (rlim_t limit = 0; limit < (rlim_t)info.st_size; limit += 100000) {
        temporary_write_text(&temporary, "tiny.smol", "old");
        complains(write_within(limit, &contents), SMOL_ERROR_FILE, "cannot write (File too large)");
        assert_true(file_is("old"));
        assert_int_equal(temporary_count(&temporary), 1);
    }
}

/* A failure while data is written must not be forgotten when the disk has space again. */
IN_FOLDER(appending_reports_a_failing_write_itself)
{
    static const uint8_t data[3 << 20];
    struct blob_model model = wide_model();
    model.vocab_size = 1 << 16; /* 17 MiB, of which these are the first */
    const struct blob_contents contents = contents_of(&model);
    struct blob_writer *writer;
    struct output output;
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    const struct rlimit small = {100000, old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(smol_output_open(path, true, &output, &error), SMOL_OK);
    assert_int_equal(smol_writer_open(&output, &contents, &writer, &error), SMOL_OK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    smol_status status = smol_writer_append(writer, data, sizeof data, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    complains(status, SMOL_ERROR_FILE, "cannot write");
    smol_writer_abort(writer);
    assert_int_equal(temporary_count(&temporary), 0);
}

IN_FOLDER(a_folder_that_is_missing_is_reported)
{
    const struct blob_contents contents = contents_of(&odd_model);
    char missing[256];
    snprintf(missing, sizeof missing, "%s/no/tiny.smol", temporary.folder);
    complains(write_blob(missing, false, &contents, &error), SMOL_ERROR_FILE, "cannot create");
}

IN_FOLDER(the_umask_is_honoured)
{
    struct stat info;
    mode_t old = umask(027);
    make_blob(&odd_model);
    umask(old);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0640);
}

int main(void)
{
    return run_all_tests("writer", NULL, NULL);
}
