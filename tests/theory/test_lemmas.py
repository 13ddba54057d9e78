"""Section 3 and Appendix A, statement by statement: each test bears the LaTeX label of its own.

True statements are properties of random populations. What is false has its counter-example here or
in test_errata.py, which is then named.
"""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedfb.theory import (
    cfl,
    ensemble_range,
    erm,
    lft_ensemble,
    lft_ensemble_curve,
    lft_fedavg,
    lft_fedavg_least,
    local_optima,
    setting,
    tau,
)
from fedfb.theory.cfl import gaps_at, local_problem, pairs_at, pooled_problem
from few_examples import one_in
from theory.populations import cells, cfl_by_program, gaussians, populations

DEAR = one_in(8, derandomize=True)
SOME = settings(derandomize=True)
two_alike = populations(clients=(2, 2), equal_q=True, shares=False)


def at_home(population):
    return np.array([one.at_home for one in local_optima(population, 1.0)])


def psi_corners(population):
    """The paper's psi at the four corners of [0, c] x [0, c]; it is monotone in both arguments."""
    gaps = at_home(population)
    c = np.abs(gaps).min()
    corners = [(a, b) for a in (0.0, c) for b in (0.0, c)]
    return np.array([lft_ensemble(population, e).outcome.mean_difference for e in corners])


# Section 3


def test_lemma_informal_ufl_limit():
    """There are populations with one q for all that no budgets make fair for an ensemble."""
    assert ensemble_range(setting("fig1c")).least_disparity > 0.16


def test_cor_informal_gaussian():
    """One client with a much larger variance is enough."""
    assert ensemble_range(setting("example1")).least_disparity > 0.2


def test_example():
    """Example 1: delta is 1/4 (g_1(0) + g_0(lam_1)) = .2043, and not .21 (E26, test_errata.py)."""
    population = setting("example1")
    fair = local_optima(population, [1.0, 0.0])[1]
    g0 = gaps_at(local_problem(population), np.full(2, -2.0))[0]  # thresholds +2 and -2
    assert fair.rule[0].edges[0] == pytest.approx(2.0)
    expected = (at_home(population)[1] + g0) / 4
    assert ensemble_range(population).least_disparity == pytest.approx(expected, abs=1e-12)
    assert expected == pytest.approx(0.2043003, abs=1e-7)


@SOME
@given(two_alike)
def test_thm_uflvsffl(population):
    """Federated learning has a value: a fair LFT+FedAvg where no ensemble is fair.

    The certain conditions are those of lemma:ufl_limit.
    """
    gaps = at_home(population)
    if gaps[0] * gaps[1] < -1e-6 and np.all(psi_corners(population) * gaps.sum() > 0):
        assert ensemble_range(population).least_disparity > 0
    assert lft_fedavg(population, 0.0).outcome.spd < 1e-8


def test_conjecture_of_section_5_1():
    """Ensembles stay unfair beyond the corollary's conditions: so in Fig. 1(c), not in 1(b)."""
    assert ensemble_range(setting("fig1c")).least_disparity > 0.16
    assert ensemble_range(setting("fig1b")).least_disparity == 0  # E39, test_errata.py


@SOME
@given(st.floats(0.1, 0.9), st.floats(0.1, 0.9), st.floats(0.3, 2), st.floats(-1, 1))
def test_lemma_ffl_limit(q0, q1, distance, middle):
    """For any q_0 != q_1 some population keeps LFT+FedAvg from being fair.

    The paper proves it for q in {0, 1}. Where both groups have the same law at a client, every
    local gap of the unconstrained optimum is 0, so no budget binds, and groups that live in
    different places stay unequal.
    """
    assume(abs(q0 - q1) > 0.02)
    means = ((middle, middle), (middle + distance, middle + distance))
    population = gaussians(means, (1.0, 1.0), (q0, q1))
    for eps in ([0.0, 0.0], [0.0, 1.0], [1.0, 1.0]):
        assert lft_fedavg(population, eps).outcome.spd == pytest.approx(
            erm(population).outcome.spd, abs=1e-9
        )
    assert erm(population).outcome.spd > 1e-4
    assert cfl(population, 0.0).outcome.spd < 1e-11


# A.1, CFL


@DEAR
@given(populations(), st.sampled_from([0.0, 0.1]))
def test_lemma_solution(population, eps):
    """The optimum is the pair of thresholds with the multiplier of g^{-1}."""
    best = cfl(population, eps)
    (lam,), (share0, share1) = best.multipliers, population.group_shares
    values = [population.eta.value(steps.edges)[0] for steps in best.rule]
    assert values[0] == pytest.approx(0.5 - lam / (2 * share0), abs=1e-9)
    assert values[1] == pytest.approx(0.5 + lam / (2 * share1), abs=1e-9)
    assert best.outcome.accuracy == pytest.approx(cfl_by_program(population, eps)[0], abs=2e-5)


@DEAR
@given(populations(clients=(2, 2)))
def test_lemma_unique_solution(population):
    """Two ways to the optimum end at the same rule: the same rates in every group and client."""
    _, masses, _ = cells(population)
    _, rates = cfl_by_program(population, 0.05)
    pooled = (population.client_weights * rates).sum(axis=0)
    widest = np.einsum("ia,iak->ak", population.client_weights, masses).max()
    np.testing.assert_allclose(cfl(population, 0.05).outcome.rates, pooled, atol=2 * widest)


@settings(derandomize=True)
@given(populations(), st.floats(0, 0.6))
def test_lemma_different_sign(population, eps):
    """Item 2 holds; item 1 says MD = lam and is false (E21): MD = sign(g(0)) eps.

    The multiplier has the other sign.
    """
    free, best = erm(population).outcome.mean_difference, cfl(population, eps)
    if eps < abs(free) - 1e-9:
        assert best.outcome.mean_difference == pytest.approx(np.sign(free) * eps, abs=1e-11)
        assert best.multipliers[0] * free < 0
    else:
        assert best.multipliers[0] == pytest.approx(0, abs=1e-9)
        assert best.outcome.mean_difference == pytest.approx(free, abs=1e-9)


# A.2, LFT+Ensemble


@SOME
@given(two_alike)
def test_lemma_ufl_limit(population):
    """Gaps of different sign, psi of one sign: no budgets go below the least value of psi."""
    gaps = at_home(population)
    assume(gaps[0] * gaps[1] < -1e-6)
    psi = psi_corners(population)
    reach = ensemble_range(population)
    if np.all(psi * gaps.sum() > 0):
        assert reach.least_disparity >= np.abs(psi).min() - 1e-9
        assert reach.least_disparity > 0


@DEAR
@pytest.mark.parametrize("large", [0, 1])
@given(st.floats(0.5, 3), st.floats(-2, 2), st.floats(0.05, 0.5))
def test_cor_gaussian(large, gap, middle, small_gap):
    """delta is about 1/4 |g_0(0) + g_1(0)|, in the limit of a large variance, and positive.

    It is no lower bound: the exact delta is a little less (E26).
    """
    narrow, wide = (middle + gap / 2, middle - gap / 2), (-small_gap / 2, small_gap / 2)
    means = (wide, narrow) if large == 0 else (narrow, wide)
    delta, printed = [], []
    for size in (50.0, 1000.0):
        sds = (size, 1.0) if large == 0 else (1.0, size)
        population = gaussians(means, sds, (0.5, 0.5))
        delta.append(ensemble_range(population).least_disparity)
        printed.append(abs(at_home(population).sum()) / 4)
    assert 0 < delta[0] < printed[0]
    assert delta[1] == pytest.approx(printed[1], rel=0.05)


@SOME
@given(two_alike, st.floats(0, 1), st.floats(0, 1))
def test_lemma_ufl_equals_CFL_condition(population, first, second):  # label lemma:ufl=CFL_condition
    """An ensemble is as accurate as CFL exactly if all multipliers agree with CFL's."""
    ensemble = lft_ensemble(population, [first, second])
    best = cfl(population, ensemble.outcome.spd)
    behind = best.outcome.accuracy - ensemble.outcome.accuracy
    apart = np.abs(ensemble.multipliers - best.multipliers[0]).max()
    assert behind >= -1e-12
    if apart < 1e-9:
        assert behind < 1e-12
    if apart > 0.05 and min(best.outcome.rates.min(), 1 - best.outcome.rates.max()) > 0.01:
        assert behind > 1e-9


@SOME
@given(populations(equal_q=True))
def test_lemma_veps_above_g0(population):  # label lemma:veps>g(0)
    """Where the unconstrained optimum is fair enough, an ensemble attains it."""
    free = erm(population).outcome
    (point,) = lft_ensemble_curve(population, [min(1.0, free.spd + 1e-6)])
    assert point.accuracy == pytest.approx(free.accuracy, abs=1e-12)
    assert lft_ensemble(population, 1.0).outcome.accuracy == pytest.approx(free.accuracy, abs=1e-12)


@DEAR
@given(two_alike, st.floats(0.05, 0.95))
def test_lemma_max_ufl(population, part):
    """Gaps of different sign at home: an ensemble is always behind CFL."""
    gaps = at_home(population)
    assume(gaps[0] * gaps[1] < -1e-3)
    level = part * erm(population).outcome.spd
    assume(level > 1e-3)
    (point,) = lft_ensemble_curve(population, [level])
    assert point.accuracy is None or point.accuracy < cfl(population, level).outcome.accuracy


@DEAR
@given(two_alike)
def test_lemma_uflcfl(population):
    """Gaps of one sign: an ensemble equals CFL from tau on, and is behind below it."""
    gaps = at_home(population)
    assume(gaps[0] * gaps[1] > 1e-4)
    free, limit = erm(population).outcome.spd, tau(population)
    fair = [one.everywhere.mean_difference for one in local_optima(population, 0.0)]
    formula = min(free, max(np.sign(gaps[0]) * np.array(fair)))
    assert limit == pytest.approx(max(formula, 0.0), abs=1e-9)
    above = limit + 0.3 * (free - limit)
    below = 0.5 * limit
    first, second = lft_ensemble_curve(population, [above, below])
    assert first.accuracy == pytest.approx(cfl(population, above).outcome.accuracy, abs=1e-8)
    if limit > 0.02:
        best = cfl(population, below).outcome.accuracy
        assert second.accuracy is None or second.accuracy < best


@DEAR
@given(populations(clients=(2, 2)), st.floats(0.1, 0.9))
def test_lemma_ufl_q_different(population, part):
    """With different q an ensemble is behind CFL; with the right pooled law (E29)."""
    q = population.within[:, 1]
    free = erm(population).outcome.spd
    assume(abs(q[0] - q[1]) > 0.05 and free > 0.02)
    (point,) = lft_ensemble_curve(population, [part * free])
    best = cfl(population, part * free).outcome.accuracy
    assert point.accuracy is None or point.accuracy < best
    assert tau(population) == pytest.approx(free, abs=1e-12)


# A.3, LFT+FedAvg


@DEAR
@given(populations(clients=(2, 2), equal_q=True, shares=False), st.floats(0, 0.4))
def test_thm_fflfair(population, eps):
    """With one q budgets eps bound the disparity of all by eps; so every level is reached.

    That an ensemble does not reach 0 under the conditions of lemma:ufl_limit: test_thm_uflvsffl.
    """
    assert lft_fedavg(population, eps).outcome.spd <= eps + 1e-8
    assert lft_fedavg(population, 0.0).outcome.spd < 1e-8


@DEAR
@given(populations(clients=(3, 3), equal_q=True, shares=False), st.floats(0, 0.4))
def test_thm_fflfair_multi(population, eps):
    """The same for more clients (its last step is an inequality, E30)."""
    budgets = eps * np.array([1.0, 0.5, 0.0])
    assert lft_fedavg(population, budgets).outcome.spd <= budgets.mean() + 1e-8
    assert lft_fedavg(population, 0.0).outcome.spd < 1e-8


@DEAR
@given(populations(clients=(2, 3)), st.sampled_from([0.0, 0.05]))
def test_lemma_FFL_soln(population, eps):
    """The optimum has the stated form once every client's term carries P(i) P(a | i) (E28).

    What is printed, with one q for all and no such weight, decides differently.
    """
    best = lft_fedavg(population, eps)
    x, _, _ = cells(population, 4000)
    margin = population.eta.value(x) - population.eta.upper(x)
    for group, sign in ((0, 1.0), (1, -1.0)):
        laws, n = population.laws[group], population.joint[:, group]
        densities = laws.ask("pdf", x[None, :])
        score = ((n[:, None] * margin + sign * best.multipliers[:, None]) * densities).sum(axis=0)
        steps = best.rule[group]
        decided = steps.values[np.searchsorted(steps.edges, x)]
        clear = np.abs(score) > 1e-3 * densities.sum(axis=0)
        np.testing.assert_array_equal(decided[clear], (score > 0)[clear])


def test_lemma_formal_ffl_limit():
    """Clients with one group each are bound by nothing: LFT+FedAvg is plain training."""
    population = setting("fig2", 0.0, 1.0)
    free = erm(population).outcome
    assert lft_fedavg_least(population).outcome.spd == pytest.approx(free.spd, abs=1e-12)
    assert lft_fedavg(population, 0.0).outcome.spd == pytest.approx(0.8399948, abs=1e-7)
    assert cfl(population, 0.0).outcome.spd < 1e-12


@SOME
@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=3, max_size=3), st.floats(-1, 2))
def test_lemma_ffl_limit_multi(qs, mean):
    assume(0 < sum(qs) < 3)
    means = ((3.0, mean), (1.0, -1.0), (mean, 2.0))
    population = gaussians(means, (1.0, 1.0, 1.0), tuple(qs))
    free = erm(population).outcome
    assert lft_fedavg_least(population).outcome.spd == pytest.approx(free.spd, abs=1e-12)


def three_that_meet_the_conditions_of_lemma_ufl_limit_multi():
    means, sds = ((3.0, -3.0), (-0.5, 0.8), (-2.0, 1.5)), (1.0, 0.4, 0.7)
    return gaussians(means, sds, (0.5, 0.5, 0.5))  # the subsets {0, 2} and {1}: test_errata.py


def test_thm_fflfair_multi_second_half():
    """False (E27): under those conditions an ensemble can be as fair as LFT+FedAvg."""
    population = three_that_meet_the_conditions_of_lemma_ufl_limit_multi()
    assert ensemble_range(population).least_disparity == 0
    assert lft_fedavg(population, 0.0).outcome.spd < 1e-8


def test_lemma_ufl_limit_multi():
    """False (E27): pooling two subsets of clients does not bound what their ensemble reaches."""
    population = three_that_meet_the_conditions_of_lemma_ufl_limit_multi()
    promised = 0.1748
    found = lft_ensemble(population, [0.98891, 0.30785, 0.55964])
    assert found.outcome.spd < 1e-5 < promised
    reach = ensemble_range(population)
    assert reach.low == pytest.approx(-0.4124667, abs=1e-6)
    assert reach.high == pytest.approx(0.1414648, abs=1e-6)


def test_conjecture_of_the_remark_after_thm_uflvsffl():
    """False: with different q an ensemble can be fairer than any LFT+FedAvg."""
    population = gaussians(((-0.1, -0.1), (1.0, -1.0)), (0.05, 0.2), (0.6, 0.4))
    assert ensemble_range(population).least_disparity == pytest.approx(0.0855166, abs=1e-6)
    assert lft_fedavg_least(population).outcome.spd == pytest.approx(0.1709604, abs=1e-5)


def test_thresholds_stay_finite_until_a_group_is_decided_all_alike():
    """The domain of g (E22): the root lies where the smaller group's threshold is still finite."""
    problem = pooled_problem(setting("fig1b"))
    far = pairs_at(problem, np.array([-1e6]))
    assert far.t1[0] == -1e6
    assert np.isfinite(far.t0[0])
    assert gaps_at(problem, np.array([-1e6]))[0] < 0
