/* Names files that people take for a checkpoint's, by their first bytes. */
#ifndef SMOL_CONVERT_BASE_FOREIGN_H
#define SMOL_CONVERT_BASE_FOREIGN_H

#include <stddef.h>
#include <stdint.h>

/* What data[0..size), the start of a file, is, followed by what to do: "a GGUF file ...: ...".
 * NULL when it is nothing that is known here. Neither JSON nor safetensors is foreign. */
const char *smol_foreign_kind(const uint8_t *data, size_t size);

#endif
