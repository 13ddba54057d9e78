"""An audit's numbers are fairlearn's on the pooled rows."""

import numpy as np
import pytest
from fairlearn.metrics import (
    MetricFrame,
    count,
    demographic_parity_difference,
    demographic_parity_ratio,
    equal_opportunity_difference,
    equalized_odds_difference,
    false_positive_rate,
    selection_rate,
    true_positive_rate,
)
from sklearn.metrics import accuracy_score

from audited import federation, pooled
from fedfb.audit.record import audit
from fedfb.data.groups import values_of

SIZES = [[60, 90, 40, 80], [120, 30, 70, 50], [45, 60, 55, 200]]
DIFFERENCES = {
    "demographic_parity": demographic_parity_difference,
    "equal_opportunity": equal_opportunity_difference,
    "equalized_odds": equalized_odds_difference,
}


@pytest.fixture(scope="module", params=[0, 1, 2])
def case(request):
    subject = federation(SIZES, seed=request.param)
    return subject, audit(subject), pooled(subject)


def arguments(rows, groups):
    return {
        "y_true": rows.y,
        "y_pred": rows.decision.astype(int),
        "sensitive_features": np.array(groups)[rows.group],
    }


def same_rates(records, rows, names):
    """Assert that the records' rates are those of a metric frame over the names."""
    metrics = {
        "n": count,
        "selection_rate": selection_rate,
        "tpr": true_positive_rate,
        "fpr": false_positive_rate,
        "accuracy": accuracy_score,
    }
    frame = MetricFrame(metrics=metrics, **arguments(rows, names))
    for record in records:
        expected = frame.by_group.loc[record.name]
        assert record.n == expected["n"]
        for key in list(metrics)[1:]:
            assert record.rate(key).value == pytest.approx(expected[key], abs=1e-12)
    return frame


def test_rates_of_groups_and_of_all(case):
    subject, record, rows = case
    frame = same_rates(record.groups, rows, subject.groups)
    for key in ("selection_rate", "tpr", "fpr", "accuracy"):
        assert record.overall.rate(key).value == pytest.approx(frame.overall[key], abs=1e-12)


@pytest.mark.parametrize("notion", DIFFERENCES)
def test_disparities_are_differences_to_overall(case, notion):
    subject, record, rows = case
    for method, key in (("to_overall", "value"), ("between_groups", "between_groups")):
        expected = DIFFERENCES[notion](**arguments(rows, subject.groups), method=method)
        assert getattr(record.notions.by_name[notion], key) == pytest.approx(expected, abs=1e-12)


def test_the_four_fifths_ratio(case):
    subject, record, rows = case
    expected = demographic_parity_ratio(**arguments(rows, subject.groups))
    assert record.four_fifths.value == pytest.approx(expected, abs=1e-12)


def test_every_client_is_measured_on_its_own_rows(case):
    subject, record, _ = case
    for client in record.clients:
        rows = subject.clients[client.name]
        if not client.hidden.by_label:
            same_rates(client.groups, rows, subject.groups)
        expected = demographic_parity_difference(
            **arguments(rows, subject.groups), method="to_overall"
        )
        assert client.notions.demographic_parity.value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("place", [0, 1], ids=["sex", "race"])
def test_attributes_alone(case, place):
    subject, record, rows = case
    names = [values_of(("sex", "race"), name)[place] for name in subject.groups]
    found = record.by_attribute[place]
    same_rates(found.groups, rows, names)
    for notion, difference in DIFFERENCES.items():
        expected = difference(**arguments(rows, names), method="to_overall")
        assert found.notions.by_name[notion].value == pytest.approx(expected, abs=1e-12)
