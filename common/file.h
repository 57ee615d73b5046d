/* Whole files to read: mapped, or read into memory. */
#ifndef SMOL_COMMON_FILE_H
#define SMOL_COMMON_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* Whose the bytes of a view are. */
enum file_hold { FILE_BORROWED, FILE_ALLOCATED, FILE_MAPPED };

/* The bytes of a file, read-only. */
struct file_view {
    const uint8_t *data; /* never NULL while open, even for an empty file */
    size_t size;
    enum file_hold hold; /* what closing gives back: nothing, memory, or a mapping */
};

/* Maps the regular file `path`. The mapping shows later changes to the file, so nobody may
 * change it meanwhile. After an error the view is zeroed. Errors: STATUS_FILE. */
enum status smol_file_map(const char *path, struct file_view *view, struct error *error);

/* Reads the regular file `path` into memory of its own, aligned to 64 bytes; refuses more than
 * `limit` bytes. After an error the view is zeroed. Errors: STATUS_FILE, STATUS_MEMORY. */
enum status smol_file_read(const char *path, size_t limit, struct file_view *view,
                           struct error *error);

/* Gives the memory back; a zeroed view is fine. */
void smol_file_close(struct file_view *view);

/* Whether both paths lead to the same file. */
bool smol_same_file(const char *path, const char *other);

/* The last component of `path`, for messages and provenance. */
const char *smol_base_name(const char *path);

/* `folder`/`name`, allocated; NULL when out of memory. */
char *smol_path_join(const char *folder, const char *name);

#endif
