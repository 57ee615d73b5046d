/* Quantizes groups to levels. The file that includes this one compiles it for one instruction set,
 * and first defines:
 *
 *   GROUP_SCALE  the names of the functions to define: smol_group_scale for this instruction set,
 *   GROUP_CODES  and that of its codes
 *
 * Sums are kept in GROUP_SUMS partial sums, which compilers turn into vectors, and are then added
 * in a fixed tree: all instruction sets produce the same bits. */

#include <math.h>

#include "common/number.h"
#include "convert/weights/tile.h"

enum { GROUP_SUMS = 8 };

static inline float sum_up(float sums[GROUP_SUMS])
{
    for (unsigned half = GROUP_SUMS / 2; half > 0; half /= 2)
        for (unsigned i = 0; i < half; i++)
            sums[i] += sums[i + half];
    return sums[0];
}

/* Finds the level nearest to each value / scale. */
static inline void find_levels(const struct level_search *search, const float *restrict values,
                               float scale, float *restrict levels)
{
    int32_t cells[GROUP_INPUTS];
    float halves = 2 / scale;
    for (unsigned i = 0; i < GROUP_INPUTS; i++)
        cells[i] = level_cell(values[i] * halves);
    for (unsigned i = 0; i < GROUP_INPUTS; i++)
        levels[i] = search->level[cells[i]];
}

/* A group, and the best scale so far. */
struct scale_choice {
    const struct level_search *search;
    const float *values, *importance; /* (GROUP_INPUTS) */
    uint16_t bits;
    float error; /* sum of importance * (value - level * scale)^2 */
};

/* Tries a scale after its rounding to f16. Returns whether it is better. */
static inline bool try_scale(struct scale_choice *choice, float scale)
{
    float levels[GROUP_INPUTS], sums[GROUP_SUMS] = {0};
    uint16_t bits = f16_from_f32(scale);
    if ((bits & 0x7fff) == 0)
        bits++; /* the smallest number of this sign */
    if ((bits & 0x7fff) >= 0x7c00)
        return false;
    float rounded = f32_from_f16(bits);
    find_levels(choice->search, choice->values, rounded, levels);
    for (unsigned i = 0; i < GROUP_INPUTS; i += GROUP_SUMS)
        for (unsigned k = 0; k < GROUP_SUMS; k++) {
            float error = choice->values[i + k] - levels[i + k] * rounded;
            sums[k] += choice->importance[i + k] * error * error;
        }
    float error = sum_up(sums);
    if (!(error < choice->error))
        return false;
    choice->bits = bits;
    choice->error = error;
    return true;
}

/* Returns the scale with the least error for the current choice of levels, or 0. */
static inline float fitted_scale(const struct scale_choice *choice)
{
    float levels[GROUP_INPUTS], products[GROUP_SUMS] = {0}, squares[GROUP_SUMS] = {0};
    find_levels(choice->search, choice->values, f32_from_f16(choice->bits), levels);
    for (unsigned i = 0; i < GROUP_INPUTS; i += GROUP_SUMS)
        for (unsigned k = 0; k < GROUP_SUMS; k++) {
            float weighted = choice->importance[i + k] * levels[i + k];
            products[k] += weighted * choice->values[i + k];
            squares[k] += weighted * levels[i + k];
        }
    float divisor = sum_up(squares);
    return divisor > 0 ? sum_up(products) / divisor : 0;
}

/* Tries scales of one sign: those that spread the values over all levels, and smaller and larger
 * ones. `highest` and `lowest` are the magnitudes of the values at the positive and negative end.
 */
static inline void try_sign(struct scale_choice *choice, float highest, float lowest, float sign)
{
    static const float parts[] = {1, 0.94f, 0.88f, 0.82f, 0.76f, 0.7f, 1.06f, 1.12f};
    const struct level_search *search = choice->search;
    float up = highest / (float)search->levels.values[search->n - 1];
    float down = lowest / -(float)search->levels.values[0];
    float whole = up > down ? up : down;
    for (unsigned i = 0; i < sizeof parts / sizeof parts[0]; i++)
        try_scale(choice, sign * (whole * parts[i]));
}

uint16_t GROUP_SCALE(const struct level_search *search, const float *values,
                     const float *importance)
{
    static const float alike[GROUP_INPUTS] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                              1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    enum { MAX_FITS = 3 };
    struct scale_choice choice = {search, values, importance ? importance : alike, 0, 0};
    float sums[GROUP_SUMS] = {0}, highest = 0, lowest = 0;
    for (unsigned i = 0; i < GROUP_INPUTS; i++) {
        sums[i % GROUP_SUMS] += choice.importance[i] * values[i] * values[i];
        highest = values[i] > highest ? values[i] : highest;
        lowest = -values[i] > lowest ? -values[i] : lowest;
    }
    choice.error = sum_up(sums);
    if (choice.error == 0)
        return 0;
    try_sign(&choice, highest, lowest, 1);
    try_sign(&choice, lowest, highest, -1);
    bool better = choice.bits != 0;
    for (unsigned i = 0; better && i < MAX_FITS; i++)
        better = try_scale(&choice, fitted_scale(&choice));
    return choice.bits;
}

void GROUP_CODES(const struct level_search *search, const float *values, float scale,
                 uint8_t *codes)
{
    for (unsigned i = 0; i < GROUP_INPUTS; i++)
        codes[i] = (uint8_t)nearest_code(search, values[i], scale);
}
