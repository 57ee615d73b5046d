/* A tokenizer.json, compiled to tables, which then must be good tables. An input is the file; its
 * text is also what is tokenized. */
#include "convert/base/json.h"
#include "convert/tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/tokenize.h"

enum { VOCAB_SIZE = 600, MAX_TEXT = 4096 };

static void check_section(const struct tokenizer_section *section,
                          const struct scanner_section *scanner, const uint8_t *data, size_t size)
{
    struct tokenizer_tables tables;
    struct text_tables rules;
    smol_error error;
    bool has_text = section->text.size > 0;
    uint8_t *copy = exact_copy(section->data, section->size);
    uint8_t *text_copy = exact_copy(section->text.data, section->text.size);
    const char *text = (const char *)data;
    size = size < MAX_TEXT ? size : MAX_TEXT;
    CLAIM(!has_text || !smol_text_tables_open(text_copy, section->text.size, &rules, &error));
    CLAIM(!smol_tokenizer_tables_open(copy, section->size, VOCAB_SIZE, has_text ? &rules : NULL,
                                      &tables, &error));
    uint8_t *scanner_copy = exact_copy(scanner->data, scanner->size);
    if (scanner->size > 0)
        CLAIM(!smol_scanner_tables_open(scanner_copy, scanner->size, &tables.scanner, &error));
    fuzz_tokenize(&tables, text, size);
    if (!has_text && scanner->size == 0) /* which may add spaces, or remove what they find */
        fuzz_round_trip(&tables, text, size);
    free(copy);
    free(text_copy);
    free(scanner_copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *root;
    smol_error error;
    struct tokenizer_rules rules = {0};
    struct tokenizer_section section;
    if (smol_json_parse("fuzz", data, size, &root, &error))
        return 0;
    if (!smol_tokenizer_check_rules(root, "fuzz", &rules, &error)) {
        if (!smol_tokenizer_compile(root, "fuzz", &rules, VOCAB_SIZE, &section, &error))
            check_section(&section, &rules.pretokenizer.scanner, data, size);
        smol_tokenizer_section_free(&section);
    }
    smol_tokenizer_rules_free(&rules);
    json_decref(root);
    return 0;
}
