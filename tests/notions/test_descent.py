r"""FairBatch's direction lowers the squared unfairness if the signal uses the inner problem's loss.

Let w(lambda) minimise J = (1/n) sum_j omega_j(lambda) l_j(w) + (r/2)|w|^2 with l the cross-entropy,
H be the Hessian of J there, and u the unfairness: for demographic parity against a reference the
F_a of a >= 1 (mu_0 = -sum_a F_a is no part of it), otherwise all of mu. Move lambda to
lambda + t mu, inside its set, and let S = |u|^2.

1. J is affine in lambda, so the gradient of J moves at a rate q, free of t. Demographic parity:
   d grad J / d lambda_a = grad P_a, q = sum_a mu_a grad P_a = sum_{a>=1} F_a grad(P_a - P_0).
   The others: the reference gives up what the rest receives, q = sum_{a>=1} mu_a grad(L_a - L_0).
2. grad J(w(lambda), lambda) = 0 for all t, hence dw/dt = -H^-1 q.
3. With v = sum_k u_k grad u_k, dS/dt = 2 v.dw/dt = -2 v^T H^-1 q.
4. If the signal is of cross-entropy too, v = q: dS/dt = -2 v^T H^-1 v <= 0, and 0 iff v = 0.
   The symmetric form the same: its mu sums to 0, so that the mean drops out of q and of v.

With another surrogate v and q are gradients of different losses and dS/dt has no sign: a row of
demographic parity enters v by p(1-p)x (``prob``) and q by |y-p|x.

The lemmas of the paper say "0 iff mu = 0", ignore the border of lambda's set, and hold for this S
and no other norm (erratum E17): the last three tests.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfb.notions import DemographicParity
from fedfb.shapes import Array, Float
from few_examples import one_in
from inner_problem import (
    NOTIONS,
    Problem,
    inner_gradient,
    inner_hessian,
    loss_gradients,
    random_problem,
    signal_at,
    solve,
)

every_notion = pytest.mark.parametrize("kind", NOTIONS)
both_forms = pytest.mark.parametrize("symmetric", [False, True], ids=["reference", "symmetric"])
seeds = st.integers(0, 2**32 - 1)
two_or_three = st.sampled_from([2, 3])


def squared(problem, lam, surrogate) -> float:
    mu = signal_at(problem, solve(problem, lam), surrogate)
    return float(np.sum(problem.unfairness(mu) ** 2))


def pull(problem, w, mu, loss) -> Float[Array, " d"]:
    """Return sum_k u_k grad u_k with u of mu and the gradients of a loss: v, or q if that is ce.

    The signal is affine in the loss sums, so its gradient is that of the loss gradients' sums less
    the constant.
    """
    sums = problem.cell_sums(loss_gradients(problem, w, loss))
    jacobian = problem.unfairness(problem.signal(sums) - problem.signal(np.zeros_like(sums)))
    return jacobian @ problem.unfairness(mu)[0]


def slopes(problem, lam, surrogate) -> tuple[float, float, float]:
    r"""Return dS/dt = -2 v^T H^-1 q, a difference quotient of S, and how far apart they may be.

    The quotient (8 (S(h) - S(-h)) - (S(2h) - S(-2h))) / 12h is wrong by O(h^4). Its points move w
    and lambda by about 1e-3 at most (no projection: the border is 1/120 away), so that the error is
    some 1e-13 times derivatives of moderate size; rounding, 1e-15 of S over h, is no more. It is
    held against 2 |v| |dw/dt|, the largest slope that v and dw/dt allow: it was at most 3e-9 of it
    in 12,000 problems of each surrogate, and 1e-6 is asked.
    """
    w = solve(problem, lam)
    mu = signal_at(problem, w, surrogate)
    v, q = pull(problem, w, mu, surrogate), pull(problem, w, mu, "ce")
    dw = -np.linalg.solve(inner_hessian(problem, w, problem.row_weights(lam)), q)
    h = 5e-4 / max(np.linalg.norm(dw), np.abs(mu).sum())
    far, near = (
        np.subtract(*(squared(problem, problem.move(lam, mu, t), surrogate) for t in (step, -step)))
        for step in (2 * h, h)
    )
    tolerance = 1e-6 * 2 * np.linalg.norm(v) * np.linalg.norm(dw)
    return 2 * v @ dw, (8 * near - far) / (12 * h), tolerance


def problem_of(kind, groups):
    """Return the problem of an intercept and x; each group gives the x of its two labels."""
    rows = [(x, y, a) for a, cells in enumerate(groups) for y in (0, 1) for x in cells[y]]
    x, label, group = np.array(rows).T
    return Problem(NOTIONS[kind](len(groups)), np.column_stack([np.ones(len(x)), x]), label, group)


@pytest.mark.parametrize("surrogate", ["ce", "prob"])
@both_forms
@every_notion
@one_in(10)
@given(groups=two_or_three, seed=seeds)
def test_moving_lambda_along_a_signal_moves_the_inner_gradient_by_its_pull_on_cross_entropy(
    kind, symmetric, surrogate, groups, seed
):
    problem, lam = random_problem(kind, symmetric, groups, seed)
    w = np.random.default_rng(seed).normal(size=3)  # an identity in w: it needs no minimum
    mu = signal_at(problem, w, surrogate)
    by = 1e-3 / np.abs(mu).sum()
    ahead, behind = (
        inner_gradient(problem, w, problem.row_weights(problem.move(lam, mu, t))) for t in (by, -by)
    )
    q = pull(problem, w, mu, "ce")
    np.testing.assert_allclose((ahead - behind) / (2 * by), q, rtol=1e-9, atol=1e-10)


@both_forms
@every_notion
@one_in(10)
@given(groups=two_or_three, seed=seeds)
def test_the_squared_ce_unfairness_falls_at_the_rate_of_the_lemma(kind, symmetric, groups, seed):
    slope, quotient, tolerance = slopes(*random_problem(kind, symmetric, groups, seed), "ce")
    assert abs(quotient - slope) <= tolerance
    assert slope < 0
    assert quotient < 0


@both_forms
@every_notion
@one_in(10)
@given(groups=two_or_three, seed=seeds)
def test_the_squared_prob_unfairness_moves_at_a_rate_that_mixes_two_losses(
    kind, symmetric, groups, seed
):
    slope, quotient, tolerance = slopes(*random_problem(kind, symmetric, groups, seed), "prob")
    assert abs(quotient - slope) <= tolerance


# Of each group the x of its negatives and of its positives. One positive of group 1 lies at -4, far
# on the wrong side: at the start ce pulls at it with |y-p| = 0.95, prob with p(1-p) = 0.05.
ASCENT = [
    ([-1, 0, 0, 0, 0, 0, 1], [1, 1, 1, 1]),
    ([-1, 0, 0], [-4, 3, 3, 4]),
]


def change(problem, lam, surrogate, by) -> float:
    """Return the relative change of S when lambda takes the notion's step of that size."""
    mu = signal_at(problem, solve(problem, lam), surrogate)
    return (
        squared(problem, problem.move(lam, mu, by), surrogate) / squared(problem, lam, surrogate)
        - 1
    )


@pytest.mark.parametrize("by", [1e-4, 1e-3, 1e-2, 1e-1, 1.0])
@every_notion
def test_the_squared_unfairness_can_grow_along_the_prob_signal_where_it_falls_along_ce(kind, by):
    problem = problem_of(kind, ASCENT)
    assert change(problem, problem.start, "prob", by) > 0.2 * by
    assert change(problem, problem.start, "ce", by) < -0.5 * by


@pytest.mark.parametrize("by", [1e-3, 1e-1, 1.0])
def test_the_ce_unfairness_can_stay_although_the_signal_is_not_zero(by):
    """An intercept alone and as many positives as negatives: p = 1/2 for every lambda on the line.

    Both groups' rates have the slope |y-p| = 1/2, so v = 0. With a share s_a of positives in group
    a, F_1 = (s_1 - s_0)(1 - 2 log 2), while the predictions are the same for all.
    """
    label, group = np.array([[0, 0], [0, 0], [0, 0], [1, 0], [0, 1], [1, 1], [1, 1], [1, 1]]).T
    problem = Problem(DemographicParity(2), np.ones((8, 1)), label, group)
    mu = signal_at(problem, solve(problem, problem.start), "ce")
    gap = (3 / 4 - 1 / 4) * (1 - 2 * np.log(2))
    np.testing.assert_allclose(mu, [[-gap, gap]], rtol=1e-12)
    np.testing.assert_allclose(pull(problem, np.zeros(1), mu, "ce"), 0, atol=1e-15)
    moved = problem.move(problem.start, mu, by)
    assert np.all(np.abs(moved - problem.start) > 0.1 * by)
    np.testing.assert_allclose(signal_at(problem, solve(problem, moved), "ce"), mu, rtol=1e-12)


# One step of 1/2 from the start, and a part of lambda is 0 while mu points further out: what is
# left of mu after the projection is no direction of descent.
BORDER = {
    "dp": [([-1], [-1]), ([-3, -3, 0], [1, 2, 2])],
    "eod": [([1, 2], [-1]), ([-1, 0, 1, 3], [-2])],
}


@pytest.mark.parametrize("by", [1e-4, 1e-3, 1e-2, 1e-1, 0.5])
@pytest.mark.parametrize("kind", BORDER)
def test_the_squared_ce_unfairness_can_grow_at_the_border_of_lambdas_set(kind, by):
    problem = problem_of(kind, BORDER[kind])
    mu = signal_at(problem, solve(problem, problem.start), "ce")
    lam = problem.move(problem.start, mu, by=0.5)
    assert lam.min() == 0
    assert change(problem, lam, "ce", by) > 0.2 * by


# Three groups, demographic parity against group 0.
WIDER = {
    "spread": [([-2], [-3, -2, 0]), ([-3, 1], [-1, -1]), ([2], [3])],
    "length of mu": [([-3, -2, 1], [-1]), ([-2, 0], [-1, 0]), ([3], [1])],
}


@pytest.mark.parametrize("by", [1e-4, 1e-3, 1e-2, 1e-1])
@pytest.mark.parametrize("measure", WIDER)
def test_with_three_groups_only_the_squares_against_the_reference_need_fall(measure, by):
    """Neither sum_a (P_a - mean P)^2, which the symmetric form lowers, nor |mu|^2 with its mu_0."""
    problem = problem_of("dp", WIDER[measure])
    mu = signal_at(problem, solve(problem, problem.start), "ce")
    moved = problem.move(problem.start, mu, by)
    after = signal_at(problem, solve(problem, moved), "ce")
    gaps = [np.append(signal[0, 1:], 0.0) for signal in (mu, after)]
    spread = [np.var(gap) for gap in gaps]
    length = [np.sum(signal**2) for signal in (mu, after)]
    before_after = spread if measure == "spread" else length
    assert before_after[1] > before_after[0] * (1 + 0.1 * by)
    assert change(problem, problem.start, "ce", by) < -0.1 * by
