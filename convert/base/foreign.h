/* Recognises files that people take for a checkpoint's. */
#ifndef SMOL_CONVERT_BASE_FOREIGN_H
#define SMOL_CONVERT_BASE_FOREIGN_H

#include <stddef.h>
#include <stdint.h>

/* The kind of the file `path`, whose start is data[0..size), and what to do: "a GGUF file ...:
 * ...". The first bytes decide, then the end of the name. NULL: an unknown kind. JSON and
 * safetensors are not foreign, so ask only about files that are neither. */
const char *smol_foreign_kind(const char *path, const uint8_t *data, size_t size);

/* The kind, by its name, of the most telling file in `folder`, whose name goes into `name`. NULL:
 * no such file. */
enum { FOREIGN_NAME = 256 };
const char *smol_foreign_in_folder(const char *folder, char name[FOREIGN_NAME]);

#endif
