"""What the paper's theory gets wrong: counter-examples and exact values. See docs/theory.md."""

import numpy as np
import pytest
from scipy.special import ndtr

from fedfb.theory import (
    FIG3_PANELS,
    Atoms,
    cfl,
    cfl_curve,
    client,
    ensemble_range,
    erm,
    lft_ensemble,
    lft_ensemble_curve,
    lft_fedavg,
    lft_fedavg_curve,
    lft_fedavg_least,
    lft_fedavg_trade_off,
    local_optima,
    outcome,
    population,
    setting,
    tau,
    threshold,
)
from theory.populations import gaussians


def test_E21_the_mean_difference_of_cfl_is_not_its_multiplier():
    best = cfl(setting("fig1c"), 0.1)
    assert best.outcome.mean_difference == pytest.approx(0.1, abs=1e-12)
    assert best.multipliers[0] == pytest.approx(-0.1751443, abs=1e-7)
    fair = cfl(setting("fig1c"), 0.0)
    assert fair.multipliers[0] == pytest.approx(-0.2257661, abs=1e-7)


def test_E22_a_threshold_beyond_the_range_of_eta_decides_all_alike():
    population = gaussians(((2.0, 5.0), (2.0, 5.0)), (0.5, 0.5), (0.1, 0.1))
    fair = cfl(population, 0.0)
    assert abs(fair.multipliers[0]) < 0.1  # the smaller share bounds the multiplier of a root
    assert fair.outcome.spd < 1e-11


def test_E23_accuracy_counts_both_labels():
    population = setting("fig2", 0.3, 0.7)
    everyone = outcome(population, (threshold(-np.inf), threshold(-np.inf)))
    nobody = outcome(population, (threshold(np.inf), threshold(np.inf)))
    assert everyone.accuracy + nobody.accuracy == pytest.approx(1.0, abs=1e-12)


def test_E24_psi_is_least_at_the_corner_of_the_smaller_gap():
    """psi(|g_0(0)|, 0), not psi(g_0(0), 0): a budget is never negative."""
    population = setting("fig1c")
    reach = ensemble_range(population)
    np.testing.assert_allclose(reach.budgets, [0.0013496, 0.0], atol=1e-7)
    assert lft_ensemble(population, reach.budgets).outcome.spd == pytest.approx(0.1646474, abs=1e-7)


def test_E39_fig_1b_is_an_underflow():
    """Both clients have the same fair thresholds, so the ensemble of fair members is fair."""
    population = setting("fig1b")
    members = local_optima(population, 0.0)
    assert [m.multiplier for m in members] == pytest.approx([-0.0159723] * 2, abs=1e-7)
    assert ensemble_range(population).least_disparity == 0.0
    assert tau(population) == 0.0
    assert lft_ensemble(population, 0.0).outcome.spd < 1e-12
    # What floats say if client 0's gap is taken as 0 because it underflows:
    assert ndtr(10 / 0.2) - ndtr(9.8 / 0.2) == 0.0
    assert lft_ensemble(population, [1.0, 0.0]).outcome.spd == pytest.approx(0.0853362, abs=1e-7)
    levels = [0.0, 0.05, 0.1]
    together = [point.accuracy for point in cfl_curve(population, levels)]
    assert [p.accuracy for p in lft_ensemble_curve(population, levels)] == pytest.approx(together)
    assert [p.accuracy for p in lft_fedavg_curve(population, levels)] == pytest.approx(
        together, abs=1e-6
    )


def test_E25_a_step_of_the_corollarys_third_case_is_false():
    """mu_1 < 0 < mu_0: it says P_1(x > -mu_1) > 1/2, but -mu_1 lies above the mean mu_1."""
    population = setting("fig1c")
    rates = outcome(population, (threshold(1.0), threshold(1.0))).client_gaps
    assert ndtr((-1.0 - 1.0) / 1.0) < 0.5
    assert rates[1] > 0  # the case's conclusion, g_1 of one sign, survives


def test_E26_example_1_has_a_smaller_delta_than_printed_and_misses_its_own_conditions():
    population = setting("example1")
    gaps = [one.at_home for one in local_optima(population, 1.0)]
    assert gaps == pytest.approx([0.0, 0.8399948], abs=1e-7)
    printed = abs(sum(gaps)) / 4
    assert printed == pytest.approx(0.2099987, abs=1e-7)
    assert ensemble_range(population).least_disparity == pytest.approx(0.2043003, abs=1e-7)


def test_E27_the_two_pooled_subsets_promise_what_their_clients_do_not_keep():
    means, sds = ((3.0, -3.0), (-0.5, 0.8), (-2.0, 1.5)), (1.0, 0.4, 0.7)
    shares = (2 / 3, 1 / 3)
    from fedfb.theory import Gaussian, Mixture

    def mixed(group):
        return Mixture([0.5, 0.5], [Gaussian(means[i][group], sds[i]) for i in (0, 2)])

    pooled = population(
        [
            client(0.5, mixed(0), mixed(1), share=shares[0]),
            client(0.5, Gaussian(-0.5, 0.4), Gaussian(0.8, 0.4), share=shares[1]),
        ]
    )
    gaps = [one.at_home for one in local_optima(pooled, 1.0)]
    assert gaps == pytest.approx([0.0077, -0.8716], abs=1e-4)
    assert ensemble_range(pooled, vote="shares").least_disparity == pytest.approx(0.1748, abs=1e-4)
    apart = gaussians(means, sds, (0.5, 0.5, 0.5))
    assert ensemble_range(apart).least_disparity == 0.0


def test_E28_a_finite_feature_needs_a_randomised_decision():
    """One client, one atom for each group: the optimum accepts 70 % of the second group."""
    one = client(0.5, Atoms([0.9], [1.0]), Atoms([0.4], [1.0]))
    finite = population([one], "identity")
    best = lft_fedavg(finite, 0.3)
    np.testing.assert_allclose(best.rule.probability[[0, 1], [1, 0]], [1.0, 0.7], atol=1e-9)
    assert best.outcome.mean_difference == pytest.approx(0.3, abs=1e-9)
    assert best.gap < 1e-9


def test_E28_without_the_weights_of_the_groups_the_form_is_not_optimal():
    """With q = (.3, .7) the printed form with q = 1/2 misses the local budgets it is made for."""
    population = setting("fig2", 0.3, 0.7)
    best = lft_fedavg(population, 0.1)
    printed = lft_fedavg(setting("fig2", 0.5, 0.5), 0.1)
    moved = outcome(population, printed.rule)
    assert np.abs(moved.client_gaps).max() <= 0.1 + 1e-9
    assert moved.accuracy < best.outcome.accuracy - 1e-3


def test_E29_the_pooled_law_of_group_0_weighs_clients_by_their_share_of_group_0():
    population = setting("fig2", 0.2, 0.6)
    np.testing.assert_allclose(population.client_weights[:, 0], [0.8 / 1.2, 0.4 / 1.2])
    np.testing.assert_allclose(population.client_weights[:, 1], [0.2 / 0.8, 0.6 / 0.8])
    apart = setting("fig2", 0.0, 1.0)  # the printed weights would take a law that nobody follows
    np.testing.assert_array_equal(apart.client_weights, [[1, 0], [0, 1]])


def test_E40_fig_2_does_not_separate_fedavg_from_cfl_at_equal_q():
    """The caption says strictly; both reach parity."""
    assert lft_fedavg_least(setting("fig2", 0.5, 0.5)).outcome.spd < 1e-9
    assert lft_fedavg_least(setting("fig2", 0.3, 0.7)).outcome.spd > 0.2


def test_different_q_do_not_imply_that_fedavg_is_behind_cfl():
    """Two clients with each law, q = .3 and .7: their terms add up to those of q = 1/2.

    Both laws have the same fair thresholds, so CFL's rule is attainable at every level.
    """
    means = ((1.2, 1.0), (1.2, 1.0), (0.2, 0.0), (0.2, 0.0))
    population = gaussians(means, (0.2,) * 4, (0.3, 0.7, 0.3, 0.7))
    free = erm(population).outcome.spd
    for part in (0.0, 0.3, 0.8):
        best = cfl(population, part * free)
        budgets = np.abs(best.outcome.client_gaps)
        local = lft_fedavg(population, budgets).outcome
        assert local.accuracy == pytest.approx(best.outcome.accuracy, abs=1e-9)
        assert local.spd == pytest.approx(best.outcome.spd, abs=1e-8)


def test_an_ensemble_can_have_the_better_trade_off_even_with_equal_q():
    population = gaussians(((0.0, 0.0), (3.0, -1.0)), (0.05, 1.0), (0.5, 0.5))
    levels = [0.05, 0.1, 0.2, 0.3]
    vote = [point.accuracy for point in lft_ensemble_curve(population, levels)]
    local = [point.accuracy for point in lft_fedavg_curve(population, levels)]
    assert vote[1] == pytest.approx(0.66150, abs=1e-5)
    assert local[1] == pytest.approx(0.65003, abs=2e-5)
    assert all(first > second for first, second in zip(vote, local, strict=True))


@pytest.mark.parametrize("q", [(0.5, 0.5), (0.2, 0.8)], ids=str)
def test_the_trade_offs_of_fig_2_are_ordered_as_its_caption_says(q):
    population = setting("fig2", *q)
    free = erm(population).outcome.spd
    levels = [0.9 * free]
    curves = [f(population, levels) for f in (lft_ensemble_curve, lft_fedavg_curve, cfl_curve)]
    vote, local, best = ([point.accuracy for point in curve] for curve in curves)
    both = [(a, b) for a, b in zip(vote, local, strict=True) if a is not None and b is not None]
    assert both
    assert all(one < other - 1e-5 for one, other in both)
    assert all(a <= b + 1e-9 for a, b in zip(local, best, strict=True) if a is not None)


@pytest.mark.slow
@pytest.mark.parametrize("panel", FIG3_PANELS[::3], ids=str)
def test_E44_three_clients_do_not_show_an_ensemble_ahead_of_fedavg(panel):
    """Section 5.2 sees it ahead; with the best budgets it is not, at any level."""
    population = setting("fig3", *panel)
    levels = [0.05, 0.15]
    vote = [point.accuracy or 0.0 for point in lft_ensemble_curve(population, levels)]
    averaged = lft_fedavg_trade_off(population, levels)
    local = [point.accuracy for point in averaged.curve]
    assert all(first < second for first, second in zip(vote, local, strict=True))
    assert averaged.least.outcome.spd < 1e-6


def test_E44_equal_budgets_are_a_bad_choice_for_fedavg():
    """Fig. 3, q = 1/2: all budgets 0 cost five points that other budgets for parity do not."""
    population = setting("fig3", 0.5, 0.5, 0.5)
    assert lft_fedavg(population, 0.0).outcome.accuracy == pytest.approx(0.75997, abs=1e-5)
    assert lft_fedavg_least(population).outcome.accuracy == pytest.approx(0.81367, abs=1e-5)


def test_E46_the_remark_after_lemma_uflcfl_has_lost_a_negation_and_a_half():
    """Fair rules that differ: the maximum is positive. Those that agree (Fig. 1b): it is 0."""
    apart = gaussians(((1.0, 0.0), (2.0, 0.5)), (1.0, 1.0), (0.5, 0.5))
    fair = local_optima(apart, 0.0)
    assert fair[0].multiplier != pytest.approx(fair[1].multiplier, abs=1e-3)
    assert max(one.everywhere.mean_difference for one in fair) > 0.01
    other_client = outcome(apart, fair[0].rule).client_gaps[1]
    assert fair[0].everywhere.mean_difference == pytest.approx(other_client / 2, abs=1e-12)
    alike = local_optima(setting("fig1b"), 0.0)
    assert max(abs(one.everywhere.mean_difference) for one in alike) < 1e-9


def test_disparity_is_not_monotone_in_the_budgets_of_fedavg():
    population = setting("fig3", 0.3, 0.5, 0.7)
    found = [lft_fedavg(population, eps).outcome.spd for eps in (0.0, 0.05, 0.1, 0.2)]
    assert found == pytest.approx([0.0321098, 0.0242130, 0.0157312, 0.0257655], abs=1e-6)
