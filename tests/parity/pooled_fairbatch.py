"""Oracle: centralised FairBatch (CFL) for logistic regression, written from ALGORITHMS.md only.

Float64 numpy; the library under test is deliberately not imported. Cell tables are (2, groups):
row = label y, column = group a (the client for 'cp'). Group 0 is the reference; w ends in the bias.
"""

import numpy as np


def sample_loss(z: np.ndarray, y: np.ndarray, kind: str) -> np.ndarray:
    """ce: log(1 + e^z) - y z; prob: |y - p|; zero_one: 1[yhat != y], yhat = 1[z >= 0] (0.6)."""
    if kind == "ce":
        return np.logaddexp(0.0, z) - y * z
    if kind == "prob":
        return np.exp(-np.logaddexp(0.0, np.where(y == 1, z, -z)))  # 1 - p if y = 1, p if y = 0
    if kind == "zero_one":
        return ((z >= 0) != (y == 1)).astype(np.float64)
    raise ValueError(kind)


def gradient(w, x, y, omega, mean_omega):
    """Of sum_j omega_j ce_j / (|batch| mean_omega) (0.3, S2), from d ce_j / d z_j = p_j - y_j."""
    p = np.exp(-np.logaddexp(0.0, -(x @ w[:-1] + w[-1])))
    dz = omega * (p - y) / (len(y) * mean_omega)
    return np.append(x.T @ dz, dz.sum())


def adam(w, x, y, omega, minibatches, learning_rate):
    """w -= lr m_hat / (sqrt(v_hat) + eps), beta = (.9, .999), eps = 1e-8, from a fresh state."""
    m = v = np.zeros_like(w)
    for step, j in enumerate(minibatches, start=1):
        g = gradient(w, x[j], y[j], omega[j], omega.mean())
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        m_hat, v_hat = m / (1 - 0.9**step), v / (1 - 0.999**step)
        w = w - learning_rate * m_hat / (np.sqrt(v_hat) + 1e-8)
    return w


def pick_cells(t, notion):
    """The cells lambda weights, from a table t: t_a (dp, cp), t_1a (eo), t_ya (eod)."""
    return {"dp": t.sum(0), "cp": t.sum(0), "eo": t[1], "eod": t}[notion]


def cell_weights(lam, n_ya, notion):
    """omega = n lambda / count (5.1); also dp: omega_1a = 2 - omega_0a, and eo: omega_0a = 1."""
    omega = n_ya.sum() * lam / pick_cells(n_ya, notion)
    if notion == "dp":
        return np.stack([omega, 2.0 - omega])
    if notion == "eo":
        return np.stack([np.ones_like(omega), omega])
    return omega if notion == "eod" else np.stack([omega, omega])


def direction(s_ya, n_ya, notion):
    """mu from the cell sums S of the signal loss (5.2); 0 at the reference except for dp.

    dp: F_a = (-S_00 + S_10)/n_0 + (S_0a - S_1a)/n_a + c_a, c_a = n_00/n_0 - n_0a/n_a,
        mu_a = F_a for a >= 1 and mu_0 = -sum_a F_a.
    eo: L_1a - L_10; eod: L_ya - L_y0; cp: L_a - L_0; L = S / count.
    """
    if notion == "dp":
        level = (s_ya[0] - s_ya[1] - n_ya[0]) / n_ya.sum(0)  # F_a = level_a - level_0
        f = level - level[0]
        return np.append(-f[1:].sum(), f[1:])
    loss = pick_cells(s_ya, notion) / pick_cells(n_ya, notion)
    return loss - loss[..., :1]


def capped_simplex(v, s):
    """Euclidean projection onto {v >= 0, sum v <= s}, s > 0 (0.7)."""
    if np.maximum(v, 0.0).sum() <= s:
        return np.maximum(v, 0.0)
    down = np.sort(v)[::-1]
    theta = (np.cumsum(down) - s) / np.arange(1, len(v) + 1)
    rho = np.flatnonzero(down - theta > 0)[-1]
    return np.maximum(v - theta[rho], 0.0)


def project(lam, n_ya, notion):
    """dp: box [0, 2 n_a/n]. Else per row: a >= 1 onto C(s), lambda_0 = s - the others (0.7)."""
    start = pick_cells(n_ya, notion) / n_ya.sum()  # its row sums are the s of 0.7
    if notion == "dp":
        return np.clip(lam, 0.0, 2.0 * start)
    rows = []
    for row, s in zip(np.atleast_2d(lam), np.atleast_2d(start).sum(1), strict=True):
        others = capped_simplex(row[1:], s)
        rows.append([max(s - others.sum(), 0.0), *others])  # the max only removes rounding
    return np.reshape(rows, lam.shape)


def pooled_fairbatch(
    x, y, a, groups, notion, surrogate, alpha, learning_rate, batches, w0
) -> list[tuple[np.ndarray, np.ndarray]]:
    """(w, lambda) after each round t = 1, 2, ... (5.4, one client, k = 1, `post`).

    w_t = Adam over the round's minibatches with omega(lambda_{t-1});
    lambda_t = Proj(lambda_{t-1} + alpha/sqrt(t) mu(w_t)), unless ||mu|| <= 1e-12 (5.3).
    lambda has shape (groups,), or (2, groups) for 'eod', the implied reference entry included.
    """
    x, w = np.asarray(x, np.float64), np.array(w0, np.float64)
    y, a = np.asarray(y).astype(int), np.asarray(a).astype(int)

    def cell_sums(values):
        return np.bincount(y * groups + a, values, 2 * groups).reshape(2, groups)

    n_ya = cell_sums(np.ones(len(y)))
    lam = pick_cells(n_ya, notion) / n_ya.sum()  # every omega is 1
    history = []
    for t, minibatches in enumerate(batches, start=1):
        omega = cell_weights(lam, n_ya, notion)[y, a]
        w = adam(w, x, y, omega, minibatches, learning_rate)
        signal = sample_loss(x @ w[:-1] + w[-1], y, surrogate)
        mu = direction(cell_sums(signal), n_ya, notion)
        if np.linalg.norm(mu) > 1e-12:
            lam = project(lam + alpha / np.sqrt(t) * mu, n_ya, notion)
        history.append((w.copy(), lam.copy()))
    return history
