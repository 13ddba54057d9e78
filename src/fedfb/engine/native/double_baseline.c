#define INSTRUCTIONS "baseline"
#define REAL double
#define INTEGER int64_t
#define KERNEL double_baseline
#include "build.h"
