/* Layers with rows in the lanes, [unit][row] everywhere: the later ones of one run, and going forward
 * also the first one of all runs where there are few inputs. */

/* out[i] = start[i] + sum over m of w[m * along + i * across] in[m], and not below `least`. */
INLINE void mix_tile(int units, const real *in, int64_t inputs, const real *w, int64_t along, int64_t across,
                     const real *start, real least, real *out, int64_t rows, int64_t row) {
    vec low[4], high[4];
    UNROLL for (int i = 0; i < units; i++) low[i] = high[i] = splat(start ? start[i] : 0);
    for (int64_t m = 0; m < inputs; m++) {
        vec a = load(in + m * rows + row), b = load(in + m * rows + row + LANES);
        UNROLL for (int i = 0; i < units; i++) {
            vec weight = splat(w[m * along + i * across]);
            low[i] = fma_(weight, a, low[i]);
            high[i] = fma_(weight, b, high[i]);
        }
    }
    UNROLL for (int i = 0; i < units; i++) {
        store(out + i * rows + row, at_least(splat(least), low[i]));
        store(out + i * rows + row + LANES, at_least(splat(least), high[i]));
    }
}

/* Without a bias the sums start at 0. */
static void forward_layer(const real *in, int64_t inputs, const real *w, const real *bias, int64_t units, real least,
                          real *out, int64_t rows) {
    int64_t i = 0;
    for (; i + 4 <= units; i += 4)
        for (int64_t row = 0; row < rows; row += 2 * LANES)
            mix_tile(4, in, inputs, w + i, units, 1, bias ? bias + i : 0, least, out + i * rows, rows, row);
    for (; i < units; i++)
        for (int64_t row = 0; row < rows; row += 2 * LANES)
            mix_tile(1, in, inputs, w + i, units, 1, bias ? bias + i : 0, least, out + i * rows, rows, row);
}

/* Below a ReLU. A product, so that an error that is not finite stays so and is found, as in the reference. */
INLINE vec error_below(vec error, vec value) { return error * pick(value > splat(0), splat(1), splat(0)); }

/* The errors of the layer before: (W error) where the value is above 0. They may take the place of the
 * values, or of the scratch. */
static void backward_layer(const real *values, int64_t inputs, const real *w, int64_t units, const real *error,
                           real *scratch, real *out, int64_t rows) {
    int64_t m = 0;
    for (; m + 4 <= inputs; m += 4)
        for (int64_t row = 0; row < rows; row += 2 * LANES)
            mix_tile(4, error, units, w + m * units, 1, units, 0, -(real)INFINITY, scratch + m * rows, rows, row);
    for (; m < inputs; m++)
        for (int64_t row = 0; row < rows; row += 2 * LANES)
            mix_tile(1, error, units, w + m * units, 1, units, 0, -(real)INFINITY, scratch + m * rows, rows, row);
    for (int64_t k = 0; k < inputs * rows; k += LANES)
        store(out + k, error_below(load(scratch + k), load(values + k)));
}

INLINE void dot_tile(int inputs, const real *in, const real *error, real *out, int64_t between, int64_t rows) {
    vec sum[4];
    UNROLL for (int i = 0; i < inputs; i++) sum[i] = splat(0);
    for (int64_t row = 0; row < rows; row += LANES)
        UNROLL for (int i = 0; i < inputs; i++)
            sum[i] = fma_(load(in + i * rows + row), load(error + row), sum[i]);
    UNROLL for (int i = 0; i < inputs; i++) out[i * between] = sum_of_lanes(sum[i]);
}

static real sum_of_rows(const real *error, int64_t rows) {
    vec sum = splat(0);
    for (int64_t row = 0; row < rows; row += LANES) sum += load(error + row);
    return sum_of_lanes(sum);
}

/* The gradient of W[inputs][units] and the bias behind it. */
static void gradient_of_layer(const real *in, int64_t inputs, const real *error, int64_t units, real *gradient,
                              int64_t rows) {
    for (int64_t i = 0; i < units; i++) {
        int64_t m = 0;
        for (; m + 4 <= inputs; m += 4)
            dot_tile(4, in + m * rows, error + i * rows, gradient + m * units + i, units, rows);
        for (; m < inputs; m++)
            dot_tile(1, in + m * rows, error + i * rows, gradient + m * units + i, units, rows);
        gradient[inputs * units + i] = sum_of_rows(error + i * rows, rows);
    }
}

INLINE void backward_tile_of_one(int inputs, real *values, const real *w, const real *error, real *gradient,
                                 int64_t rows) {
    vec sum[4];
    UNROLL for (int m = 0; m < inputs; m++) sum[m] = splat(0);
    for (int64_t row = 0; row < rows; row += LANES) {
        const vec own = load(error + row);
        UNROLL for (int m = 0; m < inputs; m++) {
            const vec value = load(values + m * rows + row);
            sum[m] = fma_(value, own, sum[m]);
            store(values + m * rows + row, error_below(splat(w[m]) * own, value));
        }
    }
    UNROLL for (int m = 0; m < inputs; m++) gradient[m] = sum_of_lanes(sum[m]);
}

/* The gradient of a layer of one unit, such as the logit's, and the errors before it in the place of values:
 * both at once, as there is too little arithmetic in either to read the values twice. */
static void backward_one(real *values, int64_t inputs, const real *w, const real *error, real *gradient, int64_t rows) {
    int64_t m = 0;
    for (; m + 4 <= inputs; m += 4) backward_tile_of_one(4, values + m * rows, w + m, error, gradient + m, rows);
    for (; m < inputs; m++) backward_tile_of_one(1, values + m * rows, w + m, error, gradient + m, rows);
    gradient[inputs] = sum_of_rows(error, rows);
}
