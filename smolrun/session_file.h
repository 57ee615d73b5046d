/* A session in a file: --session FILE (format/SESSION.md). */
#ifndef SMOL_SMOLRUN_SESSION_FILE_H
#define SMOL_SMOLRUN_SESSION_FILE_H

#include <stdbool.h>

#include "smol.h"

/* The file of --session, which this process reads at the start and replaces at the end. All zeros:
 * there is none. */
struct session_file {
    char *path;
    int fd;     /* open on what was read or written last, and locked; -1: there was no file */
    bool moved; /* another process had written the file, so `path` is a new one beside it */
};

/* Restores the context and *session from the file `path`, if it exists (file->fd >= 0), and locks
 * it against other processes until smol_session_close, which must follow in any case. A path where
 * nothing can be saved is an error here rather than at the end. Errors: as smol_context_restore,
 * FILE (in use by another process, too). */
smol_status smol_session_open(struct session_file *file, const char *path, smol_context *context,
                              smol_session *session, smol_error *error);

/* Replaces the file: it appears whole or not at all, and only its owner may read it. If another
 * process has written it meanwhile, that is left alone: the session gets a new file beside it,
 * which counts from then on (file->moved), and the error (FILE) names both. Errors: as
 * smol_context_save, FILE. */
smol_status smol_session_save(struct session_file *file, const smol_context *context,
                              const smol_session *session, smol_error *error);
void smol_session_close(struct session_file *file);

/* Restores the context and *session from the file `path`. *found is false if it does not exist,
 * which is not an error. Errors: as smol_context_restore, FILE. */
smol_status smol_session_read(const char *path, smol_context *context, smol_session *session,
                              bool *found, smol_error *error);

/* Writes another file than that of --session. An existing file is an error, unless `replace` and it
 * is a session. Errors: as smol_context_save, FILE. */
smol_status smol_session_write(const char *path, bool replace, const smol_context *context,
                               const smol_session *session, smol_error *error);

/* The prompt that `argument` is ("-": standard input) behind a sequence that was restored. Nothing:
 * *n is 0, the sequence goes on. Where its tokens begin with all of the sequence's, it is the whole
 * text: the rest of it. Otherwise its tokens, behind those of the sequence. The caller frees *ids
 * with smol_free. Errors: as smol_tokenize, FILE. */
smol_status smol_session_prompt(const char *argument, const smol_model *model,
                                smol_context *context, uint32_t **ids, size_t *n,
                                smol_error *error);

/* Cuts the context back to what it has in common with ids (n > 0), and keeps one less where that is
 * all of them, as the last one's logits are wanted. Returns how many are kept. */
size_t smol_session_keep(smol_context *context, const uint32_t *ids, size_t n);

/* The same, and takes those that are kept from ids (*n). */
void smol_session_drop_kept(smol_context *context, uint32_t *ids, size_t *n);

#endif
