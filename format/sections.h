/* Which sections a blob has, and in which order. */
#ifndef SMOL_FORMAT_SECTIONS_H
#define SMOL_FORMAT_SECTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "format/format.h"

enum { MAX_SECTIONS = 16 }; /* at least as many as there are kinds */

/* Fills kinds with those of a blob that needs `features` (bits of enum blob_feature), in the order
 * of the section table, and returns how many they are. */
size_t smol_list_sections(uint64_t features, uint32_t kinds[MAX_SECTIONS]);

/* The name of a kind that is listed, as messages and FORMAT.md have it. */
const char *smol_section_name(uint32_t kind);

#endif
