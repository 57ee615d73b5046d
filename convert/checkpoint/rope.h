/* Rotary embeddings: what an object of config.json says about one, and its frequencies.
 * config_rope.c and config_varied.c find the objects. The errors are those of config.h. */
#ifndef SMOL_CONVERT_ROPE_H
#define SMOL_CONVERT_ROPE_H

#include <stdbool.h>
#include <stdint.h>

#include "convert/base/settings.h"
#include "convert/checkpoint/config.h"

enum rope_type {
    ROPE_DEFAULT,
    ROPE_LINEAR,
    ROPE_LLAMA3,
    ROPE_YARN,
    ROPE_LONGROPE,
    ROPE_PROPORTIONAL,
    ROPE_NTK /* of GTE's own code: kexue.fm/archives/9706, formula 6 */
};

/* A rotary embedding, with config.json's names. Fields that the type does not use are 0. */
struct rope {
    enum rope_type type;
    double theta;
    double factor;
    uint32_t original_context;                /* original_max_position_embeddings */
    double low_freq_factor, high_freq_factor; /* llama3 */
    double beta_fast, beta_slow;              /* yarn */
    double mscale, mscale_all_dim;            /* yarn; 0: none */
    bool truncate;                            /* yarn */
    double attention_factor;                  /* yarn, longrope; 0: computed from the others */
    float factors[MAX_HEAD_DIM / 2];          /* longrope: short_factor or long_factor */
    uint32_t n_rotated; /* proportional: of the pairs; the others do not turn */
};

/* rope.c: fills inv_freq (dim / 2) with the angle per position of each pair of a head in which
 * `dim` elements rotate, rounded as transformers rounds them; returns the factor of cosine and
 * sine. */
void smol_rope_frequencies(const struct rope *rope, uint32_t dim, float *inv_freq);
float smol_rope_scale(const struct rope *rope);

/* The places of config.json that may describe one embedding. */
struct rope_places {
    const struct json_settings *config;
    const char *theta_key; /* at the top level of config.json */
    double theta;          /* the default, then the value found */
    double layer_theta;    /* of some layers, which counts instead; 0: there is none */
    struct json_settings objects[2];
    size_t n_objects;
    bool takes_outer;  /* the top-level original_max_position_embeddings counts */
    bool proportional; /* an object has this rope_type */
    double part;       /* partial_rotary_factor, or below 0 */
};

/* rope_types.c: reads one of the objects by its rope_type. rope->theta must be set. longrope
 * changes the context_length of result->model. */
smol_status smol_rope_read(const struct rope_places *places, const struct json_settings *object,
                           struct config *result, struct rope *rope);

/* rope_types.c: reads the settings of rope_type proportional for heads of `head_dim` elements, of
 * which `part` rotates. */
smol_status smol_rope_read_proportional(const struct json_settings *object, double part,
                                        uint32_t head_dim, struct rope *rope);

/* rope_types.c: reads the rope_type, which is "default" if it is missing. */
smol_status smol_rope_read_type(const struct json_settings *object, const struct family *family,
                                const char **type);

/* rope_types.c: check that a key which this embedding needs is present; the second reads a number
 * above 0. */
smol_status smol_rope_require(const struct json_settings *object, const char *key);
smol_status smol_rope_require_real(const struct json_settings *object, const char *key,
                                   double *value);

/* config_rope.c: appends the table of an embedding in which `dim` elements of a head rotate. Its
 * frequencies must be from 0 to 1 radian per position, as the format requires. */
smol_status smol_rope_add_table(const struct json_settings *config, const struct rope *rope,
                                uint32_t dim, struct config *result);

#endif
