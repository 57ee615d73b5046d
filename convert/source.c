/* Opening a checkpoint, see source.h. The cheap checks come first, so that what is not supported is
 * refused at once. */
#include "convert/source.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/file.h"
#include "convert/checkpoint.h"
#include "convert/tokenizer_rules.h"
#include "format/layout.h"
#include "format/model.h"

static enum status find_input(struct source *source, const char *input, struct error *error)
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
        source->folder = strdup(input);
        source->weights_path = smol_path_join(input, "model.safetensors");
    } else {
        source->folder = base == input ? strdup(".") : strndup(input, (size_t)(base - input));
        source->weights_path = strdup(input);
    }
    return source->folder && source->weights_path ? STATUS_OK
                                                  : smol_fail_memory(error, "a file name");
}

static enum status check_model(struct source *source, enum blob_dtype dtype, struct error *error)
{
    struct error reason;
    source->config.model.dtype = dtype;
    if (smol_model_check(&source->config.model, &reason))
        return smol_fail(error, STATUS_UNSUPPORTED, "%s/config.json: %s", source->folder,
                         reason.message);
    return STATUS_OK;
}

static enum status map_tensors(struct source *source, struct error *error)
{
    struct blob_model *model = &source->config.model;
    source->tensors = calloc(smol_tensor_count(model), sizeof(*source->tensors));
    if (!source->tensors)
        return smol_fail_memory(error, "the tensor list");
    return smol_checkpoint_map(&source->reader, source->config.family, model, source->tensors,
                               error);
}

/* Opens tokenizer.json, if the configuration did not need it, and sees whether it is supported. */
static enum status check_tokenizer(struct source *source, struct error *error)
{
    struct settings *json = &source->tokenizer_json;
    enum status status = STATUS_OK;
    if (!json->object)
        status = smol_settings_open(source->folder, "tokenizer.json", true, json, error);
    source->tokenizer_mark = json->mark;
    if (!status)
        status = smol_tokenizer_check_rules(json->object, json->path, &source->pretokenizer, error);
    return status;
}

enum status smol_source_settle(const struct source *source, enum status status, struct error *error)
{
    return file_settle(&source->reader.file, source->weights_path, status, error);
}

enum status smol_source_open(const char *input, enum blob_dtype dtype, struct source *source,
                             struct error *error)
{
    *source = (struct source){0};
    enum status status = find_input(source, input, error);
    if (!status) /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): close frees the path */
        status = smol_safetensors_open(source->weights_path, &source->reader, error);
    if (!status)
        status = smol_config_open(source->folder, &source->config, &source->tokenizer_json, error);
    if (!status)
        status = check_model(source, dtype, error);
    if (!status)
        status = map_tensors(source, error);
    if (!status)
        status = check_tokenizer(source, error);
    status = smol_source_settle(source, status, error);
    if (status)
        smol_source_close(source);
    return status;
}

enum status smol_source_compile_tokenizer(struct source *source, struct error *error)
{
    struct settings *json = &source->tokenizer_json;
    enum status status =
        smol_tokenizer_compile(json->object, json->path, source->pretokenizer,
                               source->config.model.vocab_size, &source->tokenizer, error);
    smol_settings_close(json); /* it is large */
    return status;
}

void smol_source_close(struct source *source)
{
    smol_safetensors_close(&source->reader);
    smol_settings_close(&source->tokenizer_json);
    smol_tokenizer_section_free(&source->tokenizer);
    free(source->tensors);
    free(source->weights_path);
    free(source->folder);
    *source = (struct source){0};
}
