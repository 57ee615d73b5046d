/* The scanner section of a blob as typed pointers, after every rule has been checked. It is in the
 * front, which does not change while a blob is open, so scanning needs no further checks. */
#ifndef SMOL_FORMAT_SCANNER_H
#define SMOL_FORMAT_SCANNER_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "format/format.h"

/* All zeros if the blob has no scanner. The header is a copy; the pointers point into the
 * section. */
struct scanner_tables {
    struct blob_scanner header;
    const struct scanner_stage *stages; /* (n_stages) */
    const uint16_t *class_index;        /* (CLASS_INDEX_SIZE) */
    const uint8_t *class_blocks;        /* (n_class_blocks, 256) */
    const uint8_t *byte_classes;        /* (256) */
    const uint16_t *starts;             /* (n_stages, row) */
    const uint16_t *states;             /* (n_states, row) */
    const uint16_t *ahead;              /* (n_ahead_states, row) */
};

/* Checks the section data[0..size), aligned to 64 bytes, and fills *tables. Errors:
 * SMOL_ERROR_DAMAGED. */
smol_status smol_scanner_tables_open(const uint8_t *data, size_t size,
                                     struct scanner_tables *tables, smol_error *error);

/* Returns whether the section uses anything of FEATURE_AHEAD. */
bool smol_scanner_looks_ahead(const struct scanner_tables *tables);

#endif
