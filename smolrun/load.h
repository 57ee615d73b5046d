/* A model and a context on it, opened as the settings say. Warnings go to standard error. */
#ifndef SMOL_SMOLRUN_LOAD_H
#define SMOL_SMOLRUN_LOAD_H

#include "smolrun/settings.h"

struct loaded {
    smol_model *model;
    smol_context *context;
    double load_seconds;
};

/* The model alone. Errors: as smol_model_open. */
smol_status smol_load_model(const struct settings *settings, smol_model **model, smol_error *error);

/* Fills *loaded; smol_unload is due after errors too. Errors: as smol_model_open and
 * smol_context_create. */
smol_status smol_load(const struct settings *settings, struct loaded *loaded, smol_error *error);
void smol_unload(struct loaded *loaded);

#endif
