"""Small groups: which cells of crossed attributes are merged, and in which order groups stand."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfb.data.federation import settle_small_groups, training_cells
from fedfb.data.own import federation_from_frames
from fedfb.errors import DataError
from fedfb.tables.table import Table

LABELS = st.sampled_from([(), (1,), (0, 1)])


def make_rows(n: int, seed: int) -> dict[str, list[object]]:
    rng = np.random.default_rng(seed)
    return {
        "x": rng.standard_normal(n).round(3).tolist(),
        "sex": rng.choice(["F", "M"], n).tolist(),
        "age": rng.choice([2, 10, 100], n, p=[0.7, 0.2, 0.1]).tolist(),
        "paid": [0, 1, *rng.integers(0, 2, n - 2).tolist()],
    }


@settings(deadline=None, max_examples=40)
@given(st.integers(20, 120), st.integers(0, 9), st.integers(1, 25), LABELS)
def test_exactly_the_small_crossed_cells_become_rest(n, seed, minimum, labels):
    rows = make_rows(n, seed)
    cells = Counter(zip(rows["sex"], rows["age"], rows["paid"], strict=True))
    both = [(sex, age) for sex in "FM" for age in (2, 10, 100)]
    size = {
        cell: min(cells[(*cell, y)] for y in labels)
        if labels
        else cells[(*cell, 0)] + cells[(*cell, 1)]
        for cell in both
    }
    occurring = [cell for cell in both if cells[(*cell, 0)] + cells[(*cell, 1)]]
    large = [f"sex={sex}, age={age}" for sex, age in occurring if size[sex, age] >= minimum]
    federation = federation_from_frames(
        rows, "paid", 1, ("sex", "age"), split=False, minimum_group=minimum, rest="rest",
        labels=labels,
    )  # fmt: skip
    assert federation.group_names == (*large, *["rest"] * (len(large) < len(occurring)))
    assert training_cells(federation).sum() == n
    assert all(name.endswith(("=2", "=10", "=100", "rest")) for name in federation.group_names)


@given(st.integers(20, 60), st.integers(0, 9), st.integers(1, 25), LABELS)
@settings(deadline=None, max_examples=20)
def test_merging_twice_changes_nothing(n, seed, minimum, labels):
    federation = federation_from_frames(
        make_rows(n, seed), "paid", 1, ("sex", "age"), split=False, minimum_group=minimum,
        rest="rest", labels=labels, sensitive_at_prediction=True,
    )  # fmt: skip
    again = settle_small_groups(federation, minimum, "rest", labels)
    assert again.group_names == federation.group_names
    for client, before in zip(again.clients, federation.clients, strict=True):
        np.testing.assert_array_equal(client.x, before.x)


def test_numbers_and_ranges_stand_in_the_order_of_numbers():
    rows = {
        "x": [1.0, 2.0, 3.0, 4.0] * 3,
        "age": [20, 120, 30, 99] * 3,
        "level": ["10", "2", "1", "x"] * 3,
        "y": [0, 1, 1, 0] * 3,
    }
    federation = federation_from_frames(
        rows, "y", 1, ("age", "level"), bins=["age: 25,100"], split=False
    )
    assert federation.group_names == (
        "age=up to 25, level=10",
        "age=over 25 to 100, level=1",
        "age=over 25 to 100, level=x",
        "age=over 100, level=2",
    )


def held_rows(federation_rows: dict[str, list[object]], sex: str) -> dict[str, list[object]]:
    return {name: [*values[:3], values[0]] for name, values in federation_rows.items()} | {
        "sex": ["F", "M", "F", sex]
    }


def test_a_group_of_test_rows_only_becomes_rest_with_the_small_groups():
    rows = make_rows(60, 1) | {"sex": ["F"] * 30 + ["M"] * 25 + ["D"] * 5}
    federation = federation_from_frames(
        rows, "paid", 1, "sex", test=held_rows(rows, "X"), rest="rest", ignore=["age"]
    )
    assert federation.group_names == ("F", "M", "rest")
    assert federation.test.group.tolist() == [0, 1, 0, 2]
    assert any("D, X" in note for note in federation.notes)
    # Rows that are decided later follow the same rule.
    groups = federation.encoder.groups
    assert groups.group_of(table_of(["M", "never seen", "D"])).tolist() == [1, 2, 2]


def table_of(sexes: list[str]) -> Table:
    return Table({"sex": np.array(sexes, object)})


def test_a_group_of_test_rows_only_is_an_error_where_training_has_no_rest():
    rows = make_rows(60, 1)
    for rest, expected in ((None, "does not occur in training rows"), ("rest", "--rest")):
        with pytest.raises(DataError, match=expected):
            federation_from_frames(
                rows, "paid", 1, "sex", test=held_rows(rows, "X"), rest=rest, ignore=["age"]
            )


@pytest.mark.parametrize(
    ("labels", "words"), [((1,), "with the favourable label"), ((0, 1), "of each label")]
)
def test_a_note_names_groups_with_few_rows_of_a_compared_label(labels, words):
    rows = {
        "x": list(range(60)),
        "sex": ["F"] * 30 + ["M"] * 30,
        "y": [1] * 3 + [0] * 27 + [0, 1] * 15,
    }
    federation = federation_from_frames(rows, "y", 1, "sex", split=False, labels=labels)
    [note] = [note for note in federation.notes if "--minimum-group" in note]
    assert f"10 training rows {words} are not compared" in note
    assert "F (3)" in note
