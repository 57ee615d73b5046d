/* What a program is told of calls that take long, and how it ends them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#include "common/file.h"
#include "common/sha256.h"
#include "convert/convert.h"
#include "runtime/smol.h"
#include "tests/unit/temporary.h"

static struct temporary folder;
static char blob[128];
static char digest[SHA256_TEXT_SIZE];

/* --- a listener --------------------------------------------------------------------------- */

struct heard {
    unsigned n;         /* calls since the count last started again */
    unsigned n_rounds;  /* counts from 0 to a total */
    unsigned cancel_at; /* 0: never */
    unsigned n_all;
    uint64_t done, total;
};

static int hear(void *user, uint64_t done, uint64_t total)
{
    struct heard *heard = user;
    assert_true(done > 0 && done < total);
    if (heard->n == 0 || done < heard->done) {
        heard->n_rounds++;
        heard->n = 0;
    } else {
        assert_int_equal(total, heard->total);
        assert_true(done > heard->done);
    }
    heard->n++;
    heard->done = done;
    heard->total = total;
    return ++heard->n_all == heard->cancel_at;
}

/* --- opening ------------------------------------------------------------------------------ */

static smol_status open_heard(smol_model_params params, struct heard *heard, smol_model **model)
{
    smol_error error;
    params.on_progress = hear;
    params.user = heard;
    smol_status status = smol_model_open(blob, &params, model, &error);
    assert_int_equal(error.status, status);
    assert_true((status == SMOL_OK) == (*model != NULL));
    return status;
}

static void verification_at_open_tells_how_far_it_is(void **state)
{
    (void)state;
    const smol_model_params params = {.verify = SMOL_VERIFY_OPEN};
    struct heard heard = {0};
    smol_model *model;
    assert_int_equal(open_heard(params, &heard, &model), SMOL_OK);
    assert_int_equal(heard.n_rounds, 1);
    assert_true(heard.n >= 2);
    assert_true(heard.total > smol_model_get_info(model).blob_bytes);
    smol_model_close(model);
}

static void so_does_a_required_digest(void **state)
{
    (void)state;
    smol_model_params params = {.require_digest = digest};
    struct heard heard = {0};
    smol_model *model;
    assert_int_equal(open_heard(params, &heard, &model), SMOL_OK);
    assert_int_equal(heard.n_rounds, 1);
    assert_int_equal(heard.total, smol_model_get_info(model).blob_bytes);
    assert_int_equal(heard.n, (heard.total - 1) >> 20);
    smol_model_close(model);
    params.verify = SMOL_VERIFY_OPEN;
    heard = (struct heard){0};
    assert_int_equal(open_heard(params, &heard, &model), SMOL_OK);
    assert_int_equal(heard.n_rounds, 2);
    smol_model_close(model);
}

static void what_takes_no_time_tells_nothing(void **state)
{
    (void)state;
    const smol_model_params params = {0};
    struct heard heard = {0};
    smol_model *model;
    assert_int_equal(open_heard(params, &heard, &model), SMOL_OK);
    assert_int_equal(heard.n_all, 0);
    smol_model_close(model);
}

static void opening_can_be_cancelled_at_every_call(void **state)
{
    (void)state;
    const smol_model_params params = {.verify = SMOL_VERIFY_OPEN, .require_digest = digest};
    struct heard whole = {0};
    smol_model *model;
    assert_int_equal(open_heard(params, &whole, &model), SMOL_OK);
    smol_model_close(model);
    for (unsigned at = 1; at <= whole.n_all; at++) {
        struct heard heard = {.cancel_at = at};
        assert_int_equal(open_heard(params, &heard, &model), SMOL_ERROR_CANCELLED);
        assert_int_equal(heard.n_all, at);
    }
}

/* --- the whole ---------------------------------------------------------------------------- */

static int make_blob(void **state)
{
    (void)state;
    static const struct convert_options options = {
        .dtype = DTYPE_INT8, .n_threads = 2, .quiet = true};
    struct file_view file;
    struct error error;
    temporary_make(&folder);
    snprintf(blob, sizeof blob, "%s/demo.smol", folder.folder);
    if (smol_convert("demo/model", blob, &options, &error) ||
        smol_file_read(blob, SIZE_MAX, &file, &error))
        return -1;
    smol_sha256(file.data, file.size, digest);
    smol_file_close(&file);
    return 0;
}

static int remove_blob(void **state)
{
    (void)state;
    temporary_remove(&folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verification_at_open_tells_how_far_it_is),
        cmocka_unit_test(so_does_a_required_digest),
        cmocka_unit_test(what_takes_no_time_tells_nothing),
        cmocka_unit_test(opening_can_be_cancelled_at_every_call),
    };
    return cmocka_run_group_tests(tests, make_blob, remove_blob);
}
