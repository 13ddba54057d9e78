"""Tuning: what is fair by being constant never wins, and test rows have no say."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfb.algorithms import find_method
from fedfb.experiments import outcome
from fedfb.experiments.resolve import TARGETS, trial_grid, tuning_grid
from fedfb.experiments.spec import Experiment
from fedfb.experiments.tune import CLOSE, Candidate, choose, pick
from fedfb.runtime.ledger import read_ledger

UNIT = st.floats(0, 1)
CANDIDATES = st.lists(st.builds(Candidate, st.just({}), UNIT, UNIT, UNIT), min_size=1, max_size=9)
TINY = Experiment(rows=200, test_rows=200, rounds=2, local_epochs=1)


@given(CANDIDATES, st.floats(0, 0.99), UNIT)
def test_a_constant_classifier_never_wins_over_a_useful_one(found, majority, share):
    constant = Candidate({"constant": 1.0}, majority, 0.0, 0.1)
    useful = Candidate({"useful": 1.0}, majority + 0.01, 0.5, 0.9)
    chosen = choose([constant, *found, useful], True, majority, share)
    assert chosen.setting != constant.setting
    assert chosen.floor >= majority


@given(CANDIDATES, UNIT, UNIT)
def test_the_choice_is_the_fairest_above_the_floor(found, majority, share):
    numbered = [c._replace(setting={"n": float(n)}) for n, c in enumerate(found)]
    choice = choose(numbered, True, majority, share)
    [chosen] = [c for c in numbered if c.setting == choice.setting]
    able = [c for c in numbered if c.accuracy > majority and c.accuracy >= choice.floor]
    if able:
        assert chosen.disparity == min(c.disparity for c in able)
    assert choice.candidates == tuple(numbered)


def test_a_method_without_a_notion_takes_the_least_loss():
    fair = Candidate({"lr": 1.0}, 0.9, 0.0, 0.3)
    able = Candidate({"lr": 0.1}, 0.8, 0.4, 0.2)
    assert choose([fair, able], False, 0.5, 0.25).setting == able.setting


def test_where_no_disparity_is_estimable_the_least_loss_is_taken():
    found = [Candidate({"lr": x}, 0.9, None, x) for x in (0.3, 0.1, 0.2)]
    assert choose(found, True, 0.5, 0.25).setting == {"lr": 0.1}


def test_given_values_are_tried_and_else_the_papers():
    rates = find_method("fedfb").learning_rates
    local = Experiment(solver="local")
    assert trial_grid(local) == [
        {"target": target, "lr": lr} for target in (0.0, 1.0) for lr in rates
    ]
    assert len(trial_grid(replace(local, cost=0.01))) == len(TARGETS) * len(rates)
    assert trial_grid(Experiment(cost=0.01)) == [{"target": target} for target in TARGETS]
    assert trial_grid(Experiment(cost=0.01, lr=(0.1,)))[-1] == {"target": 1.0, "lr": 0.1}
    assert len(tuning_grid(Experiment(outer="step"))) == 8 * len(rates)
    assert [run["lr"] for run in tuning_grid(replace(local, algorithm="fedavg"))] == list(rates)
    assert tuning_grid(Experiment(alpha=(0.3,), lr=(0.02, 0.04))) == [
        {"alpha": 0.3, "lr": 0.02},
        {"alpha": 0.3, "lr": 0.04},
    ]


@pytest.mark.parametrize("how", ["tuning", "picked"])
def test_permuting_the_test_labels_does_not_change_the_choice(how, monkeypatch):
    grid = {"tune": True, "alpha": (0.1, 0.5, 2.0), "lr": (0.05, 0.2)} if how == "tuning" else {}
    tuned = replace(TINY, seeds=(0, 1), **grid)
    honest = outcome.run(tuned)
    load = outcome.load

    def load_permuted(*request):
        federation = load(*request)
        y = np.random.default_rng(0).permutation(federation.test.y)
        return replace(federation, test=federation.test._replace(y=y))

    monkeypatch.setattr(outcome, "load", load_permuted)
    permuted = outcome.run(tuned)
    assert getattr(honest, how)
    assert getattr(permuted, how) == getattr(honest, how)
    assert permuted.summary.accuracy != honest.summary.accuracy


@pytest.mark.parametrize("algorithm", ["fedavg", "lft-fedavg"])
def test_the_tuned_setting_is_trained_on_all_rows(algorithm):
    tuned = outcome.run(replace(TINY, algorithm=algorithm, tune=True))
    chosen = {knob: (value,) for knob, value in tuned.tuning.chosen.items()}
    plain = outcome.run(replace(TINY, algorithm=algorithm, **chosen))
    assert tuned.runs == plain.runs


RATED = st.lists(
    st.builds(Candidate, st.just({}), UNIT, UNIT, UNIT, UNIT), min_size=1, max_size=4
).map(lambda found: [c._replace(setting={"lr": 0.001 * 2**n}) for n, c in enumerate(found)])


@given(RATED, st.integers(20, 10_000))
def test_a_picked_rate_is_as_near_its_target_and_as_accurate_as_any(found, rows):
    [chosen] = [c for c in found if c.setting == pick(found, rows).setting]
    near = [c for c in found if c.off_target <= min(c.off_target for c in found) + CLOSE]
    assert chosen in near
    best = max(c.accuracy for c in near)
    alike = [c for c in near if c.accuracy >= best - (best * (1 - best) / rows) ** 0.5]
    assert chosen.loss == min(c.loss for c in alike)


@given(st.lists(UNIT, min_size=2, max_size=6), UNIT)
def test_a_bounded_cost_picks_the_least_target_within_it(accuracies, cost):
    found = [
        Candidate({"target": n / len(accuracies), "lr": 0.1}, accuracy, 0.0, 0.5)
        for n, accuracy in enumerate(accuracies)
    ]
    choice = pick(found, 100, cost)
    within = [c.setting["target"] for c in found if c.accuracy >= accuracies[-1] - cost]
    assert choice.setting["target"] == min(within)


@pytest.mark.parametrize("algorithm", ["fedfb", "cfl", "fedfb-thresholds"])
def test_a_picked_rate_is_trained_on_all_rows_and_nothing_is_picked_that_was_given(algorithm):
    one = replace(TINY, algorithm=algorithm, sensitive_at_prediction=True)
    picked = outcome.run(one)
    [choice] = picked.picked
    given = replace(one, lr=(choice.chosen["lr"],))
    plain = outcome.run(given)
    assert picked.runs == plain.runs
    assert plain.picked == ()


@pytest.mark.parametrize("notion", ["dp", "eo", "eod"])
def test_a_target_that_is_always_met_is_fedavg(notion):
    """Weights stay 1, and the last round is taken, however unfair it is."""
    free = replace(TINY, notion=notion, target=(1.0,), lr=(0.05,), rounds=4)
    found = outcome.train(free)
    plain = outcome.train(replace(free, algorithm="fedavg", target=()))
    state = found.fitted[0].trained.state
    np.testing.assert_allclose(state.best, plain.fitted[0].trained.state.params, atol=1e-6)
    [record] = found.result.runs
    assert (record.method.chosen_round, record.method.off_target) == (4, 0.0)


def test_the_free_model_has_a_rate_of_its_own():
    several = outcome.train(replace(TINY, target=(0.0, 0.1), seeds=(0,)))
    [fitted] = several.fitted
    assert [setting["target"] for setting in fitted.settings] == [0.0, 0.1, 1.0]
    assert several.result.summaries[0].cost is not None
    given = outcome.train(replace(TINY, target=(0.0,), lr=(0.01, 0.05))).fitted[0]
    assert all(setting["target"] == 0.0 for setting in given.settings)


def test_nobody_is_asked_how_a_trial_goes(tmp_path):
    outcome.train(TINY, checkpoints=tmp_path, ledger=tmp_path / "all")
    asked = {
        account.phase: {entry.task for entry in account.entries}
        for account in read_ledger(tmp_path / "all")
    }
    assert "confusion" in asked["run"]
    assert asked["tune"] == asked["run"] - {"confusion"}
