/* Vectors of REAL, as wide as the instruction set has them, and the functions of a logit. */
#include <math.h>
#include <string.h>

#ifdef AVX2
#include <immintrin.h>
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

typedef REAL real;
typedef INTEGER integer; /* as wide as real */
#define LANES ((int64_t)(VECTOR_BYTES / sizeof(real)))

typedef real vec __attribute__((vector_size(VECTOR_BYTES)));
typedef integer mask __attribute__((vector_size(VECTOR_BYTES)));

#define INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

INLINE vec splat(real value) { return value - (vec){0}; }
INLINE vec load(const real *at) { return *(const vec *)at; }
INLINE void store(real *at, vec value) { *(vec *)at = value; }

INLINE vec pick(mask where, vec yes, vec no) {
    return (vec)(((mask)yes & where) | ((mask)no & ~where));
}

/* Products are fused on purpose or not at all (the build forbids the compiler to choose), so that
 * a run's bits do not depend on the tile that its units happen to lie in. In at_least what is not a
 * number stays so. */
#if defined(AVX2) && defined(SINGLE)
INLINE vec fma_(vec a, vec b, vec c) { return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
INLINE vec root(vec a) { return (vec)_mm256_sqrt_ps((__m256)a); }
INLINE vec at_least(vec low, vec a) { return (vec)_mm256_max_ps((__m256)low, (__m256)a); }
#elif defined(AVX2)
INLINE vec fma_(vec a, vec b, vec c) { return (vec)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c); }
INLINE vec root(vec a) { return (vec)_mm256_sqrt_pd((__m256d)a); }
INLINE vec at_least(vec low, vec a) { return (vec)_mm256_max_pd((__m256d)low, (__m256d)a); }
#else
INLINE vec fma_(vec a, vec b, vec c) { return a * b + c; }
INLINE vec root(vec a) {
    for (int i = 0; i < LANES; i++) a[i] = (real)sqrt((double)a[i]);
    return a;
}
INLINE vec at_least(vec low, vec a) { return pick(a < low, low, a); }
#endif

INLINE real sum_of_lanes(vec a) {
    real part[LANES];
    memcpy(part, &a, sizeof a);
    UNROLL for (int64_t half = LANES / 2; half; half /= 2) {
        UNROLL for (int64_t i = 0; i < half; i++) part[i] += part[i + half];
    }
    return part[0];
}

/* The numbers of a table at LANES places; a table of up to LANES numbers stays in a register. */
INLINE vec look_up(const real *table, const int32_t *places, int is_short) {
#if defined(AVX2) && defined(SINGLE)
    if (is_short) {
        const __m256i at = _mm256_loadu_si256((const __m256i *)places);
        return (vec)_mm256_permutevar8x32_ps((__m256)load(table), at);
    }
#endif
    (void)is_short;
    vec found = splat(0);
    UNROLL for (int i = 0; i < LANES; i++) found[i] = table[places[i]];
    return found;
}

/* Turn LANES rows of LANES numbers around. */
#if defined(AVX2) && defined(SINGLE)
INLINE void transpose(const real *in, real *out, int64_t in_stride, int64_t out_stride) {
    __m256 row[8], pair[8], quad[8];
    UNROLL for (int i = 0; i < 8; i++) row[i] = _mm256_load_ps(in + i * in_stride);
    UNROLL for (int i = 0; i < 8; i += 2) {
        pair[i] = _mm256_unpacklo_ps(row[i], row[i + 1]);
        pair[i + 1] = _mm256_unpackhi_ps(row[i], row[i + 1]);
    }
    UNROLL for (int i = 0; i < 8; i += 4) {
        quad[i] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0x44);
        quad[i + 1] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0xEE);
        quad[i + 2] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
        quad[i + 3] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0xEE);
    }
    UNROLL for (int i = 0; i < 4; i++) {
        _mm256_store_ps(out + i * out_stride, _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x20));
        _mm256_store_ps(out + (i + 4) * out_stride, _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x31));
    }
}
#else
INLINE void transpose(const real *in, real *out, int64_t in_stride, int64_t out_stride) {
    for (int64_t i = 0; i < LANES; i++)
        for (int64_t k = 0; k < LANES; k++) out[k * out_stride + i] = in[i * in_stride + k];
}
#endif

/* e^x for x <= 0: with n the whole number next to x / ln 2, e^x = 2^n e^(x - n ln 2), the second
 * factor by its Taylor series. Adding ROUNDER leaves n in the lowest bits. */
#ifdef SINGLE
#define SMALLEST -87.0f
#define ROUNDER 12582912.0f /* 1.5 * 2^23 */
#define MANTISSA_BITS 23
#define LN2_HIGH 0.693359375f
#define LN2_LOW -2.12194440e-4f
#define EXP_TERMS 7
#define LOG_TERMS 8
#else
#define SMALLEST -708.0
#define ROUNDER 6755399441055744.0 /* 1.5 * 2^52 */
#define MANTISSA_BITS 52
#define LN2_HIGH 6.93147180369123816490e-01
#define LN2_LOW 1.90821492927058770002e-10
#define EXP_TERMS 13
#define LOG_TERMS 17
#endif

static const double INVERSE_FACTORIALS[] = {
    1.0,          1.0,           1.0 / 2,        1.0 / 6,         1.0 / 24,         1.0 / 120,         1.0 / 720,
    1.0 / 5040,   1.0 / 40320,   1.0 / 362880,   1.0 / 3628800,   1.0 / 39916800,   1.0 / 479001600,   1.0 / 6227020800,
};

/* Several vectors go side by side: of one alone, every operation waits for the one before. */
enum { MOST_SIDE_BY_SIDE = 4 };
#define EACH UNROLL for (int v = 0; v < vectors; v++)

INLINE void exp_of_negatives(int vectors, const vec *of, vec *out) {
    vec x[MOST_SIDE_BY_SIDE], shifted[MOST_SIDE_BY_SIDE], rest[MOST_SIDE_BY_SIDE], series[MOST_SIDE_BY_SIDE];
    EACH x[v] = at_least(splat(SMALLEST), of[v]);
    EACH shifted[v] = x[v] * splat((real)1.4426950408889634) + splat(ROUNDER);
    EACH {
        const vec n = shifted[v] - splat(ROUNDER);
        rest[v] = fma_(n, splat(-LN2_LOW), fma_(n, splat(-LN2_HIGH), x[v]));
        series[v] = splat((real)INVERSE_FACTORIALS[EXP_TERMS]);
    }
    UNROLL for (int k = EXP_TERMS - 1; k >= 0; k--)
        EACH series[v] = fma_(series[v], rest[v], splat((real)INVERSE_FACTORIALS[k]));
    EACH out[v] = (vec)((mask)series[v] + ((mask)shifted[v] << MANTISSA_BITS));
}

INLINE vec minus_absolute(vec x) { return (vec)((mask)x | (mask)splat(-(real)0)); }
INLINE vec absolute(vec x) { return -minus_absolute(x); }

INLINE void sigmoids(int vectors, const vec *of, vec *out) {
    vec e[MOST_SIDE_BY_SIDE];
    EACH e[v] = minus_absolute(of[v]);
    exp_of_negatives(vectors, e, e);
    EACH {
        const vec p = splat(1) / (splat(1) + e[v]);
        out[v] = pick(of[v] >= splat(0), p, e[v] * p);
    }
}

INLINE vec exp_of_negative(vec x) {
    exp_of_negatives(1, &x, &x);
    return x;
}

INLINE vec sigmoid(vec z) {
    vec p;
    sigmoids(1, &z, &p);
    return p;
}

/* log(1 + e) for 0 < e <= 1 as 2 artanh(s), s = e / (2 + e) <= 1/3. */
INLINE vec log1p_of_fraction(vec e) {
    vec s = e / (splat(2) + e), square = s * s, series = splat((real)1 / (2 * LOG_TERMS + 1));
    UNROLL for (int k = LOG_TERMS - 1; k >= 0; k--) series = fma_(series, square, splat((real)1 / (2 * k + 1)));
    return (s + s) * series;
}

/* log(1 + e^z) - y z without overflow. */
INLINE vec cross_entropy(vec z, vec y) {
    vec positive = pick(z > splat(0), z, splat(0));
    return positive + log1p_of_fraction(exp_of_negative(minus_absolute(z))) - y * z;
}

INLINE vec loss(vec z, vec y, int64_t kind) {
    const vec zero = splat(0), one = splat(1), sign = y + y - one;
    vec decision = pick(z >= zero, one, zero);
    switch (kind) {
        case ZERO_ONE: return absolute(decision - y);
        case PROB: return absolute(y - sigmoid(z));
        case LOGIT: return z;
        case STEEP: return sigmoid(splat(STEEPNESS) * z);
        case MISTAKE: return pick(sign * z > zero, zero, sign * z);
        case POSITIVE: return decision;
        default: return cross_entropy(z, y);
    }
}

/* By the logit, given p = sigmoid(z), or sigmoid(STEEPNESS z) of the steep loss. */
INLINE vec slope(vec z, vec p, vec y, int64_t kind) {
    const vec zero = splat(0), one = splat(1), sign = y + y - one;
    switch (kind) {
        case PROB: return -sign * p * (one - p);
        case LOGIT: return one;
        case STEEP: return splat(STEEPNESS) * p * (one - p);
        case MISTAKE: return pick(sign * z < zero, sign, zero);
        default: return p - y;
    }
}
