/* The parts of smol_config_open, one file each. Errors as in config.h. */
#ifndef SMOL_CONVERT_CONFIG_PARTS_H
#define SMOL_CONVERT_CONFIG_PARTS_H

#include "convert/config.h"
#include "convert/settings.h"

/* config_model.c: the model that config.json describes. */
enum status smol_config_read_model(const struct settings *config, struct blob_model *model);

/* config_generation.c: the sampling defaults of generation_config.json. */
enum status smol_config_read_generation(const struct settings *generation,
                                        struct blob_generation *defaults);

/* config_stop.c: the tokens that end a text, from all three files; result->model is there. Opens
 * tokenizer.json in `folder`, as *tokenizer, where a token's name must be looked up. */
enum status smol_config_read_stop(const char *folder, const struct settings *config,
                                  const struct settings *generation,
                                  const struct settings *tokenizer_config,
                                  struct settings *tokenizer, struct config *result);

#endif
