/* The levels of int6, int5 and int4: default tables, and the level nearest to a number. */
#ifndef SMOL_CONVERT_LEVELS_H
#define SMOL_CONVERT_LEVELS_H

#include <stdint.h>

#include "format/layout.h"

/* Returns the table that suits weights of unknown distribution best. */
struct blob_levels smol_levels_default(enum blob_dtype dtype);

/* A table prepared for searches. The nearest level changes only at multiples of 1/2, so it is
 * looked up by cells of that width; cell LEVEL_CELLS / 2 starts at 0. */
enum { LEVEL_CELLS = 512 };
struct level_search {
    struct blob_levels levels;
    unsigned n;
    float level[LEVEL_CELLS]; /* the level nearest to the numbers of a cell */
    uint8_t code[LEVEL_CELLS];
};

/* Prepares the table of a matrix of `dtype`. */
void smol_levels_prepare(struct level_search *search, const struct blob_levels *levels,
                         enum blob_dtype dtype);

/* Returns the cell of half * 0.5; numbers beyond all cells belong to the first or last one. */
static inline int32_t level_cell(float half)
{
    float place = half + LEVEL_CELLS * 0.5f;
    place = place > 0 ? place : 0;
    place = place < LEVEL_CELLS - 1 ? place : LEVEL_CELLS - 1;
    return (int32_t)place;
}

/* Returns the code of the level nearest to value / scale; between two, of the upper one. A scale of
 * 0 has code 0. */
static inline unsigned nearest_code(const struct level_search *search, float value, float scale)
{
    return scale == 0 ? 0 : search->code[level_cell(value * (2 / scale))];
}

#endif
