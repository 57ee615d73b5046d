/* The subject of an inspection or one side of a comparison: a blob, a safetensors file or a
 * checkpoint, open. */
#ifndef SMOL_CONVERT_SUBJECT_H
#define SMOL_CONVERT_SUBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/inspect/model_tensor.h"
#include "convert/source.h"
#include "convert/template/template_list.h"

enum subject_kind { SUBJECT_BLOB, SUBJECT_CHECKPOINT, SUBJECT_SAFETENSORS };

/* Purposes of tensors, and other uses of bytes. */
enum part {
    PART_EMBEDDING, /* with learned positions */
    PART_ATTENTION,
    PART_STATES, /* layers with states in place of attention */
    PART_MLP,
    PART_EXPERTS,
    PART_NORMS,
    PART_OUTPUT,
    PART_OTHER, /* tensors with unknown names */
    PART_TOKENIZER,
    PART_SECTIONS, /* headers, tables, padding */
    PART_COUNT,
};

struct part_sum {
    uint64_t n_tensors, n_parameters, bytes;
};

/* The bytes of a blob of one dtype, and for each length of `contexts` those of keys and values, of
 * states, and of all. */
enum { SUBJECT_CONTEXTS = 3 };
struct memory_need {
    enum blob_dtype dtype;
    uint64_t blob;
    uint64_t cache[SUBJECT_CONTEXTS], states[SUBJECT_CONTEXTS], total[SUBJECT_CONTEXTS];
};

struct subject {
    const char *path; /* not owned */
    enum subject_kind kind;
    struct model_file file; /* for a blob or a safetensors file */
    /* for a checkpoint */
    struct source source;
    struct json_settings config;    /* config.json */
    smol_error reason;              /* why it is not supported; SMOL_OK if it is */
    struct blob would_be;           /* the settings and tokenizer of the blob to convert to; without
                                       a header */
    bool has_weights;               /* false: the weights are of an unsupported kind */
    const char *template_in;        /* the file of the chat template, or NULL */
    struct template_list templates; /* by name; empty if a file was given */
    /* for all kinds */
    const struct blob *blob; /* the settings; NULL: unknown */
    struct model_tensor *tensors;
    size_t n_tensors;
    char (*names)[MAX_NAME]; /* storage for the names of a blob's tensors */
    uint64_t n_parameters;
    struct part_sum parts[PART_COUNT];
    uint32_t contexts[SUBJECT_CONTEXTS]; /* (n_contexts), ascending */
    size_t n_contexts;
    struct memory_need needs[DTYPE_INT4]; /* one for each dtype at most */
    size_t n_needs;                       /* 0: unknown */
};

/* Opens `path` as a checkpoint with `options`, or as a file if `options` is NULL; `verify` says
 * when to check a blob's data. A checkpoint that cannot be converted is not an error. After an
 * error, nothing stays open. Errors: SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED (a
 * file of another kind), SMOL_ERROR_MEMORY. */
smol_status smol_subject_open(const char *path, const struct source_options *options,
                              enum verify verify, struct subject *subject, smol_error *error);

/* Lists the tensors, adds up their bytes and estimates memory. `context` is a number of tokens to
 * estimate it for; 0 is the longest text of the model. Errors: SMOL_ERROR_USAGE (`context` is too
 * long), SMOL_ERROR_MEMORY. */
smol_status smol_subject_list(struct subject *subject, uint32_t context, smol_error *error);

/* Sets the dtype of the blob that a supported checkpoint would be converted to. The dense layers of
 * its embeddings depend on it. Errors: SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY. */
smol_status smol_subject_set_dtype(struct subject *subject, enum blob_dtype dtype,
                                   smol_error *error);

/* Returns whether each token sees the whole text, of a subject with settings. */
bool smol_subject_sees_ahead(const struct subject *subject);

/* Returns the final status of a step that ended with `status`, see file_settle. */
smol_status smol_subject_settle(const struct subject *subject, smol_status status,
                                smol_error *error);

void smol_subject_close(struct subject *subject);

enum part smol_part_of(const struct model_tensor *tensor);
const char *smol_part_name(enum part part); /* "embedding" */

#endif
