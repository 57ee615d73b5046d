/* JSON Schemas as terms. An input is the schema. */
#include "runtime/constrain/front_ends.h"
#include "tests/fuzz/constraint.h"

enum { MAX_SCHEMA = 2048 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct term_table *table;
    smol_error error;
    term root;
    uint8_t last = size > 0 ? data[size - 1] : 0;
    const struct schema_options options = {(enum json_space)(last % 3), last % 2, NULL};
    if (size > MAX_SCHEMA || smol_terms_create(&table, &error))
        return 0;
    uint8_t *text = exact_copy(data, size);
    if (smol_schema_term(table, (const char *)text, size, &options, &root, &error))
        smol_terms_free(table);
    else
        follow_text(table, root, last);
    free(text);
    return 0;
}
