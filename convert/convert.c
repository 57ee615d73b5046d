/* Converts a checkpoint, see convert.h: opens it, compiles the tokenizer, describes the source and
 * passes everything to the writer. */
#include "convert/convert.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cli/output.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/pool.h"
#include "convert/base/progress.h"
#include "convert/blob/writer.h"
#include "convert/compare.h"
#include "convert/provenance.h"
#include "convert/source.h"
#include "convert/weights/weights.h"

/* Everything that a conversion owns. */
struct conversion {
    struct source source;
    char *provenance;
    size_t n_provenance;
    struct pool *pool;
    struct output output; /* until the writer takes it */
    struct blob_writer *writer;
};

/* --- slow steps --------------------------------------------------------------------------- */

/* Steps that are independent and run at the same time. Describing the source computes digests of
 * the weights. These steps follow the cheap checks, so that unsupported input is refused early. */
typedef smol_status load_step(struct conversion *c, smol_error *error);

static smol_status compile_tokenizer(struct conversion *c, smol_error *error)
{
    return smol_source_compile_tokenizer(&c->source, error);
}

static smol_status describe(struct conversion *c, smol_error *error)
{
    return smol_provenance_make(&c->source, true, &c->provenance, &c->n_provenance, error);
}

static load_step *const load_steps[] = {compile_tokenizer, describe};
enum { N_LOAD_STEPS = sizeof load_steps / sizeof load_steps[0] };

struct load_run {
    struct conversion *conversion;
    smol_status status[N_LOAD_STEPS];
    smol_error errors[N_LOAD_STEPS];
};

static void run_load_step(void *argument, struct pool_thread *thread)
{
    struct load_run *run = argument;
    struct pool_stage stage = pool_stage(thread, N_LOAD_STEPS);
    while (smol_pool_claim(&stage))
        run->status[stage.item] = load_steps[stage.item](run->conversion, &run->errors[stage.item]);
}

static smol_status run_load_steps(struct conversion *c, smol_error *error)
{
    struct load_run run = {.conversion = c};
    smol_pool_run(c->pool, run_load_step, &run);
    for (int i = 0; i < N_LOAD_STEPS; i++) {
        if (run.status[i]) {
            *error = run.errors[i];
            return run.status[i];
        }
    }
    return SMOL_OK;
}

/* --- parts of a conversion ---------------------------------------------------------------- */

static struct weights weights_of(const struct source *source)
{
    return (struct weights){source->config.family, &source->config.model,
                            source->tensors,       source->lora.pairs,
                            &source->mix,          source->stats.path ? &source->stats : NULL,
                            source->types};
}

/* Opens the statistics of --calibration, and checks that they are of this model, or estimates some.
 */
static smol_status open_stats(struct source *source, const struct source_options *options,
                              smol_error *error)
{
    uint64_t key;
    const struct weights weights = weights_of(source);
    if (source_estimates(source))
        return smol_weights_estimate(&weights, &source->stats, error);
    if (!names_stats(options->calibration))
        return SMOL_OK;
    if (!is_grouped(source->dtype))
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "--calibration: has no effect on --dtype %s: use int8, int6, int5 or int4",
                         smol_dtype_name(source->dtype));
    smol_status status = smol_stats_open(options->calibration, &source->stats, error);
    if (!status)
        status = smol_weights_key(&weights, &key, error);
    return status ? status : smol_stats_belong(&source->stats, &source->config.model, key, error);
}

/* Opens what the slow steps need. */
static smol_status open_rest(struct conversion *c, const struct source_options *options,
                             uint32_t n_threads, smol_error *error)
{
    smol_status status = open_stats(&c->source, options, error);
    return status ? status : smol_pool_create(n_threads, &c->pool, error);
}

/* Returns the size of a blob with `bytes` of matrices and n_levels tables of levels. The name of
 * the dtype in the provenance always has the same length. */
static uint64_t size_with(void *user, uint64_t bytes, size_t n_levels)
{
    const struct conversion *c = user;
    struct storage any = {0};
    struct blob_contents contents = smol_source_contents(&c->source);
    contents.n_provenance = c->n_provenance;
    contents.matrix_bytes = bytes;
    contents.mix =
        n_levels > 0 ? (struct mix){.storage = &any, .n_levels = n_levels} : (struct mix){0};
    return smol_writer_plan(&contents, &(struct section_plan){0});
}

/* Chooses the dtypes for a goal. */
static smol_status plan_dtypes(struct conversion *c, const struct goal *goal, struct plan *plan,
                               smol_error *error)
{
    struct source *source = &c->source;
    const struct blob_model *model = &source->config.model;
    const struct weights weights = weights_of(source);
    struct dtype_losses *losses = calloc(smol_tensor_count(model), sizeof *losses);
    smol_status status = losses ? smol_losses_measure(&weights, c->pool, losses, error)
                                : smol_fail_memory(error, "the losses of matrices");
    if (!status)
        status = smol_plan_make(model, losses, goal, size_with, c, plan, error);
    free(losses);
    if (status)
        return status;
    smol_mix_free(&source->mix);
    source->mix = plan->mix;
    source->dtype = plan->dtype;
    return SMOL_OK;
}

static void tell_plan(const struct plan *plan)
{
    fprintf(stderr,
            "smolconv: %.3f bits for each weight, expected KL divergence %.2g nats; matrices:",
            plan->bits, plan->nats);
    for (size_t i = 0; i < N_CHOICES; i++)
        if (plan->n[i] > 0)
            fprintf(stderr, " %zu %s", plan->n[i], smol_dtype_name(smol_choices[i]));
    fprintf(stderr, "\n");
}

/* Compiles the tokenizer and chooses the dtypes, which the provenance mentions, then describes the
 * source. */
static smol_status run_planned_steps(struct conversion *c, const struct goal *goal, bool quiet,
                                     smol_error *error)
{
    struct plan plan;
    smol_status status = compile_tokenizer(c, error);
    if (!status)
        status = smol_provenance_make(&c->source, false, &c->provenance, &c->n_provenance, error);
    if (!status)
        status = plan_dtypes(c, goal, &plan, error);
    if (!status && !quiet)
        tell_plan(&plan);
    free(c->provenance);
    c->provenance = NULL;
    return status ? status : describe(c, error);
}

static struct blob_contents contents_of(const struct conversion *c)
{
    struct blob_contents contents = smol_source_contents(&c->source);
    contents.provenance = c->provenance;
    contents.n_provenance = c->n_provenance;
    return contents;
}

static smol_status write_weights(struct conversion *c, bool quiet, smol_error *error)
{
    const struct weights weights = weights_of(&c->source);
    return smol_weights_write(&weights, c->pool, c->writer, quiet, error);
}

/* Finishes the blob. For a file this includes a sync, whose time depends on the disk. */
static smol_status finish_blob(struct conversion *c, smol_error *error)
{
    struct blob_writer *writer = c->writer;
    c->writer = NULL;
    return smol_writer_finish(writer, error);
}

static void close_conversion(struct conversion *c)
{
    smol_writer_abort(c->writer);
    smol_output_discard(&c->output);
    smol_pool_destroy(c->pool);
    free(c->provenance);
    smol_source_close(&c->source);
}

/* --- into a file -------------------------------------------------------------------------- */

/* Checks --context: it requires a model with longrope, and must not exceed
 * max_position_embeddings. */
static smol_status check_context(const struct config *config, uint32_t context, smol_error *error)
{
    if (context && !config->longrope)
        return smol_fail(
            error, SMOL_ERROR_USAGE,
            "--context %u: the model's rotary embedding is not of type longrope: leave "
            "it out",
            context);
    if (context > config->max_positions)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "--context %u: max_position_embeddings is %u: give at most that", context,
                         config->max_positions);
    return SMOL_OK;
}

static void tell_context(const struct config *config)
{
    if (config->longrope == LONGROPE_SHORT)
        fprintf(stderr,
                "smolconv: longrope: short factors, for texts of at most %u tokens; see "
                "--context\n",
                config->model.context_length);
    if (config->longrope == LONGROPE_LONG)
        fprintf(stderr, "smolconv: longrope: long factors, for texts of up to %u tokens\n",
                config->model.context_length);
}

static void tell_unreached(const struct stats_file *stats)
{
    if (stats->n_unreached > 0)
        fprintf(stderr,
                "smolconv: %s: no token of the text used %zu of %zu experts: the inputs of their "
                "layers are taken for theirs; a longer text reaches more\n",
                stats->path, stats->n_unreached, smol_stats_experts(&stats->header));
}

static void tell_skipped(const struct skipped_tensors *skipped)
{
    char text[SKIPPED_TEXT];
    if (smol_nested_tell(skipped, text))
        fprintf(stderr, "smolconv: skipped: %s: the blob has the language model alone\n", text);
}

/* Opens the source and the output, before the steps that take long. */
static smol_status open_both(struct conversion *c, const char *input, const char *output,
                             const struct convert_options *options, smol_error *error)
{
    smol_status status =
        smol_source_open(input, &options->source, options->dtype, &c->source, error);
    if (!status)
        status = check_context(&c->source.config, options->source.context, error);
    if (!status)
        status = smol_source_check_output(&c->source, &options->source, output, error);
    return status ? status : smol_output_open(output, options->force, &c->output, error);
}

static smol_status write_blob(struct conversion *c, bool quiet, smol_error *error)
{
    const struct blob_contents contents = contents_of(c);
    smol_status status = smol_writer_open(&c->output, &contents, &c->writer, error);
    return status ? status : write_weights(c, quiet, error);
}

smol_status smol_convert(const char *input, const char *output,
                         const struct convert_options *options, smol_error *error)
{
    struct conversion conversion = {.output = {.fd = -1}};
    double start = clock_seconds();
    const struct goal *goal = &options->goal;
    smol_status status = open_both(&conversion, input, output, options, error);
    if (!status)
        status = open_rest(&conversion, &options->source, options->n_threads, error);
    if (!status)
        status = goal->kind ? run_planned_steps(&conversion, goal, options->quiet, error)
                            : run_load_steps(&conversion, error);
    if (!status && !options->quiet) {
        tell_context(&conversion.source.config);
        tell_unreached(&conversion.source.stats);
        tell_skipped(&conversion.source.skipped);
    }
    if (!status)
        status = write_blob(&conversion, options->quiet, error);
    status = smol_source_settle(&conversion.source, status, error);
    double written = clock_seconds();
    if (!status)
        status = finish_blob(&conversion, error);
    double synced = clock_seconds();
    uint64_t size = smol_shards_size(&conversion.source.shards);
    if (!status && conversion.source.template.reason)
        smol_progress_no_chat(output, conversion.source.template.place,
                              conversion.source.template.reason);
    close_conversion(&conversion);
    if (!status && !options->quiet)
        smol_progress_summary(size, clock_seconds() - start - (synced - written), synced - written);
    return status;
}

smol_status smol_convert_size(struct source *source, enum blob_dtype dtype, uint64_t *size,
                              smol_error *error)
{
    char *provenance = NULL;
    *size = 0;
    smol_status status = smol_source_set_dtype(source, dtype, error);
    if (status)
        return status;
    struct blob_contents contents = smol_source_contents(source);
    status = smol_provenance_make(source, false, &provenance, &contents.n_provenance, error);
    free(provenance);
    if (!status)
        *size = smol_writer_plan(&contents, &(struct section_plan){0});
    return status;
}

/* --- against a blob ----------------------------------------------------------------------- */

/* Compares the contents. The writer gets the provenance of the blob, so that every byte has the
 * same place in both. The provenance is compared last, because it differs whenever anything else
 * does. */
static smol_status compare_blob(struct conversion *c, const struct blob *blob, smol_error *error)
{
    struct blob_contents contents = contents_of(c);
    contents.provenance = blob->provenance;
    contents.n_provenance = blob->n_provenance;
    smol_status status = smol_compare_contents(blob, &contents, error);
    if (status)
        return status;
    const struct blob_sink sink = {smol_compare_bytes, (void *)(uintptr_t)blob};
    status = smol_writer_open_sink(&sink, &contents, &c->writer, error);
    if (!status)
        status = write_weights(c, false, error);
    return status ? status : finish_blob(c, error);
}

/* Stores each matrix as in the blob, whoever chose its dtype and levels. */
static smol_status use_mix(struct source *source, const struct blob *blob, smol_error *error)
{
    smol_mix_free(&source->mix);
    return smol_mix_copy(blob, &source->mix, error);
}

/* Sets options->calibration to what the blob was converted with, if it can be told without a file.
 */
static smol_status check_calibration(const struct blob *blob, struct source_options *options,
                                     smol_error *error)
{
    size_t n;
    const char *provenance = blob->provenance;
    bool named = names_stats(options->calibration);
    bool expected = smol_provenance_has_stats(provenance, blob->n_provenance);
    if (expected && !named)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "%s: was converted with calibration statistics: name the same file with "
                         "--calibration",
                         blob->path);
    if (named && !expected)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "--calibration: %s was converted without: leave it out", blob->path);
    if (!expected)
        options->calibration =
            smol_provenance_calibration(provenance, blob->n_provenance, &n) ? NULL : "none";
    return SMOL_OK;
}

/* Checks that the statistics are those that the blob was converted with. */
static smol_status check_same_stats(const struct conversion *c, const struct blob *blob,
                                    smol_error *error)
{
    if (smol_provenance_calibrated_alike(blob->provenance, blob->n_provenance, c->provenance,
                                         c->n_provenance))
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_MISMATCH,
                     "%s: was converted with other calibration statistics than %s: smolconv "
                     "inspect shows their name, size and digest",
                     blob->path, c->source.stats.path);
}

/* Returns whether the blob was made with --reranker: its score is not the checkpoint's own layer.
 * The checkpoint's architecture tells, but a pair within a text is needed for either. */
static bool scores_by_words(const struct blob *blob)
{
    const struct blob_embedder *header = blob->embedder.header;
    return header && header->pair == PAIR_TEXTS;
}

smol_status smol_convert_compare(const char *input, const struct source_options *options,
                                 const struct blob *blob, uint32_t n_threads, bool *same_release,
                                 smol_error *error)
{
    struct conversion conversion = {.output = {.fd = -1}};
    struct source_options like = *options;
    like.context = blob->model->context_length;
    like.reranker = scores_by_words(blob);
    smol_status status = check_calibration(blob, &like, error);
    if (!status)
        status = smol_source_open(input, &like, smol_blob_dtype(blob), &conversion.source, error);
    if (!status)
        status = open_rest(&conversion, &like, n_threads, error);
    if (!status)
        status = run_load_steps(&conversion, error);
    if (!status)
        status = check_same_stats(&conversion, blob, error);
    if (!status)
        status = use_mix(&conversion.source, blob, error);
    if (!status)
        status = compare_blob(&conversion, blob, error);
    if (!status)
        status = smol_compare_provenance(blob, conversion.provenance, conversion.n_provenance,
                                         same_release, error);
    status = smol_source_settle(&conversion.source, status, error);
    status = file_settle(&blob->file, blob->path, status, error);
    close_conversion(&conversion);
    return status;
}
