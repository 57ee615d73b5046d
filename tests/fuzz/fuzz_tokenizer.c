/* The tables of a tokenizer section and tokenizing with them. An input is a tokenizer (build.h),
 * then text. */
#include "tests/fuzz/build.h"
#include "tests/fuzz/tokenize.h"

enum { VOCAB_SIZE = 64, MAX_TEXT = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct tokenizer_tables tables;
    struct error error;
    struct built section = fuzz_build_tokenizer(&in, VOCAB_SIZE);
    if (!smol_tokenizer_tables_open(section.data, section.size, VOCAB_SIZE, NULL, &tables, &error))
        fuzz_tokenize(&tables, (const char *)in.data, in.size < MAX_TEXT ? in.size : MAX_TEXT);
    free(section.data);
    return 0;
}
