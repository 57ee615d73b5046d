/* The tokens of a tokenizer.json, see tokenizer_vocabulary.h. */
#include "convert/tokenizer_vocabulary.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"
#include "convert/byte_level.h"

/* A string of the file; it lives as long as the JSON does. */
struct string {
    const char *data; /* NULL: none */
    size_t size;
};

/* An added token, as far as it matters here. */
struct addition {
    struct string content;
    uint32_t id;
    bool normalized, special;
};

struct reading {
    const char *path;
    const json_t *vocab; /* the model's: token -> id */
    uint32_t vocab_size;
    struct string *by_id; /* (vocab_size) the token of each id, as it is written in the file */
    uint32_t n_ids;       /* the highest id that has a token, plus one */
    struct addition *additions;
    size_t n_additions;
    struct error *error;
};

/* --- reading -------------------------------------------------------------------------------- */

static enum status give_id(struct reading *r, struct string token, json_int_t id)
{
    if (id < 0 || id >= r->vocab_size)
        return smol_fail(r->error, STATUS_DAMAGED,
                         "%s: id %" JSON_INTEGER_FORMAT " of token %.80s is outside the model's "
                         "vocabulary (%" PRIu32 " rows): use the tokenizer that came with it",
                         r->path, id, token.data, r->vocab_size);
    if (r->by_id[id].data)
        return smol_fail(r->error, STATUS_DAMAGED,
                         "%s: tokens %.80s and %.80s have the same id (%" JSON_INTEGER_FORMAT
                         "): download it again",
                         r->path, r->by_id[id].data, token.data, id);
    r->by_id[id] = token;
    if (id >= r->n_ids)
        r->n_ids = (uint32_t)id + 1;
    return STATUS_OK;
}

static enum status read_vocab(struct reading *r)
{
    if (!json_is_object(r->vocab))
        return smol_fail(r->error, STATUS_DAMAGED,
                         "%s: has no vocabulary (model.vocab): download it again", r->path);
    json_t *vocab = (json_t *)(uintptr_t)r->vocab; /* iterators are declared without const */
    for (void *i = json_object_iter(vocab); i; i = json_object_iter_next(vocab, i)) {
        struct string token = {json_object_iter_key(i), json_object_iter_key_len(i)};
        const json_t *id = json_object_iter_value(i);
        if (!json_is_integer(id))
            return smol_fail(r->error, STATUS_DAMAGED,
                             "%s: token %.80s has no integer as its id: download it again", r->path,
                             token.data);
        enum status status = give_id(r, token, json_integer_value(id));
        if (status)
            return status;
    }
    return STATUS_OK;
}

/* Reads the flag `key` of the added token `entry`. */
static enum status read_flag(struct reading *r, const json_t *entry, const char *key, bool *flag)
{
    const json_t *value = json_object_get(entry, key);
    *flag = json_is_true(value);
    if (json_is_boolean(value))
        return STATUS_OK;
    return smol_fail(r->error, STATUS_DAMAGED,
                     "%s: added token %.80s lacks its flag %s: download it again", r->path,
                     json_string_value(json_object_get(entry, "content")), key);
}

static enum status read_flags(struct reading *r, const json_t *entry, struct addition *addition)
{
    static const char *const unsupported[] = {"single_word", "lstrip", "rstrip"};
    for (size_t i = 0; i < sizeof unsupported / sizeof unsupported[0]; i++) {
        bool flag;
        enum status status = read_flag(r, entry, unsupported[i], &flag);
        if (status)
            return status;
        if (flag)
            return smol_fail(r->error, STATUS_UNSUPPORTED,
                             "%s: %s of an added token is not supported (%.80s): use another model",
                             r->path, unsupported[i], addition->content.data);
    }
    enum status status = read_flag(r, entry, "normalized", &addition->normalized);
    return status ? status : read_flag(r, entry, "special", &addition->special);
}

static enum status read_content(struct reading *r, const json_t *entry, struct addition *addition)
{
    const json_t *content = json_object_get(entry, "content");
    addition->content = (struct string){json_string_value(content), json_string_length(content)};
    if (addition->content.size == 0)
        return smol_fail(r->error, STATUS_DAMAGED,
                         "%s: an added token has no text (content): download it again", r->path);
    if (addition->content.size > ADDED_TOKEN_MAX)
        return smol_fail(r->error, STATUS_UNSUPPORTED,
                         "%s: added token %.80s... is too long (%zu bytes, at most %d): use "
                         "another model",
                         r->path, addition->content.data, addition->content.size, ADDED_TOKEN_MAX);
    return STATUS_OK;
}

/* The reference does not take an added token's id from the file: it has the id of its text in the
 * vocabulary, or else the next one, counting from the size of the vocabulary. Where the two differ
 * one of them is wrong. */
static enum status check_addition_id(struct reading *r, const json_t *entry, json_int_t *next_id,
                                     struct addition *addition)
{
    const json_t *known =
        json_object_getn(r->vocab, addition->content.data, addition->content.size);
    json_int_t expected = known ? json_integer_value(known) : (*next_id)++;
    const json_t *id = json_object_get(entry, "id");
    if (!json_is_integer(id) || json_integer_value(id) != expected)
        return smol_fail(r->error, STATUS_DAMAGED,
                         "%s: added token %.80s does not say the id it gets (%" JSON_INTEGER_FORMAT
                         "): download it again",
                         r->path, addition->content.data, expected);
    if (!known) {
        enum status status = give_id(r, addition->content, expected);
        if (status)
            return status;
    }
    addition->id = (uint32_t)expected; /* known ids have been checked with the vocabulary */
    return STATUS_OK;
}

static enum status read_addition(struct reading *r, const json_t *entry, json_int_t *next_id,
                                 json_t *seen)
{
    struct addition *addition = &r->additions[r->n_additions];
    enum status status;
    if ((status = read_content(r, entry, addition)) || (status = read_flags(r, entry, addition)))
        return status;
    const struct string *content = &addition->content;
    if (json_object_getn(seen, content->data, content->size))
        return smol_fail(r->error, STATUS_DAMAGED,
                         "%s: added token %.80s is listed twice: download it again", r->path,
                         content->data);
    if (json_object_setn_new(seen, content->data, content->size, json_true()))
        return smol_fail_memory(r->error, "added tokens");
    if ((status = check_addition_id(r, entry, next_id, addition)))
        return status;
    r->n_additions++;
    return STATUS_OK;
}

static enum status read_additions(struct reading *r, const json_t *root)
{
    const json_t *list = json_object_get(root, "added_tokens");
    if (list && !json_is_array(list))
        return smol_fail(r->error, STATUS_DAMAGED,
                         "%s: added_tokens is not a list: download it again", r->path);
    json_t *seen = json_object();
    r->additions = calloc(json_array_size(list) + 1, sizeof *r->additions);
    enum status status = STATUS_OK;
    if (!seen || !r->additions)
        status = smol_fail_memory(r->error, "added tokens");
    json_int_t next_id = (json_int_t)json_object_size(r->vocab);
    for (size_t i = 0; !status && i < json_array_size(list); i++)
        status = read_addition(r, json_array_get(list, i), &next_id, seen);
    json_decref(seen);
    return status;
}

/* --- the tables ----------------------------------------------------------------------------- */

/* Writes the bytes that a token decodes to, at most its size, and returns how many. The reference
 * does the same token by token: one character outside the byte-level alphabet, and all of the
 * token stands for itself. */
static size_t decode(struct string token, uint8_t *out)
{
    const uint8_t *text = (const uint8_t *)token.data;
    size_t n = 0;
    for (size_t i = 0; i < token.size;) {
        uint32_t character;
        i += smol_utf8_decode(text + i, token.size - i, &character);
        int byte = byte_level_byte(character);
        if (byte < 0) {
            memcpy(out, text, token.size);
            return token.size;
        }
        out[n++] = (uint8_t)byte;
    }
    return n;
}

static enum status fill_spans(struct reading *r, struct vocabulary *v)
{
    for (uint32_t id = 0; id < r->n_ids; id++) {
        struct string token = r->by_id[id];
        if (!token.data) {
            v->spans[id].flags = TOKEN_UNUSED;
            continue;
        }
        size_t length = decode(token, v->text + v->n_text_bytes);
        if (length > UINT16_MAX)
            return smol_fail(r->error, STATUS_UNSUPPORTED,
                             "%s: token %.80s... is too long (%zu bytes, at most %d): use another "
                             "model",
                             r->path, token.data, length, UINT16_MAX);
        v->spans[id] = (struct token_span){v->n_text_bytes, (uint16_t)length, 0};
        v->n_text_bytes += (uint32_t)length;
    }
    return STATUS_OK;
}

/* The order of the table of added tokens. */
static int compare_additions(const void *left, const void *right)
{
    const struct addition *a = left, *b = right;
    if (a->normalized != b->normalized)
        return a->normalized - b->normalized;
    size_t common = a->content.size < b->content.size ? a->content.size : b->content.size;
    int order = memcmp(a->content.data, b->content.data, common);
    return order ? order
                 : (a->content.size > b->content.size) - (a->content.size < b->content.size);
}

static void fill_added(struct reading *r, struct vocabulary *v)
{
    if (r->n_additions > 0) /* qsort takes no NULL */
        qsort(r->additions, r->n_additions, sizeof *r->additions, compare_additions);
    v->n_added = (uint32_t)r->n_additions;
    for (uint32_t i = 0; i < v->n_added; i++) {
        const struct addition *addition = &r->additions[i];
        uint32_t length = (uint32_t)addition->content.size;
        memcpy(v->text + v->n_text_bytes, addition->content.data, length);
        v->added[i] = (struct added_token){addition->id, v->n_text_bytes, length,
                                           addition->normalized ? ADDED_NORMALIZED : 0};
        v->n_text_bytes += length;
        if (addition->special)
            v->spans[addition->id].flags |= TOKEN_SPECIAL;
    }
}

/* Bytes become tokens through the model's vocabulary alone: added tokens are no part of it. */
static void fill_byte_tokens(const struct reading *r, struct vocabulary *v)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        uint8_t name[UTF8_MAX];
        size_t size = smol_utf8_encode(byte_level_character((uint8_t)byte), name);
        const json_t *id = json_object_getn(r->vocab, (const char *)name, size);
        v->byte_tokens[byte] = id ? (uint32_t)json_integer_value(id) : NO_TOKEN;
    }
}

/* Room for the text of every token, and once more for that of the added ones. */
static size_t text_bound(const struct reading *r)
{
    size_t bound = 1;
    for (uint32_t id = 0; id < r->n_ids; id++)
        bound += r->by_id[id].size;
    for (size_t i = 0; i < r->n_additions; i++)
        bound += r->additions[i].content.size;
    return bound;
}

static enum status fill(struct reading *r, struct vocabulary *v)
{
    size_t bound = text_bound(r);
    if (bound > UINT32_MAX)
        return smol_fail(r->error, STATUS_UNSUPPORTED,
                         "%s: more than 4 GiB of tokens: use another model", r->path);
    v->n_tokens = r->n_ids;
    v->spans = calloc((size_t)r->n_ids + 1, sizeof *v->spans);
    v->text = calloc(bound, 1);
    v->added = calloc(r->n_additions + 1, sizeof *v->added);
    if (!v->spans || !v->text || !v->added)
        return smol_fail_memory(r->error, "the vocabulary");
    enum status status = fill_spans(r, v);
    if (status)
        return status;
    fill_added(r, v);
    fill_byte_tokens(r, v);
    return STATUS_OK;
}

enum status smol_vocabulary_read(const json_t *root, const char *path, uint32_t vocab_size,
                                 struct vocabulary *vocabulary, struct error *error)
{
    struct reading r = {
        .path = path,
        .vocab = json_object_get(json_object_get(root, "model"), "vocab"),
        .vocab_size = vocab_size,
        .by_id = calloc((size_t)vocab_size + 1, sizeof *r.by_id),
        .error = error,
    };
    enum status status = r.by_id ? STATUS_OK : smol_fail_memory(error, "the vocabulary");
    if (!status)
        status = read_vocab(&r);
    if (!status)
        status = read_additions(&r, root);
    if (!status)
        status = fill(&r, vocabulary);
    free(r.by_id);
    free(r.additions);
    return status;
}

void smol_vocabulary_free(struct vocabulary *vocabulary)
{
    free(vocabulary->spans);
    free(vocabulary->text);
    free(vocabulary->added);
    *vocabulary = (struct vocabulary){0};
}
