/* Tables of levels, see mix.h. */
#include "convert/weights/mix.h"

#include <math.h>
#include <string.h>

/* Rounds n levels of 127 * (t * (1 - CUBIC) + t^3 * CUBIC) for evenly spaced t from -1 to below 1.
 * Zero is a level. Small weights, of which there are more, have closer levels. */
static struct blob_levels cubic_levels(unsigned n)
{
    const double CUBIC = 0.4;
    struct blob_levels levels = {{0}};
    for (unsigned i = 0; i < n; i++) {
        double t = 2.0 * i / n - 1;
        double level = 127 * (t * (1 - CUBIC) + t * t * t * CUBIC);
        levels.values[i] = (int8_t)floor(level + 0.5);
    }
    return levels;
}

struct blob_levels smol_levels_default(enum blob_dtype dtype)
{
    /* found by Lloyd's algorithm over groups of normal, Laplace and t-distributed numbers */
    static const struct blob_levels int4_levels = {
        {-127, -97, -75, -58, -43, -31, -20, -9, 0, 9, 20, 31, 45, 61, 80, 104}};
    return dtype == DTYPE_INT4 ? int4_levels : cubic_levels(level_count(dtype));
}

void smol_levels_prepare(struct level_search *search, const struct blob_levels *levels,
                         enum blob_dtype dtype)
{
    const int8_t *values = levels->values;
    search->levels = *levels;
    search->n = level_count(dtype);
    unsigned code = 0;
    for (int cell = 0; cell < LEVEL_CELLS; cell++) {
        int quarters = 2 * cell - LEVEL_CELLS + 1; /* the middle of the cell, times 4 */
        while (code + 1 < search->n && 2 * (values[code] + values[code + 1]) < quarters)
            code++;
        search->code[cell] = (uint8_t)code;
        search->level[cell] = values[code];
    }
}
