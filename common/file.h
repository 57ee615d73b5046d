/* Whole files to read: mapped, or read into memory. */
#ifndef SMOL_COMMON_FILE_H
#define SMOL_COMMON_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "common/error.h"
#include "common/mapping.h"

/* Whose the bytes of a view are. */
enum file_hold { FILE_BORROWED, FILE_ALLOCATED, FILE_MAPPED };

/* The bytes of a file, read-only. */
struct file_view {
    const uint8_t *data; /* never NULL while open, even for an empty file */
    size_t size;
    enum file_hold hold; /* what closing gives back: nothing, memory, or a mapping */
    /* of a mapping, for smol_file_check */
    int fd;
    struct timespec modified;
    struct mapping *mapping;
};

/* Maps the regular file `path`. The mapping shows later changes to the file, so no process may
 * change it meanwhile. After an error the view is zeroed. Errors: SMOL_ERROR_FILE,
 * SMOL_ERROR_MEMORY. */
smol_status smol_file_map(const char *path, struct file_view *view, smol_error *error);

/* Maps the regular file behind `fd`, which remains the caller's. `name` is for messages. */
smol_status smol_file_map_fd(int fd, const char *name, struct file_view *view, smol_error *error);

/* Reads data[0..size) from the start of the regular file `path`; *n is `size`, or less where the
 * file is shorter; *file_size is all that it has. Errors: SMOL_ERROR_FILE. */
smol_status smol_file_peek(const char *path, void *data, size_t size, size_t *n, size_t *file_size,
                           smol_error *error);

/* Reads the regular file `path` into memory of its own, aligned to 64 bytes; refuses more than
 * `limit` bytes. After an error the view is zeroed. Errors: SMOL_ERROR_FILE, SMOL_ERROR_MEMORY. */
smol_status smol_file_read(const char *path, size_t limit, struct file_view *view,
                           smol_error *error);

/* Reads the regular file behind `fd`, which remains the caller's, as does its offset. */
smol_status smol_file_read_fd(int fd, const char *name, size_t limit, struct file_view *view,
                              smol_error *error);

/* Whether what was read of the view so far was what the file held when it was mapped: under
 * smol_mapping_guard, a mapped file that has become shorter, cannot be read or was written to
 * meanwhile is an error, for as long as the view is open. To be asked after each step and before
 * its results, its errors included, are believed. Without the guard, and of a file that was read
 * into memory, all is well. `name` is for the message; *error is left alone when all is well.
 * Errors: SMOL_ERROR_FILE. */
smol_status smol_file_check(const struct file_view *view, const char *name, smol_error *error);

/* The result of a step that ended with `status`: that status, unless smol_file_check has something
 * to say, which may be why. */
static inline smol_status file_settle(const struct file_view *view, const char *name,
                                      smol_status status, smol_error *error)
{
    smol_status lost = smol_file_check(view, name, error);
    return lost ? lost : status;
}

/* Gives the memory back; a zeroed view is fine. */
void smol_file_close(struct file_view *view);

/* Whether `path` leads to a folder. */
bool smol_is_folder(const char *path);

/* Whether both paths lead to the same file. */
bool smol_same_file(const char *path, const char *other);

/* The last component of `path`, for messages and provenance. */
const char *smol_base_name(const char *path);

/* The folder that `path` lies in, allocated; NULL when out of memory. */
char *smol_path_folder(const char *path);

/* `folder`/`name`, allocated; NULL when out of memory. */
char *smol_path_join(const char *folder, const char *name);

#endif
