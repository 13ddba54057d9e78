/* A block of rows from its numbers to logits, and from the errors of the logits to a gradient. */

INLINE int64_t filled_up(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

INLINE int64_t run_units(const Job *job) { return job->sizes[0]; }

INLINE real *upper_of(void *theta, const Job *job, int64_t run) {
    return (real *)theta + job->slabs * job->features * job->wide + run * job->upper;
}

INLINE int64_t parameters(const Job *job) {
    return job->slabs * job->features * job->wide + job->runs * job->upper;
}

/* Units of the later layers of one run, and of the widest layer below one, for scratch. */
static int64_t later_units(const Job *job) {
    int64_t units = 0;
    for (int64_t layer = 1; layer < job->depth; layer++) units += job->sizes[layer];
    return units;
}

static int64_t widest(const Job *job) {
    int64_t units = 0;
    for (int64_t layer = 0; layer + 1 < job->depth; layer++)
        if (job->sizes[layer] > units) units = job->sizes[layer];
    return units;
}

/* What clipping needs beside: the squared lengths of rows and of gradients, errors of two layers. */
static int64_t for_clipping(const Job *job) { return job->clip > 0 ? 2 + 2 * widest(job) : 0; }

static int64_t scratch_bytes(const Job *job) {
    const int64_t inputs = job->features * ((job->starts ? 0 : 1) + has_few_inputs(job));
    const int64_t units = (job->slabs + 1) * job->wide + later_units(job) + widest(job);
    return BLOCK_ROWS * (1 + inputs + units + for_clipping(job)) * (int64_t)sizeof(real);
}

static Block block_in(const Job *job) {
    Block block = {0};
    real *next = job->scratch;
    block.y = next, next += BLOCK_ROWS;
    block.slab = next, next += BLOCK_ROWS * job->wide;
    block.units = next, next += BLOCK_ROWS * job->slabs * job->wide;
    block.x = next, next += job->starts ? 0 : BLOCK_ROWS * job->features;
    block.turned = next, next += has_few_inputs(job) ? BLOCK_ROWS * job->features : 0;
    block.hidden = next, next += BLOCK_ROWS * (later_units(job) + widest(job));
    block.lengths = next;
    return block;
}

INLINE const char *row_in_memory(const Job *job, int64_t number) {
    return (const char *)job->x + number * job->stride * (job->x_is_double ? 8 : 4);
}

/* Whether the rows stay in the cache from one epoch to the next. */
INLINE int is_small(const Job *job) {
    return job->all_rows * job->inputs * (job->x_is_double ? 8 : 4) <= CACHE_BYTES;
}

INLINE void prefetch(const void *from, int64_t bytes) {
    const char *at = from;
    for (int64_t k = 0; k < bytes; k += 64) __builtin_prefetch(at + k);
    __builtin_prefetch(at + bytes - 1);
}

/* The rows of a large shuffled table are all over the memory: they are asked for one block before they are
 * needed, and where they begin (sparse rows) one block before that. */
INLINE void prefetch_row(const Job *job, const int64_t *order, int64_t at, int64_t known) {
    if (at + 2 * BLOCK_ROWS < known) {
        const int64_t later = order[at + 2 * BLOCK_ROWS];
        prefetch(job->cell + later, 4);
        if (job->starts) prefetch(job->starts + later, 16);
    }
    if (at + BLOCK_ROWS < known) {
        const int64_t next = order[at + BLOCK_ROWS];
        const int64_t from = job->starts ? job->starts[next] : 0;
        const int64_t count = job->starts ? job->starts[next + 1] - from : job->inputs;
        if (!job->starts) prefetch(row_in_memory(job, next), count * (job->x_is_double ? 8 : 4));
        else if (count) {
            prefetch((const real *)job->values + from, count * (int64_t)sizeof(real));
            prefetch(job->columns + from, count * 2);
        }
    }
}

INLINE void copy_row(const Job *job, int64_t number, real *to) {
    const int64_t inputs = job->inputs;
    if (job->x_is_double) {
        const double *from = (const double *)row_in_memory(job, number);
        for (int64_t f = 0; f < inputs; f++) to[f] = (real)from[f];
    } else {
        const float *from = (const float *)row_in_memory(job, number);
        for (int64_t f = 0; f < inputs; f++) to[f] = (real)from[f];
    }
    to[inputs] = 1;
}

/* Bring rows start.. of an order of `known` together, or note where they lie if they are sparse; what fills up
 * the last tile is 0 and of weight 0. */
static void gather(const Job *job, Block *block, const int64_t *order, int64_t known, int64_t start, int64_t end) {
    const int64_t count = end - start < BLOCK_ROWS ? end - start : BLOCK_ROWS;
    const int32_t groups = (int32_t)job->groups;
    const int is_far = order && !is_small(job);
    block->filled = count;
    block->rows = filled_up(count, ROW_TILE);
    for (int64_t i = 0; i < count; i++) {
        const int64_t number = order ? order[start + i] : start + i;
        if (is_far) prefetch_row(job, order, start + i, known);
        block->number[i] = number;
        block->cell[i] = job->cell[number];
        if (job->starts) block->from[i] = job->starts[number], block->until[i] = job->starts[number + 1];
        else copy_row(job, number, block->x + i * job->features);
    }
    /* In a loop of its own this is not a branch that nobody can foresee. */
    for (int64_t i = 0; i < count; i++) block->y[i] = block->cell[i] >= groups;
    for (int64_t i = count; i < block->rows; i++) {
        block->y[i] = 0;
        block->cell[i] = (int32_t)(2 * job->groups);
        if (job->starts) block->from[i] = block->until[i] = 0;
        else memset(block->x + i * job->features, 0, sizeof(real) * (size_t)job->features);
    }
}

INLINE real *first_units(const Job *job, const Block *block, int64_t run) {
    return block->units + run * run_units(job) * block->rows;
}

/* The logits of one run, from the values of its first layer. */
static real *forward_run(const Job *job, Block *block, int64_t run) {
    real *in = first_units(job, block, run), *out = block->hidden;
    const real *w = upper_of(job->theta, job, run);
    for (int64_t layer = 1; layer < job->depth; layer++) {
        const int64_t inputs = job->sizes[layer - 1], units = job->sizes[layer];
        forward_layer(in, inputs, w, w + inputs * units, units, least_of(job, layer), out, block->rows);
        in = out;
        out += units * block->rows;
        w += (inputs + 1) * units;
    }
    return in;
}

/* From the errors of a run's logits, in their place, to those of its first layer. */
static void backward_run(const Job *job, Block *block, int64_t run) {
    const int64_t rows = block->rows;
    real *scratch = block->hidden + later_units(job) * rows;
    real *error = scratch;
    int64_t behind = 0;
    for (int64_t layer = 1; layer < job->depth; layer++) behind += (job->sizes[layer - 1] + 1) * job->sizes[layer];
    for (int64_t layer = job->depth - 1; layer > 0; layer--) {
        const int64_t inputs = job->sizes[layer - 1], units = job->sizes[layer];
        error -= units * rows;
        behind -= (inputs + 1) * units;
        real *values = layer == 1 ? first_units(job, block, run) : error - inputs * rows;
        const real *w = upper_of(job->theta, job, run) + behind;
        real *gradient = upper_of(job->gradient, job, run) + behind;
        if (units == 1) {
            backward_one(values, inputs, w, error, gradient, rows);
        } else {
            gradient_of_layer(values, inputs, error, units, gradient, rows);
            backward_layer(values, inputs, w, units, error, scratch, values, rows);
        }
    }
}
