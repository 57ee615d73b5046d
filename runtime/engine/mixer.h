/* The first block of a layer, which mixes positions: attention, a state in its place, or both,
 * which read the same input. smol_mixer_read and smol_mixer_write are the block; the other
 * functions are its parts. */
#ifndef SMOL_RUNTIME_MIXER_H
#define SMOL_RUNTIME_MIXER_H

#include "runtime/engine/product.h"

/* Computes the block's output from the residual stream, up to its last product. */
void smol_mixer_read(const struct worker *w, size_t layer);

/* Adds the block's output to the residual stream. */
void smol_mixer_write(const struct worker *w, size_t layer);

/* Returns the input of the last product of a layer with a state. */
struct product_input smol_mixer_state_output(const struct pass *pass);

/* short_conv.c: computes that input for the gated short convolution of LFM2 (Liquid AI, 2025). */
void smol_short_conv_read(const struct worker *w, size_t layer);

/* recurrence.c: computes it for Mamba2 (Dao and Gu, 2024: Transformers are SSMs) and gated DeltaNet
 * (Yang et al., 2024: Gated Delta Networks). */
void smol_recurrence_read(const struct worker *w, size_t layer);

/* heads.c: computes the cosine and sine of every table of angles at row t's position. */
void smol_heads_angles(const struct pass *pass, size_t t);

/* heads.c: prepares row t's queries and keys (norms, rotation, growth), and stores its keys and
 * values in the cache. */
void smol_heads_store(struct pass *pass, size_t layer, size_t t);

/* latent.c: attention to latent vectors (DeepSeek-AI, 2024), where it differs from other attention
 * around the cache. FORMAT.md, 5.18, defines what is computed. Keys and values are not expanded: a
 * head's query is multiplied by the matrix that would expand keys, and its output by that of
 * values, so that the cache holds one vector for all heads.
 *
 * smol_latent_read computes engine->query and engine->key, neither normalized nor rotated, from the
 * layer's input, whose rows are ready. smol_latent_attended completes attention's outputs in
 * engine->query, and computes the heads' values from them: engine->value (n_heads * value_dim). */
void smol_latent_read(const struct worker *w, size_t layer, const struct product_input *input);
void smol_latent_attended(const struct worker *w, size_t layer);

#endif
