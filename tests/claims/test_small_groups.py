"""A group, or a client, of a few rows does not steer what becomes of all others."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfb import Experiment, run
from fedfb.core import Prediction
from fedfb.data.federation import training_cells
from fedfb.data.own import federation_from_frames
from fedfb.data.partition import split_order
from fedfb.experiments.evaluate import evaluate, few_of
from fedfb.notions import make_notion


def draw(rng: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
    """Draw two groups whose scores and labels differ, on three clients."""
    man = rng.integers(0, 2, rows)
    first, second = rng.normal(1.2 * man, 1.0), rng.normal(size=rows)
    chance = 1 / (1 + np.exp(0.9 - 1.5 * first - second))
    return {
        "first": first,
        "second": second,
        "noise": rng.normal(size=rows),
        "label": np.where(rng.random(rows) < chance, "yes", "no"),
        "sex": np.where(man == 1, "m", "f").astype(object),
        "bank": np.array(["a", "b", "c"], object)[rng.integers(0, 3, rows)],
    }


def federation_with(few: int, **settings):
    """Return 5,000 training rows, ``few`` of them with a mistyped sex, and 20,000 test rows."""
    rng = np.random.default_rng(0)
    rows, test = draw(rng, 5000), draw(rng, 20_000)
    rows["sex"][rng.choice(5000, few, replace=False)] = "typo"
    return federation_from_frames(
        rows,
        "label",
        "yes",
        "sex",
        client_column="bank",
        test=test,
        sensitive_at_prediction=True,
        **settings,
    )


def gap_of_real_groups(record) -> float:
    rates = {group.name: group.positive_rate for group in record.groups}
    return abs(rates["m"] - rates["f"])


@pytest.mark.slow
@pytest.mark.parametrize("few", [0, 1, 3, 9, 20, 40])
def test_few_rows_of_a_third_group_leave_the_others_alike(few):
    experiment = Experiment(
        data="frames.csv", sensitive_at_prediction=True, seeds=(0, 1, 2, 3, 4), lr=(0.005,)
    )
    federation = federation_with(few)
    outcome = run(experiment, federations=dict.fromkeys(experiment.seeds, federation))
    gaps = [gap_of_real_groups(record) for record in outcome.runs]
    assert np.mean(gaps) <= 0.035
    assert max(gaps) <= 0.06
    named = [note for note in outcome.notes if "training rows" in note]
    assert [f"typo ({few})" in note for note in named] == [True] * (0 < few < 10)
    not_estimable = outcome.runs[0].not_estimable["demographic_parity"]
    assert not_estimable == (("typo",) if few else ())  # test rows have none of them


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40), st.integers(0, 99))
def test_a_split_leaves_every_group_in_the_training_rows(group, seed):
    group = np.array(group)
    order = np.random.default_rng(seed).permutation(len(group))
    train, test = split_order(order, group)
    assert sorted([*train, *test]) == list(range(len(group)))
    assert set(group[test]) <= set(group[train])
    sizes = (7 * len(group) // 10, len(group) - 7 * len(group) // 10)
    if len(np.unique(group)) <= sizes[0]:
        assert (len(train), len(test)) == sizes


def test_a_split_is_the_drawn_one_where_training_has_every_group():
    order = np.random.default_rng(0).permutation(100)
    train, test = split_order(order, np.arange(100) % 2)
    assert np.array_equal(train, np.sort(order[:70]))
    assert np.array_equal(test, np.sort(order[70:]))


def test_a_group_of_one_row_can_be_loaded(tmp_path):
    rows = draw(np.random.default_rng(1), 60)
    rows["sex"][59] = "typo"
    for seed in range(12):
        federation = federation_from_frames(
            rows, "label", "yes", "sex", split_seed=seed, client_column="bank"
        )
        assert "typo" in federation.group_names
        typo = federation.group_names.index("typo")
        assert training_cells(federation)[:, typo].sum() == 1


@pytest.mark.parametrize("name", ["dp", "eo", "eod"])
@pytest.mark.parametrize("symmetric", [False, True])
def test_rows_of_a_small_group_keep_weight_1_and_move_nothing(name, symmetric):
    counts = np.array([[3, 400, 300, 0], [2, 100, 500, 4]])
    notion = make_notion(name, 4, symmetric, minimum=10)
    losses = np.random.default_rng(0).uniform(0, 1, (2, 2, 4)) * counts
    other = losses.copy()
    other[..., [0, 3]] = counts[:, [0, 3]] - other[..., [0, 3]]
    lam = np.repeat(notion.init(counts)[None], 2, axis=0)
    moved = [
        notion.step(lam, notion.signal(notion.share(L, counts, 0), counts), counts, np.full(2, 0.1))
        for L in (losses, other)
    ]
    np.testing.assert_array_equal(*moved)
    assert notion.present(counts).tolist() == [1, 2]
    assert notion.feasible(moved[0], counts)
    weights = notion.weights(moved[0], counts)
    np.testing.assert_allclose(weights[..., [0, 3]], 1.0)
    assert np.abs(weights[..., [1, 2]] - 1.0).max() > 1e-3


@pytest.mark.parametrize("name", ["dp", "eo", "eod"])
def test_where_every_group_is_small_nothing_moves(name):
    counts = np.array([[3, 4], [2, 1]])
    notion = make_notion(name, 2, minimum=10)
    lam = notion.init(counts)[None]
    share = notion.share(np.ones((1, 2, 2)), counts, 0)
    signal = notion.signal(share, counts)
    np.testing.assert_array_equal(signal, 0.0)
    np.testing.assert_array_equal(notion.step(lam, signal, counts, np.ones(1)), lam)


@pytest.mark.parametrize("settings", [{}, {"outer": "step"}, {"target": (0.1,)}], ids=str)
@pytest.mark.parametrize("algorithm", ["fedfb", "cfl"])
def test_a_client_of_few_rows_does_not_steer_client_parity(algorithm, settings):
    rng = np.random.default_rng(2)
    rows = draw(rng, 1503)
    rows["bank"][:3] = "tiny"
    experiment = Experiment(
        data="frames.csv",
        algorithm=algorithm,
        notion="cp",
        lr=(0.01,),
        rounds=4,
        local_epochs=3,
        sensitive_at_prediction=True,
        **settings,
    )

    def trained(labels):
        federation = federation_from_frames(
            {**rows, "label": labels},
            "label",
            "yes",
            "sex",
            client_column="bank",
            sensitive_at_prediction=True,
            split=False,
            test=rows,
        )
        outcome = run(experiment, federations={0: federation})
        return outcome

    flipped = rows["label"].copy()
    flipped[:3] = np.where(flipped[:3] == "yes", "no", "yes")
    reports = [trained(labels) for labels in (rows["label"], flipped)]
    accuracies = [report.runs[0].accuracy for report in reports]
    assert abs(accuracies[0] - accuracies[1]) < 0.01
    for report in reports:
        [note] = [note for note in report.notes if "tiny" in note]
        assert note.startswith("clients with fewer than 10 training rows are not compared")
        assert report.runs[0].not_estimable["client_parity"] == ("tiny",)


def test_small_groups_become_the_rest():
    rows = draw(np.random.default_rng(3), 400)
    rows["sex"][:4], rows["sex"][4:7] = "x", "typo"
    federation = federation_from_frames(
        rows, "label", "yes", "sex", rest="other", split=False, sensitive_at_prediction=True
    )
    assert federation.group_names == ("f", "m", "other")
    cells = training_cells(federation)
    assert cells[:, 2].sum() == 7
    [client] = federation.clients
    assert client.x.shape[1] == len(federation.feature_names)
    np.testing.assert_array_equal(client.x[:, -3:], np.eye(3)[client.group])
    assert any("x" in note and "typo" in note and "'other'" in note for note in federation.notes)
    # The encoder that is saved knows the merged groups too.
    from fedfb.data.encode import Encoder

    again = Encoder.from_dict(federation.encoder.to_dict())
    assert again == federation.encoder
    assert again.groups.merged == ("typo", "x")


def test_the_rest_may_be_a_group_that_exists():
    rows = draw(np.random.default_rng(3), 400)
    rows["sex"][:4] = "x"
    federation = federation_from_frames(rows, "label", "yes", "sex", rest="m", split=False)
    assert federation.group_names == ("f", "m")
    assert training_cells(federation).sum() == 400


def test_a_group_below_the_minimum_is_in_no_disparity():
    rows = draw(np.random.default_rng(4), 300)
    rows["sex"][:5] = "typo"
    test = draw(np.random.default_rng(5), 300)
    test["sex"][:50] = "typo"
    federation = federation_from_frames(rows, "label", "yes", "sex", test=test)
    few = few_of(federation, 10)
    typo = federation.test.group == federation.group_names.index("typo")
    names = (federation.group_names, federation.client_names)
    records = [
        evaluate(Prediction(s[None], np.round(s)[None]), federation.test, *names, few=few)[0]
        for s in (np.where(typo, rate, 0.4 * federation.test.y) for rate in (0.0, 1.0))
    ]
    for name in ("demographic_parity", "equal_opportunity", "equalized_odds"):
        assert records[0].disparity[name] == records[1].disparity[name]
        assert records[0].not_estimable[name] == ("typo",)
    assert records[0].four_fifths == records[1].four_fifths
    assert records[0].groups != records[1].groups  # its rates are shown all the same
