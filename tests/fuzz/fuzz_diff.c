/* Comparing two models. An input says what is compared, then holds a blob as build.h has it. The
 * other side is a blob from the same bytes with some of them changed, or a safetensors file, which
 * is what follows the blob in the input. */
#include <stdbool.h>

#include "convert/inspect/inspect.h"
#include "tests/fuzz/files.h"

struct comparing {
    uint8_t n_changes; /* of the other blob's recipe */
    uint8_t foreign;   /* its lowest bit: the other side is a safetensors file */
};

/* The output consists of lines of text that cannot steer a terminal. */
static smol_status diff(const char *a, const char *b)
{
    char *text = NULL;
    size_t size = 0;
    smol_error error;
    FILE *out = open_memstream(&text, &size);
    CLAIM(out);
    smol_status status = smol_diff(a, b, out, &error);
    CLAIM(!fclose(out));
    for (size_t i = 0; i < size; i++)
        CLAIM(!is_control(text[i]) || text[i] == '\n');
    free(text);
    return status;
}

static const char *write_foreign(const struct fuzz_input *in)
{
    uint64_t prefix = in->size;
    uint8_t *file = exact_zeros(sizeof prefix + in->size);
    memcpy(file, &prefix, sizeof prefix);
    if (in->size > 0)
        memcpy(file + sizeof prefix, in->data, in->size);
    const char *path = fuzz_write("b.safetensors", file, sizeof prefix + in->size);
    free(file);
    return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct comparing comparing;
    fuzz_take(&in, &comparing, sizeof comparing);
    const struct fuzz_input recipe = in;
    struct built a = fuzz_build_blob(&in);
    struct built b = fuzz_build_changed(&in, &recipe, comparing.n_changes % 8);
    const char *path_a = fuzz_write("a.smol", a.data, a.size);
    const char *path_b =
        comparing.foreign & 1 ? write_foreign(&in) : fuzz_write("b.smol", b.data, b.size);
    smol_status forth = diff(path_a, path_b), back = diff(path_b, path_a);
    CLAIM((forth == SMOL_OK) == (back == SMOL_OK));
    CLAIM((forth == SMOL_ERROR_MISMATCH) == (back == SMOL_ERROR_MISMATCH));
    smol_status self = diff(path_a, path_a);
    CLAIM(self != SMOL_ERROR_MISMATCH);
    CLAIM(self == SMOL_OK || (forth != SMOL_OK && forth != SMOL_ERROR_MISMATCH));
    free(a.data);
    free(b.data);
    return 0;
}
