/* The conversion of a checkpoint, see convert.h: read the JSON files, pair the tensors with their
 * roles, hand everything to the writer. */
#include "convert/convert.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/checked.h"
#include "common/file.h"
#include "common/hash.h"
#include "common/pool.h"
#include "common/version.h"
#include "convert/checkpoint.h"
#include "convert/config.h"
#include "convert/progress.h"
#include "convert/safetensors.h"
#include "convert/tokenizer.h"
#include "convert/tokenizer_rules.h"
#include "convert/weights.h"
#include "format/layout.h"
#include "format/writer.h"

/* Everything that a conversion owns. */
struct conversion {
    const struct convert_options *options;
    char *folder;
    char *weights_path;
    struct config config;
    struct settings tokenizer_json; /* open until it is compiled */
    uint32_t pretokenizer;
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

/* Opens tokenizer.json, if the configuration did not need it, and sees whether it is supported. */
static enum status check_tokenizer(struct conversion *c, struct error *error)
{
    struct settings *json = &c->tokenizer_json;
    enum status status = STATUS_OK;
    if (!json->object)
        status = smol_settings_open(c->folder, "tokenizer.json", true, json, error);
    if (!status)
        status = smol_tokenizer_check_rules(json->object, json->path, &c->pretokenizer, error);
    return status;
}

static enum status compile_tokenizer(struct conversion *c, struct error *error)
{
    struct settings *json = &c->tokenizer_json;
    enum status status = smol_tokenizer_compile(json->object, json->path, c->pretokenizer,
                                                c->config.model.vocab_size, &c->tokenizer, error);
    smol_settings_close(json); /* it is large */
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

/* --- what takes long ---------------------------------------------------------------------- */

/* Parts of the reading that do not need each other: describing means a digest of the weights. They
 * come behind the cheap checks, so that what is not supported is refused at once. */
typedef enum status part(struct conversion *c, struct error *error);
static part *const parts[] = {compile_tokenizer, describe};
enum { N_PARTS = sizeof parts / sizeof parts[0] };

struct reading {
    struct conversion *conversion;
    enum status status[N_PARTS];
    struct error errors[N_PARTS];
};

static void read_part(void *argument, struct pool_thread *thread)
{
    struct reading *reading = argument;
    struct pool_stage stage = pool_stage(thread, N_PARTS);
    while (smol_pool_claim(&stage))
        reading->status[stage.item] =
            parts[stage.item](reading->conversion, &reading->errors[stage.item]);
}

static enum status read_parts(struct conversion *c, struct error *error)
{
    struct reading reading = {.conversion = c};
    smol_pool_run(c->pool, read_part, &reading);
    for (int i = 0; i < N_PARTS; i++) {
        if (reading.status[i]) {
            *error = reading.errors[i];
            return reading.status[i];
        }
    }
    return STATUS_OK;
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
        status = smol_config_open(c->folder, &c->config, &c->tokenizer_json, error);
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
        status = check_tokenizer(c, error);
    if (!status)
        status = compute_inv_freq(c, error);
    if (!status)
        status = smol_pool_create(c->options->n_threads, &c->pool, error);
    if (!status)
        status = read_parts(c, error);
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
    const struct weights weights = {c->weights_path, &c->config.model, c->sources};
    enum status status = smol_writer_open(output, c->options->force, &contents, &c->writer, error);
    if (!status)
        status = smol_weights_write(&weights, c->pool, c->writer, c->options->quiet, error);
    return status;
}

/* Until here the blob is a temporary in the page cache; this takes as long as the disk does. */
static enum status sync_output(struct conversion *c, struct error *error)
{
    struct blob_writer *writer = c->writer;
    c->writer = NULL;
    return smol_writer_finish(writer, error);
}

static void release(struct conversion *c)
{
    smol_writer_abort(c->writer);
    smol_pool_destroy(c->pool);
    smol_safetensors_close(&c->reader);
    smol_settings_close(&c->tokenizer_json);
    smol_tokenizer_section_free(&c->tokenizer);
    free(c->sources);
    free(c->inv_freq);
    free(c->provenance);
    free(c->weights_path);
    free(c->folder);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

enum status smol_convert(const char *input, const char *output,
                         const struct convert_options *options, struct error *error)
{
    struct conversion conversion = {.options = options};
    double start = now();
    enum status status = load(&conversion, input, error);
    if (!status)
        status = check_output(&conversion, output, error);
    if (!status)
        status = write(&conversion, output, error);
    double written = now();
    if (!status)
        status = sync_output(&conversion, error);
    double synced = now();
    uint64_t size = conversion.reader.file.size;
    release(&conversion);
    if (!status && !options->quiet)
        smol_progress_summary(size, now() - start - (synced - written), synced - written);
    return status;
}
