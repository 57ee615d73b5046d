/* The code of a chat template as a blob may have it, run on a conversation. An input is a template
 * section. */
#include "format/template.h"
#include "tests/fuzz/conversation.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct template_code code;
    smol_error error;
    uint8_t *copy = exact_copy(data, size);
    if (!smol_template_open(copy, size, &code, &error) && code.header.n_functions > 0)
        fuzz_converse(&code);
    free(copy);
    return 0;
}
