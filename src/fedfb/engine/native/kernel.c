/* The kernels, looked up from outside. */
#include "job.h"

#include <stddef.h>

#ifdef HAS_AVX2_BUILD
static const Kernel *avx2(int64_t is_double) {
    __builtin_cpu_init();
    const int runs_here = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return !runs_here ? NULL : is_double ? &double_avx2 : &float_avx2;
}
#else
static const Kernel *avx2(int64_t is_double) {
    (void)is_double;
    return NULL;
}
#endif

/* The kernel of a precision, of the best instruction set this machine has or of the baseline. */
const Kernel *fedfb_kernel(int64_t is_double, int64_t only_baseline) {
    const Kernel *best = only_baseline ? NULL : avx2(is_double);
    return best ? best : is_double ? &double_baseline : &float_baseline;
}
