/* Where a blob comes from, see provenance.h. */
#include "convert/provenance.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/buffer.h"
#include "common/file.h"
#include "common/hash.h"
#include "common/version.h"
#include "format/layout.h"

static const char first_line[] = "converter: smolconv ";

static void describe_file(struct buffer *out, const char *path, const struct file_view *file)
{
    smol_buffer_print(out, "source: ");
    for (const char *c = smol_base_name(path); *c; c++) /* a line feed would forge a line */
        smol_buffer_add(out, is_control(*c) ? "?" : c, 1);
    smol_buffer_print(out, ", %zu bytes, xxh3 %016" PRIx64 "\n", file->size,
                      smol_digest(file->data, file->size));
}

/* A JSON file of the checkpoint; which of them must be there was settled before. */
static enum status describe_json(struct buffer *out, const char *path, struct error *error)
{
    struct stat info;
    if (stat(path, &info) && errno == ENOENT)
        return STATUS_OK;
    struct file_view file;
    enum status status = smol_file_map(path, &file, error);
    if (status)
        return status;
    describe_file(out, path, &file);
    status = smol_file_check(&file, path, error);
    smol_file_close(&file);
    return status;
}

enum status smol_provenance_make(const struct source *source, char **text, size_t *size,
                                 struct error *error)
{
    static const char *const names[] = {"config.json", "generation_config.json", "tokenizer.json",
                                        "tokenizer_config.json"};
    struct buffer out = {0};
    smol_buffer_print(&out, "%s%s\ndtype: %s\n", first_line, SMOL_VERSION,
                      smol_dtype_name(source->config.model.dtype));
    describe_file(&out, source->weights_path, &source->reader.file);
    enum status status = STATUS_OK;
    for (size_t i = 0; !status && i < sizeof names / sizeof names[0]; i++) {
        char *path = smol_path_join(source->folder, names[i]);
        status = path ? describe_json(&out, path, error) : smol_fail_memory(error, "a file name");
        free(path);
    }
    *text = out.text;
    *size = out.size;
    if (out.failed && !status)
        status = smol_fail_memory(error, "the provenance");
    return status;
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
