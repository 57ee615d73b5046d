/* Running a model from any blob that opens. An input is a blob (build.h), then how it is run and
 * the tokens. The logits of a blob that verifies are the same bits however it is run. */
#include <math.h>
#include <stdbool.h>

#include "format/reader.h"
#include "smol.h"
#include "tests/fuzz/files.h"

enum { MAX_IDS = 12, MAX_NEW = 6 };

struct way {
    uint8_t kv, first_part, n_ids, with_kernels;
    uint8_t temperature, top_k, top_p, min_p, penalty, max_tokens;
    uint8_t ids[MAX_IDS];
};

struct run {
    smol_status status;
    size_t n_logits;
    float logits[MAX_IDS * 256];
};

static smol_model *open_model(const struct built *file)
{
    const smol_model_params params = {.no_mmap = 1}; /* a sanitizer sees where memory ends */
    smol_model *model;
    smol_error error;
    smol_model_open(fuzz_write("blob", file->data, file->size), &params, &model, &error);
    return model;
}

/* Errors that a damaged blob, or one whose numbers grow too large, may end in. */
static bool is_expected(smol_status status)
{
    return status == SMOL_OK || status == SMOL_ERROR_DAMAGED || status == SMOL_ERROR_NUMERIC ||
           status == SMOL_ERROR_CONTEXT_FULL;
}

static smol_context *create_context(const smol_model *model, const struct way *way)
{
    const smol_context_params params = {.n_threads = 1, .kv = (smol_kv)(way->kv % 5)};
    smol_context *context;
    smol_error error;
    CLAIM(!smol_context_create(model, &params, &context, &error));
    return context;
}

/* Evaluates the tokens in two parts, the first of `first` tokens, for the logits of all. */
static void evaluate(const smol_model *model, const struct way *way, const uint32_t *ids, size_t n,
                     size_t first, struct run *run)
{
    smol_error error;
    size_t vocab_size = smol_model_get_info(model).vocab_size;
    smol_context *context = create_context(model, way);
    memset(run, 0, sizeof *run);
    run->n_logits = n * vocab_size;
    if (first > 0)
        run->status = smol_eval(context, ids, first, first, run->logits, &error);
    if (!run->status && first < n)
        run->status = smol_eval(context, ids + first, n - first, n - first,
                                run->logits + first * vocab_size, &error);
    CLAIM(is_expected(run->status));
    for (size_t i = 0; !run->status && i < run->n_logits; i++)
        CLAIM(isfinite(run->logits[i]));
    smol_context_free(context);
}

static bool same(const struct run *a, const struct run *b)
{
    return a->status == b->status &&
           (a->status || memcmp(a->logits, b->logits, a->n_logits * sizeof a->logits[0]) == 0);
}

/* At once, in two parts, and with the scalar kernels. */
static void compare_ways(const smol_model *model, const struct way *way, const uint32_t *ids,
                         size_t n, bool verified)
{
    static struct run whole, parts, scalar;
    evaluate(model, way, ids, n, 0, &whole);
    evaluate(model, way, ids, n, way->first_part % (n + 1), &parts);
    setenv("SMOL_ISA", "scalar", 1);
    evaluate(model, way, ids, n, 0, &scalar);
    unsetenv("SMOL_ISA");
    CLAIM(!verified || (same(&whole, &parts) && same(&whole, &scalar)));
}

static int take_text(void *user, const char *text, size_t size, uint32_t id)
{
    (void)text, (void)id;
    *(size_t *)user += size;
    return 0;
}

static void generate(const smol_model *model, const struct way *way, const uint32_t *ids, size_t n)
{
    const smol_sampler_params sampling = {
        .temperature = (float)way->temperature / 64,
        .top_k = way->top_k,
        .top_p = (float)way->top_p / 255,
        .min_p = (float)way->min_p / 255,
        .repetition_penalty = (float)way->penalty / 64,
        .seed = way->max_tokens,
    };
    static const char *const stop[] = {"en", "\n"};
    size_t n_text = 0;
    const smol_generate_params params = {
        .max_tokens = way->max_tokens % MAX_NEW,
        .prompt_only = way->max_tokens % MAX_NEW == 0,
        .stop = stop,
        .n_stop = 2,
        .on_text = take_text,
        .user = &n_text,
    };
    smol_generate_result result;
    smol_sampler *sampler;
    smol_error error;
    if (smol_sampler_create(&sampling, &sampler, &error))
        return;
    smol_context *context = create_context(model, way);
    CLAIM(is_expected(smol_generate(context, sampler, ids, n, &params, &result, &error)));
    CLAIM(result.n_generated <= params.max_tokens);
    smol_context_free(context);
    smol_sampler_free(sampler);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct way way;
    uint32_t ids[MAX_IDS];
    struct built file = fuzz_build_blob(&in);
    fuzz_take(&in, &way, sizeof way);
    smol_model *model = open_model(&file);
    if (model && smol_model_get_info(model).vocab_size <= 256) {
        struct blob blob;
        smol_error error;
        bool verified =
            !smol_blob_open_bytes(file.data, file.size, "fuzz", VERIFY_AT_OPEN, &blob, &error);
        smol_blob_close(&blob);
        size_t n = 1 + way.n_ids % MAX_IDS;
        for (size_t i = 0; i < n; i++)
            ids[i] = way.ids[i] % smol_model_get_info(model).vocab_size;
        size_t fitting = smol_model_get_info(model).context_length;
        compare_ways(model, &way, ids, n < fitting ? n : fitting, verified);
        generate(model, &way, ids, n);
    }
    smol_model_close(model);
    free(file.data);
    return 0;
}
