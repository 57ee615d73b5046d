/* Recognises files of other kinds, see foreign.h. */
#include "convert/base/foreign.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/file.h"
#include "format/delta.h"
#include "format/session.h"
#include "format/stats.h"

#define ONNX "an ONNX model: download the original safetensors checkpoint"
#define SAVE "save the model as safetensors with transformers (save_pretrained)"
#define KERAS "a Keras file: " SAVE

/* Kinds that the first bytes of a file identify. */
static const struct {
    const char *magic;
    size_t size;
    const char *what;
} magics[] = {
    {"version https://git-lfs", 23,
     "a Git LFS pointer, not the file itself: run `git lfs pull` in the checkpoint's folder"},
    {"GGUF", 4,
     "a GGUF file, which can only be converted as a whole model: smolconv FILE.gguf OUT.smol"},
    {BLOB_MAGIC, BLOB_MAGIC_SIZE, "a .smol blob, already converted: run it with smolrun"},
    {DELTA_MAGIC, 4, "an update of a .smol blob: apply it with `smolconv patch`"},
    {SESSION_MAGIC, 4, "a session, not a model: see smolrun --session"},
    {STATS_MAGIC, 4,
     "a file of calibration statistics, not a model: pass it to `smolconv --calibration`"},
    {"\x8bLOGIT\r\n", 8, "saved logits, not a model: see smolrun perplexity --kl-from"},
    {"PK\x03\x04", 4, "a zip archive, such as a PyTorch .bin: " SAVE},
    {"\x28\xb5\x2f\xfd", 4, "compressed with zstd: use `smolconv unpack` (or `zstd -d`) first"},
    {"\x89HDF", 4, KERAS},
};

/* Kinds that the end of a file name identifies, the most specific first. */
static const struct {
    const char *end, *what;
} names[] = {
    /* only in a folder without model.safetensors */
    {"adapter_model.safetensors",
     "a LoRA adapter: convert its base model and name this folder with --lora"},
    {".safetensors", "a safetensors file of another name: name the file itself; if it is one of "
                     "several shards, download their model.safetensors.index.json"},
    {".gguf",
     "a GGUF file: name the file itself, or better convert the original safetensors checkpoint"},
    /* in any place */
    {".ggml", "an old file of llama.cpp: convert the original safetensors checkpoint"},
    {".onnx", ONNX},
    {".bin", "a PyTorch file: " SAVE},
    {".pth", "a PyTorch file: " SAVE},
    {".pt", "a PyTorch file: " SAVE},
    {".ckpt", "a PyTorch file: " SAVE},
    {".h5", KERAS},
    {".msgpack", "a Flax file: " SAVE},
    {".tflite", "a TensorFlow Lite model: download the original safetensors checkpoint"},
    {".model", "a SentencePiece tokenizer, not a model: name the checkpoint's folder"},
};
enum { N_NAMES = sizeof names / sizeof names[0], FIRST_ANYWHERE = 3 };

/* Returns the index of the first of names[from..N_NAMES) that `name` ends with, or N_NAMES if there
 * is none. */
static size_t find_name(const char *name, size_t from)
{
    size_t length = strlen(name), i;
    for (i = from; i < N_NAMES; i++) {
        size_t n = strlen(names[i].end);
        if (length >= n && strcasecmp(name + length - n, names[i].end) == 0)
            break;
    }
    return i;
}

/* Recognises protocols 2 to 5. Older protocols have no magic; models do not use them. */
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

const char *smol_foreign_kind(const char *path, const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++)
        if (size >= magics[i].size && memcmp(data, magics[i].magic, magics[i].size) == 0)
            return magics[i].what;
    if (is_pickle(data, size))
        return "a Python pickle, such as an old PyTorch .bin: " SAVE;
    if (is_markup(data, size))
        return "a web page or an error message, not the file itself: download the raw file, "
               "logged in where that is needed";
    size_t i = find_name(smol_base_name(path), FIRST_ANYWHERE);
    return i < N_NAMES ? names[i].what : NULL;
}

const char *smol_foreign_in_folder(const char *folder, char name[FOREIGN_NAME])
{
    struct dirent **entries;
    size_t best = N_NAMES;
    int n = scandir(folder, &entries, NULL, alphasort);
    if (n < 0)
        return NULL;
    for (int i = 0; i < n; i++) {
        size_t found = find_name(entries[i]->d_name, 0);
        if (found < best) {
            best = found;
            snprintf(name, FOREIGN_NAME, "%s", entries[i]->d_name);
        }
        free(entries[i]);
    }
    free(entries);
    return best < N_NAMES ? names[best].what : NULL;
}
