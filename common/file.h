/* Read-only access to whole files, mapped or read into memory. */
#ifndef SMOL_COMMON_FILE_H
#define SMOL_COMMON_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "common/error.h"
#include "common/mapping.h"

/* The ownership of a view's bytes. */
enum file_hold { FILE_BORROWED, FILE_ALLOCATED, FILE_MAPPED };

/* The bytes of a file, read-only. */
struct file_view {
    const uint8_t *data; /* never NULL while open, even for an empty file */
    size_t size;
    enum file_hold hold; /* closing releases nothing, memory, or a mapping */
    /* of a mapping, for smol_file_check */
    int fd;
    struct timespec modified;
    struct mapping *mapping;
};

/* Each way to open a file has two functions. The one that ends with _fd takes a descriptor, which
 * the caller keeps, with its offset; `name` is for messages. If `fd` is negative, it opens the file
 * `name` instead. The file must be regular. */

/* Maps a file. The mapping shows later changes to the file, so no process may change it meanwhile.
 * After an error the view is zeroed. Errors: SMOL_ERROR_FILE, SMOL_ERROR_MEMORY. */
smol_status smol_file_map_fd(int fd, const char *name, struct file_view *view, smol_error *error);
static inline smol_status smol_file_map(const char *path, struct file_view *view, smol_error *error)
{
    return smol_file_map_fd(-1, path, view, error);
}

/* Reads data[0..size) from the start of a file. *n is `size`, or less if the file is shorter;
 * *file_size is the size of the file. Errors: SMOL_ERROR_FILE. */
smol_status smol_file_peek_fd(int fd, const char *name, void *data, size_t size, size_t *n,
                              size_t *file_size, smol_error *error);
static inline smol_status smol_file_peek(const char *path, void *data, size_t size, size_t *n,
                                         size_t *file_size, smol_error *error)
{
    return smol_file_peek_fd(-1, path, data, size, n, file_size, error);
}

/* Reads a file into its own memory, aligned to 64 bytes. Rejects more than `limit` bytes. After an
 * error the view is zeroed. Errors: SMOL_ERROR_FILE, SMOL_ERROR_MEMORY. */
smol_status smol_file_read_fd(int fd, const char *name, size_t limit, struct file_view *view,
                              smol_error *error);
static inline smol_status smol_file_read(const char *path, size_t limit, struct file_view *view,
                                         smol_error *error)
{
    return smol_file_read_fd(-1, path, limit, view, error);
}

/* Checks that all data read from the view so far is what the file contained when it was mapped.
 * With smol_mapping_guard, it is an error if a mapped file has become shorter, cannot be read, or
 * has been modified while the view was open. Call it after each step, before relying on the results
 * or errors of the step. Always succeeds without the guard and for a file that was read into
 * memory. `name` is for the message; *error does not change on success. Errors: SMOL_ERROR_FILE. */
smol_status smol_file_check(const struct file_view *view, const char *name, smol_error *error);

/* Returns the result of a step that ended with `status`: the error of smol_file_check, if any,
 * which may be the cause, otherwise `status`. */
static inline smol_status file_settle(const struct file_view *view, const char *name,
                                      smol_status status, smol_error *error)
{
    smol_status lost = smol_file_check(view, name, error);
    return lost ? lost : status;
}

/* Frees the view. A zeroed view is allowed. */
void smol_file_close(struct file_view *view);

/* Returns whether `path` refers to a folder. */
bool smol_is_folder(const char *path);

/* Returns whether nothing has this name. A dangling link is not missing: opening it is an error. */
bool smol_is_missing(const char *path);

/* Returns whether both paths refer to the same file. */
bool smol_same_file(const char *path, const char *other);

/* Returns the last component of `path`, for messages and provenance. */
const char *smol_base_name(const char *path);

/* Returns the folder that contains `path`, allocated, or NULL if memory runs out. */
char *smol_path_folder(const char *path);

/* Returns `folder`/`name`, allocated, or NULL if memory runs out. */
char *smol_path_join(const char *folder, const char *name);

#endif
