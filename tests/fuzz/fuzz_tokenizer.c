/* The tables of a tokenizer section and tokenizing with them. An input is a tokenizer (build.h),
 * where its recipe says so a text section, then text. */
#include "tests/fuzz/build.h"
#include "tests/fuzz/tokenize.h"

enum { VOCAB_SIZE = 64, MAX_TEXT = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct tokenizer_tables tables;
    struct text_tables rules;
    smol_error error;
    bool with_text = size >= sizeof(struct tokenizer_recipe) &&
                     ((const struct tokenizer_recipe *)(const void *)data)->with_text & 1;
    struct built section = fuzz_build_tokenizer(&in, VOCAB_SIZE, with_text), text = {0};
    if (with_text) {
        text = fuzz_build_text(&in, 1 + data[0] % VOCAB_SIZE);
        fuzz_damage(&in, fuzz_take_byte(&in) % 4, text.data, text.size);
    }
    if ((!with_text || !smol_text_tables_open(text.data, text.size, &rules, &error)) &&
        !smol_tokenizer_tables_open(section.data, section.size, VOCAB_SIZE,
                                    with_text ? &rules : NULL, &tables, &error))
        fuzz_tokenize(&tables, (const char *)in.data, in.size < MAX_TEXT ? in.size : MAX_TEXT);
    free(text.data);
    free(section.data);
    return 0;
}
