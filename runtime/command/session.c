/* Opening and closing, see session.h. */
#include "runtime/command/session.h"

#include "runtime/clock.h"

smol_status smol_session_open(const struct settings *settings, struct session *session,
                              smol_error *error)
{
    double start = clock_seconds();
    *session = (struct session){0};
    smol_status status = smol_model_open(settings->model, &settings->open, &session->model, error);
    if (!status)
        status = smol_context_create(session->model, &settings->context, &session->context, error);
    session->load_seconds = clock_seconds() - start;
    return status;
}

void smol_session_close(struct session *session)
{
    smol_context_free(session->context);
    smol_model_close(session->model);
}
