/* The storage of the matrices of a blob: a dtype for each, and tables of levels. */
#ifndef SMOL_CONVERT_MIX_H
#define SMOL_CONVERT_MIX_H

#include <stdint.h>

#include "common/error.h"
#include "format/layout.h"
#include "format/reader.h"

/* Fills *mix for a conversion to `dtype`. For int4, the embedding and the output are int6, for int5
 * and int6 they are int8, because they lose more by coarse steps than the layers do. The mix is
 * zeroed for other dtypes, whose matrices are alike. Free it with smol_mix_free. Errors:
 * SMOL_ERROR_MEMORY. */
smol_status smol_mix_make(const struct blob_model *model, enum blob_dtype dtype, struct mix *mix,
                          smol_error *error);

/* Fills *mix as in an open blob; zeroed for one without FEATURE_MIXED. Errors:
 * SMOL_ERROR_MEMORY. */
smol_status smol_mix_copy(const struct blob *blob, struct mix *mix, smol_error *error);

/* Frees a mix made by these functions and zeroes it. A zeroed one is allowed. */
void smol_mix_free(struct mix *mix);

/* --- the levels of int6, int5 and int4 ----------------------------------------------------- */

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
