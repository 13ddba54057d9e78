"""Frames and Parquet files give the federation of CSV files with the same values, to the bit."""

from datetime import date
from decimal import Decimal

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedfb
from fedfb.data import federation_from_frames
from fedfb.errors import ConfigError, DataError
from fedfb.tables.cells import SourceColumn, as_text
from fedfb.tables.values import columns_of
from own_files import load_own

OWN = {"label": "paid", "positive": "yes", "sensitive": ("sex", "town")}


def people(rows: int, seed: int = 0) -> pandas.DataFrame:
    rng = np.random.default_rng(seed)
    income = rng.normal(3e4, 1e4, rows).round(2)
    income[::7] = np.nan
    job = rng.choice(["cook", "näher", "3", None], rows)
    return pandas.DataFrame(
        {
            "income": income,
            "children": rng.integers(0, 5, rows),
            "job": job,
            "member": rng.random(rows) < 0.4,
            "sex": rng.choice(["F", "M"], rows),
            "town": rng.choice(["a", "b"], rows),
            "paid": np.where(rng.random(rows) < 0.5, "yes", "no"),
        }
    )


def same(one: fedfb.Federation, other: fedfb.Federation) -> None:
    assert one.encoder == other.encoder
    assert (one.client_names, one.group_names, one.notes) == (
        other.client_names,
        other.group_names,
        other.notes,
    )
    for mine, others in zip((*one.clients, one.test), (*other.clients, other.test), strict=True):
        for a, b in zip(mine, others, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.fixture
def clients():
    return {"north": people(60, 1), "south": people(80, 2), "west": people(50, 3)}


@pytest.fixture
def as_files(clients, tmp_path, monkeypatch):
    """The federation of the clients as CSV files."""
    monkeypatch.chdir(tmp_path)
    for name, frame in clients.items():
        frame.to_csv(f"{name}.csv", index=False)
    return load_own("*.csv", **OWN)


def test_pandas_frames_by_client_are_their_files(clients, as_files):
    shuffled = {name: clients[name] for name in ("west", "north", "south")}
    same(federation_from_frames(shuffled, **OWN), as_files)


def test_polars_frames_by_client_are_their_files(clients, as_files):
    frames = {name: polars.from_pandas(frame) for name, frame in clients.items()}
    same(federation_from_frames(frames, **OWN), as_files)
    lazy = {name: frame.lazy() for name, frame in frames.items()}
    same(federation_from_frames(lazy, **OWN), as_files)


def test_columns_as_lists_are_a_frame(clients, as_files):
    columns = {name: {c: frame[c].tolist() for c in frame} for name, frame in clients.items()}
    same(federation_from_frames(columns, **OWN), as_files)


def test_one_frame_with_a_client_column_is_one_file_with_it(clients, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = pandas.concat([f.assign(branch=name) for name, f in clients.items()])
    frame.to_csv("rows.csv", index=False)
    same(
        federation_from_frames(frame, **OWN, client_column="branch", split_seed=3),
        load_own("rows.csv", **OWN, client_column="branch", split_seed=3),
    )


def test_parquet_and_csv_clients_mix(clients, as_files, tmp_path):
    (tmp_path / "south.csv").unlink()
    clients["south"].to_parquet("south.parquet", index=False)
    same(load_own("*.*", **OWN), as_files)


def test_without_a_split_all_rows_train(clients):
    whole = federation_from_frames(clients, **OWN, split=False)
    assert [len(client.y) for client in whole.clients] == [60, 80, 50]
    assert len(whole.test.y) == 0


def test_test_rows_may_be_a_frame(clients, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    clients["north"].to_csv("north.csv", index=False)
    clients["west"].to_csv("test.csv", index=False)
    one = federation_from_frames({"north": clients["north"]}, **OWN, test=clients["west"])
    same(one, load_own("north.csv", **OWN, test="test.csv"))


def test_a_positive_value_may_be_a_number_or_a_truth(clients):
    for labels, positive in (([0, 1], 1), ([0.0, 1.0], 1), ([False, True], True)):
        frame = clients["north"]
        frame = frame.assign(paid=np.array(labels)[(frame["paid"] == "yes").astype(int)])
        found = federation_from_frames(frame, "paid", positive, "sex", split=False)
        assert found.clients[0].y.tolist() == (clients["north"]["paid"] == "yes").tolist()


@pytest.mark.parametrize(
    ("frame", "error", "message"),
    [
        ({}, ConfigError, "no frames were given"),
        (np.ones((3, 2)), ConfigError, "frames is a ndarray. Expected a frame of pandas"),
        ({"north": people(9), "south": 3}, ConfigError, "south is a int. Expected a frame"),
        ({"sex": ["F"], "paid": 3}, ConfigError, "a column is a int. Expected a list"),
        ({"sex": ["F"], "paid": ["a", "b"]}, DataError, "'paid' has 2 cells and others have 1"),
        (people(10).iloc[:0], DataError, "frames has columns but no rows"),
        (people(10).assign(job=[[1]] * 10), DataError, "row 1, column 'job': a list is not a sin"),
        (people(10).rename(columns={"job": "sex"}), DataError, "column name 'sex' occurs twice"),
        (people(10).drop(columns="sex"), DataError, "frames: unknown column 'sex'"),
        (people(10).assign(income=np.inf), DataError, "column 'income': 'inf' is not finite"),
    ],
)
def test_what_is_wrong_with_a_frame_is_told(frame, error, message):
    with pytest.raises(error, match=message):
        federation_from_frames(frame, **OWN)


@settings(derandomize=True)
@given(st.one_of(st.floats(allow_infinity=False), st.integers(-(10**15), 10**15)))
def test_a_number_is_read_back_as_it_was(number):
    text = as_text(number)
    assert text == "" if number != number else float(text) == number


def test_values_of_other_kinds_are_written_plainly():
    assert as_text(pandas.NA) == as_text(pandas.NaT) == as_text(np.float64("nan")) == ""
    assert as_text(pandas.Timestamp("2024-01-31")) == "2024-01-31T00:00:00"
    assert (as_text(np.int8(3)), as_text(date(2024, 1, 31))) == ("3", "2024-01-31")
    assert as_text(b"x") is None


def test_a_broken_or_absent_parquet_file_is_told(tmp_path):
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"PAR1 no")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        load_own(str(path), **OWN)
    people(10).to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(DataError, match="there is no file"):
        load_own(str(tmp_path / "rows.csv"), **OWN, test=str(tmp_path / "absent.parquet"))


def as_pandas(frame, path):
    return federation_from_frames({"rows": frame}, **OWN)


def as_polars(frame, path):
    return federation_from_frames({"rows": polars.from_pandas(frame)}, **OWN)


def as_arrow(frame, path):
    table = pyarrow.Table.from_pandas(frame, preserve_index=False)
    return federation_from_frames({"rows": table.to_reader(max_chunksize=7)}, **OWN)


def as_gzip(frame, path):
    frame.to_csv(path / "rows.csv.gz", index=False)
    return load_own(str(path / "rows.csv.gz"), **OWN)


def as_zstd(frame, path):
    with pyarrow.CompressedOutputStream(str(path / "rows.csv.zst"), "zstd") as stream:
        stream.write((path / "rows.csv").read_bytes())
    return load_own(str(path / "rows.csv.zst"), **OWN)


def as_parquet(frame, path):
    frame.to_parquet(path / "rows.parquet", index=False)
    return load_own(str(path / "rows.parquet"), **OWN)


def as_feather(frame, path):
    frame.to_feather(path / "rows.feather")
    return load_own(str(path / "rows.feather"), **OWN)


def as_ipc(frame, path):
    polars.from_pandas(frame).write_ipc(path / "rows.arrow")
    return load_own(str(path / "rows.arrow"), **OWN)


@pytest.mark.parametrize(
    "load",
    [as_pandas, as_polars, as_arrow, as_gzip, as_zstd, as_parquet, as_feather, as_ipc],
    ids=lambda load: load.__name__,
)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_values_give_the_same_bits_from_every_source(load, seed, tmp_path):
    rng = np.random.default_rng(seed)
    frame = people(90, seed).assign(
        tiny=rng.normal(0, 1e-8, 90),
        wide=rng.integers(-(2**62), 2**62, 90),
        rank=pandas.Categorical(rng.choice(["low", "high"], 90), ["unused", "low", "high"]),
        gaps=pandas.array(rng.integers(0, 9, 90), "Int64"),
    )
    frame.loc[::5, "gaps"] = None
    frame.to_csv(tmp_path / "rows.csv", index=False)
    federation = load(frame, tmp_path)
    same(federation, load_own(str(tmp_path / "rows.csv"), **OWN))


@pytest.mark.parametrize(
    ("values", "cells"),
    [
        (pandas.Series(pandas.to_datetime(["2024-01-31", None])), ["2024-01-31T00:00:00", ""]),
        (pandas.Series([pandas.Timedelta("1D"), None]), ["1 days 00:00:00", ""]),
        (pandas.Series([Decimal("1.50"), Decimal("2")]), ["1.50", "2"]),
        (pandas.Series([True, 1, "x", 2.0, None]), ["True", "1", "x", "2", ""]),
        (pandas.Series([1.5, 2.0, 0.1], dtype="float32"), ["1.5", "2", "0.1"]),
        (polars.Series([date(2024, 1, 31), None]), ["2024-01-31", ""]),
        (polars.Series([Decimal("1.50"), None]), ["1.50", ""]),
        (polars.Series(["b", "a", "b"], dtype=polars.Enum(["a", "b"])), ["b", "a", "b"]),
        (np.array([2**63, 1], np.uint64), ["9223372036854775808", "1"]),
        (np.array([-0.0, np.nan]), ["0", ""]),
        ([2**70, 1], ["1180591620717411303424", "1"]),
        ([" NA ", "e\u0301", "x\u200b"], ["", "\u00e9", "x"]),
        (pyarrow.array(["a", None]).dictionary_encode(), ["a", ""]),
    ],
)
def test_a_column_says_what_a_csv_file_of_its_values_would(values, cells):
    [column] = columns_of("rows", {"x": values}).columns.values()
    assert column.words.tolist() == cells
    numbers = SourceColumn.of(cells).numbers
    if numbers is None:
        assert column.numbers is None
    else:
        np.testing.assert_array_equal(column.numbers, numbers)
