"""Counts of rows by two properties, as values and as lines of a terminal."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedfb.doctor.rows import cross
from fedfb.tables.table import Words

CELLS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy")), min_size=1, max_size=50)


@given(CELLS)
def test_crossed_counts_are_those_of_a_loop(cells: list[tuple[str, str]]) -> None:
    rows, columns = (Words.of(part) for part in zip(*cells, strict=True))
    counts = cross("r", rows, "c", columns)
    for i, row in enumerate(counts.row_names):
        for j, column in enumerate(counts.column_names):
            assert counts.counts[i, j] == cells.count((row, column))
    assert counts.counts.sum() == len(cells)


@given(st.lists(st.integers(0, 60), min_size=1, max_size=300), st.integers(1, 12))
def test_a_shortened_table_conserves_all_rows(clients: list[int], groups: int) -> None:
    rows = Words.of(map(str, clients))
    columns = Words.of(str(client % groups) for client in clients)
    head, *lines = cross("client", rows, "group", columns).table()
    numbers = np.array([line[1:] for line in lines], int)
    assert len(lines) <= 22
    assert len(head) <= 9
    assert numbers[-1, -1] == len(clients)
    np.testing.assert_array_equal(numbers[:-1].sum(axis=0), numbers[-1])
    np.testing.assert_array_equal(numbers[:, :-1].sum(axis=1), numbers[:, -1])


def test_many_clients_fit_a_terminal_and_the_smallest_comes_first() -> None:
    names = [f"a branch with a long name, number {i}" for i in range(100) for _ in range(i + 1)]
    words = Words.of(names)
    counts = cross("client", words, "group", Words.of("g" for _ in names))
    lines = counts.text().splitlines()
    assert max(map(len, lines)) <= 80
    assert "number 0 " in lines[1]
    assert "85 others" in "\n".join(lines)
