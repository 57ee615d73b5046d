/* The conversion of a checkpoint, see convert.h: read the JSON files, pair the tensors with their
 * roles, then stream them through the tilers into the writer. */
#include "convert/convert.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/checked.h"
#include "common/file.h"
#include "common/hash.h"
#include "common/pool.h"
#include "common/version.h"
#include "convert/checkpoint.h"
#include "convert/config.h"
#include "convert/progress.h"
#include "convert/safetensors.h"
#include "convert/tile.h"
#include "convert/tokenizer.h"
#include "format/layout.h"
#include "format/writer.h"

enum { BATCH_BYTES = 16 << 20 }; /* tiles made between two writes: enough for every thread */

/* Everything that a conversion owns. */
struct conversion {
    const struct convert_options *options;
    char *folder;
    char *weights_path;
    struct config config;
    struct tokenizer_section tokenizer;
    struct safetensors reader;
    const struct safetensors_tensor **sources; /* (n_tensors) */
    float *inv_freq;                           /* (head_dim / 2) */
    char *provenance;
    size_t n_provenance;
    struct pool *pool;
    struct blob_writer *writer;
};

/* --- input -------------------------------------------------------------------------------- */

static enum status find_input(struct conversion *c, const char *input, struct error *error)
{
    struct stat info;
    bool is_folder = stat(input, &info) == 0 && S_ISDIR(info.st_mode);
    const char *base = smol_base_name(input);
    size_t length = strlen(base);
    if (!is_folder && length > 11 && strcmp(base + length - 11, ".index.json") == 0)
        return smol_fail(error, STATUS_UNSUPPORTED,
                         "%s: sharded checkpoints are not supported yet: merge the shards into one "
                         "model.safetensors",
                         input);
    if (is_folder) {
        c->folder = strdup(input);
        c->weights_path = smol_path_join(input, "model.safetensors");
    } else {
        c->folder = base == input ? strdup(".") : strndup(input, (size_t)(base - input));
        c->weights_path = strdup(input);
    }
    return c->folder && c->weights_path ? STATUS_OK : smol_fail_memory(error, "a file name");
}

static enum status import_tokenizer(struct conversion *c, struct error *error)
{
    char *path = smol_path_join(c->folder, "tokenizer.json");
    if (!path)
        return smol_fail_memory(error, "a file name");
    enum status status =
        smol_tokenizer_import(path, c->config.model.vocab_size, &c->tokenizer, error);
    free(path);
    return status;
}

/* inv_freq[i] = 1 / theta^(2i / head_dim), theta included rounded to f32 at each step as the
 * reference does (transformers, modeling_llama.py); the power itself is computed in double and
 * rounded once, so that it does not depend on a vector library. */
static enum status compute_inv_freq(struct conversion *c, struct error *error)
{
    uint32_t head_dim = c->config.model.head_dim;
    c->inv_freq = calloc(head_dim / 2, sizeof(float));
    if (!c->inv_freq)
        return smol_fail_memory(error, "the RoPE table");
    float theta = (float)c->config.model.rope_theta;
    for (uint32_t i = 0; i < head_dim / 2; i++) {
        float exponent = (float)(2 * i) / (float)head_dim;
        c->inv_freq[i] = 1.0f / (float)pow((double)theta, (double)exponent);
    }
    return STATUS_OK;
}

/* --- provenance --------------------------------------------------------------------------- */

static void describe_source(FILE *out, const char *path, const struct file_view *file)
{
    fputs("source: ", out);
    for (const char *c = smol_base_name(path); *c; c++) /* a line feed would forge a line */
        fputc(is_control(*c) ? '?' : *c, out);
    fprintf(out, ", %zu bytes, xxh3 %016" PRIx64 "\n", file->size,
            smol_digest(file->data, file->size));
}

/* A JSON file of the checkpoint; which of them must be there was settled before. */
static enum status describe_json(FILE *out, const char *path, struct error *error)
{
    struct stat info;
    if (stat(path, &info))
        return STATUS_OK;
    struct file_view file;
    enum status status = smol_file_map(path, &file, error);
    if (status)
        return status;
    describe_source(out, path, &file);
    smol_file_close(&file);
    return STATUS_OK;
}

/* Says where the blob comes from, in words that depend on nothing but the input and the
 * release: no folder, time or machine. */
static enum status describe(struct conversion *c, struct error *error)
{
    static const char *const names[] = {"config.json", "generation_config.json", "tokenizer.json",
                                        "tokenizer_config.json"};
    FILE *out = open_memstream(&c->provenance, &c->n_provenance);
    if (!out)
        return smol_fail_memory(error, "the provenance");
    fprintf(out, "converter: smolconv %s\ndtype: %s\n", SMOL_VERSION,
            smol_dtype_name(c->options->dtype));
    describe_source(out, c->weights_path, &c->reader.file);
    enum status status = STATUS_OK;
    for (size_t i = 0; !status && i < sizeof names / sizeof names[0]; i++) {
        char *path = smol_path_join(c->folder, names[i]);
        status = path ? describe_json(out, path, error) : smol_fail_memory(error, "a file name");
        free(path);
    }
    if (fclose(out) && !status)
        status = smol_fail_memory(error, "the provenance");
    return status;
}

/* --- weights ------------------------------------------------------------------------------ */

/* A run of row blocks that the threads make together. */
struct batch {
    const struct safetensors_tensor *source;
    const struct blob_tensor *layout;
    uint64_t first_block;
    uint32_t n_blocks;
    uint64_t block_bytes;
    uint8_t *out;             /* (n_blocks, block_bytes) */
    float *scratch;           /* (n_threads, cols) */
    struct tile_fault *fault; /* (n_threads) */
};

static void tile_batch(void *argument, struct pool_thread *thread)
{
    struct batch *batch = argument;
    float *scratch = batch->scratch + thread->index * batch->layout->cols;
    struct tile_fault *fault = &batch->fault[thread->index];
    struct pool_stage stage = pool_stage(thread, batch->n_blocks);
    while (smol_pool_claim(&stage))
        if (!fault->status)
            *fault = smol_tile_block(batch->source, batch->layout,
                                     (batch->first_block + stage.item) * TILE_ROWS, scratch,
                                     batch->out + stage.item * batch->block_bytes);
}

/* The fault of the lowest index, so that the report does not depend on the threads: blocks are
 * claimed in order, and a thread looks at each of its blocks until one is at fault. */
static struct tile_fault first_fault(const struct batch *batch, unsigned n_threads)
{
    struct tile_fault first = {STATUS_OK, 0, 0, NULL};
    for (unsigned i = 0; i < n_threads; i++)
        if (batch->fault[i].status && (!first.status || batch->fault[i].index < first.index))
            first = batch->fault[i];
    return first;
}

static enum status report_fault(const struct conversion *c, const struct safetensors_tensor *source,
                                const struct tile_fault *fault, struct error *error)
{
    /* a source that cannot be converted is not a failure while running: exit status 4 or 5 */
    enum status status = fault->status == STATUS_NUMERIC ? STATUS_DAMAGED : fault->status;
    return smol_fail(error, status, "%s: tensor %s: element %" PRIu64 " (%g) %s: %s",
                     c->weights_path, source->name, fault->index, (double)fault->value,
                     fault->reason,
                     status == STATUS_DAMAGED ? "the checkpoint is broken" : "use --dtype f32");
}

static enum status write_matrix(struct conversion *c, const struct safetensors_tensor *source,
                                const struct blob_tensor *layout, struct progress *progress,
                                struct error *error)
{
    unsigned n_threads = smol_pool_size(c->pool);
    uint64_t n_blocks = count_blocks(layout->rows);
    uint64_t block_bytes = smol_block_bytes(layout->dtype, layout->cols);
    uint64_t per_batch = BATCH_BYTES / block_bytes;
    if (per_batch > n_blocks)
        per_batch = n_blocks;
    if (per_batch < 1)
        per_batch = 1;
    struct tile_fault faults[POOL_MAX_THREADS] = {{STATUS_OK, 0, 0, NULL}};
    struct batch batch = {
        .source = source,
        .layout = layout,
        .block_bytes = block_bytes,
        .out = malloc(per_batch * block_bytes),
        .scratch = calloc(n_threads, layout->cols * sizeof(float)),
        .fault = faults,
    };
    enum status status = batch.out && batch.scratch ? STATUS_OK : smol_fail_memory(error, "tiles");
    for (uint64_t block = 0; !status && block < n_blocks; block += per_batch) {
        batch.first_block = block;
        batch.n_blocks = (uint32_t)(n_blocks - block < per_batch ? n_blocks - block : per_batch);
        smol_pool_run(c->pool, tile_batch, &batch);
        struct tile_fault fault = first_fault(&batch, n_threads);
        status = fault.status ? report_fault(c, source, &fault, error)
                              : smol_writer_append(c->writer, batch.out,
                                                   batch.n_blocks * block_bytes, error);
        smol_progress_advance(progress, batch.n_blocks * block_bytes);
    }
    free(batch.scratch);
    free(batch.out);
    return status;
}

static enum status write_vector(struct conversion *c, const struct safetensors_tensor *source,
                                const struct blob_tensor *layout, struct progress *progress,
                                struct error *error)
{
    uint8_t *out = malloc(layout->size);
    if (!out)
        return smol_fail_memory(error, "a vector");
    struct tile_fault fault = smol_tile_vector(source, layout, out);
    enum status status = fault.status ? report_fault(c, source, &fault, error)
                                      : smol_writer_append(c->writer, out, layout->size, error);
    smol_progress_advance(progress, layout->size);
    free(out);
    return status;
}

static enum status write_weights(struct conversion *c, struct error *error)
{
    const struct blob_model *model = &c->config.model;
    uint64_t total = 0;
    struct tensor_key key = {ROLE_EMBED, 0};
    do
        total += smol_tensor_layout(model, key).size;
    while (smol_tensor_next(model, &key));

    struct progress progress = smol_progress_start(total, c->options->quiet);
    enum status status = STATUS_OK;
    size_t i = 0;
    key = (struct tensor_key){ROLE_EMBED, 0};
    do {
        struct blob_tensor layout = smol_tensor_layout(model, key);
        const struct safetensors_tensor *source = c->sources[i++];
        if (!source) /* tied: stored already */
            smol_progress_advance(&progress, layout.size);
        else if (layout.layout == LAYOUT_TILES)
            status = write_matrix(c, source, &layout, &progress, error);
        else
            status = write_vector(c, source, &layout, &progress, error);
    } while (!status && smol_tensor_next(model, &key));
    smol_progress_end(&progress);
    return status;
}

/* --- the whole ---------------------------------------------------------------------------- */

/* The output must not be the checkpoint's own file: renaming over it would lose the source. */
static enum status check_output(const struct conversion *c, const char *output, struct error *error)
{
    struct stat source, target;
    if (stat(output, &target) || stat(c->weights_path, &source) || target.st_dev != source.st_dev ||
        target.st_ino != source.st_ino)
        return STATUS_OK;
    return smol_fail(error, STATUS_USAGE, "%s: is the checkpoint itself: name another output",
                     output);
}

static enum status load(struct conversion *c, const char *input, struct error *error)
{
    enum status status = find_input(c, input, error);
    if (!status) /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): release() frees the path */
        status = smol_safetensors_open(c->weights_path, &c->reader, error);
    if (!status)
        status = smol_config_load(c->folder, &c->config, error);
    if (status)
        return status;
    struct blob_model *model = &c->config.model;
    model->dtype = c->options->dtype;
    struct error reason;
    if (smol_model_check(model, &reason))
        return smol_fail(error, STATUS_UNSUPPORTED, "%s/config.json: %s", c->folder,
                         reason.message);
    c->sources = calloc(smol_tensor_count(model), sizeof(*c->sources));
    if (!c->sources)
        return smol_fail_memory(error, "the tensor list");
    status = smol_checkpoint_map(&c->reader, model, c->sources, error);
    if (!status)
        status = import_tokenizer(c, error);
    if (!status)
        status = compute_inv_freq(c, error);
    if (!status)
        status = describe(c, error);
    return status;
}

static enum status write(struct conversion *c, const char *output, struct error *error)
{
    const struct blob_contents contents = {
        .model = &c->config.model,
        .inv_freq = c->inv_freq,
        .stop = c->config.stop,
        .n_stop = c->config.n_stop,
        .generation = &c->config.generation,
        .provenance = c->provenance,
        .n_provenance = c->n_provenance,
        .tokenizer = c->tokenizer.data,
        .n_tokenizer = c->tokenizer.size,
    };
    enum status status = smol_writer_open(output, c->options->force, &contents, &c->writer, error);
    if (!status)
        status = smol_pool_create(c->options->n_threads, &c->pool, error);
    if (!status)
        status = write_weights(c, error);
    if (!status) {
        status = smol_writer_finish(c->writer, error);
        c->writer = NULL;
    }
    return status;
}

static void release(struct conversion *c)
{
    smol_writer_abort(c->writer);
    smol_pool_destroy(c->pool);
    smol_safetensors_close(&c->reader);
    smol_tokenizer_section_free(&c->tokenizer);
    free(c->sources);
    free(c->inv_freq);
    free(c->provenance);
    free(c->weights_path);
    free(c->folder);
}

enum status smol_convert(const char *input, const char *output,
                         const struct convert_options *options, struct error *error)
{
    struct conversion conversion = {.options = options};
    enum status status = load(&conversion, input, error);
    if (!status)
        status = check_output(&conversion, output, error);
    if (!status)
        status = write(&conversion, output, error);
    release(&conversion);
    return status;
}
