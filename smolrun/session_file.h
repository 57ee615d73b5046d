/* Session files: --session FILE (format/SESSION.md). */
#ifndef SMOL_SMOLRUN_SESSION_FILE_H
#define SMOL_SMOLRUN_SESSION_FILE_H

#include <stdbool.h>

#include "smol.h"

/* The file of --session, which is read at the start and replaced at the end. Zeros mean no file. */
struct session_file {
    char *path;
    int fd;     /* the file last read or written, open and locked; -1: no file */
    bool moved; /* another process wrote the file; `path` is a new file beside it */
};

/* Restores the context and *session from the file `path`, if it exists (file->fd >= 0 then), and
 * locks it against other processes until smol_session_close. Call smol_session_close in any case.
 * Fails at once if nothing can be saved to `path`. Errors: as smol_context_restore, and FILE (also
 * if another process uses the session). */
smol_status smol_session_open(struct session_file *file, const char *path, smol_context *context,
                              smol_session *session, smol_error *error);

/* Replaces the file: it appears whole or not at all, and only its owner can read it. If another
 * process has written it meanwhile, that file stays unchanged: the session gets a new file beside
 * it, which *file describes from then on (file->moved), and the error (FILE) names both. Errors: as
 * smol_context_save, and FILE. */
smol_status smol_session_save(struct session_file *file, const smol_context *context,
                              const smol_session *session, smol_error *error);
void smol_session_close(struct session_file *file);

/* Restores the context and *session from the file `path`. *found is false if it does not exist,
 * which is not an error. Errors: as smol_context_restore, and FILE. */
smol_status smol_session_read(const char *path, smol_context *context, smol_session *session,
                              bool *found, smol_error *error);

/* Writes a file other than that of --session. An existing file is an error, unless `replace` is set
 * and the file is a session. Errors: as smol_context_save, and FILE. */
smol_status smol_session_write(const char *path, bool replace, const smol_context *context,
                               const smol_session *session, smol_error *error);

/* Reads the prompt after a restored sequence from `argument` ("-": standard input). An empty text
 * adds nothing: *n is 0, and the sequence continues. If the text's tokens begin with all tokens of
 * the sequence, it is the whole text, and *ids is the rest. Otherwise *ids is the text's tokens, to
 * be evaluated after the sequence. The caller frees *ids with smol_free. Errors: as smol_tokenize,
 * and FILE. */
smol_status smol_session_prompt(const char *argument, const smol_model *model,
                                smol_context *context, uint32_t **ids, size_t *n,
                                smol_error *error);

/* Truncates the context to the tokens that it has in common with ids (n > 0), at most n - 1,
 * because the logits after the last token are needed. Returns the number of tokens kept. */
size_t smol_session_keep(smol_context *context, const uint32_t *ids, size_t n);

/* Calls smol_session_keep and removes the kept tokens from ids (*n). */
void smol_session_drop_kept(smol_context *context, uint32_t *ids, size_t *n);

#endif
