/* Reader of the safetensors format (https://github.com/huggingface/safetensors, README): eight
 * bytes of header length, a JSON header, then the tensors' bytes. Reads over a mapping, copies
 * nothing but names and shapes, and trusts nothing. */
#ifndef SMOL_CONVERT_SAFETENSORS_H
#define SMOL_CONVERT_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/file.h"
#include "convert/base/element.h"

enum { SAFETENSORS_MAX_HEADER = 100000000, SAFETENSORS_MAX_RANK = 8 };

struct safetensors_tensor {
    const char *name; /* UTF-8, owned by the reader */
    const char *path; /* of the file that it is in, not owned */
    enum safetensors_dtype dtype;
    unsigned rank; /* 0: a scalar */
    uint64_t shape[SAFETENSORS_MAX_RANK];
    const uint8_t *data; /* the elements, row-major, little-endian; any alignment */
    uint64_t begin, end; /* where they lie in the data after the header */
    uint64_t size;       /* bytes: end - begin */
    /* For a part of a split tensor (fused.h): that tensor's name and rows, and the row at which the
     * part starts; otherwise zero. */
    const char *whole;
    uint64_t whole_rows, first_row;
};

/* A file, or several as one (smol_safetensors_join). */
struct safetensors {
    struct file_view file;              /* zeroed: several */
    const char *path;                   /* not owned */
    struct safetensors_tensor *tensors; /* in the order of their data */
    size_t n_tensors;
    const struct safetensors_tensor **by_name; /* the same, in the order of their names */
    char *names;                               /* the memory of the names; of a file */
};

/* Maps and checks the file `path` (which must outlive the reader). Every rule of the format holds
 * afterwards: each tensor's bytes lie in the file, match dtype times shape, and the tensors cover
 * the data without hole or overlap. What the reference package refuses is refused; so is what it
 * accepts although two readers could disagree about it, see safetensors.c. Errors: SMOL_ERROR_FILE,
 * SMOL_ERROR_DAMAGED (with the byte offset in the file), SMOL_ERROR_UNSUPPORTED (a file of another
 * kind, named), SMOL_ERROR_MEMORY. */
smol_status smol_safetensors_open(const char *path, struct safetensors *reader, smol_error *error);

/* Reads a file that is open already. The reader takes the view over, also on an error, and
 * leaves it zeroed. */
smol_status smol_safetensors_open_view(struct file_view *file, const char *path,
                                       struct safetensors *reader, smol_error *error);

/* The tensors of `n` open files as one table, which relies on them until it is closed. `path` is
 * for messages. Errors: SMOL_ERROR_DAMAGED (a tensor that is in two of them), SMOL_ERROR_MEMORY. */
smol_status smol_safetensors_join(const struct safetensors *files, size_t n, const char *path,
                                  struct safetensors *joined, smol_error *error);

void smol_safetensors_close(struct safetensors *reader);

/* The tensor called `name`, or NULL. */
const struct safetensors_tensor *smol_safetensors_find(const struct safetensors *reader,
                                                       const char *name);

#endif
