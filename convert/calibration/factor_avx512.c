/* Factorization with AVX-512, see factor.h. */
#if defined(__x86_64__)
#define FACTOR_UPDATE smol_factor_update_avx512
#define LANES 8
#include "convert/calibration/factor_template.h"
#else
typedef int no_code; /* a file must not be empty */
#endif
