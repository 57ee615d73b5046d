/* Where a blob comes from, see provenance.h. */
#include "convert/provenance.h"

#include <inttypes.h>
#include <string.h>

#include "common/buffer.h"
#include "common/file.h"
#include "common/hash.h"
#include "common/version.h"
#include "format/layout.h"

static const char first_line[] = "converter: smolconv ";

static void describe_file(struct buffer *out, const char *name, uint64_t size, uint64_t digest)
{
    smol_buffer_print(out, "source: ");
    for (const char *c = name; *c; c++) /* a line feed would forge a line */
        smol_buffer_add(out, is_control(*c) ? "?" : c, 1);
    smol_buffer_print(out, ", %" PRIu64 " bytes, xxh3 %016" PRIx64 "\n", size, digest);
}

static void describe_weights(struct buffer *out, const struct shards *shards)
{
    const struct json_mark *index = &shards->index_mark;
    if (index->size > 0)
        describe_file(out, smol_base_name(shards->path), index->size, index->digest);
    for (size_t i = 0; i < shards->n_files; i++) {
        const struct file_view *file = &shards->files[i].file;
        describe_file(out, smol_base_name(shards->paths[i]), file->size,
                      smol_digest(file->data, file->size));
    }
}

static void describe_adapter(struct buffer *out, const struct lora *lora)
{
    const struct file_view *file = &lora->weights.file;
    if (!lora->path)
        return;
    describe_file(out, "adapter_config.json", lora->config_mark.size, lora->config_mark.digest);
    describe_file(out, "adapter_model.safetensors", file->size,
                  smol_digest(file->data, file->size));
    if (lora->factor != 1)
        smol_buffer_print(out, "lora: scale %.17g\n", lora->factor);
}

enum status smol_provenance_make(const struct source *source, char **text, size_t *size,
                                 struct error *error)
{
    const struct config *config = &source->config;
    const struct {
        const char *name;
        const struct json_mark *mark;
    } files[] = {
        {source->config_name, &config->marks[CONFIG_JSON]},
        {"generation_config.json", &config->marks[GENERATION_JSON]},
        {"tokenizer.json", &source->tokenizer_mark},
        {"tokenizer_config.json", &config->marks[TOKENIZER_CONFIG_JSON]},
    };
    struct buffer out = {0};
    smol_buffer_print(&out, "%s%s\ndtype: %s\n", first_line, SMOL_VERSION,
                      smol_dtype_name(config->model.dtype));
    describe_weights(&out, &source->shards);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (files[i].mark->size > 0)
            describe_file(&out, files[i].name, files[i].mark->size, files[i].mark->digest);
    describe_adapter(&out, &source->lora);
    *text = out.text;
    *size = out.size;
    return out.failed ? smol_fail_memory(error, "the provenance") : STATUS_OK;
}

const char *smol_provenance_release(const char *text, size_t size, size_t *length)
{
    size_t start = sizeof first_line - 1;
    if (size <= start || memcmp(text, first_line, start) != 0)
        return NULL;
    const char *end = memchr(text + start, '\n', size - start);
    if (!end || end == text + start)
        return NULL;
    *length = (size_t)(end - text) - start;
    return text + start;
}
