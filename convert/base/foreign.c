/* Files of other kinds, see foreign.h. */
#include "convert/base/foreign.h"

#include <stdbool.h>
#include <string.h>

#include "format/delta.h"

static const struct kind {
    const char *magic;
    size_t size;
    const char *what;
} kinds[] = {
    {"version https://git-lfs", 23,
     "a Git LFS pointer, not the file itself: run `git lfs pull` in the checkpoint's folder"},
    {"GGUF", 4, "a GGUF file, made for another program: name the original safetensors checkpoint"},
    {BLOB_MAGIC, BLOB_MAGIC_SIZE, "a .smol blob, converted already: give it to smolrun"},
    {DELTA_MAGIC, 4, "an update of a .smol blob: `smolconv patch` applies it"},
    {"\x89SMS", 4, "a session, not a model: see smolrun --session"},
    {"\x8bLOGIT\r\n", 8, "saved logits, not a model: see smolrun perplexity --kl-from"},
    {"PK\x03\x04", 4,
     "a zip archive, such as a PyTorch .bin: save it as safetensors first (save_pretrained does)"},
    {"\x28\xb5\x2f\xfd", 4, "compressed with zstd: use `smolconv unpack` (or `zstd -d`) first"},
};

/* Protocols 2 to 5 begin so; older ones have no magic, nor were they used for models. */
static bool is_pickle(const uint8_t *data, size_t size)
{
    return size >= 2 && data[0] == 0x80 && data[1] >= 2 && data[1] <= 5;
}

static bool is_markup(const uint8_t *data, size_t size)
{
    size_t i = 0;
    while (i < size && (data[i] == ' ' || (data[i] >= '\t' && data[i] <= '\r')))
        i++;
    return i < size && data[i] == '<';
}

const char *smol_foreign_kind(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (size >= kinds[i].size && memcmp(data, kinds[i].magic, kinds[i].size) == 0)
            return kinds[i].what;
    if (is_pickle(data, size))
        return "a Python pickle, such as an old PyTorch .bin: save it as safetensors first "
               "(save_pretrained does)";
    if (is_markup(data, size))
        return "a web page or an error message, not the file itself: download the raw file, "
               "logged in where that is needed";
    return NULL;
}
