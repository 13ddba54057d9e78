/* What one core of this machine can do: fused multiply-adds of float32 a second in AVX2 registers,
   and bytes a second of the STREAM triad a = b + s * c on arrays far larger than any cache.
   Prints both as JSON, the best of several tries by CPU time. */
#include <immintrin.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CHAINS = 12, LANES = 8, TRIES = 7 };

static double cpu_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Twelve independent chains hide the latency of two FMA units; four cycles deep on most cores. */
static double fma_per_s(float *sink) {
    const long steps = 20 * 1000 * 1000;
    const __m256 shrink = _mm256_set1_ps(0.999f), add = _mm256_set1_ps(1e-3f);
    __m256 chain[CHAINS];
    for (int i = 0; i < CHAINS; i++) chain[i] = _mm256_set1_ps((float)i);
    double start = cpu_s();
    for (long step = 0; step < steps; step++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) chain[i] = _mm256_fmadd_ps(chain[i], shrink, add);
    }
    double taken = cpu_s() - start;
    for (int i = 0; i < CHAINS; i++) *sink += _mm256_cvtss_f32(chain[i]);
    return (double)steps * CHAINS * LANES / taken;
}

static double bytes_per_s(float *a, const float *b, const float *c, long n, float *sink) {
    double start = cpu_s();
    for (long i = 0; i < n; i++) a[i] = b[i] + 3.0f * c[i];
    double taken = cpu_s() - start;
    *sink += a[n / 2];
    return 3.0 * sizeof(float) * (double)n / taken;
}

int main(void) {
    const long n = 32 * 1024 * 1024;
    float sink = 0, *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b), *c = malloc(n * sizeof *c);
    if (!a || !b || !c) return 1;
    for (long i = 0; i < n; i++) a[i] = 0, b[i] = (float)(i % 7), c[i] = (float)(i % 5);
    double fma = 0, bytes = 0;
    for (int i = 0; i < TRIES; i++) {
        double now = fma_per_s(&sink);
        if (now > fma) fma = now;
        now = bytes_per_s(a, b, c, n, &sink);
        if (now > bytes) bytes = now;
    }
    fprintf(stderr, "%g\n", sink);
    printf("{\"fma_per_s\": %.6g, \"bytes_per_s\": %.6g}\n", fma, bytes);
    return 0;
}
