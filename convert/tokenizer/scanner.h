/* Makes the blob's scanner section from patterns. */
#ifndef SMOL_CONVERT_SCANNER_H
#define SMOL_CONVERT_SCANNER_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/tokenizer/pattern.h"
#include "format/format.h"

/* How to cut. Start from zeros. */
struct scanner_plan {
    struct {
        struct pattern pattern;
        enum split_behaviour behaviour;
        uint32_t
            flags; /* of enum stage_flag, but for STAGE_BEHIND, which follows from the pattern */
    } stages[SCANNER_MAX_STAGES];
    uint32_t n_stages;
};

/* The finished section: allocated, padding zero; the same plan always gives the same bytes. */
struct scanner_section {
    uint8_t *data; /* owned (free); NULL: there is none */
    size_t size;
};

/* Compiles the plan. *stage is the stage that an error is about. Errors: SMOL_ERROR_UNSUPPORTED,
 * SMOL_ERROR_MEMORY. */
smol_status smol_scanner_compile(const struct scanner_plan *plan, struct scanner_section *section,
                                 uint32_t *stage, smol_error *error);

void smol_scanner_plan_free(struct scanner_plan *plan);

#endif
