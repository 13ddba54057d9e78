#define INSTRUCTIONS "baseline"
#define SINGLE
#define REAL float
#define INTEGER int32_t
#define KERNEL float_baseline
#include "build.h"
