"""Populations whose eta is 0 or 1 to rounding where people live: levels are reached, and soon."""

import numpy as np
import pytest

from fedfb import theory
from fedfb.theory.achievable import achievable, summarise_in_words
from fedfb.theory.pictures import print_achievable
from theory.populations import gaussians


def far_apart(*qs):
    """Two clients whose labels follow from the group but for 1e-17 of the people."""
    means, sds = [(40.0, -40.0), (45.0, -38.0)], [1.0, 3.0]
    return gaussians(means, sds, qs or (0.5, 0.5))


@pytest.fixture(scope="module")
def record():
    return achievable(far_apart(), [0.0, 0.05])


def test_level_0_has_its_accuracy_where_0_is_reached(record):
    """With one q a theorem says that budgets reach 0, and half of the labels are then missed."""
    assert record["lft_fedavg"]["min_disparity"] == 0.0
    assert [p["accuracy"] for p in record["lft_fedavg"]["curve"]] == pytest.approx(
        [0.5, 0.525], abs=1e-7
    )


def test_the_printed_row_agrees_with_the_sentence(record, capsys):
    print_achievable(record, "far apart")
    printed = capsys.readouterr().out
    row = next(line for line in printed.splitlines() if line.startswith(".000 "))
    assert "averaging locally fair models reaches 0" in summarise_in_words(record)
    assert row.split() == [".000", ".5000", ".5000", ".5000"]


def test_a_least_disparity_above_0_is_never_printed_as_0(capsys):
    reached = {"curve": [{"disparity": 0.0, "accuracy": None}], "exact": True}
    at = {"accuracy": 0.8, "budgets": None, "mean_difference": 0.0, "demographic_parity": 0.0}
    one = {**reached, "min_disparity": 2e-5, "at_least": at}
    record = {
        "measure": "spd",
        "erm": {"accuracy": 0.9, "disparity": 0.1, "demographic_parity": 0.05},
        "client_gaps": [0.1],
        "cfl": {**one, "min_disparity": 0.0},
        "lft_fedavg": one,
    }
    print_achievable(record, "almost fair")
    printed = capsys.readouterr().out
    assert "reaches |P0 - P1| = 2e-05 here" in printed
    assert "<.0001" in printed


@pytest.mark.parametrize("q", [0.5, 0.3])
def test_one_client_is_cfl(q):
    """CFL is solved by thresholds in x, which multipliers cannot tell apart here."""
    alone = gaussians([(50.0, -55.0)], [1.0], (q,))
    averaged, together = theory.lft_fedavg(alone, 0.2), theory.cfl(alone, 0.2)
    assert averaged.outcome.accuracy == pytest.approx(together.outcome.accuracy, abs=1e-8)
    assert averaged.outcome.mean_difference == pytest.approx(0.2, abs=1e-8)


@pytest.mark.parametrize("eps", [(0.0, 0.0), (0.1, 0.0), (0.3, 0.2)])
def test_budgets_are_kept_and_cost_what_a_count_says(eps):
    """Labels are groups: with |P0 - P1| <= eps at a client, (1 + eps) / 2 of them can be met."""
    solution = theory.lft_fedavg(far_apart(), eps)
    assert np.all(np.abs(solution.outcome.client_gaps) <= np.array(eps) + 1e-8)
    best = np.mean([(1 + budget) / 2 for budget in eps])
    assert solution.outcome.accuracy == pytest.approx(best, abs=1e-8)
    assert best - solution.outcome.accuracy <= solution.gap + 1e-9


@pytest.mark.slow
def test_levels_of_three_clients_far_apart_cost_what_a_count_says():
    """With one q, a level d of disparity leaves (1 + d) / 2 of the labels right: CFL's accuracy."""
    means, sds = [(40.0, -40.0), (45.0, -38.0), (60.0, -20.0)], [1.0, 3.0, 2.0]
    curve = theory.lft_fedavg_curve(gaussians(means, sds, (0.5, 0.5, 0.5)), [0.0, 0.05, 0.2])
    assert [point.accuracy for point in curve] == pytest.approx([0.5, 0.525, 0.6], abs=1e-7)


def test_of_optima_that_tie_the_fairest_is_taken():
    """A score of 1/2 gains nothing: of group 0 any part may be accepted, and .4 is fair."""
    undecided, decided = theory.Atoms([0.5], [1.0]), theory.Atoms([0.1, 0.9], [0.6, 0.4])
    tied = theory.population([theory.client(0.5, undecided, decided)], "identity")
    assert theory.erm(tied).outcome.spd == pytest.approx(0.4)
    loose = theory.lft_fedavg(tied, 1.0).outcome
    assert loose.spd == pytest.approx(0.0, abs=1e-9)
    assert loose.accuracy == pytest.approx(theory.erm(tied).outcome.accuracy)


@pytest.mark.slow
def test_a_looser_level_is_never_less_accurate_on_atoms():
    rng = np.random.default_rng(7)
    points = [0.0, 0.001, 0.5, 0.999, 1.0]

    def law():
        masses = rng.random(5) ** 3
        return theory.Atoms(points, masses / masses.sum())

    for _ in range(2):
        made = [theory.Client((0.2, 0.3, 0.5), (law(), law(), law())) for _ in range(2)]
        curve = theory.lft_fedavg_curve(
            theory.population(made, "identity"), [0.0, 0.01, 0.02, 0.05]
        )
        known = [point.accuracy for point in curve if point.accuracy is not None]
        assert np.all(np.diff(known) >= 0)
