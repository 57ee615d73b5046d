/* The files of a source, see source.h: finds the weights and settings that an input names, and
 * protects them from being replaced by the output. */
#include "convert/source.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/file.h"
#include "convert/base/foreign.h"
#include "convert/checkpoint/hub.h"

/* Returns whether the file `path` begins as a GGUF file does. */
static bool is_gguf(const char *path)
{
    uint8_t data[4];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe does not block */
    if (fd < 0)
        return false;
    ssize_t n = pread(fd, data, sizeof data, 0);
    close(fd);
    return n == sizeof data && smol_gguf_is(data, sizeof data);
}

bool smol_source_is_checkpoint(const char *path)
{
    return smol_is_folder(path) || smol_shards_is_index(path) || is_gguf(path);
}

/* Finds the weights in a folder: the first existing file, in the order of transformers
 * (modeling_utils.py). *path is NULL if there is none. */
static smol_status find_weights(const char *folder, char **path, smol_error *error)
{
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        *path = smol_path_join(folder, names[i]);
        if (!*path)
            return smol_fail_memory(error, "a file name");
        if (!smol_is_missing(*path))
            return SMOL_OK;
        free(*path);
        *path = NULL;
    }
    return SMOL_OK;
}

static smol_status fail_no_weights(const char *folder, smol_error *error)
{
    char name[FOREIGN_NAME];
    const char *kind = smol_foreign_in_folder(folder, name);
    if (kind)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%s: no model.safetensors or model.safetensors.index.json, only %s, %s",
                         folder, name, kind);
    return smol_fail(error, SMOL_ERROR_FILE,
                     "%s: no model.safetensors or model.safetensors.index.json in it: name the "
                     "folder of a checkpoint",
                     folder);
}

/* Returns whether `text` has the form OWNER/NAME of a model on the Hub. */
static bool is_hub_name(const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t owner = strspn(text, plain);
    const char *name = text + owner + 1;
    return owner > 0 && text[owner] == '/' && text[0] != '.' && name[0] && name[0] != '.' &&
           name[strspn(name, plain)] == '\0';
}

static smol_status check_exists(const char *input, smol_error *error)
{
    if (!is_hub_name(input) || !smol_is_missing(input))
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_FILE,
                     "%s: no such file or folder: to download this model from the Hugging Face "
                     "Hub, run smol-fetch %s",
                     input, input);
}

static smol_status open_weights(struct source *source, const char *input, bool whole,
                                smol_error *error)
{
    char *path = NULL;
    if (whole)
        return smol_shards_open_gguf(input, &source->shards, error);
    if (!smol_is_folder(input))
        return smol_shards_open(input, &source->shards, error);
    smol_status status = find_weights(input, &path, error);
    if (!status && !path)
        status = fail_no_weights(input, error);
    if (!status)
        status = smol_shards_open(path, &source->shards, error);
    free(path);
    return status;
}

/* Finds the folder of a checkpoint in the cache of the Hub. *snapshot is NULL if `input` is not a
 * folder of the cache. */
static smol_status find_snapshot(const char *input, char **snapshot, smol_error *error)
{
    char *path = NULL;
    *snapshot = NULL;
    if (!smol_is_folder(input))
        return SMOL_OK;
    smol_status status = find_weights(input, &path, error);
    if (!status && !path)
        status = smol_hub_snapshot(input, snapshot, error);
    free(path);
    return status;
}

/* Finds the folder of all files except the weights, which is that of config.json. `whole`: the
 * input is a GGUF file, which has the settings itself. */
static smol_status find_settings(struct source *source, const char *input, bool whole,
                                 const char *config, smol_error *error)
{
    bool beside = !config && smol_is_folder(input);
    if (whole && config)
        return smol_fail(
            error, SMOL_ERROR_USAGE,
            "--config: cannot be combined with a GGUF file, which has its own settings");
    source->folder = beside ? strdup(input) : smol_path_folder(config ? config : input);
    source->config_name = strdup(config  ? smol_base_name(config)
                                 : whole ? smol_base_name(input)
                                         : "config.json");
    return source->folder && source->config_name ? SMOL_OK : smol_fail_memory(error, "a file name");
}

smol_status smol_source_open_weights(const char *input, const struct source_options *options,
                                     struct source *source, smol_error *error)
{
    char *snapshot;
    *source = (struct source){0};
    smol_status status = check_exists(input, error);
    if (status)
        return status;
    status = find_snapshot(input, &snapshot, error);
    if (snapshot)
        input = snapshot;
    bool whole = !status && is_gguf(input);
    if (!status)
        status = find_settings(source, input, whole, options->config, error);
    if (!status) /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): close frees what it finds */
        status = open_weights(source, input, whole, error);
    free(snapshot);
    if (status)
        smol_source_close(source);
    else
        smol_scales_describe(&source->shards.all, source->quantized);
    return status;
}

static bool is_file_in(const char *folder, const char *name, const char *path, bool *no_memory)
{
    char *file = smol_path_join(folder, name);
    bool same = file && smol_same_file(file, path);
    *no_memory = *no_memory || !file;
    free(file);
    return same;
}

/* Returns whether `path` is one of the JSON files of the folder and its modules. */
static bool is_setting(const struct source *source, const char *path, bool *no_memory)
{
    const char *const names[] = {source->config_name, "generation_config.json", "tokenizer.json",
                                 "tokenizer_config.json", "special_tokens_map.json"};
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !found; i++)
        found = is_file_in(source->folder, names[i], path, no_memory);
    for (size_t i = 0; i < N_ENCODER_FILES && !found; i++)
        found = source->encoder.files[i].name[0] &&
                is_file_in(source->folder, source->encoder.files[i].name, path, no_memory);
    return found;
}

/* Returns whether `path` is one of the two files of the adapter. */
static bool is_adapter(const struct lora *lora, const char *path, bool *no_memory)
{
    if (!lora->path)
        return false;
    char *folder = smol_path_folder(lora->path);
    bool found = smol_same_file(lora->path, path) ||
                 (folder && is_file_in(folder, "adapter_config.json", path, no_memory));
    *no_memory = *no_memory || !folder;
    free(folder);
    return found;
}

smol_status smol_source_check_output(const struct source *source,
                                     const struct source_options *options, const char *output,
                                     smol_error *error)
{
    bool no_memory = false, found = source->shards.path && smol_shards_has(&source->shards, output);
    if (!found && source->folder && !source_is_gguf(source))
        found = is_setting(source, output, &no_memory);
    found = found || is_adapter(&source->lora, output, &no_memory);
    for (size_t i = 0; i < N_CHAT_TEMPLATES && !found; i++)
        found = source->template.files[i].path &&
                smol_same_file(source->template.files[i].path, output);
    found = found || (options->template_file && smol_same_file(options->template_file, output)) ||
            (names_stats(options->calibration) && smol_same_file(options->calibration, output));
    if (found)
        return smol_fail(error, SMOL_ERROR_USAGE, "%s: is a file of the input: name another output",
                         output);
    return no_memory ? smol_fail_memory(error, "a file name") : SMOL_OK;
}
