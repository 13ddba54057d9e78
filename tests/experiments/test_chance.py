"""What chance alone shows, beside the disparities of a run and before training."""

from dataclasses import replace

import numpy as np
import pytest

from fedfb.core import Examples
from fedfb.experiments.codec import from_json, to_json
from fedfb.experiments.outcome import run, train
from fedfb.experiments.result import Result
from fedfb.experiments.seeds import chance_of, confusion_of
from fedfb.experiments.spec import Experiment
from fedfb.experiments.targets import warn_of_target
from fedfb.notions.disparity import rate_disparity
from fedfb.notions.values import draw_blind_disparities, expect_losses_by_chance, summarize_draws

QUICK = Experiment(
    rows=600, test_rows=600, rounds=2, local_epochs=2, lr=(0.01,), algorithm="fedavg"
)


def test_every_disparity_of_a_run_has_the_chance_of_its_table():
    result = run(QUICK, warn=False)
    [one] = result.runs
    confusion = confusion_of(one.groups)
    blocks = {
        "demographic_parity": (confusion[:, 1].sum(axis=0)[None], confusion.sum(axis=(0, 1))[None]),
        "equal_opportunity": (confusion[1:, 1], confusion[1:].sum(axis=1)),
        "equalized_odds": (confusion[:, 1], confusion.sum(axis=1)),
    }
    for name, (positives, rows) in blocks.items():
        expected = summarize_draws(draw_blind_disparities(positives, rows, 10), one.disparity[name])
        assert one.chance[name] == expected
    assert one.chance.keys() == one.disparity.keys()
    # Of two groups the largest gap is their difference times the larger share.
    share = max(group.n for group in one.groups) / one.rows
    gap, difference = one.chance["demographic_parity"], one.chance["spd"]
    assert gap.mean == pytest.approx(share * difference.mean, abs=1e-3)
    assert from_json(to_json(result), Result, "result") == result


def test_settings_of_a_grid_have_no_chance_and_what_is_not_estimable_neither():
    result = run(replace(QUICK, lr=(0.01, 0.02)), warn=False)
    assert not any(one.chance for one in result.runs)
    [one] = run(QUICK, warn=False).runs
    nothing = dict.fromkeys(one.disparity)
    assert set(chance_of(type(one)(**{
        **{name: getattr(one, name) for name in one.__struct_fields__}, "disparity": nothing,
    })).values()) == {None}  # fmt: skip


def test_a_target_below_chance_is_named_before_training():
    heard = []
    train(
        replace(QUICK, algorithm="fedfb", target=(0.001,)),
        on_round=lambda _: heard.append("round"),
        on_note=heard.append,
    )
    assert "target 0.001 is below what the test rows can show" in heard[0]
    assert heard[1] == "round"


@pytest.mark.parametrize(
    ("targets", "names"), [((0.0,), 0), ((0.5,), 0), ((0.0, 0.001), 1), ((), 0)]
)
@pytest.mark.parametrize("notion", ["demographic_parity", "equal_opportunity", "equalized_odds"])
def test_only_a_target_between_zero_and_chance_is_named(notion, targets, names):
    rng = np.random.default_rng(0)
    y, group = rng.integers(0, 2, 400), rng.integers(0, 4, 400)
    test = Examples(np.zeros((400, 1)), y, group, np.full(400, -1))
    assert len(warn_of_target(targets, notion, test, 4)) == names
    assert warn_of_target((0.001,), "client_parity", test, 4) == ()
    few = Examples(*(part[:12] for part in test))
    assert warn_of_target((0.001,), notion, few, 4) == ()


def test_chance_of_many_clients_takes_few_draws():
    variance = np.full(10_000, 0.01)
    assert expect_losses_by_chance(variance, 0.1).share_as_large == 1.0


@pytest.mark.slow
def test_chance_and_the_interval_agree_where_groups_have_one_size():
    """200 runs of 24 groups of 60 rows: at parity, and with two groups apart."""
    rng, rows = np.random.default_rng(3), np.full((1, 24), 60.0)
    agree = {0.0: [], 0.35: []}
    for apart, found in agree.items():
        rates = np.full(24, 0.3)
        rates[:2] += apart
        for positives in rng.binomial(60, rates, (100, 1, 24)).astype(float):
            estimate = rate_disparity(positives, rows, 10)
            chance = summarize_draws(draw_blind_disparities(positives, rows, 10), estimate.value)
            found.append((estimate.low > 0, estimate.value > chance.quantile_95))
    by_interval, by_chance = np.array(agree[0.0]).T
    # Of 100 runs at parity more than 15 are beyond a 5% bound with probability 4e-5.
    assert by_interval.sum() <= 15
    assert by_chance.sum() <= 15
    assert np.mean(by_interval != by_chance) <= 0.1
    assert np.mean(agree[0.35]) >= 0.9
