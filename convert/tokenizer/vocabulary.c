/* Reads the tokens of a tokenizer.json, see vocabulary.h. */
#include "convert/tokenizer/vocabulary.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/buffer.h"
#include "common/text.h"
#include "common/utf8.h"
#include "convert/tokenizer/byte_level.h"
#include "convert/tokenizer/tokenizer.h"
#include "format/text.h"

/* Bytes that the decoder may write for all tokens. Vocabularies need a few MiB; replacements that
 * grow could make gigabytes of a small file. */
enum { MAX_DECODED = 1 << 26 };

/* The fields of an added token that are used here. */
struct addition {
    struct json_text content;
    struct json_text pattern; /* the text to search for: the content, normalized if required */
    struct prepared prepared; /* owns the normalized text */
    uint32_t id;
    uint32_t flags; /* enum added_flag */
};

struct vocabulary_reader {
    const char *path;
    const json_t *vocab; /* the model's vocabulary: token -> id */
    uint32_t vocab_size;
    const struct text_rules *rules;
    struct text_section normalizer; /* empty without a normalizer */
    struct text_tables tables;      /* the tables of `normalizer` */
    struct json_text *by_id;        /* (vocab_size) the token of each id, before decoding */
    uint32_t n_ids;                 /* the highest id that has a token, plus one */
    struct addition *additions;
    size_t n_additions;
    json_t *contents; /* content -> whether the added token is special */
    struct buffer text;
    size_t written; /* bytes that the decoder has written */
    smol_error *error;
};

/* --- reading -------------------------------------------------------------------------------- */

static smol_status give_id(struct vocabulary_reader *r, struct json_text token, json_int_t id)
{
    if (id < 0 || id >= r->vocab_size)
        return smol_fail(r->error, SMOL_ERROR_DAMAGED,
                         "%s: id %" JSON_INTEGER_FORMAT " of token %.80s is outside the model's "
                         "vocabulary (%" PRIu32 " rows): use the tokenizer that came with it",
                         r->path, id, token.data, r->vocab_size);
    if (r->by_id[id].data)
        return smol_fail(r->error, SMOL_ERROR_DAMAGED,
                         "%s: tokens %.80s and %.80s have the same id (%" JSON_INTEGER_FORMAT
                         "): download it again",
                         r->path, r->by_id[id].data, token.data, id);
    r->by_id[id] = token;
    if (id >= r->n_ids)
        r->n_ids = (uint32_t)id + 1;
    return SMOL_OK;
}

static smol_status read_vocab(struct vocabulary_reader *r)
{
    if (!json_is_object(r->vocab))
        return smol_fail(r->error, SMOL_ERROR_DAMAGED,
                         "%s: has no vocabulary (model.vocab): download it again", r->path);
    json_t *vocab = (json_t *)(uintptr_t)r->vocab; /* iterators are declared without const */
    for (void *i = json_object_iter(vocab); i; i = json_object_iter_next(vocab, i)) {
        struct json_text token = {json_object_iter_key(i), json_object_iter_key_len(i)};
        const json_t *id = json_object_iter_value(i);
        if (!json_is_integer(id))
            return smol_fail(r->error, SMOL_ERROR_DAMAGED,
                             "%s: token %.80s must have an integer as its id: download it again",
                             r->path, token.data);
        smol_status status = give_id(r, token, json_integer_value(id));
        if (status)
            return status;
    }
    return SMOL_OK;
}

/* Reads the flag `key` of the added token `entry` and sets its bit. */
static smol_status read_flag(struct vocabulary_reader *r, const json_t *entry, const char *key,
                             uint32_t bit, uint32_t *flags)
{
    const json_t *value = json_object_get(entry, key);
    *flags |= json_is_true(value) ? bit : 0;
    if (json_is_boolean(value))
        return SMOL_OK;
    return smol_fail(r->error, SMOL_ERROR_DAMAGED,
                     "%s: added token %.80s has no flag %s: download it again", r->path,
                     json_string_value(json_object_get(entry, "content")), key);
}

static smol_status read_flags(struct vocabulary_reader *r, const json_t *entry,
                              struct addition *addition)
{
    static const struct {
        const char *key;
        uint32_t bit;
    } flags[] = {
        {"single_word", ADDED_SINGLE_WORD}, {"lstrip", ADDED_LSTRIP},   {"rstrip", ADDED_RSTRIP},
        {"normalized", ADDED_NORMALIZED},   {"special", ADDED_SPECIAL},
    };
    smol_status status = SMOL_OK;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0] && !status; i++)
        status = read_flag(r, entry, flags[i].key, flags[i].bit, &addition->flags);
    return status;
}

/* Normalizes an added token if it is searched for in normalized text. */
static smol_status normalize(struct vocabulary_reader *r, struct addition *addition)
{
    const struct json_text *content = &addition->content;
    addition->pattern = *content;
    if (!(addition->flags & ADDED_NORMALIZED) || r->normalizer.size == 0)
        return SMOL_OK;
    const struct text_tables *tables = &r->tables;
    smol_status status = smol_text_prepare(tables, tables->steps, tables->header.n_steps,
                                           (const uint8_t *)content->data, content->size, true,
                                           &addition->prepared, r->error);
    if (status)
        return status;
    struct buffer *buffer = &addition->prepared.buffer;
    if (addition->prepared.text == (const uint8_t *)buffer->text && buffer->text) {
        smol_buffer_add(buffer, "", 1); /* messages quote it as a C string */
        if (buffer->failed)
            return smol_fail_memory(r->error, "added tokens");
        addition->pattern = (struct json_text){buffer->text, addition->prepared.size};
    } else if (addition->prepared.size == 0) {
        addition->pattern.size = 0;
    }
    if (addition->pattern.size > 0 && addition->pattern.size <= ADDED_TOKEN_MAX)
        return SMOL_OK;
    return smol_fail(r->error, SMOL_ERROR_UNSUPPORTED,
                     "%s: added token %.80s becomes too long, or nothing, when it is normalized "
                     "(%zu bytes): use another model",
                     r->path, content->data, addition->pattern.size);
}

static smol_status read_content(struct vocabulary_reader *r, const json_t *entry,
                                struct addition *addition)
{
    const json_t *content = json_object_get(entry, "content");
    addition->content = (struct json_text){json_string_value(content), json_string_length(content)};
    if (addition->content.size == 0)
        return smol_fail(r->error, SMOL_ERROR_DAMAGED,
                         "%s: an added token has no text (content): download it again", r->path);
    if (addition->content.size > ADDED_TOKEN_MAX)
        return smol_fail(r->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: added token %.80s... is too long (%zu bytes, at most %d): use "
                         "another model",
                         r->path, addition->content.data, addition->content.size, ADDED_TOKEN_MAX);
    return SMOL_OK;
}

/* Checks the id of an added token. The reference ignores the id in the file: it uses the id of the
 * token's text in the vocabulary, or else the next id, counting from the size of the vocabulary. If
 * the file differs, one of the two is wrong. */
static smol_status check_addition_id(struct vocabulary_reader *r, const json_t *entry,
                                     json_int_t *next_id, struct addition *addition)
{
    const json_t *known =
        json_object_getn(r->vocab, addition->content.data, addition->content.size);
    json_int_t expected = known ? json_integer_value(known) : (*next_id)++;
    const json_t *id = json_object_get(entry, "id");
    if (!json_is_integer(id) || json_integer_value(id) != expected)
        return smol_fail(r->error, SMOL_ERROR_DAMAGED,
                         "%s: added token %.80s must have the id of its text in the vocabulary "
                         "(%" JSON_INTEGER_FORMAT "): download it again",
                         r->path, addition->content.data, expected);
    if (!known) {
        smol_status status = give_id(r, addition->content, expected);
        if (status)
            return status;
    }
    addition->id = (uint32_t)expected; /* read_vocab has checked known ids */
    return SMOL_OK;
}

static smol_status read_addition(struct vocabulary_reader *r, const json_t *entry,
                                 json_int_t *next_id)
{
    struct addition *addition = &r->additions[r->n_additions];
    smol_status status;
    if ((status = read_content(r, entry, addition)) || (status = read_flags(r, entry, addition)))
        return status;
    const struct json_text *content = &addition->content;
    if (json_object_getn(r->contents, content->data, content->size))
        return smol_fail(r->error, SMOL_ERROR_DAMAGED,
                         "%s: added token %.80s appears twice: download it again", r->path,
                         content->data);
    if (json_object_setn_new(r->contents, content->data, content->size,
                             json_boolean(addition->flags & ADDED_SPECIAL)))
        return smol_fail_memory(r->error, "added tokens");
    r->n_additions++;
    if ((status = check_addition_id(r, entry, next_id, addition)) ||
        (status = normalize(r, addition)))
        return status;
    r->by_id[addition->id] = addition->pattern;
    return SMOL_OK;
}

static smol_status read_additions(struct vocabulary_reader *r, const json_t *root)
{
    const json_t *list = json_object_get(root, "added_tokens");
    if (list && !json_is_array(list))
        return smol_fail(r->error, SMOL_ERROR_DAMAGED,
                         "%s: added_tokens must be a list: download it again", r->path);
    r->contents = json_object();
    r->additions = calloc(json_array_size(list) + 1, sizeof *r->additions);
    smol_status status = SMOL_OK;
    if (!r->contents || !r->additions)
        status = smol_fail_memory(r->error, "added tokens");
    json_int_t next_id = (json_int_t)json_object_size(r->vocab);
    for (size_t i = 0; !status && i < json_array_size(list); i++)
        status = read_addition(r, json_array_get(list, i), &next_id);
    return status;
}

/* --- the tables ----------------------------------------------------------------------------- */

/* Adds the decoded bytes of a byte-level token. The reference decodes each token by itself: if one
 * character is outside the byte-level alphabet, the whole token is literal text. */
static void add_bytes(struct vocabulary_reader *r, struct json_text token)
{
    const uint8_t *text = (const uint8_t *)token.data;
    size_t start = r->text.size;
    for (size_t i = 0; i < token.size;) {
        uint32_t character;
        i += smol_utf8_decode(text + i, token.size - i, &character);
        int byte = byte_level_byte(character);
        if (byte < 0) {
            r->text.size = start;
            smol_buffer_add(&r->text, token.data, token.size);
            return;
        }
        smol_buffer_add(&r->text, (const char *)&(uint8_t){(uint8_t)byte}, 1);
    }
}

/* Adds the decoded text of a token. */
static smol_status add_shown(struct vocabulary_reader *r, struct json_text token, uint16_t *flags)
{
    struct shown_token shown;
    smol_status status =
        smol_decoder_show(&r->rules->decoder, r->path, token.data, token.size, &shown, r->error);
    if (!status)
        smol_buffer_add(&r->text, shown.data, shown.size);
    *flags = shown.flags;
    r->written += shown.written;
    free(shown.data);
    if (!status && r->written > MAX_DECODED)
        return smol_fail(r->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: the decoder writes more than %d bytes for all tokens: use another "
                         "model",
                         r->path, MAX_DECODED);
    return status;
}

static smol_status fill_span(struct vocabulary_reader *r, struct json_text token,
                             struct token_span *span)
{
    size_t start = r->text.size;
    smol_status status = SMOL_OK;
    if (r->rules->characters)
        status = add_shown(r, token, &span->flags);
    else
        add_bytes(r, token);
    size_t length = r->text.size - start;
    if (status)
        return status;
    if (length > UINT16_MAX || r->text.size > UINT32_MAX)
        return smol_fail(r->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: token %.80s... is too long (%zu bytes, at most %d): use another "
                         "model",
                         r->path, token.data, length, UINT16_MAX);
    span->start = (uint32_t)start;
    span->length = (uint16_t)length;
    return SMOL_OK;
}

static smol_status fill_spans(struct vocabulary_reader *r, struct vocabulary *v)
{
    smol_status status = SMOL_OK;
    for (uint32_t id = 0; id < r->n_ids && !status; id++) {
        if (r->by_id[id].data)
            status = fill_span(r, r->by_id[id], &v->spans[id]);
        else
            v->spans[id].flags = TOKEN_UNUSED;
    }
    return status;
}

/* Compares by the order of the table of added tokens. */
static int compare_additions(const void *left, const void *right)
{
    const struct addition *a = left, *b = right;
    int kind_a = a->flags & ADDED_NORMALIZED, kind_b = b->flags & ADDED_NORMALIZED;
    if (kind_a != kind_b)
        return kind_a - kind_b;
    const struct json_text *x = &a->pattern, *y = &b->pattern;
    return compare_texts(x->data, x->size, y->data, y->size);
}

/* Sorts the added tokens. Refuses two tokens with the same normalized text. */
static smol_status sort_additions(struct vocabulary_reader *r)
{
    if (r->n_additions > 0) /* qsort must not be called with NULL */
        qsort(r->additions, r->n_additions, sizeof *r->additions, compare_additions);
    for (size_t i = 1; i < r->n_additions; i++)
        if (compare_additions(&r->additions[i - 1], &r->additions[i]) == 0)
            return smol_fail(r->error, SMOL_ERROR_UNSUPPORTED,
                             "%s: added tokens %.80s and %.80s are normalized to the same text: "
                             "use another model",
                             r->path, r->additions[i - 1].content.data,
                             r->additions[i].content.data);
    return SMOL_OK;
}

/* Fills the table of added tokens. The reference checks the decoded text to decide whether a token
 * is special. If normalization changed that text, the token is special only when found in a
 * text. */
static void fill_added(struct vocabulary_reader *r, struct vocabulary *v)
{
    v->n_added = (uint32_t)r->n_additions;
    for (uint32_t i = 0; i < v->n_added; i++) {
        const struct addition *addition = &r->additions[i];
        const struct json_text *pattern = &addition->pattern;
        bool special = json_is_true(json_object_getn(r->contents, pattern->data, pattern->size));
        v->spans[addition->id].flags |= special ? TOKEN_SPECIAL : 0;
        v->added[i] = (struct added_token){addition->id, (uint32_t)r->text.size,
                                           (uint32_t)pattern->size, addition->flags};
        if (special)
            v->added[i].flags &= ~(uint32_t)ADDED_SPECIAL; /* TOKEN_SPECIAL already marks it */
        smol_buffer_add(&r->text, pattern->data, pattern->size);
    }
}

/* Finds the token of each byte in the model's vocabulary only, without added tokens. */
static void fill_byte_tokens(const struct vocabulary_reader *r, struct vocabulary *v)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        char name[8];
        size_t size;
        if (r->rules->characters)
            size = (size_t)snprintf(name, sizeof name, "<0x%02X>", byte);
        else
            size = smol_utf8_encode(byte_level_character((uint8_t)byte), (uint8_t *)name);
        const json_t *id = json_object_getn(r->vocab, name, size);
        v->byte_tokens[byte] = id ? (uint32_t)json_integer_value(id) : NO_TOKEN;
    }
}

static smol_status fill(struct vocabulary_reader *r, struct vocabulary *v)
{
    v->n_tokens = r->n_ids;
    v->spans = calloc((size_t)r->n_ids + 1, sizeof *v->spans);
    v->added = calloc(r->n_additions + 1, sizeof *v->added);
    if (!v->spans || !v->added)
        return smol_fail_memory(r->error, "the vocabulary");
    smol_status status;
    if ((status = fill_spans(r, v)) || (status = sort_additions(r)))
        return status;
    fill_added(r, v);
    fill_byte_tokens(r, v);
    if (r->text.failed)
        return smol_fail_memory(r->error, "the vocabulary");
    if (r->text.size > UINT32_MAX)
        return smol_fail(r->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: more than 4 GiB of tokens: use another model", r->path);
    v->text = (uint8_t *)r->text.text;
    v->n_text_bytes = (uint32_t)r->text.size;
    r->text = (struct buffer){0};
    return SMOL_OK;
}

static smol_status open_normalizer(struct vocabulary_reader *r)
{
    smol_status status = smol_normalizer_compile(r->rules, r->path, &r->normalizer, r->error);
    if (!status && r->normalizer.size > 0)
        status =
            smol_text_tables_open(r->normalizer.data, r->normalizer.size, &r->tables, r->error);
    return status;
}

static void free_reading(struct vocabulary_reader *r)
{
    for (size_t i = 0; r->additions && i < r->n_additions; i++)
        smol_prepared_free(&r->additions[i].prepared);
    smol_text_section_free(&r->normalizer);
    json_decref(r->contents);
    free(r->by_id);
    free(r->additions);
    free(r->text.text);
}

smol_status smol_vocabulary_read(const json_t *root, const char *path, uint32_t vocab_size,
                                 const struct text_rules *rules, struct vocabulary *vocabulary,
                                 smol_error *error)
{
    struct vocabulary_reader r = {
        .path = path,
        .vocab = rules->vocab,
        .vocab_size = vocab_size,
        .rules = rules,
        .by_id = calloc((size_t)vocab_size + 1, sizeof *r.by_id),
        .error = error,
    };
    smol_status status = r.by_id ? SMOL_OK : smol_fail_memory(error, "the vocabulary");
    if (!status)
        status = read_vocab(&r);
    if (!status)
        status = open_normalizer(&r);
    if (!status)
        status = read_additions(&r, root);
    if (!status)
        status = fill(&r, vocabulary);
    free_reading(&r);
    return status;
}

void smol_vocabulary_free(struct vocabulary *vocabulary)
{
    free(vocabulary->spans);
    free(vocabulary->text);
    free(vocabulary->added);
    *vocabulary = (struct vocabulary){0};
}
