/* Factorization with AVX2, see factor.h. */
#if defined(__x86_64__)
#define FACTOR_UPDATE smol_factor_update_avx2
#define LANES 4
#include "convert/calibration/factor_template.h"
#else
typedef int no_code; /* a file must not be empty */
#endif
