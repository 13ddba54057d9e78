import json
import math
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import convert
from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss, roc_auc_score

from fedfb.core import Examples, Prediction
from fedfb.errors import DataError
from fedfb.experiments.codec import to_builtins
from fedfb.experiments.evaluate import (
    area_under_curve,
    client_loss_table,
    confusion_table,
    cross_entropy,
    evaluate,
    summarise,
)
from fedfb.experiments.result import Figures
from fedfb.experiments.seed_result import Evaluation, GroupRates, Quality, Statistic

GROUPS = ["f", "m", "x"]
CLIENTS = ["north", "south"]
NAMES = ["demographic_parity", "spd", "equal_opportunity", "equalized_odds", "client_parity"]
FIELDS = {
    "accuracy", "balanced_accuracy", "auc", "disparity", "interval", "groups", "clients",
    "local_disparity", "four_fifths", "not_estimable", "majority_accuracy",
}  # fmt: skip


def draw_examples(seed, n, groups=3, clients=2):
    rng = np.random.default_rng(seed)
    return Examples(
        x=np.zeros((n, 1)),
        y=rng.integers(0, 2, n),
        group=rng.integers(0, groups, n),
        client=rng.integers(-1, clients, n),
    )


def draw_prediction(seed, runs, n, randomised=False):
    score = np.random.default_rng((seed, 1)).random((runs, n))
    return Prediction(score, score if randomised else (score >= 0.5).astype(float))


@given(st.integers(0, 10**6))
def test_accuracies_auc_and_losses_agree_with_sklearn(seed):
    examples, prediction = draw_examples(seed, 200), draw_prediction(seed, 2, 200)
    records = evaluate(prediction, examples, GROUPS, CLIENTS)
    for record, score, decision in zip(records, *prediction, strict=True):
        assert record.accuracy == pytest.approx(accuracy_score(examples.y, decision))
        expected = balanced_accuracy_score(examples.y, decision)
        assert record.balanced_accuracy == pytest.approx(expected)
        assert record.auc == pytest.approx(roc_auc_score(examples.y, score))
        for number, client in enumerate(record.clients):
            mine = examples.client == number
            assert client.n == mine.sum()
            assert client.loss == pytest.approx(log_loss(examples.y[mine], score[mine]))
            expected = accuracy_score(examples.y[mine], decision[mine])
            assert client.accuracy == pytest.approx(expected)


@given(st.integers(0, 10**6), st.integers(0, 60), st.booleans())
def test_records_are_plain_json_without_nan(seed, n, randomised):
    examples, prediction = draw_examples(seed, n), draw_prediction(seed, 2, n, randomised)
    for record in evaluate(prediction, examples, GROUPS, CLIENTS):
        plain = to_builtins(record)
        assert convert(json.loads(json.dumps(plain, allow_nan=False)), Evaluation) == record
        assert set(plain) == FIELDS
        assert list(record.disparity) == list(record.interval) == NAMES
        for name in NAMES:
            if record.disparity[name] is None:
                assert record.interval[name] is None
            else:
                low, high = record.interval[name]
                assert 0 <= low <= record.disparity[name] <= high


@given(st.integers(0, 10**6), st.integers(0, 60))
@settings(deadline=None)
def test_tables_of_parts_add_up_to_the_table_of_all(seed, n):
    examples, [decision] = draw_examples(seed, n), draw_prediction(seed, 1, n, True).decision
    halves = [slice(None, n // 2), slice(n // 2, None)]
    parts = [Examples(*(rows[half] for rows in examples)) for half in halves]
    for tabulate, size in [(confusion_table, 3), (client_loss_table, 2)]:
        total = sum(
            tabulate(decision[h], part, size) for h, part in zip(halves, parts, strict=True)
        )
        np.testing.assert_allclose(total, tabulate(decision, examples, size), atol=1e-9)


def test_randomised_decisions_give_the_expected_figures():
    y = np.array([0, 0, 1, 1] * 10)
    group = np.array([0, 1, 0, 1] * 10)
    examples = Examples(np.zeros((40, 1)), y, group, np.zeros(40, dtype=int))
    decision = np.array([0.25, 0.5, 0.5, 1.0] * 10)[None]
    [record] = evaluate(Prediction(decision, decision), examples, ["f", "m"], ["all"])
    assert record.accuracy == pytest.approx((0.75 + 0.5 + 0.5 + 1) / 4)
    assert record.disparity["spd"] == pytest.approx(0.375)
    assert record.disparity["demographic_parity"] == pytest.approx(0.1875)
    assert record.disparity["equal_opportunity"] == pytest.approx(0.25)
    assert record.four_fifths == pytest.approx(0.5)
    rates = {"positive_rate": 0.375, "tpr": 0.5, "fpr": 0.25, "accuracy": 0.625}
    group = {"name": "f", "n": 20, "positives": 10, **rates}
    assert to_builtins(record.groups[0]) == pytest.approx(group)
    assert record.clients[0].accuracy == pytest.approx(record.accuracy)


def test_expected_figures_are_the_mean_over_drawn_decisions():
    examples, prediction = draw_examples(0, 400), draw_prediction(0, 1, 400, randomised=True)
    draws = np.random.default_rng(1).random((2_000, 400)) < prediction.decision
    drawn = np.mean([confusion_table(d.astype(float), examples, 3) for d in draws], axis=0)
    expected = confusion_table(prediction.decision[0], examples, 3)
    # A cell's mean has a deviation of at most sqrt(70 / 4 / 2000) = .094: .5 is 5 of them.
    np.testing.assert_allclose(drawn, expected, atol=0.5)


def test_tables_of_no_rows_hold_float_zeros():
    examples, none = draw_examples(0, 0), np.zeros(0)
    for found in [confusion_table(none, examples, 3), client_loss_table(none, examples, 2)]:
        assert found.dtype == np.float64
        assert not found.any()


def test_majority_accuracy_is_that_of_the_better_constant_classifier():
    examples = draw_examples(3, 300)
    constants = Prediction(np.full((2, 300), 0.5), np.repeat([[0.0], [1.0]], 300, axis=1))
    records = evaluate(constants, examples, GROUPS, CLIENTS)
    best = max(record.accuracy for record in records)
    assert [record.majority_accuracy for record in records] == pytest.approx([best, best])


def test_rows_without_clients_give_no_clients_and_no_client_parity():
    examples = draw_examples(0, 100)._replace(client=np.full(100, -1))
    [record] = evaluate(draw_prediction(0, 1, 100), examples, GROUPS, CLIENTS)
    assert record.clients == ()
    assert record.disparity["client_parity"] is None
    assert record.not_estimable["client_parity"] == ()


def test_what_cannot_be_estimated_is_none_and_named():
    examples = draw_examples(0, 100)
    examples = examples._replace(group=np.minimum(examples.group, 1), client=0 * examples.client)
    [record] = evaluate(draw_prediction(0, 1, 100), examples, GROUPS, CLIENTS)
    assert record.not_estimable["demographic_parity"] == ("x",)
    assert record.not_estimable["client_parity"] == ("south",)
    no_rates = dict.fromkeys(("positive_rate", "tpr", "fpr", "accuracy"))
    assert record.groups[2] == GroupRates(name="x", n=0, positives=0, **no_rates)
    south = record.clients[1]
    assert (south.n, south.accuracy, south.loss) == (0, None, None)
    assert set(south.disparity.values()) == {None}


def test_rows_of_one_label_have_no_auc_and_no_balanced_accuracy():
    examples = draw_examples(0, 50)._replace(y=np.ones(50, dtype=int))
    [record] = evaluate(draw_prediction(0, 1, 50), examples, GROUPS, CLIENTS)
    assert record.auc is None
    assert record.balanced_accuracy is None
    assert record.majority_accuracy == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_certain_mistake_costs_a_finite_loss(dtype):
    loss = cross_entropy(np.array([0, 1, 0, 1], dtype=dtype), np.array([1, 0, 0, 1]))
    np.testing.assert_allclose(loss, [27.631, 27.631, 0, 0], atol=1e-3)


@pytest.mark.parametrize(("names", "kind"), [((["f"], CLIENTS), "group"), ((GROUPS, []), "client")])
def test_numbers_without_a_name_are_refused(names, kind):
    with pytest.raises(DataError, match=f"name {kind} number"):
        evaluate(draw_prediction(0, 1, 50), draw_examples(0, 50), *names)


def test_a_run_has_the_same_record_alone_and_among_others():
    examples, prediction = draw_examples(0, 200), draw_prediction(0, 3, 200)
    alone = Prediction(prediction.score[1:2], prediction.decision[1:2])
    records = evaluate(prediction, examples, GROUPS, CLIENTS)
    assert evaluate(alone, examples, GROUPS, CLIENTS) == records[1:2]


def test_summaries_are_over_the_estimable_runs():
    def record(accuracy, **disparity):
        return Quality(accuracy=accuracy, disparity=disparity)

    summary = summarise([record(0.7, a=0.1, b=None, c=None), record(0.9, a=0.3, b=0.2, c=None)])
    nothing, spread = Statistic(mean=None, std=None), math.sqrt(0.02)
    assert (summary.accuracy.mean, summary.accuracy.std) == pytest.approx((0.8, spread))
    fair = summary.disparity["a"]
    assert (fair.mean, fair.std) == pytest.approx((0.2, spread))
    assert summary.disparity["b"] == Statistic(mean=0.2, std=None)
    assert summary.disparity["c"] == nothing
    assert summarise([record(0.7, a=0.1)]).accuracy == Statistic(mean=0.7, std=None)
    assert summarise([]) == Figures(accuracy=nothing, disparity={})


def test_a_whole_run_imports_neither_scikit_learn_nor_scipy():
    """They take longer to import than a small experiment takes to train."""
    code = """
import sys
from fedfb import Experiment, run
run(Experiment(rows=100, test_rows=100, rounds=1, local_epochs=1), warn=False)
sys.exit(", ".join({"scipy", "sklearn"} & set(sys.modules)) or 0)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1)), min_size=2, max_size=30))
def test_tied_scores_share_their_rank(rows):
    score, y = np.array(rows, dtype=float).T
    found = area_under_curve(score, y.astype(int))
    assert found is None if len(set(y)) < 2 else found == pytest.approx(roc_auc_score(y, score))


def test_a_clients_own_disparity_is_that_of_its_rows_alone():
    examples, prediction = draw_examples(3, 400), draw_prediction(3, 1, 400)
    [record] = evaluate(prediction, examples, GROUPS, CLIENTS)
    for number, client in enumerate(record.clients):
        mine = examples.client == number
        own = Examples(*(part[mine] for part in examples))
        alone = Prediction(prediction.score[:, mine], prediction.decision[:, mine])
        [expected] = evaluate(alone, own, GROUPS, CLIENTS)
        for notion, value in client.disparity.items():
            assert value == pytest.approx(expected.disparity[notion], nan_ok=False)
    for notion, largest in record.local_disparity.items():
        values = [client.disparity[notion] for client in record.clients]
        assert largest == max((v for v in values if v is not None), default=None)


def test_ten_thousand_clients_are_evaluated_within_100_megabytes():
    clients, rows = 10_000, 200_000
    rng = np.random.default_rng(0)
    score = rng.random((1, rows))
    examples = Examples(
        np.zeros((rows, 1)), rng.integers(0, 2, rows), rng.integers(0, 2, rows),
        np.arange(rows) % clients,
    )  # fmt: skip
    tracemalloc.start()
    names = [f"c{client}" for client in range(clients)]
    [record] = evaluate(Prediction(score, np.round(score)), examples, ["f", "m"], names)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100 * 2**20
    low, high = record.interval["client_parity"]
    assert low < record.disparity["client_parity"] < high
