/* Regular expressions as terms. An input is the syntax and the expression. */
#include "runtime/constrain/front_ends.h"
#include "tests/fuzz/constraint.h"

enum { MAX_PATTERN = 256 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct term_table *table;
    smol_error error;
    term root;
    const uint8_t choice = fuzz_take_byte(&in);
    if (in.size > MAX_PATTERN || smol_terms_create(&table, &error))
        return 0;
    uint8_t *pattern = exact_copy(in.data, in.size);
    if (smol_regex_term(table, (const char *)pattern, in.size,
                        choice & 1 ? REGEX_SEARCH : REGEX_WHOLE, smol_utf8_term, NULL, &root,
                        &error))
        smol_terms_free(table);
    else
        follow_text(table, root, choice);
    free(pattern);
    return 0;
}
