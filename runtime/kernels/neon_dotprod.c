/* Kernels for aarch64 with dot products of bytes. The Makefile compiles this file with this
 * feature. */
#if defined(__ARM_FEATURE_DOTPROD)

#include "runtime/kernels/neon_template.h"

enum { GROUPED_TOKENS = 4 };
#include "runtime/kernels/grouped_template.h"

const struct kernels smol_kernels_dotprod = {.name = "dotprod", GROUPED_KERNELS, VECTOR_KERNELS};

#else
typedef int smol_no_dotprod_here; /* ISO C requires a declaration in every file */
#endif
