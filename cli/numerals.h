/* Numbers on the command line: decimal, the whole text, the same in every locale. */
#ifndef SMOL_CLI_NUMERALS_H
#define SMOL_CLI_NUMERALS_H

#include <stdint.h>

#include "common/error.h"

/* Parses a whole number from low to high. `name` names the option in the message. Errors:
 * SMOL_ERROR_USAGE. */
smol_status smol_parse_whole(const char *name, const char *text, uint64_t low, uint64_t high,
                             uint64_t *value, smol_error *error);

/* Parses a number from low to high. A `low` of FLT_MIN means above 0, and a `high` of FLT_MAX means
 * no bound. Errors: SMOL_ERROR_USAGE. */
smol_status smol_parse_real(const char *name, const char *text, float low, float high, float *value,
                            smol_error *error);

/* Parses a size: a whole number of bytes from `least`, or a decimal number followed by kB, MB, GB
 * (powers of 1,000), KiB, MiB or GiB (of 1,024). Errors: SMOL_ERROR_USAGE. */
smol_status smol_parse_size(const char *name, const char *text, uint64_t least, uint64_t *bytes,
                            smol_error *error);

#endif
