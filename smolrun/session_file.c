/* Sessions in files, see session_file.h. */
#include "smolrun/session_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/input.h"
#include "cli/output.h"
#include "cli/print.h"
#include "common/file.h"
#include "runtime/report.h"
#include "runtime/session.h"
#include "smolrun/text_in.h"

/* --- reading ------------------------------------------------------------------------------ */

struct reading {
    struct input input;
    smol_status status; /* of the callback, which the library calls FILE */
    smol_error error;
};

static int read_some(void *user, void *data, size_t size, size_t *n)
{
    struct reading *reading = user;
    reading->status = smol_input_read_some(&reading->input, data, size, n, &reading->error);
    return reading->status != SMOL_OK;
}

static smol_status look_for(const char *path, bool *found, smol_error *error)
{
    struct stat info;
    *found = stat(path, &info) == 0;
    if (!*found && errno != ENOENT)
        return smol_fail(error, SMOL_ERROR_FILE, "%.300s: cannot look for it (%s)", path,
                         strerror(errno));
    if (!*found && lstat(path, &info) == 0)
        return smol_fail(error, SMOL_ERROR_FILE,
                         "%.300s: a link that leads nowhere: remove it, or name another file",
                         path);
    if (*found && !S_ISREG(info.st_mode))
        return smol_fail(error, SMOL_ERROR_FILE, "%.300s: not a regular file: name one", path);
    return SMOL_OK;
}

/* The library does not know the file's name. */
static smol_status name_file(const char *path, smol_error *error)
{
    char message[sizeof error->message];
    memcpy(message, error->message, sizeof message);
    return smol_fail(error, error->status, "%.200s: %s", path, message);
}

smol_status smol_session_read(const char *path, smol_context *context, smol_session *session,
                              bool *found, smol_error *error)
{
    struct reading reading = {.status = SMOL_OK};
    smol_status status = look_for(path, found, error);
    if (status || !*found)
        return status;
    if (smol_input_open(path, &reading.input, &reading.error))
        return report(error, reading.error.status, &reading.error);
    status = smol_context_restore(context, session, read_some, &reading, error);
    smol_input_close(&reading.input);
    if (reading.status)
        return report(error, reading.status, &reading.error);
    return status ? name_file(path, error) : SMOL_OK;
}

/* --- writing ------------------------------------------------------------------------------ */

struct writing {
    struct output output;
    uint64_t size;
    smol_status status;
    smol_error error;
};

static int write_all(void *user, const void *data, size_t size)
{
    struct writing *writing = user;
    writing->status =
        smol_output_write(&writing->output, writing->size, data, size, &writing->error);
    writing->size += size;
    return writing->status != SMOL_OK;
}

smol_status smol_session_check(const char *path, smol_error *error)
{
    struct output output;
    smol_error detail;
    if (smol_output_open(path, true, &output, &detail))
        return report(error, detail.status, &detail);
    return smol_output_discard(&output)
               ? SMOL_OK
               : smol_fail(error, SMOL_ERROR_FILE, "%.300s: cannot remove what is beside it", path);
}

/* What is there is none, or a session that may be replaced. */
static smol_status check_target(const char *path, bool replace, smol_error *error)
{
    char magic[SESSION_MAGIC_SIZE];
    size_t n, size;
    struct stat info;
    smol_error detail;
    if (lstat(path, &info))
        return SMOL_OK; /* if for other reasons than that it is not there, writing tells */
    if (!replace)
        return smol_fail(error, SMOL_ERROR_FILE, "%.300s: exists already", path);
    if (smol_file_peek(path, magic, sizeof magic, &n, &size, &detail))
        return smol_fail(error, detail.status, "%s", detail.message);
    if (n == sizeof magic && memcmp(magic, SESSION_MAGIC, sizeof magic) == 0)
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_FILE,
                     "%.300s: not a session, and not replaced: name another file", path);
}

smol_status smol_session_write(const char *path, bool replace, const smol_context *context,
                               const smol_session *session, smol_error *error)
{
    struct writing writing = {.status = SMOL_OK};
    smol_status checked = check_target(path, replace, error);
    if (checked)
        return checked;
    if (smol_output_open(path, replace, &writing.output, &writing.error))
        return report(error, writing.error.status, &writing.error);
    smol_status status = smol_context_save(context, session, write_all, &writing, error);
    if (status) {
        smol_output_discard(&writing.output);
        return writing.status ? report(error, writing.status, &writing.error)
                              : name_file(path, error);
    }
    return report(error, smol_output_commit(&writing.output, &writing.error), &writing.error);
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

/* The last id of the sequence, where it was not evaluated, comes before the prompt's. */
static smol_status put_before(const smol_context *context, uint32_t **ids, size_t *n,
                              smol_error *error)
{
    uint32_t pending = smol_context_pending(context);
    if (pending == SMOL_NO_TOKEN)
        return SMOL_OK;
    uint32_t *all = malloc((*n + 1) * sizeof *all);
    if (!all)
        return smol_fail(error, SMOL_ERROR_MEMORY, "out of memory for the prompt");
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
    smol_status status = smol_tokenize(model, in->text, in->size,
                                       SMOL_PARSE_SPECIAL | SMOL_WHOLE_TEXT, ids, n, error);
    if (status)
        return status;
    if (begins_with_sequence(context, *ids, *n)) {
        smol_session_drop_kept(context, *ids, n);
        return SMOL_OK;
    }
    smol_free(*ids);
    status = smol_tokenize(model, in->text, in->size, SMOL_PARSE_SPECIAL, ids, n, error);
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
