/* A session in a file: --session FILE (format/SESSION.md). */
#ifndef SMOL_SMOLRUN_SESSION_FILE_H
#define SMOL_SMOLRUN_SESSION_FILE_H

#include <stdbool.h>

#include "smol.h"

/* Restores the context, and *session, from the file `path`. *found is false where there is no such
 * file, which is no error. Errors: as smol_context_restore, FILE. */
smol_status smol_session_read(const char *path, smol_context *context, smol_session *session,
                              bool *found, smol_error *error);

/* Whether a session can be written to `path`, as far as that shows before there is one: in a folder
 * that is not there, or may not be written to, nobody should learn so at the end. Errors: FILE. */
smol_status smol_session_check(const char *path, smol_error *error);

/* Writes them to `path`: the file appears whole or not at all, and only its owner may read it. A
 * file that is there is an error, but with `replace` a session. Errors: as smol_context_save, FILE.
 */
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
