/* Gram matrices with AVX2, see gram.h. */
#if defined(__x86_64__)
#define GRAM_UPDATE smol_gram_update_avx2
#define LANES 8
#define ROWS 4
#include "runtime/calibrate/gram_template.h"
#else
typedef int no_code; /* a file must not be empty */
#endif
