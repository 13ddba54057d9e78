#if defined(__x86_64__) && defined(__GNUC__)
#define AVX2
#define INSTRUCTIONS "avx2+fma"
#define REAL double
#define INTEGER int64_t
#define KERNEL double_avx2
#include "build.h"
#endif
