/* The parts of smol_config_open, one file each. Errors as in config.h. */
#ifndef SMOL_CONVERT_CONFIG_PARTS_H
#define SMOL_CONVERT_CONFIG_PARTS_H

#include "convert/base/settings.h"
#include "convert/checkpoint/config.h"

/* config_model.c: the family, and the model that config.json describes. */
smol_status smol_config_read_model(const struct json_settings *file, struct config *result);

/* config_layers.c: which layers are windowed, and which do not rotate; result->model has its sizes.
 * A window that no text fills is none, in the end, which is for smol_config_drop_idle_windows:
 * until then a layer is told by it. */
smol_status smol_config_read_layers(const struct json_settings *config, struct config *result);
void smol_config_drop_idle_windows(struct config *result);

/* config_rope.c: the tables of rotary embedding; result has its layers. */
smol_status smol_config_read_rope(const struct json_settings *config, struct config *result);

/* config_generation.c: the sampling defaults of generation_config.json. */
smol_status smol_config_read_generation(const struct json_settings *generation,
                                        struct blob_generation *defaults);

/* config_stop.c: the tokens that end a text, from all three files; result->model is there. Opens
 * tokenizer.json in `folder`, as *tokenizer, where a token's name must be looked up. */
smol_status smol_config_read_stop(const char *folder, const struct json_settings *config,
                                  const struct json_settings *generation,
                                  const struct json_settings *tokenizer_config,
                                  struct json_settings *tokenizer, struct config *result);

#endif
