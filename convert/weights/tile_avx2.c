/* Tiling compiled for AVX2 (the Makefile passes -mavx2 for this file). */
#if defined(__AVX2__)
#define TILE_BLOCK smol_tile_block_avx2
#define ROUND_TRIP smol_tile_round_trip_avx2
#define GROUP_SCALE smol_group_scale_avx2
#define GROUP_CODES smol_group_codes_avx2
#include "convert/weights/tile_template.h"
#else
typedef int no_code; /* a file must not be empty */
#endif
