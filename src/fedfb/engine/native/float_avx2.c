#if defined(__x86_64__) && defined(__GNUC__)
#define AVX2
#define INSTRUCTIONS "avx2+fma"
#define SINGLE
#define REAL float
#define INTEGER int32_t
#define KERNEL float_avx2
#include "build.h"
#endif
