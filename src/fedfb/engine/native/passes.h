/* What the kernel offers: an epoch of training, gradients, sums of losses, logits. */

INLINE void errors_of_vectors(int vectors, const Job *job, const Block *block, const real *table, int64_t kind,
                              real scale, int64_t row, real *z) {
    const int is_short = job->table == LANES;
    vec p[MOST_SIDE_BY_SIDE];
    EACH p[v] = splat(kind == STEEP ? STEEPNESS : 1) * load(z + row + v * LANES);
    sigmoids(vectors, p, p);
    EACH {
        const int64_t at = row + v * LANES;
        const vec error = slope(load(z + at), p[v], load(block->y + at), kind);
        store(z + at, error * look_up(table, block->cell + at, is_short) * splat(scale));
    }
}

/* The errors of a run's logits: slope times weight of cell and row, times `scale`. */
static void errors_of_run(const Job *job, Block *block, int64_t run, int64_t kind, real scale, real *z) {
    const real *table = (const real *)job->cell_weights + run * job->table;
    int64_t row = 0;
    for (; row + 4 * LANES <= block->rows; row += 4 * LANES)
        errors_of_vectors(4, job, block, table, kind, scale, row, z);
    for (; row < block->rows; row += 2 * LANES) errors_of_vectors(2, job, block, table, kind, scale, row, z);
    for (int64_t i = 0; i < block->filled && job->row_weights; i++)
        z[i] *= (real)job->row_weights[run * job->all_rows + block->number[i]];
}

static void gradient_of_block(const Job *job, Block *block, int64_t kind, real scale) {
    forward_first(job, block);
    if (job->clip > 0) measure_rows(job, block);
    for (int64_t run = 0; run < job->runs; run++) {
        real *z = forward_run(job, block, run);
        errors_of_run(job, block, run, kind, scale, z);
        if (job->clip > 0) clip_run(job, block, run, z);
        backward_run(job, block, run);
    }
    backward_first(job, block);
}

static void add_to_total(const Job *job) {
    const real *gradient = job->gradient;
    for (int64_t k = 0; k < parameters(job); k++) job->total[k] += (double)gradient[k];
}

static void take_total(const Job *job) {
    real *gradient = job->gradient;
    for (int64_t k = 0; k < parameters(job); k++) gradient[k] = (real)job->total[k], job->total[k] = 0;
}

/* Adam's two constants of a step, in double: see fedfb.engine.optimise. */
typedef struct {
    vec factor, epsilon, decay;
} Step;

static Step step_at(const Job *job) {
    const double scale = sqrt((1 - BETA2) / (1 - pow(BETA2, (double)job->time)));
    const double factor = (1 - BETA1) / ((1 - pow(BETA1, (double)job->time)) * scale);
    return (Step){splat((real)factor), splat((real)(EPSILON / scale)), splat((real)job->weight_decay)};
}

/* Move the vector of parameters at a place. */
INLINE void move(const Job *job, const Step *step, int64_t at, vec rate, vec pull) {
    real *theta = (real *)job->theta + at, *mean = (real *)job->mean + at, *square = (real *)job->square + at;
    vec value = load(theta), g = fma_(step->decay, value, load((real *)job->gradient + at));
    if (job->pulls) g = fma_(pull, value - load((const real *)job->anchor + at), g);
    if (job->adam) {
        vec m = fma_(splat((real)BETA1), load(mean), g);
        vec v = fma_(splat((real)BETA2), load(square), g * g);
        store(mean, m);
        store(square, v);
        g = step->factor * m / (root(v) + step->epsilon);
    }
    store(theta, value - rate * g);
}

static void take_step(Job *job) {
    job->time++;
    const Step step = step_at(job);
    const int64_t units = job->slabs * job->wide, first = units * job->features;
    const real *rates = job->rates, *pulls = job->pulls;
    for (int64_t slab = 0; slab < units; slab += job->wide)
        for (int64_t f = 0; f < job->features; f++)
            for (int64_t u = 0; u < job->wide; u += LANES)
                move(job, &step, slab * job->features + f * job->wide + u, load(rates + slab + u),
                     pulls ? load(pulls + slab + u) : splat(0));
    for (int64_t run = 0; run < job->runs; run++)
        for (int64_t k = 0; k < job->upper; k += LANES)
            move(job, &step, first + run * job->upper + k, splat(rates[units + run]),
                 splat(pulls ? pulls[units + run] : 0));
}

static void train_batch(Job *job, Block *block, const int64_t *order, int64_t rows, int64_t start, int64_t end) {
    const int is_one_block = end - start <= BLOCK_ROWS;
    for (int64_t at = start; at < end; at += BLOCK_ROWS) {
        gather(job, block, order, rows, at, end);
        gradient_of_block(job, block, CE, (real)(1.0 / (double)(end - start)));
        if (!is_one_block) add_to_total(job);
    }
    if (!is_one_block) take_total(job);
    take_step(job);
}

static void train_epoch(Job *job, const int64_t *order, int64_t rows) {
    Block block = block_in(job);
    for (int64_t start = 0; start < rows; start += job->batch) {
        const int64_t left = rows - start;
        train_batch(job, &block, order, rows, start, start + (left < job->batch ? left : job->batch));
    }
}

static void take_noisy_total(const Job *job, int64_t step) {
    const real *noise = (const real *)job->noise + step * parameters(job);
    real *gradient = job->gradient;
    for (int64_t k = 0; k < parameters(job); k++) {
        gradient[k] = (real)((job->total[k] + (double)noise[k]) / job->expected);
        job->total[k] = 0;
    }
}

/* Steps on rows drawn for each of them, their gradients clipped, with noise on the sum. */
static void train_private(Job *job, const int64_t *order, const int64_t *starts, int64_t steps) {
    Block block = block_in(job);
    for (int64_t step = 0; step < steps; step++) {
        for (int64_t at = starts[step]; at < starts[step + 1]; at += BLOCK_ROWS) {
            gather(job, &block, order, starts[steps], at, starts[step + 1]);
            gradient_of_block(job, &block, CE, 1);
            add_to_total(job);
        }
        take_noisy_total(job, step);
        take_step(job);
    }
}

static void add_gradient(Job *job, const int64_t *order, int64_t rows, int64_t kind) {
    Block block = block_in(job);
    for (int64_t start = 0; start < rows; start += BLOCK_ROWS) {
        gather(job, &block, order, rows, start, rows);
        gradient_of_block(job, &block, kind, 1);
        add_to_total(job);
    }
}

/* by_cell is [runs][2 * groups]. */
static void add_losses(Job *job, int64_t rows, int64_t kind, double *by_cell) {
    Block block = block_in(job);
    for (int64_t start = 0; start < rows; start += BLOCK_ROWS) {
        gather(job, &block, 0, rows, start, rows);
        forward_first(job, &block);
        for (int64_t run = 0; run < job->runs; run++) {
            real *z = forward_run(job, &block, run);
            double *sums = by_cell + run * 2 * job->groups;
            for (int64_t i = 0; i < block.rows; i += LANES) store(z + i, loss(load(z + i), load(block.y + i), kind));
            for (int64_t i = 0; i < block.filled; i++) sums[block.cell[i]] += (double)z[i];
        }
    }
}

/* by_run is [runs][rows]. */
static void logits(Job *job, int64_t rows, double *by_run) {
    Block block = block_in(job);
    for (int64_t start = 0; start < rows; start += BLOCK_ROWS) {
        gather(job, &block, 0, rows, start, rows);
        forward_first(job, &block);
        for (int64_t run = 0; run < job->runs; run++) {
            const real *z = forward_run(job, &block, run);
            for (int64_t i = 0; i < block.filled; i++) by_run[run * rows + start + i] = (double)z[i];
        }
    }
}
