/* Session files, see session_file.h. */
#include "smolrun/session_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/input.h"
#include "cli/output.h"
#include "cli/print.h"
#include "cli/text.h"
#include "common/file.h"
#include "smolrun/prompt.h"

/* The first bytes of every session (format/SESSION.md, 2). */
static const char magic[] = {'\x89', 'S', 'M', 'S', '\r', '\n', '\x1a', '\n'};

/* Puts the file's name before a message of the library, which does not have it. */
static smol_status name_file(const char *path, smol_error *error)
{
    char message[sizeof error->message];
    memcpy(message, error->message, sizeof message);
    return smol_fail(error, error->status, "%.200s: %s", path, message);
}

/* --- opening ------------------------------------------------------------------------------ */

/* Checks that `path` is a regular file or does not exist. */
static smol_status look_for(const char *path, bool *found, smol_error *error)
{
    struct stat info;
    *found = stat(path, &info) == 0;
    if (!*found && errno != ENOENT)
        return smol_fail_errno(error, path, "look for it");
    if (!*found && lstat(path, &info) == 0)
        return smol_fail(error, SMOL_ERROR_FILE,
                         "%.300s: a link that leads nowhere: remove it, or name another file",
                         path);
    if (*found && !S_ISREG(info.st_mode))
        return smol_fail(error, SMOL_ERROR_FILE, "%.300s: not a regular file: name another file",
                         path);
    return SMOL_OK;
}

/* Finds out whether `path` leads to the file that is open as `fd`. */
static smol_status compare_file(const char *path, int fd, bool *same, smol_error *error)
{
    struct stat mine, there = {0};
    *same = false;
    if (fstat(fd, &mine) || (stat(path, &there) && errno != ENOENT))
        return smol_fail_errno(error, path, "look for it");
    *same = mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
    return SMOL_OK;
}

/* Opens `path` for reading, locked for this process only. */
static smol_status open_locked(const char *path, int *fd, smol_error *error)
{
    *fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (*fd < 0)
        return smol_fail_errno(error, path, "open");
    if (flock(*fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return SMOL_OK;
    close(*fd);
    *fd = -1;
    return smol_fail(error, SMOL_ERROR_FILE,
                     "%.300s: another process uses this session: wait for it, or name another file",
                     path);
}

/* Opens `path` for reading, locked. Another process replaces the file with a new one that it has
 * locked too, so a lock counts only while the path still leads to the locked file. On file systems
 * without locks, is_unchanged detects another writer. */
static smol_status open_session(const char *path, int *fd, smol_error *error)
{
    enum { TRIES = 100 };
    for (int i = 0; i < TRIES; i++) {
        bool same = false;
        smol_status status = open_locked(path, fd, error);
        if (!status)
            status = compare_file(path, *fd, &same, error);
        if (status || same)
            return status;
        close(*fd);
        *fd = -1;
    }
    return smol_fail(error, SMOL_ERROR_FILE,
                     "%.300s: another process keeps replacing it: name another file", path);
}

/* --- reading ------------------------------------------------------------------------------ */

struct session_source {
    struct input input;
    smol_error error; /* the callback's error; the library only reports FILE */
};

static int read_some(void *user, void *data, size_t size, size_t *n)
{
    struct session_source *source = user;
    return smol_input_read_some(&source->input, data, size, n, &source->error) != SMOL_OK;
}

static smol_status restore(const char *path, int fd, smol_context *context, smol_session *session,
                           smol_error *error)
{
    struct session_source source = {.input = {.fd = fd, .name = path}};
    smol_status status = smol_context_restore(context, session, read_some, &source, error);
    if (source.error.status) {
        *error = source.error;
        return source.error.status;
    }
    return status ? name_file(path, error) : SMOL_OK;
}

smol_status smol_session_read(const char *path, smol_context *context, smol_session *session,
                              bool *found, smol_error *error)
{
    smol_status status = look_for(path, found, error);
    if (status || !*found)
        return status;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return smol_fail_errno(error, path, "open");
    status = restore(path, fd, context, session, error);
    close(fd);
    return status;
}

/* Checks at the start that a file can be created beside `path`, not after a long conversation. */
static smol_status check_writable(const char *path, smol_error *error)
{
    struct output output;
    smol_status status = smol_output_open(path, true, &output, error);
    if (status)
        return status;
    return smol_output_discard(&output)
               ? SMOL_OK
               : smol_fail(error, SMOL_ERROR_FILE,
                           "%.300s: cannot remove a temporary file beside it", path);
}

smol_status smol_session_open(struct session_file *file, const char *path, smol_context *context,
                              smol_session *session, smol_error *error)
{
    bool found;
    *file = (struct session_file){.path = strdup(path), .fd = -1};
    if (!file->path)
        return smol_fail_memory(error, "a file name");
    smol_status status = look_for(path, &found, error);
    if (!status && found)
        status = open_session(path, &file->fd, error);
    if (!status && found)
        status = restore(path, file->fd, context, session, error);
    return status ? status : check_writable(path, error);
}

void smol_session_close(struct session_file *file)
{
    if (file->path && file->fd >= 0)
        close(file->fd);
    free(file->path);
    *file = (struct session_file){0};
}

/* --- writing ------------------------------------------------------------------------------ */

struct session_sink {
    struct output output;
    uint64_t size;
    smol_error error; /* the callback's error; the library only reports FILE */
};

static int write_all(void *user, const void *data, size_t size)
{
    struct session_sink *sink = user;
    smol_status status = smol_output_write(&sink->output, sink->size, data, size, &sink->error);
    sink->size += size;
    return status != SMOL_OK;
}

/* Writes `path` and leaves it open in *fd, or -1, locked before other processes can see it: also
 * after an error, as it may be in place all the same (see smol_output_commit). */
static smol_status write_session(const char *path, bool replace, const smol_context *context,
                                 const smol_session *session, int *fd, smol_error *error)
{
    struct session_sink sink = {.size = 0};
    smol_status status = smol_output_open(path, replace, &sink.output, error);
    *fd = -1;
    if (status)
        return status;
    status = smol_context_save(context, session, write_all, &sink, error);
    if (status) {
        smol_output_discard(&sink.output);
        if (!sink.error.status)
            return name_file(path, error);
        *error = sink.error;
        return sink.error.status;
    }
    *fd = open(smol_output_temporary(&sink.output), O_RDONLY | O_CLOEXEC);
    if (*fd >= 0)
        flock(*fd, LOCK_EX | LOCK_NB);
    return smol_output_commit(&sink.output, error);
}

/* Checks that `path` does not exist, or with `replace` that it is a session. */
static smol_status check_target(const char *path, bool replace, smol_error *error)
{
    char first[sizeof magic];
    size_t n;
    struct stat info;
    struct input input;
    if (lstat(path, &info))
        return SMOL_OK; /* other errors appear when the file is written */
    if (!replace)
        return smol_fail(error, SMOL_ERROR_FILE, "%.300s: exists already: name another file", path);
    bool found;
    smol_status status = look_for(path, &found, error);
    if (!status)
        status = smol_input_open(path, &input, error);
    if (status)
        return status;
    status = smol_input_read(&input, first, sizeof first, &n, error);
    smol_input_close(&input);
    if (status || (n == sizeof magic && memcmp(first, magic, n) == 0))
        return status;
    return smol_fail(error, SMOL_ERROR_FILE,
                     "%.300s: not a session, and not replaced: name another file", path);
}

smol_status smol_session_write(const char *path, bool replace, const smol_context *context,
                               const smol_session *session, smol_error *error)
{
    int fd = -1;
    smol_status status = check_target(path, replace, error);
    if (!status)
        status = write_session(path, replace, context, session, &fd, error);
    if (fd >= 0)
        close(fd);
    return status;
}

/* Finds out whether no other process has put a file at the path. A removed file counts as
 * unchanged: writing the session again loses nothing. */
static smol_status check_unchanged(const struct session_file *file, bool *unchanged,
                                   smol_error *error)
{
    struct stat info;
    *unchanged = true;
    if (lstat(file->path, &info))
        return errno == ENOENT ? SMOL_OK : smol_fail_errno(error, file->path, "look for it");
    *unchanged = false;
    return file->fd < 0 ? SMOL_OK : compare_file(file->path, file->fd, unchanged, error);
}

/* Returns the first free name of PATH.2, PATH.3 ..., which the caller frees. NULL: no free name, or
 * no memory. */
static char *free_name(const char *path)
{
    enum { MOST = 1000, SUFFIX = 8 };
    struct stat info;
    size_t size = strlen(path) + SUFFIX;
    char *name = malloc(size);
    for (int i = 2; name && i < MOST; i++) {
        snprintf(name, size, "%s.%d", path, i);
        if (lstat(name, &info) && errno == ENOENT)
            return name;
    }
    free(name);
    return NULL;
}

/* Saves the session under a new name, because another process has written the file. */
static smol_status save_elsewhere(struct session_file *file, const smol_context *context,
                                  const smol_session *session, smol_error *error)
{
    int fd = -1;
    char *name = free_name(file->path);
    if (!name)
        return smol_fail(error, SMOL_ERROR_FILE,
                         "%.300s: another process has saved a session there meanwhile: "
                         "save to another file",
                         file->path);
    smol_status status = write_session(name, false, context, session, &fd, error);
    if (status) {
        if (fd >= 0)
            close(fd);
        free(name);
        return status;
    }
    smol_fail(error, SMOL_ERROR_FILE,
              "%.200s: another process has saved a session there meanwhile: this one is in "
              "%.200s",
              file->path, name);
    smol_session_close(file);
    *file = (struct session_file){.path = name, .fd = fd, .moved = true};
    return error->status;
}

smol_status smol_session_save(struct session_file *file, const smol_context *context,
                              const smol_session *session, smol_error *error)
{
    int fd = -1;
    bool unchanged, in_place = false;
    struct stat info;
    smol_status status = check_unchanged(file, &unchanged, error);
    if (status || !unchanged)
        return status ? status : save_elsewhere(file, context, session, error);
    status = write_session(file->path, file->fd >= 0, context, session, &fd, error);
    if (fd >= 0)
        in_place = !status || (!compare_file(file->path, fd, &in_place, NULL) && in_place);
    if (in_place) {
        if (file->fd >= 0)
            close(file->fd);
        file->fd = fd;
    } else if (fd >= 0) {
        close(fd);
    }
    if (status && !in_place && file->fd < 0 && lstat(file->path, &info) == 0)
        return save_elsewhere(file, context, session, error); /* created after the check above */
    return status;
}

/* --- prompts ------------------------------------------------------------------------------ */

size_t smol_session_keep(smol_context *context, const uint32_t *ids, size_t n)
{
    size_t n_held, same = 0;
    const uint32_t *held = smol_context_ids(context, &n_held);
    while (same < n_held && same < n - 1 && held[same] == ids[same])
        same++;
    smol_context_truncate(context, same);
    return same;
}

void smol_session_drop_kept(smol_context *context, uint32_t *ids, size_t *n)
{
    size_t n_kept = smol_session_keep(context, ids, *n);
    *n -= n_kept;
    memmove(ids, ids + n_kept, *n * sizeof *ids);
}

static bool begins_with_sequence(const smol_context *context, const uint32_t *ids, size_t n)
{
    size_t n_held;
    const uint32_t *held = smol_context_ids(context, &n_held);
    uint32_t pending = smol_context_pending(context);
    for (size_t i = 0; i < n_held; i++)
        if (i == n || ids[i] != held[i])
            return false;
    return pending == SMOL_NO_TOKEN || (n > n_held && ids[n_held] == pending);
}

/* Puts the sequence's last id before the prompt's ids if it was not evaluated. */
static smol_status put_before(const smol_context *context, uint32_t **ids, size_t *n,
                              smol_error *error)
{
    uint32_t pending = smol_context_pending(context);
    if (pending == SMOL_NO_TOKEN)
        return SMOL_OK;
    uint32_t *all = malloc((*n + 1) * sizeof *all);
    if (!all)
        return smol_fail_memory(error, "the prompt");
    all[0] = pending;
    memcpy(all + 1, *ids, *n * sizeof *all);
    smol_free(*ids);
    *ids = all;
    ++*n;
    return SMOL_OK;
}

static smol_status continue_with(const struct text_in *in, const smol_model *model,
                                 smol_context *context, uint32_t **ids, size_t *n,
                                 smol_error *error)
{
    smol_status status =
        smol_tokenize(model, in->text, in->size,
                      &(smol_tokenize_params){.parse_special = 1, .whole_text = 1}, ids, n, error);
    if (status)
        return status;
    if (begins_with_sequence(context, *ids, *n)) {
        smol_session_drop_kept(context, *ids, n);
        return SMOL_OK;
    }
    smol_free(*ids);
    status = smol_tokenize(model, in->text, in->size, &(smol_tokenize_params){.parse_special = 1},
                           ids, n, error);
    return status ? status : put_before(context, ids, n, error);
}

smol_status smol_session_prompt(const char *argument, const smol_model *model,
                                smol_context *context, uint32_t **ids, size_t *n, smol_error *error)
{
    struct text_in in;
    *ids = NULL;
    *n = 0;
    smol_status status = smol_text_read(argument, &in, error);
    if (status)
        return status;
    if (in.size > 0)
        status = continue_with(&in, model, context, ids, n, error);
    free(in.owned);
    if (status) {
        smol_free(*ids);
        *ids = NULL;
    }
    return status;
}
