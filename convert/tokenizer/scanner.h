/* Compiles patterns to the blob's scanner section. */
#ifndef SMOL_CONVERT_SCANNER_H
#define SMOL_CONVERT_SCANNER_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/pattern/pattern.h"
#include "format/format.h"

/* The stages of a scanner. Initialize to zeros. */
struct scanner_plan {
    struct {
        struct pattern pattern;
        enum split_behaviour behaviour;
        uint32_t flags; /* enum stage_flag, without STAGE_LOOKBEHIND, which the compiler sets */
    } stages[SCANNER_MAX_STAGES];
    uint32_t n_stages;
};

/* The finished section, with zero padding. Equal plans produce equal bytes. */
struct scanner_section {
    uint8_t *data; /* owned (free); NULL: no section */
    size_t size;
};

/* Compiles the plan. On an error, *stage is the stage that failed. Errors: SMOL_ERROR_UNSUPPORTED,
 * SMOL_ERROR_MEMORY. */
smol_status smol_scanner_compile(const struct scanner_plan *plan, struct scanner_section *section,
                                 uint32_t *stage, smol_error *error);

void smol_scanner_plan_free(struct scanner_plan *plan);

#endif
