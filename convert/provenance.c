/* Describes the origin of a blob, see provenance.h. */
#include "convert/provenance.h"

#include <inttypes.h>
#include <string.h>

#include "common/buffer.h"
#include "common/file.h"
#include "common/hash.h"
#include "format/layout.h"
#include "smol.h"

static const char first_line[] = "converter: smolconv ";
static const char calibration[] = "calibration: ";
static const char estimate[] = "calibration: estimated from the weights";

static void describe_file(struct buffer *out, const char *name, uint64_t size, uint64_t digest)
{
    smol_buffer_print(out, "source: ");
    for (const char *c = name; *c; c++) /* a line feed would forge a line */
        smol_buffer_add(out, is_control(*c) ? "?" : c, 1);
    smol_buffer_print(out, ", %" PRIu64 " bytes, xxh3 %016" PRIx64 "\n", size, digest);
}

/* Describes a file of weights. Its digest is optional, because such files are large. */
static void describe_view(struct buffer *out, const char *name, const struct file_view *file,
                          bool digests)
{
    describe_file(out, name, file->size, digests ? smol_digest(file->data, file->size) : 0);
}

static void describe_weights(struct buffer *out, const struct source *source, bool digests)
{
    const struct shards *shards = &source->shards;
    const struct json_mark *index = &shards->index_mark;
    if (index->size > 0)
        describe_file(out, smol_base_name(shards->path), index->size, index->digest);
    for (size_t i = 0; i < shards->n_files; i++)
        describe_view(out, smol_base_name(shards->paths[i]), &shards->files[i].file, digests);
    if (source->quantized[0])
        smol_buffer_print(out, "already quantized: %s\n", source->quantized);
}

static void describe_adapter(struct buffer *out, const struct lora *lora, bool digests)
{
    if (!lora->path)
        return;
    describe_file(out, "adapter_config.json", lora->config_mark.size, lora->config_mark.digest);
    describe_view(out, smol_base_name(lora->path), &lora->weights.file, digests);
    if (lora->factor != 1)
        smol_buffer_print(out, "lora: scale %.17g\n", lora->factor);
}

static void describe_stats(struct buffer *out, const struct source *source, bool digests)
{
    const struct stats_file *stats = &source->stats;
    if (source_estimates(source))
        smol_buffer_print(out, "%s\n", estimate);
    if (source_estimates(source) || !stats->path)
        return;
    smol_buffer_print(out, "%s%s, %" PRIu64 " tokens, text xxh3 %016" PRIx64 "\n", calibration,
                      stats->header.kind == STATS_GRAM ? "Gram matrices" : "diagonals",
                      stats->header.n_tokens, stats->header.text_digest);
    describe_view(out, smol_base_name(stats->path), &stats->file, digests);
}

smol_status smol_provenance_make(const struct source *source, bool digests, char **text,
                                 size_t *size, smol_error *error)
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
        {"special_tokens_map.json", &source->template.tokens_mark},
    };
    struct buffer out = {0};
    smol_buffer_print(&out, "%s%s\ndtype: %s\n", first_line, SMOL_VERSION,
                      smol_dtype_name(source->dtype));
    describe_weights(&out, source, digests);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (files[i].mark->size > 0)
            describe_file(&out, files[i].name, files[i].mark->size, files[i].mark->digest);
    for (size_t i = 0; i < N_ENCODER_FILES; i++) {
        const struct json_mark *mark = &source->encoder.files[i].mark;
        if (mark->size > 0)
            describe_file(&out, source->encoder.files[i].name, mark->size, mark->digest);
    }
    describe_adapter(&out, &source->lora, digests);
    describe_stats(&out, source, digests);
    for (size_t i = 0; i < N_CHAT_TEMPLATES; i++) {
        const struct chat_template_file *file = &source->template.files[i];
        if (file->mark.size > 0)
            describe_file(&out, smol_base_name(file->path), file->mark.size, file->mark.digest);
    }
    *text = out.text;
    *size = out.size;
    return out.failed ? smol_fail_memory(error, "the provenance") : SMOL_OK;
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

static bool is_estimate(const char *line, size_t size)
{
    return size >= sizeof estimate - 1 && memcmp(line, estimate, sizeof estimate - 1) == 0;
}

const char *smol_provenance_calibration(const char *text, size_t size, size_t *length)
{
    const char *line;
    size_t n;
    while ((line = smol_provenance_line(&text, &size, &n))) {
        if (n < sizeof calibration - 1 || memcmp(line, calibration, sizeof calibration - 1) != 0)
            continue;
        if (!is_estimate(line, n))
            smol_provenance_line(&text, &size, &n); /* the file */
        *length = (size_t)(text - line);
        return line;
    }
    return NULL;
}

bool smol_provenance_has_stats(const char *text, size_t size)
{
    size_t n;
    const char *line = smol_provenance_calibration(text, size, &n);
    return line && !is_estimate(line, n);
}

bool smol_provenance_calibrated_alike(const char *a, size_t a_size, const char *b, size_t b_size)
{
    size_t n = 0, m = 0;
    const char *of_a = smol_provenance_calibration(a, a_size, &n);
    const char *of_b = smol_provenance_calibration(b, b_size, &m);
    return !of_a || !of_b ? of_a == of_b : n == m && memcmp(of_a, of_b, n) == 0;
}

const char *smol_provenance_line(const char **text, size_t *size, size_t *length)
{
    const char *line = *text, *feed = *size ? memchr(line, '\n', *size) : NULL;
    if (*size == 0)
        return NULL;
    *length = feed ? (size_t)(feed - line) : *size;
    size_t taken = feed ? *length + 1 : *length;
    *text += taken;
    *size -= taken;
    return line;
}

struct quantization smol_provenance_quantization(const char *text, size_t size)
{
    const size_t start = sizeof calibration - 1;
    size_t length;
    if (!smol_provenance_release(text, size, &length))
        return (struct quantization){"unknown", NULL, 0};
    const char *rest = smol_provenance_calibration(text, size, &size);
    const char *line = rest ? smol_provenance_line(&rest, &size, &length) : NULL;
    if (!line || length == start)
        return (struct quantization){"plain", NULL, 0};
    return (struct quantization){"calibrated", line + start, length - start};
}
