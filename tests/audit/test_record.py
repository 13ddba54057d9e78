"""The figures of an audit: chance, clients left out, calibration, baselines, secure sums."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import log_loss

from audited import ABOUT, GROUPS, federation, pooled
from fedfb.audit.optional import compare_accuracy, compare_disparity
from fedfb.audit.record import UNKNOWN_UNDER_MASKS, audit
from fedfb.audit.result import encode_audit, read_audit
from fedfb.audit.rows import (
    SCORE_BINS,
    AuditedRows,
    Subject,
    add_uploads,
    make_table_upload,
    make_uploads,
)
from fedfb.data.statistics import add_in_clear
from fedfb.errors import ConfigError, DataError
from fedfb.experiments.secure import make_audit_add
from fedfb.notions.values import draw_blind_disparities, largest_rate_gap, summarize_draws

SIZES = [[60, 90, 40, 80], [120, 30, 70, 50], [45, 60, 55, 200]]


@pytest.fixture(scope="module")
def subject():
    return federation(SIZES, baseline=True)


@pytest.fixture(scope="module")
def record(subject):
    return audit(subject)


def test_under_masks_the_sum_is_the_same_and_nothing_else_is_known(subject, record, tmp_path):
    under_masks = audit(subject, secure=True, add=make_audit_add(True, tmp_path / "ledger.jsonl"))
    for part in ("overall", "groups", "four_fifths", "by_attribute", "comparison"):
        assert getattr(under_masks, part) == getattr(record, part)
    for clear, masked in zip(record.calibration, under_masks.calibration, strict=True):
        assert masked.error == pytest.approx(clear.error, abs=1e-6)
    assert under_masks.notions.client_parity is None
    assert under_masks.clients is under_masks.contributions is None
    assert UNKNOWN_UNDER_MASKS in under_masks.notes
    assert '"masked"' in (tmp_path / "ledger.jsonl").read_text()


def test_two_clients_are_too_few_for_masks():
    with pytest.raises(ConfigError, match="at least 3"):
        audit(federation(SIZES[:2]), secure=True, add=make_audit_add(True, None))


@given(st.integers(0, 10_000), st.integers(1, 40))
@settings(derandomize=True)
def test_tables_of_clients_add_up_to_those_of_all_rows(seed, rows):
    rng = np.random.default_rng(seed)
    sizes = rng.multinomial(rows, [0.4, 0.3, 0.2, 0.1], size=3)
    subject = federation(sizes, seed, baseline=True)
    total = add_uploads(make_uploads(subject), add_in_clear)
    whole = make_table_upload(pooled(subject), len(GROUPS), randomised=False)
    for name, value in whole.items():
        np.testing.assert_allclose(getattr(total, name), value, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(total.joint.sum(axis=2), total.confusion)
    np.testing.assert_array_equal(total.bins.sum(axis=2), total.confusion.sum(axis=1))


def test_leaving_a_client_out_is_auditing_the_others(subject, record):
    for one in record.contributions:
        rest = {name: rows for name, rows in subject.clients.items() if name != one.name}
        alone = audit(subject._replace(clients=rest))
        assert not one.partly
        for notion, found in one.notions.items():
            expected = alone.notions.by_name[notion].value
            assert found.without == pytest.approx(expected)
            assert found.change == pytest.approx(record.notions.by_name[notion].value - expected)


def test_client_parity_is_the_range_of_the_clients_log_losses(subject, record):
    losses = [
        log_loss(rows.y, np.clip(rows.score, 1e-12, 1 - 1e-12)) for rows in subject.clients.values()
    ]
    assert [client.loss for client in record.clients] == pytest.approx(losses)
    assert record.notions.client_parity.value == pytest.approx(np.ptp(losses))


def test_the_calibration_error_is_that_of_the_pooled_rows(subject):
    record, rows = audit(subject, minimum=1), pooled(subject)
    for group, found in enumerate(record.calibration):
        own = rows.group == group
        y, score = rows.y[own], rows.score[own]
        place = np.minimum((score * SCORE_BINS).astype(int), SCORE_BINS - 1)
        expected = sum(
            abs(y[place == b].sum() - score[place == b].sum()) for b in range(SCORE_BINS)
        ) / own.sum()  # fmt: skip
        assert found.error == pytest.approx(expected)
        assert found.mean_score == pytest.approx(score.mean())


def test_chance_is_what_shuffled_decisions_show():
    rng = np.random.default_rng(0)
    rows, rate = np.array([[40.0, 100.0, 250.0]]), 0.3
    group = np.repeat(np.arange(3), rows[0].astype(int))
    decision = (np.arange(len(group)) < rate * len(group)).astype(float)
    shuffled = []
    for _ in range(4_000):
        k = np.bincount(group, weights=rng.permutation(decision))
        shuffled.append(largest_rate_gap(k[None], rows, 10))
    drawn = draw_blind_disparities(np.bincount(group, weights=decision)[None], rows, 10)
    # The means' standard errors are .0005 together: .003 is six of them.
    assert drawn.mean() == pytest.approx(np.mean(shuffled), abs=0.003)
    assert np.quantile(drawn, 0.95) == pytest.approx(np.quantile(shuffled, 0.95), abs=0.01)


def test_a_blind_classifier_is_seldom_beyond_chance():
    rng = np.random.default_rng(1)
    rows = np.array([[120.0, 150.0, 130.0, 130.0]])
    beyond = []
    for _ in range(100):
        positives = rng.binomial(rows.astype(int), 0.4).astype(float)
        drawn = draw_blind_disparities(positives, rows, 10)
        found = summarize_draws(drawn, largest_rate_gap(positives, rows, 10))
        beyond.append(found.share_as_large <= 0.05)
    # Binomial(100, .05) exceeds 14 with probability 5e-5.
    assert sum(beyond) <= 14


def test_the_baseline_itself_differs_in_nothing(subject):
    clients = {
        name: rows._replace(baseline=rows.decision) for name, rows in subject.clients.items()
    }
    found = audit(subject._replace(clients=clients)).comparison
    assert found.accuracy.value == 0
    for one in found.notions.values():
        low, high = one.interval
        # As if half a row of each group were decided differently: more rows could show one.
        assert -0.05 < low <= one.value == 0 <= high < 0.05
    assert all(one.to_favourable == one.to_unfavourable == 0 for one in found.changed)


def test_the_comparison_is_the_difference_of_two_audits(subject, record):
    other = {name: rows._replace(decision=rows.baseline) for name, rows in subject.clients.items()}
    theirs = audit(subject._replace(clients=other))
    found = record.comparison
    accuracies = [one.overall.accuracy.value for one in (record, theirs)]
    assert found.accuracy.value == pytest.approx(accuracies[0] - accuracies[1])
    for notion, one in found.notions.items():
        ours, base = (r.notions.by_name[notion].value for r in (record, theirs))
        assert one.value == pytest.approx(ours - base)


@pytest.mark.slow
def test_paired_intervals_cover_the_true_differences():
    rng = np.random.default_rng(2)
    rows = np.array([300, 200, 150])
    # Chances of (decision, baseline) = 00, 01, 10, 11, by label and group.
    chances = np.array(
        [
            [[0.7, 0.1, 0.1, 0.1], [0.6, 0.2, 0.05, 0.15], [0.5, 0.2, 0.05, 0.25]],
            [[0.2, 0.1, 0.2, 0.5], [0.2, 0.1, 0.1, 0.6], [0.1, 0.1, 0.2, 0.6]],
        ]
    )

    def tables(counts):
        return np.moveaxis(counts.reshape(2, 3, 2, 2), 1, 3).astype(float)

    truth = tables(chances * rows[None, :, None] * 1000)
    accuracy = compare_accuracy(truth.sum(axis=3)).value
    disparity = compare_disparity(truth.sum(axis=0)[None], 10).value
    covered = []
    for _ in range(400):
        drawn = tables(rng.multinomial(np.tile(rows, (2, 1)), chances))
        low, high = compare_accuracy(drawn.sum(axis=3)).interval
        ends = compare_disparity(drawn.sum(axis=0)[None], 10).interval
        covered.append([low <= accuracy <= high, ends[0] <= disparity <= ends[1]])
    # Binomial(400, .95) is below 364 (91 %) with probability 5e-4.
    assert (np.mean(covered, axis=0) >= 0.91).all(), np.mean(covered, axis=0)


def test_randomised_decisions_are_counted_as_expected(subject):
    rng = np.random.default_rng(0)
    clients = {
        name: rows._replace(decision=rng.random(len(rows.y)), baseline=None)
        for name, rows in subject.clients.items()
    }
    found, rows = (
        audit(subject._replace(clients=clients)),
        pooled(subject._replace(clients=clients)),
    )
    for group, one in enumerate(found.groups):
        expected = rows.decision[rows.group == group].mean()
        assert one.selection_rate.value == pytest.approx(expected)


@pytest.mark.parametrize("drawn_mix", [False, True])
def test_at_parity_the_interval_holds_0_and_a_drawn_mix_makes_it_no_shorter(drawn_mix):
    y, group = np.tile([0, 1], 200), np.repeat([0, 1], 200)
    rows = AuditedRows(y, group, y.astype(float))
    found = audit(Subject({"one": rows}, ("F", "M"), ("sex",), ABOUT), drawn_mix=drawn_mix)
    for notion in ("demographic_parity", "equal_opportunity", "equalized_odds"):
        assert found.notions.by_name[notion].value == 0
        assert found.notions.by_name[notion].interval[0] == 0
    given, drawn = (
        audit(federation(SIZES), drawn_mix=mix).notions.demographic_parity.interval
        for mix in (False, True)
    )
    assert drawn[0] <= given[0]
    assert drawn[1] >= given[1]


def test_a_client_of_one_row_has_no_loss_to_compare():
    found = audit(federation([[40, 40, 40, 40], [40, 40, 40, 40], [1, 0, 0, 0]]), minimum=1)
    assert found.notions.client_parity.left_out == ("client 2",)


def test_one_group_or_no_favourable_label_is_refused():
    rows = AuditedRows(np.array([0, 1]), np.zeros(2, int), np.ones(2))
    with pytest.raises(DataError, match="one group"):
        audit(Subject({"a": rows}, ("F",), ("sex",), ABOUT))
    rows = AuditedRows(np.zeros(2, int), np.array([0, 1]), np.ones(2))
    with pytest.raises(DataError, match="favourable label"):
        audit(Subject({"a": rows}, ("F", "M"), ("sex",), ABOUT))


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("sizes", [SIZES, [[60, 9, 0, 80], [120, 30, 7, 50]]])
def test_an_audit_is_read_as_it_was_written(tmp_path, secure, sizes):
    path = tmp_path / "audit.json"
    written = audit(federation(sizes, baseline=True), secure=secure)
    path.write_text(encode_audit(written))
    assert read_audit(path) == written


@pytest.mark.parametrize(
    ("change", "fragment"),
    [
        ('"schema": 3', "has schema 3, and this version of fedfb reads schema 2. Install"),
        ('"other": 1', "has no schema"),
        ('"schema": 2, "minimum": "ten"', "not as fedfb writes it"),
    ],
)
def test_other_schemas_are_refused(tmp_path, record, change, fragment):
    path = tmp_path / "audit.json"
    path.write_text(
        encode_audit(record).replace('"schema": 2', change).replace('"minimum": 10,\n', "")
    )
    with pytest.raises(DataError, match=fragment):
        read_audit(path)


def test_an_audit_of_schema_1_is_read(tmp_path, record):
    old = encode_audit(record).replace('"schema": 2', '"schema": 1')
    words = {"client": "silo", "clients": "silos", "client_names": "silo_names"}
    for new, before in words.items():
        old = old.replace(f'"{new}":', f'"{before}":')
    assert '"silo_names":' in old
    (tmp_path / "audit.json").write_text(old)
    assert read_audit(tmp_path / "audit.json") == record


def test_a_frame_has_every_client_and_group(record):
    frame = record.to_frame().set_index(["client", "group"])
    assert len(frame) == 1 + len(GROUPS) + len(SIZES) * (1 + len(GROUPS))
    assert frame.loc[("all", GROUPS[1]), "n"] == record.groups[1].n
    tpr = record.clients[2].groups[0].tpr
    row = frame.loc[("client 2", GROUPS[0])]
    assert (row["tpr"], row["tpr_low"], row["tpr_high"]) == (tpr.value, *tpr.interval)
