/* Codes and decodes the bytes of one part of a delta, see format/DELTA.md. */
#ifndef SMOL_CONVERT_DELTA_CODING_H
#define SMOL_CONVERT_DELTA_CODING_H

#include <stdint.h>

#include "common/error.h"
#include "format/delta.h"

/* A part as stored in the delta. */
struct delta_record {
    struct delta_part part;
    uint8_t coded[DELTA_MAX_CODED]; /* (part.coded_size) */
};

/* Computes the digest of the record. */
uint64_t smol_delta_digest(const struct delta_record *record);

/* Codes the part's bytes of NEW, bytes[0..new_size), with its method, which must not be DELTA_COPY.
 * old (old_size) holds the part's bytes of OLD. Fills `coded` and part.coded_size. The result
 * depends only on the input. `level` is that of zstd. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_delta_encode(struct delta_record *record, const uint8_t *old, const uint8_t *bytes,
                              int level, smol_error *error);

/* The state of decoding, used by one thread. */
struct delta_decoder {
    void *zstd;           /* ZSTD_DCtx */
    uint8_t *differences; /* (DELTA_MAX_NEW) */
};

/* Opens a decoder. Close it also after an error. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_delta_decoder_open(struct delta_decoder *decoder, smol_error *error);
void smol_delta_decoder_close(struct delta_decoder *decoder);

/* Decodes a part into bytes[0..new_size). The caller has checked the part's sizes; the coded bytes
 * are untrusted. Errors, without a message: SMOL_ERROR_DAMAGED (they are not exactly one frame of
 * new_size bytes), SMOL_ERROR_MEMORY. */
smol_status smol_delta_decode(const struct delta_decoder *decoder,
                              const struct delta_record *record, const uint8_t *old,
                              uint8_t *bytes);

#endif
