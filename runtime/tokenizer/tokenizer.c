/* Converts text to token ids and back, see tokenizer.h. Each stage splits its input and passes the
 * parts to the next stage: well-formed UTF-8, added tokens, normalization, added tokens in
 * normalized text, pieces, words, merges. */
#include "runtime/tokenizer/tokenizer.h"

#include <string.h>

#include "common/memory.h"
#include "common/utf8.h"
#include "runtime/tokenizer/added.h"
#include "runtime/tokenizer/scanner.h"
#include "runtime/tokenizer/words.h"

struct encoder {
    const struct tokenizer_tables *tables;
    const struct added_automata *added;
    struct encode_watch watch;
    bool parse_special;
    const struct mixed_text *mixed; /* the text being encoded; NULL: the text is trusted */
    uint32_t *harmless;             /* mixed: see struct added_search */
    bool argument;                  /* mixed text in runs: the current run is an argument */
    struct token_list *list;
    smol_error *error;
};

static smol_status cancelled(struct encoder *encoder)
{
    return smol_fail(encoder->error, SMOL_ERROR_CANCELLED, "tokenizing cancelled");
}

/* --- words ---------------------------------------------------------------------------------- */

static smol_status reserve(struct encoder *encoder, size_t n_more)
{
    struct token_list *list = encoder->list;
    if (n_more <= list->capacity - list->n)
        return SMOL_OK;
    size_t capacity = list->n + n_more; /* no overflow: ids and bytes that are in memory */
    capacity += capacity / 2;
    if (!RESIZE(list->ids, capacity))
        return smol_fail_memory(encoder->error, "token ids");
    list->capacity = capacity;
    return SMOL_OK;
}

static smol_status append(struct encoder *encoder, uint32_t id)
{
    smol_status status = reserve(encoder, 1);
    if (!status)
        encoder->list->ids[encoder->list->n++] = id;
    return status;
}

/* The symbols of a word before they are merged. */
struct symbols {
    const struct text_tables *rules;
    uint32_t *ids; /* room for one id per byte */
    size_t n;
    bool unknown; /* an unknown symbol is pending; the next one may fuse with it */
};

static void end_unknown(struct symbols *symbols)
{
    if (symbols->unknown)
        symbols->ids[symbols->n++] = symbols->rules->header.unknown_id;
    symbols->unknown = false;
}

static void add_known(struct symbols *symbols, uint32_t id)
{
    end_unknown(symbols);
    symbols->ids[symbols->n++] = id;
}

/* Adds a symbol without a token. It is dropped if the model has no unknown token. */
static void add_unknown(struct symbols *symbols)
{
    if (symbols->rules->header.unknown_id == NO_TOKEN)
        return;
    if (!(symbols->rules->header.flags & TEXT_FUSE_UNKNOWN))
        end_unknown(symbols);
    symbols->unknown = true;
}

/* Adds the byte tokens of a character. Returns false if a byte has no token. A pending unknown
 * symbol stays after them, as in the reference. */
static bool fall_back(const struct tokenizer_tables *tables, const uint8_t *bytes, size_t n,
                      struct symbols *symbols)
{
    uint32_t *ids = symbols->ids + symbols->n;
    if (!(tables->rules.header.flags & TEXT_BYTE_FALLBACK))
        return false;
    for (size_t i = 0; i < n; i++)
        if ((ids[i] = tokenizer_byte(tables, bytes[i])) == NO_TOKEN)
            return false;
    symbols->n += n;
    return true;
}

static void add_characters(const struct tokenizer_tables *tables, const uint8_t *word, size_t size,
                           struct symbols *symbols)
{
    size_t length;
    for (size_t i = 0; i < size; i += length) {
        uint32_t point;
        length = smol_utf8_decode(word + i, size - i, &point);
        uint32_t id = smol_text_name(&tables->rules, word + i, length);
        if (id != NO_TOKEN)
            add_known(symbols, id);
        else if (!fall_back(tables, word + i, length, symbols))
            add_unknown(symbols);
    }
}

static void add_bytes(const struct tokenizer_tables *tables, const uint8_t *word, size_t size,
                      struct symbols *symbols)
{
    for (size_t i = 0; i < size; i++) {
        uint32_t id = tokenizer_byte(tables, word[i]);
        if (id != NO_TOKEN)
            add_known(symbols, id);
        else
            add_unknown(symbols);
    }
}

/* Encodes a word by merges, as smol_unigram does by scores. */
static smol_status encode_by_merges(const struct tokenizer_tables *tables, const uint8_t *word,
                                    size_t size, uint32_t *ids, size_t *n,
                                    struct encode_watch *watch, smol_error *error)
{
    struct symbols symbols = {.rules = &tables->rules, .ids = ids};
    (tables->rules.header.flags & TEXT_CHARACTERS ? add_characters : add_bytes)(tables, word, size,
                                                                                &symbols);
    end_unknown(&symbols);
    *n = symbols.n;
    return smol_merge_word(tables, ids, n, watch, error);
}

static smol_status encode_word(struct encoder *encoder, const uint8_t *word, size_t size)
{
    const struct tokenizer_tables *tables = encoder->tables;
    struct token_list *list = encoder->list;
    struct encode_watch *watch = &encoder->watch;
    uint32_t id = NO_TOKEN;
    size_t n = 0;
    watch->done += size;
    if (watch_cancels(watch, size))
        return cancelled(encoder);
    if (tables->rules.header.flags & TEXT_WHOLE_WORDS)
        id = smol_text_name(&tables->rules, word, size);
    if (id != NO_TOKEN)
        return append(encoder, id);
    smol_status status = reserve(encoder, size);
    if (status)
        return status;
    uint32_t *ids = list->ids + list->n;
    if (tables->rules.header.model == TEXT_WORDPIECE)
        smol_wordpiece(tables, word, size, ids, &n, watch);
    else
        status = (tables->rules.header.model == TEXT_UNIGRAM ? smol_unigram : encode_by_merges)(
            tables, word, size, ids, &n, watch, encoder->error);
    if (!status && watch->cancelled)
        return cancelled(encoder);
    if (!status)
        list->n += n;
    return status;
}

/* Encodes words of characters. A new word starts at each occurrence of the split character, if the
 * tokenizer has one. */
static smol_status encode_split(struct encoder *encoder, const uint8_t *text, size_t size)
{
    uint32_t split = encoder->tables->rules.header.split;
    size_t start = 0, length;
    for (size_t i = 0; i < size; i += length) {
        uint32_t point;
        length = smol_utf8_decode(text + i, size - i, &point);
        if (split == 0 || point != split || i == start)
            continue;
        smol_status status = encode_word(encoder, text + start, i - start);
        if (status)
            return status;
        start = i;
    }
    return encode_word(encoder, text + start, size - start);
}

static smol_status encode_words(struct encoder *encoder, const uint8_t *text, size_t size);

/* Applies the late steps and cuts the text into words; `first` if it is the start of the input. */
static smol_status encode_late(struct encoder *encoder, const uint8_t *text, size_t size,
                               bool first)
{
    const struct text_tables *rules = &encoder->tables->rules;
    struct prepared prepared = {0};
    smol_status status = smol_text_prepare(rules, rules->late_steps, rules->header.n_late_steps,
                                           text, size, first, &prepared, encoder->error);
    if (!status && prepared.size > 0)
        status = (rules->header.flags & TEXT_CHARACTERS ? encode_split : encode_words)(
            encoder, prepared.text, prepared.size);
    smol_prepared_free(&prepared);
    return status;
}

/* Returns whether the scanner cuts a text before the late steps, so that each piece is prepared by
 * itself. */
static bool cuts_first(const struct tokenizer_tables *tables)
{
    return tables->rules.header.model != TEXT_MERGES && tables->scanner.class_index;
}

static smol_status cut(struct encoder *encoder, uint32_t stage, const uint8_t *text, size_t size,
                       bool first);

/* Inserts a space before the text, and then cuts it. */
static smol_status cut_spaced(struct encoder *encoder, uint32_t stage, const uint8_t *text,
                              size_t size, bool first)
{
    uint8_t *copy = smol_malloc(size + 1);
    if (!copy)
        return smol_fail_memory(encoder->error, "the text");
    copy[0] = ' ';
    memcpy(copy + 1, text, size);
    smol_status status = cut(encoder, stage, copy, size + 1, first);
    smol_free(copy);
    return status;
}

/* Cuts text[0..size), size > 0, by the scanner's stages from `stage` on; `first` if it is the start
 * of the input. */
static smol_status cut(struct encoder *encoder, uint32_t stage, const uint8_t *text, size_t size,
                       bool first)
{
    const struct scanner_tables *scanner = &encoder->tables->scanner;
    struct scan scan;
    size_t start, end;
    if (stage == scanner->header.n_stages)
        return cuts_first(encoder->tables) ? encode_late(encoder, text, size, first)
                                           : encode_word(encoder, text, size);
    if (scanner->stages[stage].flags & STAGE_SPACE && text[0] != ' ')
        return cut_spaced(encoder, stage, text, size, first);
    smol_scanner_start(&scan, scanner, stage, text, size);
    smol_status status;
    while (!(status = smol_scanner_next(&scan, &start, &end, encoder->error)) && start < size)
        if ((status = cut(encoder, stage + 1, text + start, end - start, first && start == 0)))
            break;
    smol_scanner_end(&scan);
    return status;
}

static smol_status encode_words(struct encoder *encoder, const uint8_t *text, size_t size)
{
    if (encoder->tables->scanner.class_index)
        return size > 0 ? cut(encoder, 0, text, size, false) : SMOL_OK;
    const uint8_t *end = text + size;
    while (text < end) {
        const uint8_t *piece_end = text + smol_piece_length(encoder->tables, text, end - text);
        while (text < piece_end) {
            size_t length = smol_word_length(encoder->tables, text, piece_end - text);
            smol_status status = encode_word(encoder, text, length);
            if (status)
                return status;
            text += length;
        }
    }
    return SMOL_OK;
}

/* Encodes text without added tokens; `first` if it is the start of the input. */
static smol_status encode_plain(struct encoder *encoder, const uint8_t *text, size_t size,
                                bool first)
{
    if (size > 0 && cuts_first(encoder->tables))
        return cut(encoder, 0, text, size, first);
    return encode_late(encoder, text, size, first);
}

/* --- added tokens --------------------------------------------------------------------------- */

static smol_status encode_stretch(struct encoder *encoder, const uint8_t *text, size_t size,
                                  unsigned kind, bool first);

/* Finds the added tokens of `kind` in the text, and encodes the text between them. */
static smol_status encode_added(struct encoder *encoder, const uint8_t *text, size_t size,
                                unsigned kind, bool first)
{
    struct added_search search = {.tables = encoder->tables,
                                  .automaton = &encoder->added->kinds[kind],
                                  .text = text,
                                  .size = size,
                                  .skip_special = !encoder->parse_special,
                                  .mixed = encoder->mixed,
                                  .argument = encoder->argument,
                                  .harmless = encoder->harmless,
                                  .watch = &encoder->watch};
    struct added_match match;
    size_t covered = 0;
    /* Later kinds are found in the normalized text. The marks of an empty text may be NULL. */
    if (encoder->mixed && kind == 0 && size > 0)
        search.arguments =
            encoder->mixed->arguments + (text - (const uint8_t *)encoder->mixed->text);
    while (smol_added_next(&search, &match)) {
        smol_status status = SMOL_OK;
        if (covered < match.start)
            status = encode_stretch(encoder, text + covered, match.start - covered, kind,
                                    first && covered == 0);
        if (!status && match.id != NO_TOKEN)
            status = append(encoder, match.id);
        if (status)
            return status;
        encoder->watch.done += match.end - match.start;
        covered = match.end;
    }
    if (encoder->watch.cancelled)
        return cancelled(encoder);
    return covered < size ? encode_stretch(encoder, text + covered, size - covered, kind,
                                           first && covered == 0)
                          : SMOL_OK;
}

/* Encodes text without tokens of `kind`: normalizes it and searches it for tokens of the next
 * kind. */
static smol_status encode_stretch(struct encoder *encoder, const uint8_t *text, size_t size,
                                  unsigned kind, bool first)
{
    if (kind + 1 == ADDED_KINDS)
        return encode_plain(encoder, text, size, first);
    const struct text_tables *rules = &encoder->tables->rules;
    struct prepared prepared = {0};
    smol_status status = smol_text_prepare(rules, rules->steps, rules->header.n_steps, text, size,
                                           first, &prepared, encoder->error);
    if (!status)
        status = encode_added(encoder, prepared.text, prepared.size, kind + 1, first);
    smol_prepared_free(&prepared);
    return status;
}

/* --- whole texts ---------------------------------------------------------------------------- */

/* Returns a copy of text[0..*size) with U+FFFD for each ill-formed sequence, and sets *size to its
 * length. Returns NULL if out of memory. */
static uint8_t *well_formed_copy(const uint8_t *text, size_t *size)
{
    uint8_t *copy = smol_reallocarray(NULL, *size, 3); /* U+FFFD may replace each byte */
    if (!copy)
        return NULL;
    size_t n = 0;
    for (size_t i = 0; i < *size;) {
        uint32_t code_point;
        i += smol_utf8_decode(text + i, *size - i, &code_point);
        n += smol_utf8_encode(code_point, copy + n);
    }
    *size = n;
    return copy;
}

static smol_status encode_text(struct encoder *encoder, const uint8_t *text, size_t size)
{
    uint8_t *copy = NULL;
    if (smol_utf8_well_formed(text, size) < size && !(text = copy = well_formed_copy(text, &size)))
        return smol_fail_memory(encoder->error, "the text");
    smol_status status = encode_added(encoder, text, size, 0, true);
    smol_free(copy);
    return status;
}

static smol_status append_all(struct encoder *encoder, const uint32_t *ids, size_t n)
{
    smol_status status = SMOL_OK;
    for (size_t i = 0; i < n && !status; i++)
        status = append(encoder, ids[i]);
    return status;
}

/* Encodes the text without the tokens around it. Builds the automata if the caller passed none. */
static smol_status encode_whole(struct encoder *encoder, const uint8_t *text, size_t size,
                                smol_status (*encode)(struct encoder *, const uint8_t *, size_t))
{
    struct added_automata automata = {0};
    smol_status status = SMOL_OK;
    if (!encoder->added) {
        status = smol_added_automata_build(encoder->tables, &automata, encoder->error);
        encoder->added = &automata;
    }
    if (!status)
        status = encode(encoder, text, size);
    if (encoder->added == &automata)
        encoder->added = NULL;
    smol_added_automata_free(&automata);
    return status;
}

smol_status smol_tokenizer_encode(const struct tokenizer_tables *tables, const char *text,
                                  size_t size, const struct encode_params *params,
                                  struct token_list *list, smol_error *error)
{
    const struct text_tables *rules = &tables->rules;
    size_t n_before = list->n;
    bool around = params->flags & ENCODE_AROUND;
    struct encoder encoder = {.tables = tables,
                              .added = params->added,
                              .watch = {.listener = params->listener, .total = size},
                              .parse_special = params->flags & ENCODE_SPECIAL,
                              .list = list,
                              .error = error};
    smol_status status = SMOL_OK;
    if (around)
        status = append_all(&encoder, rules->before, rules->header.n_before);
    if (!status && size > 0) /* `text` may be NULL if it is empty */
        status = encode_whole(&encoder, (const uint8_t *)text, size, encode_text);
    if (!status && around)
        status = append_all(&encoder, rules->after, rules->header.n_after);
    if (status)
        list->n = n_before;
    return status;
}

/* Returns whether a token that must not be forged is found in normalized text, where the bytes of
 * arguments can no longer be identified. */
static bool must_part(const struct tokenizer_tables *tables, const struct mixed_text *mixed)
{
    for (uint32_t i = 0; i < tables->header.n_added; i++) {
        struct added_token token = tokenizer_added(tables, i);
        if (token.flags & ADDED_NORMALIZED && smol_added_is_control(tables, mixed, &token))
            return true;
    }
    return false;
}

/* Encodes runs of the template's bytes and runs of arguments separately. */
static smol_status encode_runs(struct encoder *encoder, const uint8_t *text, size_t size)
{
    const uint8_t *arguments = encoder->mixed->arguments;
    smol_status status = SMOL_OK;
    for (size_t start = 0, end; start < size && !status; start = end) {
        for (end = start; end < size && arguments[end] == arguments[start];)
            end++;
        encoder->argument = arguments[start];
        status = encode_added(encoder, text + start, end - start, 0, start == 0);
    }
    return status;
}

static smol_status encode_mixed(struct encoder *encoder, const uint8_t *text, size_t size)
{
    return must_part(encoder->tables, encoder->mixed) ? encode_runs(encoder, text, size)
                                                      : encode_added(encoder, text, size, 0, true);
}

smol_status smol_tokenizer_encode_mixed(const struct tokenizer_tables *tables,
                                        const struct mixed_text *mixed,
                                        const struct encode_params *params, struct token_list *list,
                                        smol_error *error)
{
    size_t n_before = list->n;
    struct encoder encoder = {
        .tables = tables,
        .added = params->added,
        .watch = {.listener = params->listener, .total = mixed->size},
        .parse_special = true,
        .mixed = mixed,
        .harmless = smol_calloc(tables->header.n_added + (size_t)1, sizeof *encoder.harmless),
        .list = list,
        .error = error};
    smol_status status = encoder.harmless ? encode_whole(&encoder, (const uint8_t *)mixed->text,
                                                         mixed->size, encode_mixed)
                                          : smol_fail_memory(error, "added tokens");
    smol_free(encoder.harmless);
    if (status)
        list->n = n_before;
    return status;
}

struct token_text smol_tokenizer_text(const struct tokenizer_tables *tables, uint32_t id)
{
    struct token_span span = tokenizer_span(tables, id);
    return (struct token_text){
        .bytes = tables->text + span.start,
        .length = span.length,
        .exists = id < tables->header.n_tokens && !(span.flags & TOKEN_UNUSED),
        .special = span.flags & TOKEN_SPECIAL,
        .byte = span.flags & TOKEN_BYTE,
        .plain = span.flags & TOKEN_PLAIN,
        .continues = span.flags & TOKEN_CONTINUES,
    };
}
