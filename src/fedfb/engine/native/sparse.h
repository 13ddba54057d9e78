/* From dense rows to sparse ones: each row's columns and values that are not 0. */

#define COUNT(row, inputs, count) \
    for (int64_t f = 0; f < (inputs); f++) count += (row)[f] != 0

/* starts[i + 1] = starts[i] + the values of row i that are not 0. */
static void count_nonzero(const Job *job, int64_t rows, int64_t *starts) {
    starts[0] = 0;
    for (int64_t i = 0; i < rows; i++) {
        const char *row = row_in_memory(job, i);
        int32_t count = 0;
        if (job->x_is_double) COUNT((const double *)row, job->inputs, count);
        else COUNT((const float *)row, job->inputs, count);
        starts[i + 1] = starts[i] + count;
    }
}

/* Written without a branch: a zero is overwritten by what comes next, so one more place is needed
 * behind the last value. */
#define COMPRESS(row, inputs, k)               \
    for (int64_t f = 0; f < (inputs); f++) {   \
        columns[k] = (uint16_t)f;              \
        values[k] = (real)(row)[f];            \
        k += (row)[f] != 0;                    \
    }

static void compress(const Job *job, int64_t rows, uint16_t *columns, void *to) {
    real *values = to;
    int64_t k = 0;
    for (int64_t i = 0; i < rows; i++) {
        const char *row = row_in_memory(job, i);
        if (job->x_is_double) COMPRESS((const double *)row, job->inputs, k)
        else COMPRESS((const float *)row, job->inputs, k)
    }
}
