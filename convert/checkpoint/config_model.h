/* Reads the model that config.json describes. smol_config_read_model reads all of it; the other
 * functions are its parts. The errors are those of config.h. */
#ifndef SMOL_CONVERT_CONFIG_MODEL_H
#define SMOL_CONVERT_CONFIG_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "convert/base/settings.h"
#include "convert/checkpoint/config.h"
#include "format/layout.h"

/* config_model.c: fills result->family, ->model, ->layers and the fields of rotary embedding. */
smol_status smol_config_read_model(const struct json_settings *file, struct config *result);

/* config_model.c: reads a flag, whose key may be NULL: the default applies. */
smol_status smol_config_read_flag(const struct json_settings *config,
                                  const struct family_flag *flag, uint32_t *value);

/* config_family.c: sets *family to that which `architectures` or model_type name, and *head to what
 * is after its layers. */
smol_status smol_config_find_family(const struct json_settings *config,
                                    const struct family **family, enum config_head *head);

/* config_family.c: checks that no key needs a feature that smolconv lacks. The second function
 * checks dtype and torch_dtype, which only have to be valid: each tensor has its own type. */
smol_status smol_config_check_supported(const struct json_settings *config,
                                        const struct family *family);
smol_status smol_config_check_dtypes(const struct json_settings *config);

/* config_sizes.c: fills the sizes of result->model, and result->skipped_positions. */
smol_status smol_config_read_sizes(const struct json_settings *config, struct config *result);

/* config_sizes.c: reports a number that must be a multiple of another one. */
smol_status smol_config_fail_multiple(const struct json_settings *config, const char *key,
                                      uint32_t value, const char *divisor_key, uint32_t divisor);

/* config_nomic.c: gives the keys of NomicBert's own code, with which it was published, the names
 * that transformers has for them, in config->object. */
smol_status smol_config_rename_nomic(const struct json_settings *config);

/* config_layers.c: sets which layers are windowed and which do not rotate. result->model must have
 * its sizes. smol_config_drop_idle_windows removes windows that no text can fill. Call it after
 * smol_config_read_rope, which depends on them. */
smol_status smol_config_read_layers(const struct json_settings *config, struct config *result);
void smol_config_drop_idle_windows(struct config *result);

/* config_layers.c: check that `list` is a list of at least n_layers and at most `most` entries, and
 * report a bad entry. */
smol_status smol_config_check_list(const struct json_settings *config, const char *key,
                                   json_t *list, uint32_t n_layers, size_t most);
smol_status smol_config_fail_entry(const struct json_settings *config, smol_status status,
                                   const char *key, size_t i, const json_t *value,
                                   const char *expected);

/* config_states.c: sets which layers have states. result->model must have its sizes. */
smol_status smol_config_read_states(const struct json_settings *config, struct config *result);

/* config_single.c: sets the number of layers, and which block each has, if its family's layers have
 * one each. Call it before the other functions of layers. */
smol_status smol_config_read_single(const struct json_settings *config, struct config *result);

/* config_hybrid.c: fills result->model.hybrid, and scales of the model, if its family attends
 * beside states. Call it before smol_config_read_states, and the second function after the other
 * scales have been read. */
smol_status smol_config_read_hybrid(const struct json_settings *config, struct config *result);
smol_status smol_config_scale_hybrid(const struct json_settings *config, struct config *result);

/* config_experts.c: fills result->model.experts. The model must have its sizes. */
smol_status smol_config_read_experts(const struct json_settings *config, struct config *result);

/* config_latent.c: fills result->model.latent, and sets the model's sizes to those of its cache, if
 * its family attends to latent vectors. Call it after smol_config_read_rope. */
smol_status smol_config_read_latent(const struct json_settings *config, struct config *result);

/* config_varied.c: fills result->model.varied, and the tables of rotary embedding, of a family
 * whose layers differ in shape. result->layers must be filled. */
smol_status smol_config_read_varied(const struct json_settings *config, struct config *result);

/* config_scales.c: reads quantization_config, if there is one. */
smol_status smol_config_read_scales(const struct json_settings *config, struct scale_rules *rules);

/* config_rope.c: fills the tables of rotary embedding. result->layers must be filled. */
smol_status smol_config_read_rope(const struct json_settings *config, struct config *result);

#endif
