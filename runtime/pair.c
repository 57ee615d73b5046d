/* Pairs of texts that a reranker scores, to token ids, see smol.h. */
#include <string.h>

#include "common/buffer.h"
#include "common/memory.h"
#include "common/utf8.h"
#include "runtime/model.h"
#include "runtime/tokenizer/tokenizer.h"

/* One call. */
struct pair {
    const smol_model *model;
    const char *text[2]; /* (size) */
    size_t size[2];
    size_t most; /* tokens */
};

/* --- texts with a token after each ----------------------------------------------------------- */

/* Shortens the longer text first, then both alike, as the reference's longest_first does: n1 and n2
 * tokens, for which there are `most`. */
static void share_room(size_t *n1, size_t *n2, size_t most)
{
    size_t *less = *n1 > *n2 ? n2 : n1, *more = less == n1 ? n2 : n1;
    if (*less + *more <= most)
        return;
    *more = *less > most || most - *less < *less ? *less : most - *less;
    if (*less + *more > most) {
        *less = most / 2;
        *more = *less + most % 2;
    }
}

static smol_status join(const struct pair *pair, const struct token_list lists[2],
                        struct token_list *out, smol_error *error)
{
    const struct text_tables *rules = &pair->model->blob.tokenizer.rules;
    const struct blob_embedder *header = pair->model->blob.embedder.header;
    size_t n_between = header->pair == PAIR_DOUBLED ? 2 : 1, n_after[2] = {n_between, 1};
    size_t n_before = rules->header.n_before, around = n_before + n_between + 1,
           n[2] = {lists[0].n, lists[1].n};
    share_room(&n[0], &n[1], pair->most > around ? pair->most - around : 0);
    out->ids = smol_calloc(n[0] + n[1] + around, sizeof *out->ids);
    if (!out->ids)
        return smol_fail_memory(error, "token ids");
    for (; out->n < n_before; out->n++)
        out->ids[out->n] = rules->before[out->n];
    for (int i = 0; i < 2; i++) {
        if (n[i] > 0)
            memcpy(out->ids + out->n, lists[i].ids, n[i] * sizeof *out->ids);
        out->n += n[i];
        for (size_t j = 0; j < n_after[i]; j++)
            out->ids[out->n++] = header->separator;
    }
    return SMOL_OK;
}

static smol_status separate(const struct pair *pair, struct token_list *out, smol_error *error)
{
    const struct encode_params params = {.added = &pair->model->added};
    struct token_list lists[2] = {{0}};
    smol_status status = SMOL_OK;
    for (int i = 0; i < 2 && !status; i++)
        status = smol_tokenizer_encode(&pair->model->blob.tokenizer, pair->text[i], pair->size[i],
                                       &params, &lists[i], error);
    if (!status)
        status = join(pair, lists, out, error);
    smol_free(lists[0].ids);
    smol_free(lists[1].ids);
    return status;
}

/* --- texts within a text --------------------------------------------------------------------- */

/* Appends text, with U+FFFD for what is ill-formed. */
static void add_well_formed(struct buffer *out, const char *text, size_t size)
{
    for (size_t i = 0; i < size;) {
        uint32_t code_point;
        uint8_t bytes[UTF8_MAX];
        i += smol_utf8_decode((const uint8_t *)text + i, size - i, &code_point);
        smol_buffer_add(out, (const char *)bytes, smol_utf8_encode(code_point, bytes));
    }
}

/* Makes the text before the last part, and marks which bytes are the caller's. */
static void write_text(const struct pair *pair, struct buffer *text, struct buffer *marks)
{
    for (int i = 0; i < 2; i++) {
        const char *part = embedder_pair_text(&pair->model->blob.embedder, (size_t)i);
        smol_buffer_add(text, part, strlen(part));
        while (marks->size < text->size && !marks->failed && !text->failed)
            smol_buffer_add(marks, "\0", 1);
        add_well_formed(text, pair->text[i], pair->size[i]);
        while (marks->size < text->size && !marks->failed && !text->failed)
            smol_buffer_add(marks, "\1", 1);
    }
}

static smol_status encode_within(const struct pair *pair, const struct buffer *text,
                                 const struct buffer *marks, struct token_list *out,
                                 smol_error *error)
{
    const struct tokenizer_tables *tables = &pair->model->blob.tokenizer;
    const struct embedder *embedder = &pair->model->blob.embedder;
    const char *last = embedder_pair_text(embedder, 2);
    const struct mixed_text mixed = {.text = text->text,
                                     .arguments = (const uint8_t *)marks->text,
                                     .size = text->size,
                                     .literals = (const uint8_t *)embedder->strings,
                                     .n_literals = embedder->header->n_strings};
    const struct encode_params params = {.flags = ENCODE_SPECIAL, .added = &pair->model->added};
    struct token_list end = {0};
    smol_status status = smol_tokenizer_encode(tables, last, strlen(last), &params, &end, error);
    if (!status)
        status = smol_tokenizer_encode_mixed(tables, &mixed, &params, out, error);
    size_t room = pair->most > end.n ? pair->most - end.n : 0;
    if (!status && out->n > room)
        out->n = room;
    if (!status)
        status = smol_tokenizer_encode(tables, last, strlen(last), &params, out, error);
    smol_free(end.ids);
    return status;
}

static smol_status embed_within(const struct pair *pair, struct token_list *out, smol_error *error)
{
    struct buffer text = {0}, marks = {0};
    write_text(pair, &text, &marks);
    smol_status status = text.failed || marks.failed
                             ? smol_fail_memory(error, "a pair of texts")
                             : encode_within(pair, &text, &marks, out, error);
    smol_free(text.text);
    smol_free(marks.text);
    return status;
}

smol_status smol_tokenize_pair(const smol_model *model, const char *query, size_t query_size,
                               const char *text, size_t size, uint32_t **ids, size_t *n,
                               smol_error *error)
{
    const struct blob *blob = &model->blob;
    const struct pair pair = {
        model, {query, text}, {query_size, size}, smol_model_get_info(model).max_text};
    struct token_list list = {0};
    error_clear(error);
    *ids = NULL;
    *n = 0;
    if (!smol_model_get_info(model).is_reranker)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%s: scores no pairs of texts: it is not a reranker", blob->path);
    smol_status status = blob->embedder.header->pair == PAIR_TEXTS
                             ? embed_within(&pair, &list, error)
                             : separate(&pair, &list, error);
    status = file_settle(&blob->file, blob->path, status, error);
    if (status) {
        smol_free(list.ids);
        return status;
    }
    *ids = list.ids;
    *n = list.n;
    return SMOL_OK;
}
