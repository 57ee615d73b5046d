/* A model and a context on it, opened as the settings say. */
#ifndef SMOL_RUNTIME_COMMAND_SESSION_H
#define SMOL_RUNTIME_COMMAND_SESSION_H

#include "runtime/command/settings.h"

struct session {
    smol_model *model;
    smol_context *context;
    double load_seconds;
};

/* Fills *session; smol_session_close is due after errors too. Errors: as smol_model_open and
 * smol_context_create. */
smol_status smol_session_open(const struct settings *settings, struct session *session,
                              smol_error *error);
void smol_session_close(struct session *session);

#endif
