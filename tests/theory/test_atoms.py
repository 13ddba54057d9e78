"""Laws on atoms: exact optima with a randomised decision at the tie, against linear programs."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from fedfb.errors import ConfigError
from fedfb.theory import (
    Atoms,
    Client,
    Histogram,
    cfl,
    cfl_curve,
    client,
    ensemble_range,
    erm,
    identity,
    increasing,
    lft_ensemble,
    lft_ensemble_curve,
    lft_fedavg,
    lft_fedavg_curve,
    lft_fedavg_least,
    lft_fedavg_trade_off,
    local_optima,
    on_cells,
    outcome,
    population,
    setting,
    table,
    tau,
)
from few_examples import one_in

POINTS = np.array([0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95])
SOME = settings(derandomize=True)


@st.composite
def scored(draw, groups=2, clients=(2, 3), ties=False, least=0):
    """Scores counted in seven bins, for each client and group."""
    counts = st.lists(st.integers(least, 20), min_size=7, max_size=7).filter(any)
    made = []
    for _ in range(draw(st.integers(*clients))):
        rows = [np.array(draw(counts), float) for _ in range(groups)]
        shares = np.array([draw(st.integers(1, 9)) for _ in range(groups)], float)
        laws = tuple(Atoms(POINTS, row / row.sum()) for row in rows)
        made.append(Client(tuple(shares / shares.sum()), laws))
    steps = [0.05, 0.2, 0.2, 0.5, 0.65, 0.65, 0.95] if ties else POINTS
    fitted = identity() if not ties else _flat(np.array(steps))
    return population(made, fitted)


def _flat(values):
    """Eta with ties: allowed on atoms, where a tie is randomised."""
    return increasing(lambda x: values[np.searchsorted(POINTS, np.clip(x, 0.05, 0.95))], 0.0, 1.0)


def by_program(masses, eta, shares, rows, bounds):
    """Return the best accuracy above that of deciding against everybody."""
    gain = (shares[:, None] * masses * (2 * eta - 1)).ravel()
    both = np.concatenate([rows, -rows])
    solved = linprog(-gain, A_ub=both, b_ub=np.concatenate([bounds, bounds]), bounds=(0, 1))
    return -solved.fun


def pooled(scores):
    return np.einsum("ia,iak->ak", scores.client_weights, scores.masses)


def nobody(scores):
    return (scores.joint[:, :, None] * scores.masses * (1 - scores.eta)).sum()


@pytest.mark.parametrize("ties", [False, True])
@SOME
@given(data=st.data(), eps=st.sampled_from([0.0, 0.02, 0.1, 0.5]))
def test_cfl_equals_a_linear_program_and_meets_its_bound(ties, data, eps):
    scores = data.draw(scored(ties=ties))
    masses = pooled(scores)
    row = np.concatenate([masses[0], -masses[1]])[None, :]
    expected = by_program(masses, scores.eta, scores.group_shares, row, np.array([eps]))
    best = cfl(scores, eps)
    assert best.outcome.accuracy == pytest.approx(nobody(scores) + expected, abs=1e-9)
    assert best.outcome.spd <= eps + 1e-12
    randomised = (best.rule.probability > 1e-9) & (best.rule.probability < 1 - 1e-9)
    assert len(np.unique(scores.eta[randomised.any(axis=0)])) <= 1


@SOME
@given(scored(groups=3), st.sampled_from([0.0, 0.02, 0.1]))
def test_cfl_for_three_groups_equals_a_linear_program(scores, eps):
    best = cfl(scores, eps).outcome
    masses, shares = pooled(scores), scores.group_shares
    rows = np.zeros((3, 3, len(POINTS)))
    for a in range(3):
        rows[a, a] += masses[a]
        rows[a] -= shares[:, None] * masses
    bounds = np.full(3, eps)
    expected = by_program(masses, scores.eta, shares, rows.reshape(3, -1), bounds)
    assert best.accuracy == pytest.approx(nobody(scores) + expected, abs=1e-8)
    assert best.demographic_parity <= eps + 1e-8
    assert np.isnan(best.mean_difference)


@SOME
@given(scored(groups=3), st.sampled_from([0.0, 0.1]))
def test_local_optima_for_three_groups_bound_each_clients_own_disparity(scores, eps):
    for one in local_optima(scores, eps):
        rates = (scores.masses[one.client] * one.rule.probability).sum(axis=1)
        overall = scores.within[one.client] @ rates
        assert np.abs(rates - overall).max() <= eps + 1e-8
        for row in one.rule.probability:  # thresholds: more eta, no less chance
            assert np.all(np.diff(row) >= -1e-12)
    ensemble = lft_ensemble(scores, eps)
    members = [one.rule.probability for one in local_optima(scores, eps)]
    np.testing.assert_allclose(ensemble.rule.probability, np.mean(members, axis=0))


@SOME
@given(scored(), st.data())
def test_no_budgets_lead_an_ensemble_out_of_its_range_or_over_its_curve(scores, data):
    reach = ensemble_range(scores)
    budgets = st.sampled_from([0.0, 0.05, 0.2, 1.0])
    eps = [data.draw(budgets) for _ in range(scores.clients)]
    found = lft_ensemble(scores, eps).outcome
    assert reach.low - 1e-9 <= found.mean_difference <= reach.high + 1e-9
    level = min(1.0, found.spd + 1e-12)
    fairest, point = lft_ensemble_curve(scores, [reach.least_disparity, level])
    assert point.accuracy >= found.accuracy - 1e-9
    assert point.solution.outcome.spd <= level + 1e-9
    assert fairest.solution.outcome.spd == pytest.approx(reach.least_disparity, abs=1e-9)


@SOME
@given(scored(least=1))
def test_the_budgets_of_the_range_reach_its_least_disparity(scores):
    """Where all hold mass everywhere; else a client's optimum at a budget is not the only one."""
    reach = ensemble_range(scores)
    at = lft_ensemble(scores, reach.budgets).outcome
    assert at.spd == pytest.approx(reach.least_disparity, abs=1e-7)


def test_a_client_without_mass_at_a_score_is_indifferent_to_it():
    """Its optimum is not unique there: the range has all of them, `lft_ensemble` takes the first.

    Client 0 favours group 0 by .1. On its way to parity lies .8, where it has nobody and client 1
    half of its group 0: at the budget .1 any decision there is optimal for client 0.
    """
    at = [0.1, 0.8, 0.9]
    both = population(
        [
            client(0.5, Atoms(at, [0.4, 0.0, 0.6]), Atoms(at, [0.5, 0.0, 0.5])),
            client(0.5, Atoms(at, [0.0, 0.5, 0.5]), Atoms(at, [0.0, 0.5, 0.5])),
        ],
        identity(),
    )
    reach = ensemble_range(both)
    assert erm(both).outcome.mean_difference == pytest.approx(0.05)
    assert lft_ensemble(both, [0.0999, 1.0]).outcome.mean_difference < -0.07
    assert reach.least_disparity == 0.0
    assert reach.budgets[0] == pytest.approx(0.1)
    (fair,) = lft_ensemble_curve(both, [0.0])
    assert fair.solution.outcome.spd < 1e-12


@SOME
@given(scored())
def test_an_ensemble_equals_cfl_from_tau_on(scores):
    limit, free = tau(scores), erm(scores).outcome.spd
    for part in (0.0, 0.5, 1.0):
        level = limit + part * (free - limit)
        best = cfl(scores, level).outcome.accuracy
        (point,) = lft_ensemble_curve(scores, [level])
        assert point.accuracy == pytest.approx(best, abs=1e-9)


@SOME
@given(scored(), st.data())
def test_fedavg_is_optimal_and_keeps_every_budget(scores, data):
    eps = [data.draw(st.sampled_from([0.0, 0.05, 0.3, 1.0])) for _ in range(scores.clients)]
    best = lft_fedavg(scores, eps)
    assert best.gap <= 1e-9
    assert np.all(np.abs(best.outcome.client_gaps) <= np.array(eps) + 1e-8)
    free = cfl(scores, best.outcome.spd).outcome.accuracy
    assert best.outcome.accuracy <= free + 1e-8


@SOME
@given(scored(groups=3, clients=(2, 2)), st.sampled_from([0.0, 0.1, 1.0]))
def test_fedavg_for_three_groups_keeps_every_budget(scores, eps):
    best = lft_fedavg(scores, eps)
    rates = (scores.masses * best.rule.probability).sum(axis=2)
    overall = (scores.within * rates).sum(axis=1, keepdims=True)
    assert np.abs(rates - overall).max() <= eps + 1e-8
    assert best.gap <= 1e-9


@one_in(20, derandomize=True)  # a search on a grid
@given(scored(clients=(2, 2)))
def test_the_curve_of_fedavg_stays_below_cfl_and_states_how_far(scores):
    levels = [0.05, 0.2]
    best = cfl_curve(scores, levels)
    for point, ceiling in zip(lft_fedavg_curve(scores, levels), best, strict=True):
        if point.accuracy is not None:
            assert point.accuracy <= ceiling.accuracy + 1e-9
            assert point.gap == pytest.approx(ceiling.accuracy - point.accuracy, abs=1e-9)
    assert lft_fedavg_least(scores).outcome.spd <= erm(scores).outcome.spd + 1e-9


def test_fine_cells_give_the_optima_of_densities():
    dense = setting("fig2", 0.3, 0.7)
    finite = on_cells(dense, 2000)
    assert erm(finite).outcome.accuracy == pytest.approx(erm(dense).outcome.accuracy, abs=1e-5)
    assert cfl(finite, 0.1).outcome.accuracy == pytest.approx(
        cfl(dense, 0.1).outcome.accuracy, abs=1e-5
    )
    assert ensemble_range(finite).least_disparity == pytest.approx(0.3838574, abs=2e-3)


def test_histograms_of_scores_have_no_ties():
    """Spread evenly in each bin, and with a fitted map, scores are a population with densities."""
    edges = np.linspace(0, 1, 6)
    fitted = table(edges, np.array([0.02, 0.15, 0.4, 0.7, 0.97, 1.0]))
    low, high = [0.4, 0.3, 0.2, 0.05, 0.05], [0.1, 0.2, 0.2, 0.2, 0.3]
    both = population(
        [
            client(0.4, Histogram(edges, low), Histogram(edges, high)),
            client(0.6, Histogram(edges, high), Histogram(edges, low)),
        ],
        fitted,
    )
    fair = cfl(both, 0.0)
    assert fair.outcome.spd < 1e-11
    best = lft_fedavg(both, 0.05)
    assert best.gap <= 1e-9
    assert np.abs(best.outcome.client_gaps).max() <= 0.05 + 1e-8
    again = outcome(both, best.rule)
    assert again.accuracy == pytest.approx(best.outcome.accuracy, abs=1e-12)


def test_what_is_known_for_two_groups_only_is_refused_for_three():
    rows = np.full(7, 1 / 7)
    three = population([Client((0.5, 0.3, 0.2), (Atoms(POINTS, rows),) * 3)], identity())
    for refused in (ensemble_range, tau):
        with pytest.raises(ConfigError, match="two groups"):
            refused(three)
    with pytest.raises(ConfigError, match="two groups"):
        lft_ensemble_curve(three, [0.1])
    edges = np.linspace(0, 1, 8)
    dense = population([Client((0.5, 0.3, 0.2), (Histogram(edges, rows),) * 3)], identity())
    for solver in (cfl, lft_fedavg):
        with pytest.raises(ConfigError, match="on_cells"):
            solver(dense, 0.1)
    assert cfl(on_cells(dense), 0.1).outcome.demographic_parity <= 0.1


@one_in(20, derandomize=True)  # a search on a grid
@given(scored(groups=3, clients=(2, 2)))
def test_the_curve_of_three_groups_bounds_their_demographic_parity(scores):
    found = lft_fedavg_trade_off(scores, [0.03, 0.1])
    for point, ceiling in zip(found.curve, cfl_curve(scores, [0.03, 0.1]), strict=True):
        if point.solution is not None:
            assert point.solution.outcome.demographic_parity <= point.level + 1e-8
            assert point.accuracy <= ceiling.accuracy + 1e-8
    assert found.least.outcome.demographic_parity <= erm(scores).outcome.demographic_parity + 1e-9


@SOME
@given(scored(groups=3), st.sampled_from([0.0, 0.05]))
def test_a_client_without_one_of_three_groups_bounds_the_other_two(scores, eps):
    joint = scores.joint.copy()
    joint[0, 1] = 0.0
    lacking = replace(scores, joint=joint / joint.sum())
    held = [0, 2]
    for rule in (local_optima(lacking, eps)[0].rule, lft_fedavg(lacking, eps).rule):
        rates = (lacking.masses[0] * rule.probability).sum(axis=1)
        overall = lacking.within[0] @ rates
        assert np.abs(rates[held] - overall).max() <= eps + 1e-8
