/* What a checkpoint is, before anybody converts it, see inspect.h. It is opened as for a
 * conversion, so that the answer is the one that a conversion would give; what is known already is
 * shown where that fails because it is not supported. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/checked.h"
#include "common/file.h"
#include "convert/inspect/inspect_parts.h"
#include "convert/inspect/print_text.h"
#include "convert/provenance.h"
#include "format/writer.h"

static void print_line(FILE *out, const char *name, const char *text)
{
    fprintf(out, "%-18s ", name);
    smol_print_text(out, text, strlen(text));
    fprintf(out, "\n");
}

/* --- what is there --------------------------------------------------------------------------- */

/* "272, 269030016 bytes (256.6 MiB): 272 BF16". */
static void print_tensors(const struct safetensors *all, FILE *out)
{
    size_t counts[ST_U64 + 1] = {0};
    uint64_t bytes = 0;
    const char *before = ": ";
    for (size_t i = 0; i < all->n_tensors; i++) {
        counts[all->tensors[i].dtype]++;
        bytes += all->tensors[i].size;
    }
    fprintf(out, "%-18s %zu, ", "tensors", all->n_tensors);
    smol_inspect_bytes(bytes, out);
    for (size_t i = 0; i <= ST_U64; i++) {
        if (counts[i] == 0)
            continue;
        fprintf(out, "%s%zu %s", before, counts[i], smol_safetensors_dtype_name(i));
        before = ", ";
    }
    fprintf(out, "\n");
}

static void print_weights(const struct shards *shards, FILE *out)
{
    print_line(out, "weights", smol_base_name(shards->path));
    if (shards->index_mark.size > 0)
        fprintf(out, "%-18s %zu\n", "shards", shards->n_files);
    print_tensors(&shards->all, out);
}

/* config.json's own words, as far as there are any. */
static enum status print_names(const struct source *source, FILE *out, struct error *error)
{
    struct settings config;
    enum status status =
        smol_settings_open(source->folder, source->config_name, true, &config, error);
    const json_t *list = json_object_get(config.object, "architectures");
    const char *architecture = json_string_value(json_array_get(list, 0));
    const char *type = json_string_value(json_object_get(config.object, "model_type"));
    if (!status && architecture)
        print_line(out, "architecture", architecture);
    if (!status && type)
        print_line(out, "model_type", type);
    smol_settings_close(&config);
    return status;
}

/* --- the template ---------------------------------------------------------------------------- */

/* The key in tokenizer_config.json: a text, or a list of texts with names. */
static void print_template_key(const json_t *value, FILE *out)
{
    if (json_is_string(value))
        fprintf(out, "%-18s in tokenizer_config.json, %zu bytes\n", "template",
                json_string_length(value));
    else if (json_array_size(value) > 0)
        fprintf(out, "%-18s in tokenizer_config.json:", "template");
    else
        fprintf(out, "%-18s none\n", "template");
    for (size_t i = 0; i < json_array_size(value); i++) {
        const char *name = json_string_value(json_object_get(json_array_get(value, i), "name"));
        fprintf(out, " ");
        smol_print_text(out, name ? name : "?", name ? strlen(name) : 1);
    }
    fprintf(out, "%s", json_array_size(value) > 0 ? "\n" : "");
}

/* chat_template.jinja wins over the key in tokenizer_config.json, as for the reference. */
static enum status print_template(const char *folder, const struct settings *config, FILE *out,
                                  struct error *error)
{
    struct stat info;
    char *path = smol_path_join(folder, "chat_template.jinja");
    if (!path)
        return smol_fail_memory(error, "a file name");
    bool found = stat(path, &info) == 0;
    free(path);
    if (found)
        fprintf(out, "%-18s chat_template.jinja, %lld bytes\n", "template",
                (long long)info.st_size);
    else
        print_template_key(json_object_get(config->object, "chat_template"), out);
    return STATUS_OK;
}

/* --- sizes ----------------------------------------------------------------------------------- */

static uint64_t count_parameters(const struct blob_model *model)
{
    uint64_t n = 0;
    struct tensor_key key = {ROLE_EMBED, 0};
    do {
        struct blob_tensor tensor = smol_tensor_layout(model, key);
        if (key.role != ROLE_OUTPUT || !model->tied_embeddings)
            n += tensor.rows * tensor.cols;
    } while (smol_tensor_next(model, &key));
    return n;
}

/* Keys and values of `context` positions; they come in blocks of 64, and values in sixteens, and
 * have 32 bits with an f32 blob, otherwise 16. */
static uint64_t cache_size(const struct blob_model *model, uint64_t context)
{
    enum { POSITIONS = 64, CHANNELS = 16 };
    uint64_t channels = model->head_dim + round_up(model->head_dim, CHANNELS);
    return model->n_layers * (uint64_t)model->n_kv_heads * round_up(context, POSITIONS) * channels *
           (model->dtype == DTYPE_F32 ? 4 : 2);
}

static void print_size(const struct source *source, size_t n_provenance, uint64_t context,
                       FILE *out)
{
    const struct blob_model *model = &source->config.model;
    struct blob_contents contents = smol_source_contents(source);
    contents.n_provenance = n_provenance;
    uint64_t blob = smol_writer_size(&contents), cache = cache_size(model, context);
    fprintf(out, "%-18s %14" PRIu64 " %18" PRIu64 " %14" PRIu64 "  (%.1f MiB)\n",
            smol_dtype_name(model->dtype), blob, cache, blob + cache,
            (double)(blob + cache) / (1 << 20));
}

/* A line for each dtype; the source's own is changed on the way. */
static enum status print_sizes(struct source *source, uint32_t context, FILE *out,
                               struct error *error)
{
    static const enum blob_dtype dtypes[] = {DTYPE_INT8, DTYPE_BF16, DTYPE_F32};
    struct blob_model *model = &source->config.model;
    if (context > model->context_length)
        return smol_fail(error, STATUS_USAGE,
                         "--context %" PRIu32 ": the model has at most %" PRIu32, context,
                         model->context_length);
    if (context == 0)
        context = model->context_length;
    fprintf(out, "\nbytes with a context of %" PRIu32 " tokens\n%-18s %14s %18s %14s\n", context,
            "dtype", "blob", "keys and values", "together");
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        char *provenance = NULL;
        size_t size = 0;
        model->dtype = dtypes[i];
        enum status status = smol_provenance_make(source, false, &provenance, &size, error);
        free(provenance);
        if (status)
            return status;
        print_size(source, size, context, out);
    }
    return STATUS_OK;
}

/* --- the whole ------------------------------------------------------------------------------- */

/* Which of its lists of factors a blob would have. */
static void print_longrope(const struct config *config, FILE *out)
{
    if (config->longrope == LONGROPE_NONE)
        return;
    fprintf(out, "%-18s %s factors, for texts of up to %" PRIu32 " of %" PRIu32 " tokens\n",
            "longrope", config->longrope == LONGROPE_SHORT ? "short" : "long",
            config->model.context_length, config->max_positions);
}

/* A checkpoint as the blob that it would become, as far as smol_inspect_settings looks. */
static enum status show_as_blob(const struct source *source, FILE *out, struct error *error)
{
    const struct config *config = &source->config;
    struct blob blob = {
        .model = &config->model,
        .layers = config->layers,
        .stop = config->stop,
        .n_stop = config->n_stop,
        .generation = &config->generation,
    };
    enum status status = smol_source_open_tokenizer(source, &blob.tokenizer, error);
    blob.n_text = source->tokenizer.text.size;
    blob.n_scanner = source->tokenizer_rules.pretokenizer.scanner.size;
    blob.scanner = blob.tokenizer.scanner;
    blob.template_section = source->template.section.data;
    blob.n_template = source->template.section.size;
    if (!status && blob.template_section)
        status = smol_template_open(blob.template_section, blob.n_template, &blob.template, error);
    if (!status)
        smol_inspect_settings(&blob, out);
    return status;
}

static enum status describe_supported(struct source *source, uint32_t context, FILE *out,
                                      struct error *error)
{
    print_line(out, "supported", "yes");
    print_weights(&source->shards, out);
    enum status status = print_names(source, out, error);
    if (!status)
        status = show_as_blob(source, out, error);
    if (!status)
        print_longrope(&source->config, out);
    if (!status)
        status = print_template(source->folder, &source->tokenizer_config, out, error);
    if (status)
        return status;
    fprintf(out, "%-18s %" PRIu64 "\n", "parameters", count_parameters(&source->config.model));
    return print_sizes(source, context, out, error);
}

/* `reason` says why it is not. */
static enum status describe_unsupported(const char *path, const struct source_options *options,
                                        const struct error *reason, FILE *out, struct error *error)
{
    struct source source;
    fprintf(out, "%-18s no: %s\n", "supported", reason->message);
    enum status status = smol_source_open_weights(path, options, &source, error);
    if (status) /* then that is the reason */
        return status == STATUS_UNSUPPORTED ? STATUS_OK : status;
    print_weights(&source.shards, out);
    status = print_names(&source, out, error);
    if (!status)
        status = smol_settings_open(source.folder, "tokenizer_config.json", false,
                                    &source.tokenizer_config, error);
    if (!status)
        status = print_template(source.folder, &source.tokenizer_config, out, error);
    status = smol_source_settle(&source, status, error);
    smol_source_close(&source);
    return status;
}

enum status smol_inspect_checkpoint(const char *path, const struct source_options *options,
                                    FILE *out, struct error *error)
{
    struct source source;
    struct error reason;
    enum status status = smol_source_open(path, options, DTYPE_INT8, &source, &reason);
    bool is_open = !status;
    if (!status)
        status = smol_source_compile_tokenizer(&source, &reason);
    *error = reason;
    if (!status || status == STATUS_UNSUPPORTED)
        print_line(out, "checkpoint", path);
    if (!status)
        status = describe_supported(&source, options->context, out, error);
    else if (status == STATUS_UNSUPPORTED)
        status = describe_unsupported(path, options, &reason, out, error);
    if (is_open) {
        status = smol_source_settle(&source, status, error);
        smol_source_close(&source);
    }
    return status;
}
