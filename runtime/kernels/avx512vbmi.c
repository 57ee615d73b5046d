/* Products with grouped dtypes for AVX-512 with VNNI and VBMI, whose set is otherwise that of
 * AVX-512. The Makefile compiles this file with these features. */
#if defined(__AVX512VBMI__)

#include "runtime/kernels/avx512vbmi_table.h"

#define GROUPED_SET avx512vbmi
#define OTHER_INT8_SET avx512
#include "runtime/kernels/grouped_template.h"

#else
typedef int smol_no_avx512vbmi_here; /* ISO C requires a declaration in every file */
#endif
