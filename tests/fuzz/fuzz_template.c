/* A chat template, compiled to code that must be good code, and run on a conversation. An input is
 * the template's source; of two, with a byte 0 between them, the second is for tools. */
#include <string.h>

#include "convert/template/template_compiler.h"
#include "format/template.h"
#include "runtime/chat.h"
#include "tests/fuzz/conversation.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct template_token tokens[] = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
    const char *text = (const char *)data, *zero = memchr(data, 0, size);
    size_t n = zero ? (size_t)(zero - text) : size;
    const struct template_input input = {
        "fuzz",
        {"plain", text, n},
        {"tools", zero ? zero + 1 : NULL, zero ? size - n - 1 : 0},
        tokens,
        2,
    };
    struct template_section section;
    struct template_code code;
    smol_error error;
    const char *reason;
    if (smol_template_compile(&input, &section, &reason, &error))
        return 0;
    uint8_t *copy = exact_copy(section.data, section.size);
    CLAIM(!smol_template_open(copy, section.size, &code, &error));
    CLAIM((reason == NULL) == (code.header.n_functions > 0));
    if (!reason)
        fuzz_converse(&code);
    free(copy);
    free(section.data);
    return 0;
}
