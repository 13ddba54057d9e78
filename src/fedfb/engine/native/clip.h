/* The gradient of every row cut to a length, without any row's gradient: fedfb.engine.optimise.
 *
 * block->lengths holds, of a block's rows in the lanes: ||x||^2 + 1, the squared length of the gradient
 * so far, and the errors of two layers by turns. */

static void measure_rows(const Job *job, const Block *block) {
    for (int64_t i = 0; i < block->rows; i++) {
        const real *values = job->starts ? (const real *)job->values + block->from[i] : block->x + i * job->features;
        const int64_t count = job->starts ? block->until[i] - block->from[i] : job->inputs;
        real sum = 0;
        for (int64_t k = 0; k < count; k++) sum += values[k] * values[k];
        block->lengths[i] = sum + (i < block->filled); /* the bias last: sparse rows have the bits of dense ones */
    }
}

INLINE vec squares_of(const real *values, int64_t units, int64_t rows, int64_t row) {
    vec sum = splat(0);
    for (int64_t u = 0; u < units; u++) {
        const vec value = load(values + u * rows + row);
        sum = fma_(value, value, sum);
    }
    return sum;
}

/* Scale the errors of a run's logits so that no row's gradient is longer than job->clip. */
static void clip_run(const Job *job, Block *block, int64_t run, real *z) {
    const int64_t rows = block->rows;
    real *squared = block->lengths + BLOCK_ROWS, *spare[2] = {squared + BLOCK_ROWS, 0};
    spare[1] = spare[0] + BLOCK_ROWS * widest(job);
    const real *error = z, *values = z;
    int64_t behind = 0;
    memset(squared, 0, sizeof(real) * BLOCK_ROWS);
    for (int64_t layer = 1; layer < job->depth; layer++) behind += (job->sizes[layer - 1] + 1) * job->sizes[layer];
    for (int64_t layer = job->depth - 1; layer > 0; layer--) {
        const int64_t inputs = job->sizes[layer - 1], units = job->sizes[layer];
        real *out = spare[layer % 2];
        behind -= (inputs + 1) * units;
        values = layer == 1 ? first_units(job, block, run) : values - inputs * rows;
        for (int64_t row = 0; row < rows; row += LANES) {
            const vec entering = squares_of(values, inputs, rows, row) + splat(1);
            store(squared + row, fma_(squares_of(error, units, rows, row), entering, load(squared + row)));
        }
        backward_layer(values, inputs, upper_of(job->theta, job, run) + behind, units, error, out, out, rows);
        error = out;
    }
    const vec clip = splat((real)job->clip);
    for (int64_t row = 0; row < rows; row += LANES) {
        const vec first = squares_of(error, run_units(job), rows, row);
        const vec length = root(fma_(first, load(block->lengths + row), load(squared + row)));
        store(z + row, load(z + row) * (clip / at_least(clip, length)));
    }
}
