/* The subject of an inspection: a blob, a safetensors file or a checkpoint, open. */
#ifndef SMOL_CONVERT_SUBJECT_H
#define SMOL_CONVERT_SUBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/inspect/model_file.h"
#include "convert/inspect/model_tensor.h"
#include "convert/source.h"
#include "convert/template/template_list.h"

enum subject_kind { SUBJECT_BLOB, SUBJECT_CHECKPOINT, SUBJECT_SAFETENSORS };

/* Purposes of tensors, and other uses of bytes. */
enum part {
    PART_EMBEDDING,
    PART_ATTENTION,
    PART_MLP,
    PART_NORMS,
    PART_OUTPUT,
    PART_OTHER, /* tensors that have no name which we know */
    PART_TOKENIZER,
    PART_SECTIONS, /* headers, tables, padding */
    PART_COUNT,
};

struct part_sum {
    uint64_t n_tensors, n_parameters, bytes;
};

/* Bytes of a blob of one dtype, and of keys and values with `n_contexts` lengths of text. */
enum { SUBJECT_CONTEXTS = 3 };
struct memory_need {
    enum blob_dtype dtype;
    uint64_t blob;
    uint64_t cache[SUBJECT_CONTEXTS];
};

struct subject {
    const char *path; /* not owned */
    enum subject_kind kind;
    struct model_file file; /* unless it is a checkpoint */
    /* of a checkpoint */
    struct source source;
    struct json_settings config;    /* config.json */
    smol_error reason;              /* why it is not supported; SMOL_OK: it is */
    struct blob would_be;           /* the settings of the blob that it would become */
    bool has_weights;               /* false: they are of another kind */
    const char *template_in;        /* the file that its chat template is in, or NULL */
    struct template_list templates; /* by name; empty: a file that was given */
    /* of all */
    const struct blob *blob; /* the settings; NULL: none are known */
    struct model_tensor *tensors;
    size_t n_tensors;
    char (*names)[MAX_NAME]; /* storage of the names of a blob's tensors */
    uint64_t n_parameters;
    struct part_sum parts[PART_COUNT];
    uint32_t contexts[SUBJECT_CONTEXTS]; /* (n_contexts), ascending */
    size_t n_contexts;
    struct memory_need needs[3];
    size_t n_needs; /* 0: not known */
};

/* Opens `path` as a checkpoint, read as `options` say, or, where they are NULL, as a file whose
 * blob's data are checked as `verify` says. `context`: tokens whose memory is asked for; 0: all
 * that the model can have. A checkpoint that cannot be converted is no error. On
 * an error nothing stays open. Errors: SMOL_ERROR_USAGE (`context` is too long), SMOL_ERROR_FILE,
 * SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED (a file of another kind), SMOL_ERROR_MEMORY. */
smol_status smol_subject_open(const char *path, const struct source_options *options,
                              uint32_t context, enum verify verify, struct subject *subject,
                              smol_error *error);

/* The result of a step that ended with `status`, see file_settle. */
smol_status smol_subject_settle(const struct subject *subject, smol_status status,
                                smol_error *error);

void smol_subject_close(struct subject *subject);

enum part smol_part_of(const struct model_tensor *tensor);
const char *smol_part_name(enum part part); /* "embedding" */

#endif
