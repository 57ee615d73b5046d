/* Whole files: mapped or read into memory, and written so that they appear whole or not at all. */
#ifndef SMOL_COMMON_FILE_H
#define SMOL_COMMON_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* The bytes of a file, read-only. */
struct file_view {
    const uint8_t *data; /* never NULL while open, even for an empty file */
    size_t size;
    bool mapped; /* mmap'ed, otherwise allocated */
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

/* The last component of `path`, for messages and provenance. */
const char *smol_base_name(const char *path);

/* `folder`/`name`, allocated; NULL when out of memory. */
char *smol_path_join(const char *folder, const char *name);

/* A file under construction: a temporary beside the target until it is committed. */
struct output {
    int fd;
    char *path;      /* the target; owned */
    char *temporary; /* owned */
};

/* Starts writing `path`. An existing target is an error (STATUS_FILE) unless `force`. After
 * STATUS_OK, the caller calls either smol_output_commit or smol_output_discard, once. */
enum status smol_output_open(const char *path, bool force, struct output *output,
                             struct error *error);

/* Writes data[0..size) at `offset`. Errors: STATUS_FILE, with the system's reason. */
enum status smol_output_write(struct output *output, uint64_t offset, const void *data, size_t size,
                              struct error *error);

/* Syncs the temporary, renames it over the target and syncs the folder. On an error the
 * temporary is gone and the old target untouched. */
enum status smol_output_commit(struct output *output, struct error *error);

/* Removes the temporary; safe after a failed open or a commit too. */
void smol_output_discard(struct output *output);

#endif
