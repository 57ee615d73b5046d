/* Error feedback with AVX2, see feedback.h. */
#if defined(__x86_64__)
#define FEEDBACK_UPDATE smol_feedback_update_avx2
#define LANES 8
#define COLUMNS 4
#include "convert/weights/feedback_template.h"
#else
typedef int no_code; /* a file must not be empty */
#endif
