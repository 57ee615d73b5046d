/* The data of a blob in chunks, each with a digest in the front, see reader.h and front.h. */
#include "format/front.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/hash.h"
#include "format/sections.h"

/* Returns the tensor that contains the byte at `offset`, or NULL. */
static const struct blob_tensor *tensor_at(const struct blob *blob, uint64_t offset)
{
    for (size_t i = 0; i < blob->n_tensors; i++) {
        const struct blob_tensor *tensor = &blob->tensors[i];
        if (offset >= tensor->offset && offset - tensor->offset < tensor->size)
            return tensor;
    }
    return NULL;
}

static const char *tensor_name(const struct blob_tensor *tensor, char name[MAX_NAME])
{
    return smol_tensor_name(tensor_key(tensor), name);
}

const char *smol_blob_place(const struct blob *blob, uint64_t offset, char name[MAX_PLACE])
{
    const struct blob_section *sections = section_table(blob);
    const struct blob_tensor *tensor = tensor_at(blob, offset);
    char label[MAX_NAME];
    size_t n = 0;
    while (n < blob->header->n_sections && sections[n].offset <= offset)
        n++;
    if (tensor)
        snprintf(name, MAX_PLACE, "weights, tensor %s", tensor_name(tensor, label));
    else if (n > 0)
        snprintf(name, MAX_PLACE, "section %s", smol_section_name(sections[n - 1].kind));
    else
        snprintf(name, MAX_PLACE, offset < sizeof *blob->header ? "header" : "section table");
    return name;
}

/* Reports a damaged chunk, naming everything that has bytes in it. */
static smol_status damaged_chunk(const struct blob *blob, uint64_t offset, uint64_t size,
                                 smol_error *error)
{
    const struct blob_tensor *first = tensor_at(blob, offset);
    const struct blob_tensor *last = tensor_at(blob, offset + size - 1);
    bool several = last && last != first;
    char place[MAX_PLACE], name[MAX_NAME];
    return smol_fail(error, SMOL_ERROR_DAMAGED,
                     "%s: data damaged (%s%s%s, bytes %" PRIu64 " to %" PRIu64
                     "): fetch a fresh copy",
                     blob->path, smol_blob_place(blob, offset, place), several ? " to " : "",
                     several ? tensor_name(last, name) : "", offset, offset + size - 1);
}

static uint64_t chunk_start(const struct blob *blob, size_t chunk)
{
    return blob->header->data_offset + (uint64_t)chunk * BLOB_CHUNK_SIZE;
}

uint64_t smol_chunk_size(const struct blob *blob, size_t chunk)
{
    uint64_t rest = blob->header->file_size - chunk_start(blob, chunk);
    return rest < BLOB_CHUNK_SIZE ? rest : BLOB_CHUNK_SIZE;
}

smol_status smol_blob_check_chunk(const struct blob *blob, size_t chunk, const uint8_t *data,
                                  smol_error *error)
{
    uint64_t start = chunk_start(blob, chunk), length = smol_chunk_size(blob, chunk);
    if (smol_digest(data, length) != blob->digests[chunk])
        return damaged_chunk(blob, start, length, error);
    return SMOL_OK;
}

smol_status smol_verify_chunk(const struct blob *blob, size_t chunk, smol_error *error)
{
    const uint8_t *data = blob->file.data + chunk_start(blob, chunk);
    smol_status status = smol_blob_check_chunk(blob, chunk, data, error);
    if (status)
        return status;
    /* relaxed: the flag only avoids repeated work on bytes that do not change */
    atomic_store_explicit(&blob->checked[chunk], 1, memory_order_relaxed);
    return SMOL_OK;
}

smol_status smol_blob_check(const struct blob *blob, uint64_t offset, uint64_t size,
                            smol_error *error)
{
    if (size == 0)
        return SMOL_OK;
    size_t first = (offset - blob->header->data_offset) / BLOB_CHUNK_SIZE;
    size_t last = (offset - blob->header->data_offset + size - 1) / BLOB_CHUNK_SIZE;
    smol_status status = SMOL_OK;
    for (size_t chunk = first; !status && chunk <= last; chunk++)
        if (!atomic_load_explicit(&blob->checked[chunk], memory_order_relaxed))
            status = smol_verify_chunk(blob, chunk, error);
    return status;
}
