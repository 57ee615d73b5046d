/* A sharded checkpoint's weights. An input is the index and the headers of two shards and of a file
 * of another name, in this order, each ended by a NUL, which no JSON text contains; those that are
 * not there are missing files. */
#include "convert/checkpoint/shards.h"
#include "tests/fuzz/files.h"
#include "tests/fuzz/weights_file.h"

static const char *const names[] = {"model.safetensors.index.json",
                                    "model-00001-of-00002.safetensors",
                                    "model-00002-of-00002.safetensors", "x.safetensors"};
enum { N_FILES = sizeof names / sizeof names[0] };

static void write_shard(const char *name, const uint8_t *header, size_t header_size)
{
    size_t size;
    uint8_t *file = fuzz_weights_file(header, header_size, &size);
    fuzz_write(name, file, size);
    free(file);
}

static void write_files(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < N_FILES; i++) {
        const uint8_t *end = size > 0 ? memchr(data, 0, size) : NULL;
        size_t length = end ? (size_t)(end - data) : size;
        if (length == 0)
            fuzz_remove(names[i]);
        else if (i == 0)
            fuzz_write(names[i], data, length);
        else
            write_shard(names[i], data, length);
        length += end != NULL;
        data += length;
        size -= length;
    }
}

static const struct safetensors *file_of(const struct shards *shards, const char *path)
{
    for (size_t i = 0; i < shards->n_files; i++)
        if (strcmp(shards->paths[i], path) == 0)
            return &shards->files[i];
    return NULL;
}

static void check_shards(const struct shards *shards)
{
    size_t n = 0;
    uint64_t size = 0;
    CLAIM(shards->n_files > 0 && shards->n_files < N_FILES && shards->index_mark.size > 0);
    for (size_t i = 0; i < shards->n_files; i++) {
        CLAIM(i == 0 || strcmp(shards->paths[i - 1], shards->paths[i]) < 0);
        CLAIM(shards->files[i].n_tensors > 0);
        n += shards->files[i].n_tensors;
        size += shards->files[i].file.size;
    }
    CLAIM(n == shards->all.n_tensors && size == smol_shards_size(shards));
    for (size_t i = 0; i < n; i++) {
        const struct safetensors_tensor *tensor = &shards->all.tensors[i];
        const struct safetensors *file = file_of(shards, tensor->path);
        CLAIM(file && smol_safetensors_find(&shards->all, tensor->name) == tensor);
        CLAIM(smol_safetensors_find(file, tensor->name)->data == tensor->data);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct shards shards;
    smol_error error;
    write_files(data, size);
    if (!smol_shards_open(fuzz_path(names[0]), &shards, &error))
        check_shards(&shards);
    smol_shards_close(&shards);
    return 0;
}
