/* Tests of models from a path, a descriptor and memory, and of the rules that all structs and
 * statuses of the interface follow. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/file.h"
#include "smol.h"
#include "tests/unit/demo_blob.h"
#include "tests/unit/unit.h"

enum { MAX_VOCABULARY = 1 << 16 };

static const uint32_t ids[] = {30, 41, 52, 63};

static void evaluate(smol_model *model, float *logits)
{
    const smol_context_params params = {.n_threads = 1, .n_ctx = 8};
    smol_context *context;
    smol_error error;
    assert_true(smol_model_get_info(model).vocab_size <= MAX_VOCABULARY);
    assert_int_equal(smol_context_create(model, &params, &context, &error), SMOL_OK);
    assert_int_equal(smol_eval(context, ids, 4, 1, logits, &error), SMOL_OK);
    smol_context_free(context);
}

/* Compares the model's logits with those of the same file opened by its path, and closes it. */
static void is_the_demo(smol_model *model)
{
    static float found[MAX_VOCABULARY], expected[MAX_VOCABULARY];
    smol_model *by_path;
    assert_int_equal(smol_model_open(demo_blob, NULL, &by_path, NULL), SMOL_OK);
    evaluate(by_path, expected);
    evaluate(model, found);
    assert_memory_equal(found, expected, smol_model_get_info(model).vocab_size * sizeof *found);
    assert_int_equal(smol_model_get_info(model).blob_bytes,
                     smol_model_get_info(by_path).blob_bytes);
    smol_model_close(by_path);
    smol_model_close(model);
}

/* --- descriptors -------------------------------------------------------------------------- */

TEST(a_descriptor_stays_the_callers)
{
    for (int no_mmap = 0; no_mmap < 2; no_mmap++) {
        const smol_model_params params = {.no_mmap = no_mmap, .verify = SMOL_VERIFY_OPEN};
        smol_model *model;
        smol_error error;
        int fd = open(demo_blob, O_RDONLY);
        assert_true(fd >= 0);
        assert_int_equal(lseek(fd, 1000, SEEK_SET), 1000);
        assert_int_equal(smol_model_open_fd(fd, NULL, &params, &model, &error), SMOL_OK);
        assert_int_equal(lseek(fd, 0, SEEK_CUR), 1000);
        assert_int_equal(close(fd), 0);
        is_the_demo(model);
    }
}

TEST(a_descriptor_survives_its_name)
{
    char path[160];
    struct file_view view;
    smol_model *model;
    smol_error error;
    snprintf(path, sizeof path, "%s/gone.smol", folder.folder);
    assert_int_equal(smol_file_read(demo_blob, SIZE_MAX, &view, &error), SMOL_OK);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(view.data, 1, view.size, file), view.size);
    assert_int_equal(fclose(file), 0);
    smol_file_close(&view);
    int fd = open(path, O_RDONLY);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(smol_model_open_fd(fd, "gone.smol", NULL, &model, &error), SMOL_OK);
    close(fd);
    is_the_demo(model);
}

TEST(a_bad_descriptor_is_an_error)
{
    int ends[2];
    smol_model *model;
    smol_error error;
    assert_int_equal(smol_model_open_fd(-1, NULL, NULL, &model, &error), SMOL_ERROR_FILE);
    assert_non_null(strstr(error.message, "fd -1: cannot open"));
    assert_null(model);
    const smol_model_params unmapped = {.no_mmap = true}; /* the name is no path */
    assert_int_equal(smol_model_open_fd(-1, demo_blob, &unmapped, &model, &error), SMOL_ERROR_FILE);
    assert_null(model);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(smol_model_open_fd(ends[0], "blob", NULL, &model, &error), SMOL_ERROR_FILE);
    assert_non_null(strstr(error.message, "blob: not a regular file"));
    assert_null(model);
    close(ends[0]);
    close(ends[1]);
    int fd = open(demo_blob, O_WRONLY);
    assert_int_equal(smol_model_open_fd(fd, "blob", NULL, &model, &error), SMOL_ERROR_FILE);
    close(fd);
}

/* --- memory ------------------------------------------------------------------------------- */

TEST(memory_is_used_in_place_and_verified)
{
    const smol_model_params verify = {.verify = SMOL_VERIFY_OPEN};
    struct file_view view;
    smol_model *model;
    smol_error error;
    assert_int_equal(smol_file_read(demo_blob, SIZE_MAX, &view, &error), SMOL_OK);
    uint8_t *bytes = aligned_alloc(SMOL_BLOB_ALIGNMENT, (view.size + 127) / 64 * 64);
    assert_non_null(bytes);
    memcpy(bytes, view.data, view.size);
    assert_int_equal(smol_model_open_memory(bytes, view.size, NULL, &verify, &model, &error),
                     SMOL_OK);
    is_the_demo(model);

    bytes[view.size - 1] ^= 1;
    assert_int_equal(smol_model_open_memory(bytes, view.size, NULL, &verify, &model, &error),
                     SMOL_ERROR_DAMAGED);
    assert_int_equal(strncmp(error.message, "memory: ", 8), 0);
    assert_null(model);
    bytes[view.size - 1] ^= 1;

    memmove(bytes + 1, bytes, view.size);
    assert_int_equal(smol_model_open_memory(bytes + 1, view.size, "flash", &verify, &model, &error),
                     SMOL_ERROR_USAGE);
    assert_non_null(strstr(error.message, "flash: the data is not aligned"));
    assert_int_equal(smol_model_open_memory(NULL, 0, NULL, NULL, &model, &error),
                     SMOL_ERROR_DAMAGED);
    const smol_model_params required = {
        .require_digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"};
    assert_int_equal(smol_model_open_memory(NULL, SIZE_MAX, NULL, &required, &model, &error),
                     SMOL_ERROR_DAMAGED);
    free(bytes);
    smol_file_close(&view);
}

TEST(a_required_digest_holds_for_memory_too)
{
    char digest[65];
    memset(digest, 'a', 64);
    digest[64] = '\0';
    const smol_model_params params = {.require_digest = digest};
    struct file_view view;
    smol_model *model;
    smol_error error;
    assert_int_equal(smol_file_read(demo_blob, SIZE_MAX, &view, &error), SMOL_OK);
    assert_int_equal(smol_model_open_memory(view.data, view.size, NULL, &params, &model, &error),
                     SMOL_ERROR_DAMAGED);
    const char *found = strstr(error.message, "digest is ");
    assert_non_null(found);
    memcpy(digest, found + strlen("digest is "), 64);
    assert_int_equal(smol_model_open_memory(view.data, view.size, NULL, &params, &model, &error),
                     SMOL_OK);
    is_the_demo(model);
    smol_file_close(&view);
}

/* --- rules of the interface --------------------------------------------------------------- */

/* Expects that params of a newer release are refused. */
static void is_newer(smol_status status, const smol_error *error)
{
    assert_int_equal(status, SMOL_ERROR_USAGE);
    assert_int_equal(error->status, SMOL_ERROR_USAGE);
    assert_non_null(strstr(error->message, "reserved"));
}

TEST(members_of_newer_releases_are_refused)
{
    smol_error error;
    smol_model *model, *none;
    smol_context *context, *no_context;
    smol_sampler *sampler, *no_sampler;
    smol_chat_text text;
    uint32_t *found;
    void *bytes;
    size_t size;
    const smol_model_params model_params = {.reserved = {[7] = 1}};
    const smol_context_params context_params = {.reserved = {1}};
    const smol_sampler_params sampler_params = {.reserved = {1}};
    const smol_generate_params generate_params = {.reserved = {[1] = UINT64_C(1) << 63}};
    const smol_chat_params chat_params = {.messages_json = "[]", .reserved = {[6] = 9}};
    const smol_session session = {.reserved = {[2] = 1}};
    const smol_tokenize_params tokenize_params = {.reserved = {[2] = 1}};
    is_newer(smol_model_open(demo_blob, &model_params, &none, &error), &error);
    assert_int_equal(smol_model_open(demo_blob, NULL, &model, &error), SMOL_OK);
    is_newer(smol_tokenize(model, "a", 1, &tokenize_params, &found, &size, &error), &error);
    assert_null(found);
    is_newer(smol_context_create(model, &context_params, &no_context, &error), &error);
    assert_int_equal(smol_context_create(model, NULL, &context, &error), SMOL_OK);
    is_newer(smol_sampler_create(&sampler_params, &no_sampler, &error), &error);
    assert_int_equal(smol_sampler_create(NULL, &sampler, &error), SMOL_OK);
    is_newer(smol_sampler_set_params(sampler, &sampler_params, &error), &error);
    is_newer(smol_generate(context, sampler, ids, 4, &generate_params, NULL, &error), &error);
    is_newer(smol_chat_format(model, &chat_params, &text, &error), &error);
    is_newer(smol_context_save_memory(context, &session, &bytes, &size, &error), &error);
    smol_eval_part part = {.context = context, .ids = ids, .n = 4, .reserved = {1}};
    is_newer(smol_eval_many(&part, 1, &error), &error);
    assert_int_equal(smol_context_length(context), 0);
    smol_sampler_free(sampler);
    smol_context_free(context);
    smol_model_close(model);
}

TEST(success_clears_the_error)
{
    smol_model *model;
    smol_error error;
    assert_int_equal(smol_model_open("/nowhere", NULL, &model, &error), SMOL_ERROR_FILE);
    assert_true(error.message[0] != '\0');
    assert_int_equal(smol_model_open(demo_blob, NULL, &model, &error), SMOL_OK);
    assert_int_equal(error.status, SMOL_OK);
    assert_string_equal(error.message, "");
    smol_model_close(model);
}

TEST(every_status_has_a_text_of_its_own)
{
    for (int i = SMOL_OK; i <= SMOL_ERROR_CANCELLED; i++)
        for (int j = i + 1; j <= SMOL_ERROR_CANCELLED + 1; j++)
            assert_string_not_equal(smol_status_text((smol_status)i),
                                    smol_status_text((smol_status)j));
    assert_string_equal(smol_status_text((smol_status)99), "unknown status");
}

TEST(the_version_is_that_of_the_header)
{
    char text[64];
    snprintf(text, sizeof text, "%d.%d.%d", SMOL_VERSION_MAJOR, SMOL_VERSION_MINOR,
             SMOL_VERSION_PATCH);
    assert_string_equal(SMOL_VERSION, text);
    assert_string_equal(smol_version(), text);
}

TEST(ids_out_of_range_are_named)
{
    smol_model *model;
    smol_error error;
    const char *text;
    char *whole;
    size_t size;
    int special = 1;
    const uint32_t unknown = 99999999;
    assert_int_equal(smol_model_open(demo_blob, NULL, &model, &error), SMOL_OK);
    assert_int_equal(smol_token_text(model, unknown, &text, &size, &special, &error),
                     SMOL_ERROR_USAGE);
    assert_non_null(strstr(error.message, "token id 99999999"));
    assert_int_equal(size, 0);
    assert_int_equal(special, 0);
    assert_int_equal(smol_detokenize(model, &unknown, 1, 0, &whole, &size, &error),
                     SMOL_ERROR_USAGE);
    assert_non_null(strstr(error.message, "token id 99999999"));
    assert_null(whole);
    smol_model_close(model);
}

int main(void)
{
    return run_all_tests("model", make_demo_blob, remove_demo_blob);
}
