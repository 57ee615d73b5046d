/* The model that config.json describes. smol_config_read_model is the whole; what layers differ in
 * and rotary embedding have files of their own. Errors as in config.h. */
#ifndef SMOL_CONVERT_CONFIG_MODEL_H
#define SMOL_CONVERT_CONFIG_MODEL_H

#include "convert/base/settings.h"
#include "convert/checkpoint/config.h"

/* config_model.c: fills result->family, ->model, ->layers and all about rotary embedding. */
smol_status smol_config_read_model(const struct json_settings *file, struct config *result);

/* config_layers.c: which layers are windowed, and which do not rotate; result->model has its sizes.
 * A window that no text fills counts until smol_config_drop_idle_windows removes it: rotary
 * embedding depends on it. */
smol_status smol_config_read_layers(const struct json_settings *config, struct config *result);
void smol_config_drop_idle_windows(struct config *result);

/* config_rope.c: the tables of rotary embedding; result has its layers. */
smol_status smol_config_read_rope(const struct json_settings *config, struct config *result);

#endif
