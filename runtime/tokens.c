/* Text to token ids and back, see smol.h. */
#include <string.h>

#include "common/buffer.h"
#include "common/memory.h"
#include "runtime/model.h"
#include "runtime/tokenizer/stream.h"
#include "runtime/tokenizer/tokenizer.h"

/* --- text to ids -------------------------------------------------------------------------- */

/* Shortens a text's ids (n) to the most that an embedding is made of. The ids after the text stay.
 * Returns the new number. */
static size_t truncate(const smol_model *model, const smol_tokenize_params *params, uint32_t *ids,
                       size_t n)
{
    size_t most = smol_model_get_info(model).max_text;
    size_t n_after = params->whole_text ? model->blob.tokenizer.rules.header.n_after : 0;
    if (n <= most)
        return n;
    n_after = n_after < most ? n_after : most;
    memmove(ids + most - n_after, ids + n - n_after, n_after * sizeof *ids);
    return most;
}

smol_status smol_tokenize(const smol_model *model, const char *text, size_t size,
                          const smol_tokenize_params *params, uint32_t **ids, size_t *n,
                          smol_error *error)
{
    static const smol_tokenize_params defaults = {0};
    struct token_list list = {0};
    const struct blob *blob = &model->blob;
    if (!params)
        params = &defaults;
    error_clear(error);
    *ids = NULL;
    *n = 0;
    smol_status status = CHECK_RESERVED(tokenize_params, params, error);
    if (status)
        return status;
    const struct listener listener = {params->on_progress, params->user};
    const struct encode_params encode = {.flags = (params->parse_special ? ENCODE_SPECIAL : 0U) |
                                                  (params->whole_text ? ENCODE_AROUND : 0U),
                                         .added = &model->added,
                                         .listener = &listener};
    smol_log_ill_formed(model, "a text", text, size);
    status = smol_tokenizer_encode(&blob->tokenizer, text, size, &encode, &list, error);
    status = file_settle(&blob->file, blob->path, status, error);
    if (status) {
        smol_free(list.ids);
        return status;
    }
    *ids = list.ids;
    *n = params->truncate ? truncate(model, params, list.ids, list.n) : list.n;
    return SMOL_OK;
}

/* --- ids to text -------------------------------------------------------------------------- */

smol_status smol_check_ids(const smol_model *model, const uint32_t *ids, size_t n,
                           smol_error *error)
{
    uint32_t vocab_size = model->blob.model->vocab_size;
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= vocab_size)
            return smol_fail(error, SMOL_ERROR_USAGE,
                             "token id %u: the vocabulary has %u tokens, from 0", ids[i],
                             vocab_size);
    return SMOL_OK;
}

static smol_status add_text(struct buffer *text, const struct stream_text *out, smol_error *error)
{
    smol_buffer_add(text, out->text, out->size);
    return text->failed ? smol_fail_memory(error, "the text") : SMOL_OK;
}

/* Decodes ids through a stream, because one character or run of bytes may span several tokens. */
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
    const struct blob *blob = &model->blob;
    error_clear(error);
    *text = NULL;
    *size = 0;
    smol_status status = smol_check_ids(model, ids, n, error);
    if (status)
        return status;
    status = decode(&blob->tokenizer, ids, n, show_special != 0, &buffer, error);
    status = file_settle(&blob->file, blob->path, status, error);
    if (!status && !buffer.text && !(buffer.text = smol_calloc(1, 1)))
        status = smol_fail_memory(error, "the text");
    if (status) {
        smol_free(buffer.text);
        return status;
    }
    *text = buffer.text;
    *size = buffer.size;
    return SMOL_OK;
}

smol_status smol_token_text(const smol_model *model, uint32_t id, const char **text, size_t *size,
                            int *special, smol_error *error)
{
    const struct blob *blob = &model->blob;
    error_clear(error);
    *text = "";
    *size = 0;
    if (special)
        *special = 0;
    smol_status status = smol_check_ids(model, &id, 1, error);
    if (status)
        return status;
    struct token_text token = smol_tokenizer_text(&blob->tokenizer, id);
    status = smol_file_check(&blob->file, blob->path, error);
    if (status)
        return status;
    *text = (const char *)token.bytes;
    *size = token.length;
    if (special)
        *special = token.special;
    return SMOL_OK;
}
