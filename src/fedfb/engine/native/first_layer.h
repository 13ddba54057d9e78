/* The first layer of all runs together, forward and backward, on dense or on sparse rows.
 *
 * Units are in the lanes, save going forward where there are few inputs. Every unit's sums run over the
 * features (backward: over the rows) one after the other. So neither the tile nor the grid that a unit
 * lies in changes its bits, and to leave out features that are 0 does not change them either: dense and
 * sparse rows agree. */

/* A block of rows and what is computed from it. */
typedef struct {
    int64_t filled, rows; /* the rows there are; the same, filled up to whole tiles */
    int64_t number[BLOCK_ROWS];
    int32_t cell[BLOCK_ROWS];
    real *y;
    real *x;      /* dense: [rows][features]; sparse rows are read where they lie: */
    int64_t from[BLOCK_ROWS], until[BLOCK_ROWS]; /* the places of a row's columns and values */
    real *turned; /* where there are few inputs: [features][rows], the same once more */
    real *slab;   /* [rows][wide]: values, later errors, of a slab of the first layer's units */
    real *units;  /* [slabs * wide][rows]: the same of all slabs, rows in the lanes */
    real *hidden; /* of one run: [units][rows] of each later layer */
    real *lengths; /* where gradients are clipped: see clip.h */
} Block;

/* Sums are held in registers: rows (backward: features) by vectors of units. */
enum { MOST = 8 };

/* The ReLU where layers follow, and nothing where these are the logits. */
INLINE real least_of(const Job *job, int64_t layer) { return layer + 1 < job->depth ? 0 : -(real)INFINITY; }

INLINE void forward_tile(int rows, int vectors, const Job *job, const real *x, const real *w, real *out) {
    vec sum[MOST][FEW_VECTORS];
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int v = 0; v < vectors; v++) sum[i][v] = splat(0);
    for (int64_t f = 0; f <= job->inputs; f++) {
        UNROLL for (int i = 0; i < rows; i++)
            UNROLL for (int v = 0; v < vectors; v++)
                sum[i][v] = fma_(splat(x[i * job->features + f]), load(w + f * job->wide + v * LANES), sum[i][v]);
    }
    const vec low = splat(least_of(job, 0));
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int v = 0; v < vectors; v++) store(out + i * job->wide + v * LANES, at_least(low, sum[i][v]));
}

INLINE void backward_tile(int features, int vectors, const Job *job, int64_t rows, const real *x,
                          const real *error, real *gradient) {
    vec sum[MOST][FEW_VECTORS];
    UNROLL for (int i = 0; i < features; i++)
        UNROLL for (int v = 0; v < vectors; v++) sum[i][v] = splat(0);
    for (int64_t row = 0; row < rows; row++) {
        UNROLL for (int i = 0; i < features; i++)
            UNROLL for (int v = 0; v < vectors; v++)
                sum[i][v] =
                    fma_(splat(x[row * job->features + i]), load(error + row * job->wide + v * LANES), sum[i][v]);
    }
    UNROLL for (int i = 0; i < features; i++)
        UNROLL for (int v = 0; v < vectors; v++) store(gradient + i * job->wide + v * LANES, sum[i][v]);
}

INLINE void forward_column(int tile, int vectors, const Job *job, const Block *block, const real *w, real *out) {
    for (int64_t row = 0; row < block->rows; row += tile)
        forward_tile(tile, vectors, job, block->x + row * job->features, w, out + row * job->wide);
}

INLINE void backward_column(int tile, int vectors, const Job *job, const Block *block, const real *error,
                            real *gradient) {
    int64_t f = 0;
    for (; f + tile <= job->features; f += tile)
        backward_tile(tile, vectors, job, block->rows, block->x + f, error, gradient + f * job->wide);
    for (; f < job->features; f += FEATURE_TILE)
        backward_tile(FEATURE_TILE, vectors, job, block->rows, block->x + f, error, gradient + f * job->wide);
}

/* Vectors of units are taken three, then two, then one at a time. */
static void forward_dense(const Job *job, const Block *block, const real *w, real *out) {
    int64_t u = 0;
    for (; u + 3 * LANES <= job->wide; u += 3 * LANES) forward_column(4, 3, job, block, w + u, out + u);
    for (; u + 2 * LANES <= job->wide; u += 2 * LANES) forward_column(4, 2, job, block, w + u, out + u);
    for (; u < job->wide; u += LANES) forward_column(8, 1, job, block, w + u, out + u);
}

static void backward_dense(const Job *job, const Block *block, const real *error, real *gradient) {
    int64_t u = 0;
    for (; u + 3 * LANES <= job->wide; u += 3 * LANES) backward_column(4, 3, job, block, error + u, gradient + u);
    for (; u + 2 * LANES <= job->wide; u += 2 * LANES) backward_column(4, 2, job, block, error + u, gradient + u);
    for (; u < job->wide; u += LANES) backward_column(8, 1, job, block, error + u, gradient + u);
}

/* Several rows at once, as far as the shortest goes: sums of one row alone would wait for each other. */
INLINE void forward_entries(int rows, int vectors, const Job *job, const Block *block, int64_t row, const real *w,
                            real *out) {
    const int64_t wide = job->wide, *from = block->from + row, *until = block->until + row;
    const uint16_t *columns = job->columns;
    const real *values = job->values, *bias = w + job->inputs * wide;
    int64_t common = job->inputs;
    vec sum[MOST][MOST_VECTORS];
    UNROLL for (int i = 0; i < rows; i++) {
        const int64_t entries = until[i] - from[i];
        common = entries < common ? entries : common;
        UNROLL for (int v = 0; v < vectors; v++) sum[i][v] = splat(0);
    }
    for (int64_t k = 0; k < common; k++)
        UNROLL for (int i = 0; i < rows; i++)
            UNROLL for (int v = 0; v < vectors; v++)
                sum[i][v] =
                    fma_(splat(values[from[i] + k]), load(w + columns[from[i] + k] * wide + v * LANES), sum[i][v]);
    const vec low = splat(least_of(job, 0));
    UNROLL for (int i = 0; i < rows; i++) {
        for (int64_t k = from[i] + common; k < until[i]; k++)
            UNROLL for (int v = 0; v < vectors; v++)
                sum[i][v] = fma_(splat(values[k]), load(w + columns[k] * wide + v * LANES), sum[i][v]);
        UNROLL for (int v = 0; v < vectors; v++)
            store(out + (row + i) * wide + v * LANES, at_least(low, sum[i][v] + load(bias + v * LANES)));
    }
}

INLINE void forward_entries_of_all(int tile, int vectors, const Job *job, const Block *block, const real *w,
                                   real *out) {
    for (int64_t row = 0; row < block->rows; row += tile) forward_entries(tile, vectors, job, block, row, w, out);
}

INLINE void backward_entries(int vectors, const Job *job, const Block *block, const real *error, real *gradient) {
    const int64_t wide = job->wide;
    const uint16_t *columns = job->columns;
    const real *values = job->values;
    real *bias = gradient + job->inputs * wide;
    for (int64_t row = 0; row < block->filled; row++) {
        vec own[MOST_VECTORS];
        UNROLL for (int v = 0; v < vectors; v++) {
            own[v] = load(error + row * wide + v * LANES);
            store(bias + v * LANES, load(bias + v * LANES) + own[v]);
        }
        for (int64_t k = block->from[row]; k < block->until[row]; k++) {
            real *at = gradient + columns[k] * wide;
            const vec value = splat(values[k]);
            UNROLL for (int v = 0; v < vectors; v++)
                store(at + v * LANES, fma_(value, own[v], load(at + v * LANES)));
        }
    }
}

static void forward_sparse(const Job *job, const Block *block, const real *w, real *out) {
    int64_t u = 0;
    for (; u + 12 * LANES <= job->wide; u += 12 * LANES) forward_entries_of_all(1, 12, job, block, w + u, out + u);
    for (; u + 3 * LANES <= job->wide; u += 3 * LANES) forward_entries_of_all(4, 3, job, block, w + u, out + u);
    for (; u < job->wide; u += LANES) forward_entries_of_all(8, 1, job, block, w + u, out + u);
}

static void backward_sparse(const Job *job, const Block *block, const real *error, real *gradient) {
    memset(gradient, 0, sizeof(real) * (size_t)(job->features * job->wide));
    int64_t u = 0;
    for (; u + 12 * LANES <= job->wide; u += 12 * LANES) backward_entries(12, job, block, error + u, gradient + u);
    for (; u + 3 * LANES <= job->wide; u += 3 * LANES) backward_entries(3, job, block, error + u, gradient + u);
    for (; u < job->wide; u += LANES) backward_entries(1, job, block, error + u, gradient + u);
}

/* Turn a slab's [rows][wide] into [wide][rows], and back. */
static void units_from_slab(const Job *job, const Block *block, real *units) {
    const int64_t rows = block->rows, wide = job->wide;
    for (int64_t u = 0; u < wide; u += LANES)
        for (int64_t row = 0; row < rows; row += LANES)
            transpose(block->slab + row * wide + u, units + u * rows + row, wide, rows);
}

static void slab_from_units(const Job *job, const Block *block, const real *units) {
    const int64_t rows = block->rows, wide = job->wide;
    for (int64_t u = 0; u < wide; u += LANES)
        for (int64_t row = 0; row < rows; row += LANES)
            transpose(units + u * rows + row, block->slab + row * wide + u, rows, wide);
}

/* To turn a few inputs around, once for all runs, costs less than to turn the units of all runs: going
 * forward, rows are in the lanes then. A unit's sum runs over the features all the same. */
INLINE int has_few_inputs(const Job *job) { return !job->starts && job->inputs <= FEW_INPUTS; }

static void turn_rows(const Job *job, const Block *block) {
    for (int64_t row = 0; row < block->rows; row++)
        for (int64_t f = 0; f <= job->inputs; f++)
            block->turned[f * block->rows + row] = block->x[row * job->features + f];
}

static void forward_first(const Job *job, const Block *block) {
    const int is_turned = has_few_inputs(job);
    if (is_turned) turn_rows(job, block);
    for (int64_t slab = 0; slab < job->slabs; slab++) {
        const real *w = (const real *)job->theta + slab * job->features * job->wide;
        real *units = block->units + slab * job->wide * block->rows;
        if (is_turned) {
            forward_layer(block->turned, job->inputs + 1, w, 0, job->wide, least_of(job, 0), units, block->rows);
        } else {
            if (job->starts) forward_sparse(job, block, w, block->slab);
            else forward_dense(job, block, w, block->slab);
            units_from_slab(job, block, units);
        }
    }
}

static void backward_first(const Job *job, const Block *block) {
    for (int64_t slab = 0; slab < job->slabs; slab++) {
        real *gradient = (real *)job->gradient + slab * job->features * job->wide;
        slab_from_units(job, block, block->units + slab * job->wide * block->rows);
        if (job->starts) backward_sparse(job, block, block->slab, gradient);
        else backward_dense(job, block, block->slab, gradient);
    }
}
