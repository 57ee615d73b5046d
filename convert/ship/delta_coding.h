/* The bytes of one part of a delta: coded against OLD's, and back. format/DELTA.md says how. */
#ifndef SMOL_CONVERT_DELTA_CODING_H
#define SMOL_CONVERT_DELTA_CODING_H

#include <stdint.h>

#include "common/error.h"
#include "format/delta.h"

/* A part as it lies in the delta. */
struct delta_record {
    struct delta_part part;
    uint8_t coded[DELTA_MAX_CODED]; /* (part.coded_size) */
};

/* The digest that the record should have. */
uint64_t smol_delta_digest(const struct delta_record *record);

/* Codes the part's bytes of NEW, bytes[0..new_size), with its method, which is not DELTA_COPY.
 * old (old_size): the part's bytes of OLD. Fills in `coded` and part.coded_size, the same for
 * the same input. `level` is zstd's. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_delta_encode(struct delta_record *record, const uint8_t *old, const uint8_t *bytes,
                              int level, smol_error *error);

/* State of decoding, for one thread. */
struct delta_decoder {
    void *zstd;           /* ZSTD_DCtx */
    uint8_t *differences; /* (DELTA_MAX_NEW) */
};

/* Errors: SMOL_ERROR_MEMORY; close it in any case. */
smol_status smol_delta_decoder_open(struct delta_decoder *decoder, smol_error *error);
void smol_delta_decoder_close(struct delta_decoder *decoder);

/* The way back: fills bytes[0..new_size). The part's sizes are within their limits; what is coded
 * may be anything. Errors, without a message: SMOL_ERROR_DAMAGED (it is not exactly one frame of
 * new_size bytes), SMOL_ERROR_MEMORY. */
smol_status smol_delta_decode(const struct delta_decoder *decoder,
                              const struct delta_record *record, const uint8_t *old,
                              uint8_t *bytes);

#endif
