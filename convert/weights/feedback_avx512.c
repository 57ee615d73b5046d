/* Error feedback with AVX-512, see feedback.h. */
#if defined(__x86_64__)
#define FEEDBACK_UPDATE smol_feedback_update_avx512
#define LANES 16
#define COLUMNS 16
#include "convert/weights/feedback_template.h"
#else
typedef int no_code; /* a file must not be empty */
#endif
