/* The sections of a blob and their order. */
#ifndef SMOL_FORMAT_SECTIONS_H
#define SMOL_FORMAT_SECTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "format/format.h"

enum { MAX_SECTIONS = 24 }; /* at least the number of kinds */

/* Fills `kinds` with the sections of a blob that requires `features` (bits of enum blob_feature),
 * in the order of the section table, and returns their number. */
size_t smol_list_sections(uint64_t features, uint32_t kinds[MAX_SECTIONS]);

/* Returns the name of a listed kind, as used in messages and FORMAT.md. */
const char *smol_section_name(uint32_t kind);

#endif
