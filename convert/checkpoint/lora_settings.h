/* The settings of a LoRA adapter, adapter_config.json in PEFT's layout. */
#ifndef SMOL_CONVERT_LORA_SETTINGS_H
#define SMOL_CONVERT_LORA_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/base/settings.h"

enum { LORA_MAX_RANK = 1 << 20 };

/* The end of messages about what would change the result in a way that is not implemented. */
#define LORA_INSTEAD                                                                               \
    "is not supported: merge the adapter with PEFT, save the model and convert that"

struct lora_settings {
    struct json_settings file;
    uint32_t rank;
    double alpha;
    uint32_t by_root; /* use_rslora */
    json_t *rank_pattern, *alpha_pattern, *targets, *excluded, *layers, *parameters;
    bool has_version, is_old; /* old: stacked experts' inputs were taken for outputs */
};

/* Reads `folder`/adapter_config.json. Settings that affect the meaning of the tensors are read,
 * settings without effect are ignored, any other is refused, because it may change the result. The
 * caller closes s->file, even after an error. Errors: SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED,
 * SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY. */
smol_status smol_lora_settings_read(const char *folder, struct lora_settings *s, smol_error *error);

/* Computes the scale of a module's change as PEFT does: in double, rounded when it meets an f32
 * tensor. `rank` is that of its tensors, which the settings must agree with, and `factor` the
 * command line's. Errors: SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED. */
smol_status smol_lora_scale(const struct lora_settings *s, const char *module, double factor,
                            uint64_t rank, float *scale);

/* Returns whether a name in the list is that of the module, or its end after a dot. */
bool smol_lora_lists(const json_t *list, const char *module);

/* Refuses a module that PEFT would skip on loading, with SMOL_ERROR_DAMAGED. */
smol_status smol_lora_check_target(const struct lora_settings *s, const char *module);

#endif
