/* Grammars as terms. An input is the grammar. */
#include "runtime/constrain/front_ends.h"
#include "tests/fuzz/constraint.h"

enum { MAX_GRAMMAR = 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct term_table *table;
    smol_error error;
    term root;
    if (size > MAX_GRAMMAR || smol_terms_create(&table, &error))
        return 0;
    uint8_t *text = exact_copy(data, size);
    if (smol_grammar_term(table, (const char *)text, size, &root, &error))
        smol_terms_free(table);
    else
        follow_text(table, root, size > 0 ? data[size - 1] : 0);
    free(text);
    return 0;
}
