/* Numbers on the command line: decimal, the whole text, the same in every locale. */
#ifndef SMOL_CLI_NUMERALS_H
#define SMOL_CLI_NUMERALS_H

#include <stdint.h>

#include "common/error.h"

/* A whole number from low to high; `name` is whose value it is, for the message. Errors:
 * SMOL_ERROR_USAGE. */
smol_status smol_parse_whole(const char *name, const char *text, uint64_t low, uint64_t high,
                             uint64_t *value, smol_error *error);

/* A number from low to high, of which FLT_MIN means above 0 and FLT_MAX no bound. Errors:
 * SMOL_ERROR_USAGE. */
smol_status smol_parse_real(const char *name, const char *text, float low, float high, float *value,
                            smol_error *error);

#endif
