/* Writes a blob in one pass: the bytes of the tensors stream through and are digested on the way,
 * and the front is written last. The blob goes into a file or into the caller's sink. */
#ifndef SMOL_CONVERT_BLOB_WRITER_H
#define SMOL_CONVERT_BLOB_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "format/format.h"
#include "format/layout.h"
#include "format/sections.h"

/* The contents of a blob except the bytes of its tensors. All pointers belong to the caller. */
struct blob_contents {
    const struct blob_model *model; /* as smol_model_reduce leaves it */
    const float *inv_freq;          /* (n_rope_tables, rotary_dim / 2) */
    const uint32_t *stop;           /* (n_stop), ascending */
    size_t n_stop;
    const struct blob_generation *generation;
    const char *provenance; /* (n_provenance) */
    size_t n_provenance;
    const uint8_t *tokenizer; /* (n_tokenizer), a whole tokenizer section */
    size_t n_tokenizer;
    const uint8_t *scanner; /* (n_scanner), a whole scanner section; none if 0 */
    size_t n_scanner;
    const uint8_t *layers; /* (n_layers), bits of enum layer_bit; may be NULL for a plain model */
    const uint8_t *text;   /* (n_text), a whole text section; 0 for a blob without one */
    size_t n_text;
    const uint8_t *template_section; /* (n_template), or NULL for a blob without one */
    size_t n_template;
    const struct blob_encoder *encoder; /* or NULL */
    bool sees_ahead;                    /* with an encoder: FEATURE_ENCODER */
    const uint8_t *embedder;            /* (n_embedder), a whole embedder section; none if 0 */
    size_t n_embedder;
    struct mix mix;        /* zeroed for a blob whose matrices all have the model's dtype */
    uint64_t matrix_bytes; /* of all matrices, to plan with before they have dtypes: `mix` then only
                              tells the number of levels; 0: as the dtypes have them */
};

/* The sections of a blob with certain contents, in their order. `data` is NULL for those that are
 * written later: the tensor table, the digests, the tokenizer and the weights. */
struct section_plan {
    struct blob_section table[MAX_SECTIONS]; /* (n) */
    const void *data[MAX_SECTIONS];          /* (n) */
    size_t n;
};

/* Lays out the sections. Returns the size in bytes of the blob. Reads the sizes of the provenance
 * and the tokenizer, not their bytes. */
uint64_t smol_writer_plan(const struct blob_contents *contents, struct section_plan *plan);

/* Writes the bytes data[0..size) at `offset` of the blob: first the data sections in order, then
 * the whole front at offset 0. An error ends the blob. */
typedef smol_status blob_put(void *target, uint64_t offset, const void *data, size_t size,
                             smol_error *error);
struct blob_sink {
    blob_put *put;
    void *target;
};

struct blob_writer;
struct output;

/* Starts a blob in the open *output and writes its tokenizer. Takes ownership of the output, also
 * after an error. Errors: SMOL_ERROR_FILE, SMOL_ERROR_MEMORY, SMOL_ERROR_UNSUPPORTED (a front above
 * BLOB_MAX_FRONT). */
smol_status smol_writer_open(struct output *output, const struct blob_contents *contents,
                             struct blob_writer **writer, smol_error *error);

/* Starts a blob whose bytes go into `sink`. Errors: SMOL_ERROR_MEMORY, SMOL_ERROR_UNSUPPORTED (a
 * front above BLOB_MAX_FRONT) and those of the sink. */
smol_status smol_writer_open_sink(const struct blob_sink *sink,
                                  const struct blob_contents *contents, struct blob_writer **writer,
                                  smol_error *error);

/* Appends bytes of the weights section. The tensors follow one another, each in the layout of
 * smol_tensor_layout with the storage of contents->mix, without aliases. */
smol_status smol_writer_append(struct blob_writer *writer, const void *data, size_t size,
                               smol_error *error);

/* Writes the front. A file then appears under its name, complete. Frees the writer, also on an
 * error. */
smol_status smol_writer_finish(struct blob_writer *writer, smol_error *error);

/* Discards the blob and removes its file. NULL is allowed. */
void smol_writer_abort(struct blob_writer *writer);

#endif
