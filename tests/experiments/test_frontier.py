"""The frontier: the Pareto set by hand, what is planned for whom, and failures that stop nobody."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfb.algorithms import METHODS
from fedfb.errors import DivergenceError
from fedfb.experiments import frontier as module
from fedfb.experiments.frontier import Spot, dominates, frontier, pareto, plan, with_pareto
from fedfb.experiments.result import Point
from fedfb.experiments.seed_result import Estimate
from fedfb.experiments.spec import Experiment

TINY = Experiment(rows=200, test_rows=200, rounds=2, local_epochs=1, seeds=(0, 1))


def test_the_pareto_set_of_a_hand_made_case():
    """Drawn on paper: a staircase from (.60, .00) up to (.90, .30)."""
    case = {
        (0.60, 0.00): True,  # the fairest
        (0.70, 0.05): True,
        (0.70, 0.06): False,  # a tie in accuracy, less fair
        (0.69, 0.05): False,  # a tie in disparity, less accurate
        (0.65, 0.10): False,  # worse on both
        (0.80, 0.20): True,
        (0.90, 0.30): True,  # the most accurate
        (0.90, 0.40): False,
        (0.95, None): False,  # not estimable
    }
    assert pareto([Spot(*place) for place in case]) == list(case.values())


def test_duplicates_stay_or_go_together():
    assert pareto(
        [
            Spot(0.7, 0.1),
            Spot(0.7, 0.1),
            Spot(0.6, 0.2),
            Spot(0.6, 0.2),
        ]
    ) == [
        *(True, True),
        *(False, False),
    ]


def test_one_point_is_its_own_pareto_set():
    assert pareto([Spot(0.5, 0.5)]) == [True]
    assert pareto([Spot(0.5, None)]) == [False]
    assert pareto([]) == []


places = st.builds(
    Spot, st.integers(0, 5).map(lambda n: n / 5), st.integers(0, 5).map(lambda n: n / 5)
)


@given(st.lists(places, min_size=1, max_size=12))
def test_what_is_left_out_is_dominated_by_what_is_in(found):
    marks = pareto(found)
    chosen = [place for place, mark in zip(found, marks, strict=True) if mark]
    assert chosen
    for place, mark in zip(found, marks, strict=True):
        assert mark != any(dominates(other, place) for other in chosen)


def point(accuracy, disparity, limit=False):
    figures = {
        "accuracy": Estimate(mean=accuracy, interval=None),
        "disparity": Estimate(mean=disparity, interval=None),
    }
    return Point(**{**dict.fromkeys(Point.__struct_fields__), **figures, "limit": limit})


def test_the_limit_dominates_nobody_and_the_constant_classifier_does():
    found = with_pareto([point(0.9, 0.0, limit=True), point(0.8, 0.1), point(0.5, 0.0)], 0.6)
    assert [one.pareto for one in found] == [False, True, False]


def test_all_are_those_that_aim_at_the_notion_and_know_so_many_groups():
    for notion in ("dp", "eo", "eod", "cp"):
        for groups in (2, 3):
            found = plan(replace(TINY, notion=notion), groups)
            shown = {curve.algorithm for curve in found.curves}
            assert shown | {one.algorithm for one in found.left_out} == set(METHODS)
            assert {"fedavg", "fedfb", "cfl"} <= shown
            assert "fedprox" not in shown
            for name in shown:
                most = METHODS[name].most_groups
                assert most is None or most >= groups


def test_targets_are_one_grid_and_knobs_go_one_at_a_time():
    given = replace(TINY, sensitive_at_prediction=True)
    found = plan(given, 2, ["fedavg", "fedfb", "hardt", "zafar"])
    told = [(curve.algorithm, curve.knob) for curve in found.curves]
    targets = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 1.0)
    assert told == [
        *(("fedavg", None), ("fedfb", "target"), ("hardt", "target")),
        *(("zafar", "tau"), ("zafar", "nu")),
    ]
    assert {found.curves[n].experiment.target for n in (1, 2)} == {targets}
    assert found.curves[3].experiment.knobs == ("tau=0.0,0.01,0.05,0.1,0.2",)


def test_a_method_that_must_be_refused_is_listed_with_its_reason():
    record = frontier(TINY, ["fedavg", "hardt"], quick=True)
    assert {one.algorithm for one in record.points} == {"fedavg"}
    [refused] = record.left_out
    assert not record.failed
    assert refused.algorithm == "hardt"
    assert "sensitive" in refused.reason


def test_a_method_that_diverges_does_not_stop_the_others(monkeypatch):
    def result_of(experiment, *rest, **options):
        if experiment.algorithm == "fedavg":
            raise DivergenceError("training diverged in round 1")
        return original(experiment, *rest, **options)

    original = module.result_of
    monkeypatch.setattr(module, "result_of", result_of)
    record = frontier(TINY, ["fedavg", "reweighing"])
    assert [(one.algorithm, one.reason) for one in record.failed] == [
        ("fedavg", "training diverged in round 1")
    ]
    assert [one.algorithm for one in record.points] == ["reweighing"]


def test_points_are_means_over_seeds_with_intervals():
    longer = replace(TINY, rounds=6, local_epochs=5, sensitive_at_prediction=True)
    record = frontier(longer, ["fedfb"], quick=True)
    assert [one.settings["target"] for one in record.points] == [0.0, 0.05, 1.0]
    for one in record.points:
        assert len(one.seeds) == 2
        assert one.accuracy.mean == pytest.approx(sum(a for a, _ in one.seeds) / 2)
        low, high = one.disparity.interval
        assert 0 <= low <= one.disparity.mean <= high
