/* Opening and closing, see load.h. */
#include "smolrun/load.h"

#include <stdio.h>

#include "cli/print.h"
#include "common/file.h"
#include "runtime/clock.h"

static void print_warning(void *user, smol_log_level level, const char *message)
{
    (void)user;
    if (level == SMOL_LOG_WARNING)
        fprintf(stderr, "smolrun: warning: %s\n", message);
}

/* An output takes the place of what has its name. */
static smol_status check_output(const struct settings *settings, smol_error *error)
{
    if (!settings->output || !smol_same_file(settings->output, settings->model))
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_USAGE, "%.300s: is the blob itself: name another output",
                     settings->output);
}

smol_status smol_load_model(const struct settings *settings, smol_model **model, smol_error *error)
{
    smol_model_params params = settings->open;
    params.on_log = print_warning;
    smol_status status = check_output(settings, error);
    return status ? status : smol_model_open(settings->model, &params, model, error);
}

smol_status smol_load(const struct settings *settings, struct loaded *loaded, smol_error *error)
{
    double start = clock_seconds();
    *loaded = (struct loaded){0};
    smol_status status = smol_load_model(settings, &loaded->model, error);
    if (!status)
        status = smol_context_create(loaded->model, &settings->context, &loaded->context, error);
    loaded->load_seconds = clock_seconds() - start;
    return status;
}

void smol_unload(struct loaded *loaded)
{
    smol_context_free(loaded->context);
    smol_model_close(loaded->model);
}
