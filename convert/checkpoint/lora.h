/* A LoRA adapter in PEFT's layout (adapter_config.json, adapter_model.safetensors), which is merged
 * into the weights while they are converted: W + scale * (B A). */
#ifndef SMOL_CONVERT_LORA_H
#define SMOL_CONVERT_LORA_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/base/json.h"
#include "convert/checkpoint/safetensors.h"

enum { LORA_MAX_RANK = 1 << 20 };

/* The change of a matrix (rows, cols), or of a part of one. */
struct lora_pair {
    const struct safetensors_tensor *a; /* (rank, cols); NULL: nothing is */
    const struct safetensors_tensor *b; /* (rows, rank), or of the whole matrix */
    uint64_t first_row;                 /* of b, that belongs to the part's first */
    float scale;
};

struct lora {
    char *path;                   /* of adapter_model.safetensors */
    struct json_mark config_mark; /* of adapter_config.json */
    struct safetensors weights;
    double factor;           /* what the command line multiplies the adapter's own scale by */
    struct lora_pair *pairs; /* (n), of the tensors that it was opened for */
};

/* Opens the adapter `words`, "FOLDER" or "FOLDER:FACTOR", for a model whose tensors are
 * tensors[0..n), NULL where there is none. All but the elements is checked: an adapter that the
 * result would not be that of PEFT's own merge of is refused. On an error nothing stays open.
 * Errors: SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY. */
smol_status smol_lora_open(const char *words, const struct safetensors_tensor *const *tensors,
                           size_t n, struct lora *lora, smol_error *error);

/* Rows [row, row + n) of `base` with what `pair` adds to them, as f32, into out (n, cols); n is at
 * most TILE_ROWS. Each sum over the rank is taken in double and rounded once, then multiplied and
 * added in f32, as PEFT does. */
void smol_lora_merge(const struct lora_pair *pair, const struct safetensors_tensor *base,
                     uint64_t row, uint64_t n, float *out);

/* Gives everything back; a zeroed adapter is fine. */
void smol_lora_close(struct lora *lora);

#endif
