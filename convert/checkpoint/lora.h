/* Reads a LoRA adapter in PEFT's layout (adapter_config.json, adapter_model.safetensors). The
 * conversion merges it into the weights: W + scale * (B A). */
#ifndef SMOL_CONVERT_LORA_H
#define SMOL_CONVERT_LORA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/base/json.h"
#include "convert/checkpoint/safetensors.h"
#include "format/format.h"

/* The change of a matrix (rows, cols), which may be a part of a fused one, or of the `n` stacked
 * ones of a layer's experts. */
struct lora_pair {
    const struct safetensors_tensor *a; /* (n, rank, cols); NULL: no change */
    const struct safetensors_tensor *b; /* (rows, rank, n); for a part, the rows of the whole */
    bool swaps;                         /* a is (n, rank, rows) and b (cols, rank, n) instead */
    float scale;
    uint64_t rank;
    uint64_t n, index;  /* 1, 0 but for experts */
    uint64_t first_row; /* of an expert's part; 0 for others, whose tensors have their own */
};

struct lora {
    char *path;                   /* of adapter_model.safetensors */
    struct json_mark config_mark; /* of adapter_config.json */
    struct safetensors weights;
    double factor;           /* from the command line; multiplies the adapter's own scale */
    struct lora_pair *pairs; /* one for each of the tensors passed to smol_lora_open */
};

/* Opens the adapter `words`, "FOLDER" or "FOLDER:FACTOR", for a model with the tensors
 * tensors[0..smol_tensor_count(model)), in the order of smol_tensor_next, of which some may be
 * NULL. Checks everything but the elements. Refuses an adapter
 * if the result would differ from PEFT's own merge. After an error the adapter is closed. Errors:
 * SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY. */
smol_status smol_lora_open(const char *words, const struct blob_model *model,
                           const struct safetensors_tensor *const *tensors, struct lora *lora,
                           smol_error *error);

/* Writes rows [row, row + n) of `base` with the change of `pair` added, as f32, into out (n, cols).
 * n is at most TILE_ROWS. Each sum over the rank is computed in double, rounded once to f32,
 * multiplied by the scale and added in f32, as in PEFT. */
void smol_lora_merge(const struct lora_pair *pair, const struct safetensors_tensor *base,
                     uint64_t row, uint64_t n, float *out);

/* Frees the adapter and closes its files. A zeroed adapter is allowed. */
void smol_lora_close(struct lora *lora);

#endif
