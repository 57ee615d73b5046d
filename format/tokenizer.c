/* The checks of the tokenizer section, made at every open. See FORMAT.md. */
#include "format/tokenizer.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "common/checked.h"
#include "common/utf8.h"
#include "format/cursor.h"

static smol_status check_header(const struct blob_tokenizer *header, uint32_t vocab_size,
                                smol_error *error)
{
    if (header->n_tokens > vocab_size)
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "more tokens than the model's vocabulary (%" PRIu32 " > %" PRIu32 ")",
                         header->n_tokens, vocab_size);
    if (header->n_merge_slots == 0 || (header->n_merge_slots & (header->n_merge_slots - 1)))
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "merge slots must be a power of two (%" PRIu32 ")", header->n_merge_slots);
    if (header->max_probe > MERGE_MAX_PROBE)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "max_probe is too large (%" PRIu32 ")",
                         header->max_probe);
    if (header->pretokenizer != PRETOKENIZE_SCANNER &&
        (header->pretokenizer | PRETOKENIZE_DIGITS) != (PRETOKENIZE_DIGITS | PRETOKENIZE_GPT2))
        return smol_fail(error, SMOL_ERROR_DAMAGED, "unknown pre-tokenizer (%#" PRIx32 ")",
                         header->pretokenizer);
    if (header->reserved0 || header->reserved1)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "a reserved field is not zero");
    return SMOL_OK;
}

/* Takes the next table, which must be at `offset`. Returns NULL and fills *error if it is not. */
static const void *take_table(struct cursor *cursor, const char *name, uint32_t offset,
                              uint32_t count, size_t each, smol_error *error)
{
    const uint8_t *table = smol_cursor_take(cursor, name, count, each, error);
    if (!table || table == cursor->data + offset)
        return table;
    smol_fail(error, SMOL_ERROR_DAMAGED, "table out of place (%s, at %" PRIu32 ")", name, offset);
    return NULL;
}

static smol_status take_tables(const uint8_t *data, size_t size, struct tokenizer_tables *tables,
                               smol_error *error)
{
    const struct blob_tokenizer *h = &tables->header;
    struct cursor cursor = {data, size, sizeof *h};
    if (!(tables->spans = take_table(&cursor, "token spans", h->token_spans, h->n_tokens,
                                     sizeof *tables->spans, error)) ||
        !(tables->text = take_table(&cursor, "text", h->text, h->n_text_bytes, 1, error)) ||
        !(tables->byte_tokens = take_table(&cursor, "byte tokens", h->byte_tokens, 256,
                                           sizeof *tables->byte_tokens, error)) ||
        !(tables->merges = take_table(&cursor, "merges", h->merges, h->n_merge_slots,
                                      sizeof *tables->merges, error)) ||
        !(tables->added = take_table(&cursor, "added tokens", h->added, h->n_added,
                                     sizeof *tables->added, error)) ||
        !(tables->class_index = take_table(&cursor, "class index", h->class_index, CLASS_INDEX_SIZE,
                                           sizeof *tables->class_index, error)) ||
        !(tables->class_blocks =
              take_table(&cursor, "class blocks", h->class_blocks, h->n_class_blocks, 256, error)))
        return SMOL_ERROR_DAMAGED;
    return smol_cursor_end(&cursor, error);
}

/* The flags that a file may use; a text section allows more. */
struct allowed {
    unsigned token_flags, added_flags, classes;
};

static bool span_is_valid(const struct token_span *span, uint32_t n_text_bytes,
                          const struct allowed *allowed)
{
    if (span->flags & TOKEN_UNUSED)
        return span->flags == TOKEN_UNUSED && span->start == 0 && span->length == 0;
    return (span->flags & ~allowed->token_flags) == 0 &&
           (!(span->flags & TOKEN_BYTE) || span->length == 1) &&
           range_within(span->start, span->length, n_text_bytes);
}

static smol_status check_spans(const struct tokenizer_tables *tables, const struct allowed *allowed,
                               smol_error *error)
{
    const struct blob_tokenizer *header = &tables->header;
    for (uint32_t id = 0; id < header->n_tokens; id++)
        if (!span_is_valid(&tables->spans[id], header->n_text_bytes, allowed))
            return smol_fail(error, SMOL_ERROR_DAMAGED, "bad entry (token %" PRIu32 ")", id);
    for (unsigned byte = 0; byte < 256; byte++)
        if (tables->byte_tokens[byte] >= header->n_tokens && tables->byte_tokens[byte] != NO_TOKEN)
            return smol_fail(error, SMOL_ERROR_DAMAGED, "no such token (byte %u)", byte);
    return SMOL_OK;
}

/* Returns whether a slot is valid. If the search for a slot's own pair ends in that slot, three
 * things hold: it is close enough to its home slot, no empty slot is between them, and no other
 * slot has the same pair. */
static bool slot_is_valid(const struct tokenizer_tables *tables, uint32_t slot)
{
    uint32_t n_tokens = tables->header.n_tokens;
    const struct token_merge *merge = &tables->merges[slot];
    if (merge->left == NO_TOKEN)
        return merge->right == 0 && merge->rank == 0 && merge->merged == 0;
    return merge->left < n_tokens && merge->right < n_tokens && merge->merged < n_tokens &&
           merge->rank < tables->header.n_merge_slots &&
           tokenizer_slot(tables, merge->left, merge->right) == slot;
}

static smol_status check_merges(const struct tokenizer_tables *tables, smol_error *error)
{
    for (uint32_t slot = 0; slot < tables->header.n_merge_slots; slot++)
        if (!slot_is_valid(tables, slot))
            return smol_fail(error, SMOL_ERROR_DAMAGED, "bad merge (slot %" PRIu32 ")", slot);
    return SMOL_OK;
}

static bool added_is_valid(const struct tokenizer_tables *tables, const struct added_token *added,
                           const struct allowed *allowed)
{
    return (added->flags & ~allowed->added_flags) == 0 && added->length > 0 &&
           smol_utf8_well_formed(tables->text + added->start, added->length) == added->length;
}

/* Returns whether `a` precedes `b` in the table of added tokens. */
static bool added_ascend(const struct tokenizer_tables *tables, const struct added_token *a,
                         const struct added_token *b)
{
    unsigned kind_a = a->flags & ADDED_NORMALIZED, kind_b = b->flags & ADDED_NORMALIZED;
    if (kind_a != kind_b)
        return kind_a < kind_b;
    uint32_t common = a->length < b->length ? a->length : b->length;
    int order = memcmp(tables->text + a->start, tables->text + b->start, common);
    return order ? order < 0 : a->length < b->length;
}

static smol_status check_added(const struct tokenizer_tables *tables, const struct allowed *allowed,
                               smol_error *error)
{
    struct added_token before = {0};
    uint64_t n_bytes = 0;
    for (uint32_t i = 0; i < tables->header.n_added; i++) {
        struct added_token added = tokenizer_added(tables, i);
        if (!added_is_valid(tables, &added, allowed) ||
            (i > 0 && !added_ascend(tables, &before, &added)))
            return smol_fail(error, SMOL_ERROR_DAMAGED, "bad added token (entry %" PRIu32 ")", i);
        before = added;
        n_bytes += added.length;
    }
    if (n_bytes > tables->header.n_text_bytes)
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "added tokens share text (%" PRIu64 " bytes, the pool has %" PRIu32 ")",
                         n_bytes, tables->header.n_text_bytes);
    return SMOL_OK;
}

static bool classes_are_valid(unsigned classes, const struct allowed *allowed)
{
    unsigned exclusive = classes & (CLASS_LETTER | CLASS_NUMBER | CLASS_SPACE);
    return (exclusive & (exclusive - 1)) == 0 && (classes & ~allowed->classes) == 0;
}

/* Checks the character classes. The splitter relies on the space being white space. */
static smol_status check_classes(const struct tokenizer_tables *tables,
                                 const struct allowed *allowed, smol_error *error)
{
    uint32_t n_blocks = tables->header.n_class_blocks;
    for (uint32_t i = 0; i < CLASS_INDEX_SIZE; i++)
        if (tables->class_index[i] >= n_blocks)
            return smol_fail(error, SMOL_ERROR_DAMAGED, "no such class block (U+%04" PRIX32 ")",
                             i * 256);
    for (size_t i = 0; i < (size_t)n_blocks * 256; i++)
        if (!classes_are_valid(tables->class_blocks[i], allowed))
            return smol_fail(error, SMOL_ERROR_DAMAGED, "unknown character class (class byte %zu)",
                             i);
    if (!(tokenizer_classes(tables, ' ') & CLASS_SPACE))
        return smol_fail(error, SMOL_ERROR_DAMAGED, "the space (U+0020) must be white space");
    return SMOL_OK;
}

static struct allowed allowed_with(const struct text_tables *text)
{
    struct allowed allowed = {TOKEN_SPECIAL, ADDED_NORMALIZED,
                              CLASS_LETTER | CLASS_NUMBER | CLASS_SPACE | CLASS_NUMERIC};
    if (text) {
        allowed.token_flags |= TOKEN_BYTE | TOKEN_PLAIN;
        allowed.token_flags |= text->header.model == TEXT_WORDPIECE ? TOKEN_CONTINUES : 0;
        allowed.added_flags |= ADDED_LSTRIP | ADDED_RSTRIP | ADDED_SINGLE_WORD | ADDED_SPECIAL;
        allowed.classes |= CLASS_WORD;
    }
    return allowed;
}

smol_status smol_tokenizer_tables_open(const uint8_t *data, size_t size, uint32_t vocab_size,
                                       const struct text_tables *text,
                                       struct tokenizer_tables *tables, smol_error *error)
{
    const struct allowed allowed = allowed_with(text);
    if (size < sizeof tables->header)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "too small for its header");
    memset(tables, 0, sizeof *tables);
    memcpy(&tables->header, data, sizeof tables->header);
    tables->rules = text ? *text : text_tables_none();
    smol_status status;
    if ((status = check_header(&tables->header, vocab_size, error)) ||
        (status = take_tables(data, size, tables, error)) ||
        (status = check_spans(tables, &allowed, error)) || (status = check_merges(tables, error)) ||
        (status = check_added(tables, &allowed, error)) ||
        (status = check_classes(tables, &allowed, error)))
        return status;
    if (tables->rules.id_bound > tables->header.n_tokens)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "the text section has ids without a token");
    return SMOL_OK;
}
