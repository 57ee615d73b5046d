/* Token ids to text, see smol.h: through a stream, as characters and runs of bytes may be spread
 * over tokens. */

#include "common/buffer.h"
#include "common/memory.h"
#include "runtime/model.h"
#include "runtime/report.h"
#include "runtime/tokenizer/stream.h"

/* Appends what a stream gives out to `text`. */
static smol_status add_text(struct buffer *text, const struct stream_text *out, smol_error *error)
{
    smol_buffer_add(text, out->text, out->size);
    return text->failed ? smol_fail_memory(error, "the text") : SMOL_OK;
}

static smol_status decode(const struct tokenizer_tables *tables, const uint32_t *ids, size_t n,
                          bool show_special, struct buffer *text, smol_error *error)
{
    struct stream *stream;
    struct stream_text out;
    smol_status status = smol_stream_create(NULL, 0, &stream, error);
    for (size_t i = 0; i < n && !status; i++) {
        status = smol_stream_token(stream, tables, ids[i], show_special, &out, error);
        if (!status)
            status = add_text(text, &out, error);
    }
    if (!status)
        status = smol_stream_finish(stream, &out, error);
    if (!status)
        status = add_text(text, &out, error);
    smol_stream_free(stream);
    return status;
}

smol_status smol_detokenize(const smol_model *model, const uint32_t *ids, size_t n,
                            int show_special, char **text, size_t *size, smol_error *error)
{
    struct buffer buffer = {0};
    smol_error detail;
    const struct blob *blob = &model->blob;
    smol_status status = decode(&blob->tokenizer, ids, n, show_special != 0, &buffer, &detail);
    status = file_settle(&blob->file, blob->path, status, &detail);
    if (!status && !buffer.text && !(buffer.text = smol_calloc(1, 1)))
        status = smol_fail_memory(&detail, "the text");
    if (status) {
        smol_free(buffer.text);
        buffer = (struct buffer){0};
    }
    *text = buffer.text;
    *size = buffer.size;
    return report(error, status, &detail);
}
