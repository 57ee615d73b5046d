/* Frequencies of rotary embeddings, see rope.h. The formulas are those of transformers
 * (modeling_rope_utils.py). Its tensors are f32, so every operation on them is rounded to f32 here;
 * its Python numbers are double here. In torch, `number / tensor` is the reciprocal times the
 * number: two roundings. Only the power is computed in double and rounded once, so that it does not
 * depend on a vector library. */
#include "convert/checkpoint/rope.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

/* Returns theta^(2i / dim). */
static float power(const struct rope *rope, uint32_t i, uint32_t dim)
{
    float exponent = (float)(2 * i) / (float)dim;
    return (float)pow((double)(float)rope->theta, (double)exponent);
}

/* Divides the frequency of long waves by the factor, keeps that of short waves, and blends the two
 * in between. */
static float stretch_llama3(const struct rope *rope, float inv_freq)
{
    double context = rope->original_context;
    float low_wavelength = (float)(context / rope->low_freq_factor);
    float high_wavelength = (float)(context / rope->high_freq_factor);
    float wavelength = 1.0f / inv_freq * (float)(2 * pi);
    float factor = (float)rope->factor;
    if (wavelength > low_wavelength)
        return inv_freq / factor;
    if (wavelength < high_wavelength)
        return inv_freq;
    float smooth = (1.0f / wavelength * (float)context - (float)rope->low_freq_factor) /
                   (float)(rope->high_freq_factor - rope->low_freq_factor);
    return (1 - smooth) * inv_freq / factor + smooth * inv_freq;
}

/* yarn: returns the index in the table whose wave makes `rotations` turns within the original
 * context. */
static double correction_dim(const struct rope *rope, double rotations, uint32_t dim)
{
    return dim * log(rope->original_context / (rotations * 2 * pi)) / (2 * log(rope->theta));
}

/* yarn: computes the range of the blend. Waves at indices up to `low` are kept; those from `high`
 * on are stretched. */
static void correction_range(const struct rope *rope, uint32_t dim, double *low, double *high)
{
    *low = correction_dim(rope, rope->beta_fast, dim);
    *high = correction_dim(rope, rope->beta_slow, dim);
    if (rope->truncate) {
        *low = floor(*low);
        *high = ceil(*high);
    }
    *low = *low > 0 ? *low : 0;
    *high = *high < dim - 1 ? *high : dim - 1;
    if (*low == *high)
        *high += 0.001;
}

static float blend_yarn(const struct rope *rope, uint32_t i, uint32_t dim)
{
    double low, high;
    correction_range(rope, dim, &low, &high);
    float pos_freq = power(rope, i, dim);
    float ramp = ((float)i - (float)low) / (float)(high - low);
    float kept = 1 - (ramp < 0 ? 0 : ramp > 1 ? 1 : ramp);
    float stretched = 1.0f / ((float)rope->factor * pos_freq);
    return stretched * (1 - kept) + 1.0f / pos_freq * kept;
}

static float frequency(const struct rope *rope, uint32_t i, uint32_t dim)
{
    switch (rope->type) {
    case ROPE_LINEAR:
        return 1.0f / power(rope, i, dim) / (float)rope->factor;
    case ROPE_LLAMA3:
        return stretch_llama3(rope, 1.0f / power(rope, i, dim));
    case ROPE_YARN:
        return blend_yarn(rope, i, dim);
    case ROPE_LONGROPE:
        return 1.0f / (rope->factors[i] * power(rope, i, dim));
    case ROPE_PROPORTIONAL:
        return i < rope->n_rotated ? 1.0f / power(rope, i, dim) / (float)rope->factor : 0;
    case ROPE_NTK:
        return 1.0f / power(rope, i, dim) / (float)pow(rope->factor, 2.0 / dim);
    case ROPE_DEFAULT:
        break;
    }
    return 1.0f / power(rope, i, dim);
}

void smol_rope_frequencies(const struct rope *rope, uint32_t dim, float *inv_freq)
{
    for (uint32_t i = 0; i < dim / 2; i++)
        inv_freq[i] = frequency(rope, i, dim);
}

static double yarn_scale(double factor, double mscale)
{
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

float smol_rope_scale(const struct rope *rope)
{
    if (rope->attention_factor > 0)
        return (float)rope->attention_factor;
    if (rope->type == ROPE_YARN && rope->mscale > 0 && rope->mscale_all_dim > 0)
        return (float)(yarn_scale(rope->factor, rope->mscale) /
                       yarn_scale(rope->factor, rope->mscale_all_dim));
    if (rope->type == ROPE_YARN)
        return (float)yarn_scale(rope->factor, 1);
    if (rope->type == ROPE_LONGROPE && rope->factor > 1)
        return (float)sqrt(1 + log(rope->factor) / log(rope->original_context));
    return 1;
}
