/* Gram matrices with AVX-512, see gram.h. */
#if defined(__x86_64__)
#define GRAM_UPDATE smol_gram_update_avx512
#define LANES 16
#define ROWS 16
#include "runtime/calibrate/gram_template.h"
#else
typedef int no_code; /* a file must not be empty */
#endif
