/* What the kernel is handed. All memory belongs to the caller; the kernel allocates none. */
#ifndef FEDFB_JOB_H
#define FEDFB_JOB_H

#include <stdint.h>

enum { BLOCK_ROWS = 128, ROW_TILE = 16, CACHE_BYTES = 1 << 18 };

/* What Python knows too, and compares when it loads the kernel: see description.c. */
enum { SIDE_BY_SIDE = 4, FEATURE_TILE = 4, FEW_INPUTS = 16, FEW_VECTORS = 3, MOST_VECTORS = 12 };
#define STEEPNESS 10
#define BETA1 0.9
#define BETA2 0.999
#define EPSILON 1e-8

/* The kinds of fedfb.engine.base, and the decision itself, in the order of native/library.py. */
enum { ZERO_ONE, PROB, CE, LOGIT, STEEP, MISTAKE, POSITIVE };

/* Parameters are stored as the arithmetic wants them. The units of the first layer of all runs stand
 * side by side, run by run, in slabs that are a few vectors wide:
 *
 *     theta = [slabs][features][wide] of the first layer, the bias being feature number `inputs`,
 *             then [runs][upper], the later layers of each run as fedfb.models.Network orders them.
 *
 * What fills up `features`, `wide` and `upper` is 0 and stays 0. */
typedef struct {
    int64_t runs, inputs, depth;
    const int64_t *sizes; /* the units of each layer of one run; the last layer has one */
    int64_t features, slabs, wide, upper;

    const void *x; /* rows of floats or doubles, `stride` values apart */
    int64_t stride, x_is_double;
    const int64_t *starts; /* or, where not NULL, sparse rows: the zeros left out */
    const uint16_t *columns;
    const void *values;
    const int32_t *cell; /* label * groups + group of every row */
    int64_t groups;

    const void *cell_weights; /* [runs][table]: by cell, then 0 for rows that fill up a tile */
    int64_t table;
    const double *row_weights; /* [runs][all_rows], or NULL */
    int64_t all_rows;

    void *theta, *gradient, *mean, *square;
    const void *anchor;
    const void *rates, *pulls; /* by unit of the first layer, then by run; pulls may be NULL */
    double weight_decay;
    int64_t adam, time, batch;

    double *total; /* sums over blocks, in the layout of theta */
    void *scratch; /* zeros at first: what fills up the features of a block's rows is not written */

    /* Private training: the length to which the gradient of a row is cut (0: it is not), noise on the
     * sum of each step in the layout of theta, and the number by which it is divided. */
    double clip, expected;
    const void *noise;
} Job;

/* `order` are the numbers of the rows to visit, NULL for the first `rows` in their order. */
typedef struct {
    const char *name;
    int64_t vector_bytes;
    int64_t (*scratch_bytes)(const Job *job);
    void (*train_epoch)(Job *job, const int64_t *order, int64_t rows);
    void (*add_gradient)(Job *job, const int64_t *order, int64_t rows, int64_t kind);
    void (*add_losses)(Job *job, int64_t rows, int64_t kind, double *by_cell);
    void (*logits)(Job *job, int64_t rows, double *by_run);
    void (*count_nonzero)(const Job *job, int64_t rows, int64_t *starts);
    void (*compress)(const Job *job, int64_t rows, uint16_t *columns, void *values);
    /* Step s takes the rows order[starts[s]] .. order[starts[s + 1] - 1]. */
    void (*train_private)(Job *job, const int64_t *order, const int64_t *starts, int64_t steps);
    void (*add_curvature)(const Job *job, int64_t rows, int64_t full, const double *params, const double *weights,
                          double *scratch, double *sums);
} Kernel;

extern const Kernel float_baseline, double_baseline;
#if defined(__x86_64__) && defined(__GNUC__)
#define HAS_AVX2_BUILD 1
extern const Kernel float_avx2, double_avx2;
#endif

#endif
