/* See tokenize.h. */
#include "tests/fuzz/tokenize.h"

#include "common/checked.h"
#include "common/utf8.h"
#include "runtime/tokenizer/stream.h"
#include "runtime/tokenizer/tokenizer.h"

/* Pushes the tokens' bytes through a stream that ends before the text's first two bytes come again,
 * if those make a stop string. */
static void stream_tokens(const struct tokenizer_tables *tables, const struct token_list *list,
                          const char *text, size_t size)
{
    char stop[3] = {0};
    const char *const stops[] = {stop};
    struct stream *stream;
    struct stream_text out;
    smol_error error;
    memcpy(stop, text, size < 2 ? size : 2);
    if (smol_stream_create(stops, 1, &stream, &error))
        return;
    for (size_t i = 0; i < list->n; i++) {
        CLAIM(!smol_stream_token(stream, tables, list->ids[i], i % 2, &out, &error));
        CLAIM(smol_utf8_well_formed((const uint8_t *)out.text, out.size) == out.size);
    }
    CLAIM(!smol_stream_finish(stream, &out, &error));
    CLAIM(smol_utf8_well_formed((const uint8_t *)out.text, out.size) == out.size);
    smol_stream_free(stream);
}

/* Reads every byte that a token may decode to, where a sanitizer can see it. */
static void read_all_tokens(const struct tokenizer_tables *tables)
{
    volatile uint8_t last = 0;
    for (uint32_t id = 0; id < tables->header.n_tokens; id++) {
        struct token_text token = smol_tokenizer_text(tables, id);
        const struct token_span *span = &tables->spans[id];
        CLAIM(range_within(span->start, span->length, tables->header.n_text_bytes));
        if (token.length > 0)
            last = (uint8_t)(token.bytes[0] ^ token.bytes[token.length - 1]);
    }
    (void)last;
}

void fuzz_tokenize(const struct tokenizer_tables *tables, const char *text, size_t size)
{
    read_all_tokens(tables);
    for (unsigned flags = 0; flags < 4; flags++) {
        struct token_list list = {0};
        smol_error error;
        CLAIM(!smol_tokenizer_encode(tables, text, size, &(struct encode_params){.flags = flags},
                                     &list, &error));
        for (size_t i = 0; i < list.n; i++)
            CLAIM(list.ids[i] < tables->header.n_tokens);
        stream_tokens(tables, &list, text, size);
        free(list.ids);
    }
}

void fuzz_round_trip(const struct tokenizer_tables *tables, const char *text, size_t size)
{
    struct token_list list = {0};
    smol_error error;
    size_t at = 0;
    for (uint32_t i = 0; i < tables->header.n_added; i++)
        if (!smol_tokenizer_text(tables, tokenizer_added(tables, i).id).special)
            return; /* found in any text, its bytes may have no tokens */
    size = smol_utf8_well_formed((const uint8_t *)text, size);
    CLAIM(!smol_tokenizer_encode(tables, text, size, &(struct encode_params){.flags = 0}, &list,
                                 &error));
    for (size_t i = 0; i < list.n; i++) {
        struct token_text token = smol_tokenizer_text(tables, list.ids[i]);
        for (size_t k = 0; k < token.length; k++) {
            while (at < size && tables->byte_tokens[(uint8_t)text[at]] == NO_TOKEN)
                at++;
            CLAIM(at < size && (uint8_t)text[at] == token.bytes[k]);
            at++;
        }
    }
    for (; at < size; at++)
        CLAIM(tables->byte_tokens[(uint8_t)text[at]] == NO_TOKEN);
    free(list.ids);
}
