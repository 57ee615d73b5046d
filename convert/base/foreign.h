/* Recognises files that users mistake for those of a checkpoint. */
#ifndef SMOL_CONVERT_BASE_FOREIGN_H
#define SMOL_CONVERT_BASE_FOREIGN_H

#include <stddef.h>
#include <stdint.h>

/* Returns the kind of the file `path`, which begins with data[0..size), and the remedy: "a GGUF
 * file ...: download ...". The first bytes decide, then the end of the name. Returns NULL for an
 * unknown kind. Call it only for a file that is neither JSON nor safetensors: it does not recognise
 * those two. */
const char *smol_foreign_kind(const char *path, const uint8_t *data, size_t size);

/* Returns the kind of the most specific match among the file names in `folder`, and copies that
 * file's name into `name`. Returns NULL if no name matches. */
enum { FOREIGN_NAME = 256 };
const char *smol_foreign_in_folder(const char *folder, char name[FOREIGN_NAME]);

#endif
