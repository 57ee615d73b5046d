/* Reads the safetensors format (https://github.com/huggingface/safetensors, README): eight bytes of
 * header length, a JSON header, then the bytes of the tensors. The reader works on a memory
 * mapping, copies only names and shapes, and treats all input as untrusted. */
#ifndef SMOL_CONVERT_SAFETENSORS_H
#define SMOL_CONVERT_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/file.h"
#include "convert/base/element.h"

enum { SAFETENSORS_MAX_HEADER = 100000000, SAFETENSORS_MAX_RANK = 8 };

/* The order in which a GGUF file has the rows, or some columns, of heads. Without groups it is that
 * of each head's rows: i and i + size / 2 are next to each other. With groups it is that of heads
 * that share keys in groups: the file has the first head of each group, then the second of each,
 * and so on, and the matrix has those of a group side by side. */
struct head_order {
    uint32_t size;              /* rows (or columns) of a head; 0: the usual order */
    uint32_t from;              /* the first row (or column) of the first head */
    uint16_t groups, per_group; /* per_group: heads */
};

/* Scales of a matrix of bytes (scales.h): blocks of `rows` by `cols` of its elements share one,
 * which they are multiplied by. */
struct tensor_scales {
    const uint8_t *data;
    enum safetensors_dtype dtype;
    const uint8_t *matrix; /* its first element; `width` columns */
    uint64_t rows, cols, width;
    uint64_t per_row; /* blocks side by side */
};

/* How the weights follow from the elements. */
enum tensor_function {
    FUNCTION_NONE,       /* they are the elements */
    FUNCTION_LOG,        /* elements are -exp(x) of weights x */
    FUNCTION_TURNED,     /* in each `head_dim` rows those of the second half have the other sign */
    FUNCTION_NORMALIZED, /* each row is divided by the root of `epsilon` + its mean square */
    FUNCTION_ABSENT      /* the file lacks them; the elements, zeros, are elsewhere */
};

struct safetensors_tensor {
    const char *name; /* UTF-8, owned by the reader */
    const char *path; /* the file that contains it; not owned */
    enum safetensors_dtype dtype;
    uint8_t rank;     /* 0: a scalar */
    uint8_t function; /* enum tensor_function */
    bool by_columns;  /* `heads` is about columns */
    bool swaps;       /* a run's rows are inputs of the whole; its columns outputs, of which
                       * run_step / col_step are those of a run */
    uint64_t shape[SAFETENSORS_MAX_RANK];
    const uint8_t *data;  /* the elements, row-major, little-endian; any alignment */
    uint64_t begin, size; /* bytes: their place in the data after the header */
    /* For a part of a split tensor (fused.h): the name and the number of outputs of that tensor,
     * and the output at which the part starts. Otherwise, and for an expert's part, zero. */
    const char *whole;
    uint64_t whole_rows, first_row;
    /* For a part that is not stored row by row: of each `run_step` outputs of the whole, counted
     * from first_row, the first `run` are the part's. Rows are row_step elements apart, and columns
     * col_step. A run of 0: row by row. */
    uint64_t run, run_step, row_step, col_step;
    union { /* many tensors of hostile files must take little memory */
        /* With a run, not 0: it has three pieces, the first two of this length, the third with the
         * rest. The part has the first piece of all runs, then the second of all, then the third.
         */
        uint32_t piece;
        uint32_t head_dim; /* of FUNCTION_TURNED */
        float epsilon;     /* of FUNCTION_NORMALIZED */
    };
    struct head_order heads;
    const struct tensor_scales *scales; /* of the matrix that contains the elements; NULL: none */
};

/* One file, or several joined (smol_safetensors_join). */
struct safetensors {
    struct file_view file;              /* zeroed if joined */
    const char *path;                   /* not owned */
    struct safetensors_tensor *tensors; /* in the order of their data */
    size_t n_tensors;
    const struct safetensors_tensor **by_name; /* the same tensors, in the order of their names */
    char *names;                               /* the memory of the names; NULL if joined */
    struct tensor_scales *scales;              /* the memory of the scales; may be NULL */
};

/* Maps and checks the file `path`; the string must outlive the reader. Afterwards every rule of the
 * format holds: the bytes of each tensor lie in the file and match dtype times shape, and the
 * tensors cover the data without gap or overlap. Refuses everything that the reference package
 * refuses, and some files that it accepts but readers may interpret differently (see
 * safetensors.c). Errors: SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED (with the byte offset in the file),
 * SMOL_ERROR_UNSUPPORTED (a file of another kind, named, or too many dimensions),
 * SMOL_ERROR_MEMORY. */
smol_status smol_safetensors_open(const char *path, struct safetensors *reader, smol_error *error);

/* Reads an open file. The reader takes ownership of the view, also on an error, and zeroes
 * *file. */
smol_status smol_safetensors_open_view(struct file_view *file, const char *path,
                                       struct safetensors *reader, smol_error *error);

/* Joins the tensors of `n` open files into one table. The files must stay open until the table is
 * closed. `path` is used in messages only. Errors: SMOL_ERROR_DAMAGED (a tensor in two files),
 * SMOL_ERROR_MEMORY. */
smol_status smol_safetensors_join(const struct safetensors *files, size_t n, const char *path,
                                  struct safetensors *joined, smol_error *error);

/* Fills by_name from the tensors, again if the table has changed. Errors: SMOL_ERROR_DAMAGED (two
 * tensors of one name), SMOL_ERROR_MEMORY. */
smol_status smol_safetensors_index(struct safetensors *reader, smol_error *error);

void smol_safetensors_close(struct safetensors *reader);

/* Returns the tensor called `name`, or NULL. */
const struct safetensors_tensor *smol_safetensors_find(const struct safetensors *reader,
                                                       const char *name);

#endif
