/* Products with grouped dtypes for aarch64 with dot products of bytes; the set is otherwise that of
 * NEON. The Makefile compiles this file with these features. */
#if defined(__ARM_FEATURE_DOTPROD)

#include "runtime/kernels/neon_vectors.h"

enum { GROUPED_TOKENS = 4 };
#define GROUPED_SET dotprod
#include "runtime/kernels/grouped_template.h"

#else
typedef int smol_no_dotprod_here; /* ISO C requires a declaration in every file */
#endif
