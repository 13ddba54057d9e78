/* The sums of a Newton step of logistic regression: loss, gradient and second derivatives over rows.
 *
 * In double whatever REAL is: a fit by sums has the same parameters however rows are distributed over
 * clients only if the sums agree to rounding. Of a symmetric matrix the lower triangle is stored, row by
 * row; the bias is the last feature. */

typedef struct {
    double loss, error, curvature; /* weighted: the loss, and its two derivatives by the logit */
} AtLogit;

INLINE AtLogit at_logit(double z, double y, double weight) {
    const double e = exp(-fabs(z)), p = z >= 0 ? 1 / (1 + e) : e / (1 + e);
    return (AtLogit){weight * ((z > 0 ? z : 0) + log1p(e) - y * z), weight * (p - y), weight * e / ((1 + e) * (1 + e))};
}

/* Where the sums of a run stand: loss, gradient, then the triangle or the diagonal. */
INLINE int64_t sums_of_run(const Job *job, int64_t full) {
    const int64_t size = job->inputs + 1;
    return 1 + size + (full ? size * (size + 1) / 2 : size);
}

static void add_sparse_row(const Job *job, int64_t row, int64_t full, const double *params, double weight,
                           double *sums) {
    const int64_t size = job->inputs + 1, bias = job->inputs, count = job->starts[row + 1] - job->starts[row];
    const uint16_t *column = job->columns + job->starts[row];
    const real *value = (const real *)job->values + job->starts[row];
    double z = params[bias], *gradient = sums + 1, *second = gradient + size;
    for (int64_t k = 0; k < count; k++) z += (double)value[k] * params[column[k]];
    const AtLogit at = at_logit(z, job->cell[row] >= job->groups, weight);
    sums[0] += at.loss;
    gradient[bias] += at.error;
    double *last = second + (full ? bias * (bias + 1) / 2 : 0);
    last[bias] += at.curvature;
    for (int64_t i = 0; i < count; i++) {
        const int64_t place = column[i];
        const double scaled = at.curvature * (double)value[i];
        gradient[place] += at.error * (double)value[i];
        if (!full) {
            second[place] += scaled * (double)value[i];
            continue;
        }
        double *line = second + place * (place + 1) / 2;
        for (int64_t k = 0; k <= i; k++) line[column[k]] += scaled * (double)value[k];
        last[place] += scaled;
    }
}

/* x: [SIDE_BY_SIDE][size], rows after the last one being 0 and of weight 0. */
static void add_dense_rows(const Job *job, const int32_t *cell, int64_t full, const double *x, const double *params,
                           const double *weights, double *sums) {
    const int64_t size = job->inputs + 1;
    double *gradient = sums + 1, *second = gradient + size, error[SIDE_BY_SIDE], curvature[SIDE_BY_SIDE];
    for (int64_t i = 0; i < SIDE_BY_SIDE; i++) {
        double z = 0;
        for (int64_t k = 0; k < size; k++) z += x[i * size + k] * params[k];
        const AtLogit at = at_logit(z, cell[i] >= job->groups, weights[i]);
        sums[0] += at.loss;
        error[i] = at.error, curvature[i] = at.curvature;
    }
    const double *restrict a = x, *restrict b = x + size, *restrict c = b + size, *restrict d = c + size;
    for (int64_t i = 0; i < size; i++) {
        gradient[i] += error[0] * a[i] + error[1] * b[i] + error[2] * c[i] + error[3] * d[i];
        const double of_a = curvature[0] * a[i], of_b = curvature[1] * b[i];
        const double of_c = curvature[2] * c[i], of_d = curvature[3] * d[i];
        if (!full) {
            second[i] += of_a * a[i] + of_b * b[i] + of_c * c[i] + of_d * d[i];
            continue;
        }
        if (of_a == 0 && of_b == 0 && of_c == 0 && of_d == 0) continue;
        double *restrict line = second + i * (i + 1) / 2;
        for (int64_t k = 0; k <= i; k++) line[k] += of_a * a[k] + of_b * b[k] + of_c * c[k] + of_d * d[k];
    }
}

static void copy_wide_row(const Job *job, int64_t number, double *to) {
    const char *row = row_in_memory(job, number);
    for (int64_t f = 0; f < job->inputs; f++)
        to[f] = job->x_is_double ? ((const double *)row)[f] : (double)((const float *)row)[f];
    to[job->inputs] = 1;
}

/* params: [runs][size]; weights: [runs][2 * groups]; scratch: [SIDE_BY_SIDE][size] for dense rows;
 * sums: [runs][sums_of_run], added to. full: the triangle of second derivatives, 0: its diagonal. */
static void add_curvature(const Job *job, int64_t rows, int64_t full, const double *params, const double *weights,
                          double *scratch, double *sums) {
    const int64_t size = job->inputs + 1, cells = 2 * job->groups, step = job->starts ? 1 : SIDE_BY_SIDE;
    for (int64_t row = 0; row < rows; row += step) {
        int32_t cell[SIDE_BY_SIDE] = {0};
        const int64_t filled = rows - row < step ? rows - row : step;
        for (int64_t i = 0; i < filled; i++) cell[i] = job->cell[row + i];
        if (!job->starts) {
            for (int64_t i = 0; i < filled; i++) copy_wide_row(job, row + i, scratch + i * size);
            memset(scratch + filled * size, 0, sizeof(double) * (size_t)((step - filled) * size));
        }
        for (int64_t run = 0; run < job->runs; run++) {
            double of_rows[SIDE_BY_SIDE] = {0}, *to = sums + run * sums_of_run(job, full);
            for (int64_t i = 0; i < filled; i++) of_rows[i] = weights[run * cells + cell[i]];
            if (job->starts) add_sparse_row(job, row, full, params + run * size, of_rows[0], to);
            else add_dense_rows(job, cell, full, scratch, params + run * size, of_rows, to);
        }
    }
}
