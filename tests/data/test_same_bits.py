"""The same rows give the bits of one model, whatever they come from.

A new kind of source is one more function among ``SOURCES``.
"""

import gzip
from datetime import date
from decimal import Decimal

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from pyarrow import feather, parquet

import fedfb
from fedfb.data import federation_from_frames
from fedfb.experiments.outcome import train
from fedfb.runtime import as_arrays
from own_files import load_own
from slow_cases import slow_unless

ROLES = {"label": "paid", "positive": "yes", "sensitive": ("sex",), "client_column": "opened"}
FILE = "rows"


def make_rows() -> pyarrow.Table:
    """Rows with all that sources write differently."""
    rng, rows = np.random.default_rng(0), 240
    gaps = rng.random(rows) < 0.1
    amount = np.where(rng.random(rows) < 0.2, -0.0, rng.normal(size=rows).round(3))
    large = rng.integers(2**53, 2**62, rows) | 1  # no float64 holds an odd number of this size
    ratio = rng.random(rows).astype(np.float32)
    price = [Decimal(int(cents)) / 100 for cents in rng.integers(0, 9999, rows)]
    opened = rng.choice([date(2024, 1, 31), date(2023, 12, 1), date(2024, 2, 29)], rows)
    codes = rng.choice(["007", "7", "1e1", "+3", "0.10"], rows)
    job = rng.choice(["cook", "NA", "näher", "na\u0308her", " cook ", "a,b", 'say "no"'], rows)
    sex = rng.choice(["F", "M"], rows)
    paid = np.where(amount + ratio + (sex == "F") > 0.7, "yes", "no")
    return pyarrow.table(
        {
            "amount": pyarrow.array(amount, mask=gaps),
            "large": pyarrow.array(large, mask=rng.random(rows) < 0.1),
            "small": pyarrow.array(rng.integers(-5, 5, rows).astype(np.int8)),
            "ratio": pyarrow.array(ratio),
            "price": pyarrow.array(price, pyarrow.decimal128(12, 2)),
            "member": pyarrow.array(rng.random(rows) < 0.4, mask=gaps),
            "code": pyarrow.array(codes),
            "job": pyarrow.array(job, mask=rng.random(rows) < 0.1).dictionary_encode(),
            "empty": pyarrow.nulls(rows),
            "opened": pyarrow.array(opened),
            "sex": pyarrow.array(sex).dictionary_encode(),
            "paid": pyarrow.array(paid),
        }
    )


class OnlyAStream:
    """What speaks Arrow's stream and nothing else."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def write_csv(table) -> bytes:
    return table.to_pandas().to_csv(index=False).encode()


def read_file(suffix, write):
    """Return a source: the rows written to a file."""

    def source(table, folder):
        path = folder / f"{FILE}{suffix}"
        write(table, path)
        return load_own(str(path), **ROLES)

    return source


def read_frame(make):
    """Return a source: the rows as a frame."""
    return lambda table, folder: federation_from_frames(make(table), **ROLES)


def write_zst(table, path):
    with pyarrow.CompressedOutputStream(path, "zstd") as file:
        file.write(write_csv(table))


def write_quoted(table, path):
    path.write_bytes(table.to_pandas().to_csv(index=False, quoting=1, sep=";").encode())


SOURCES = {
    "csv": read_file(".csv", lambda table, path: path.write_bytes(write_csv(table))),
    "quoted csv": read_file(".csv", write_quoted),
    "gz": read_file(
        ".csv.gz", lambda table, path: path.write_bytes(gzip.compress(write_csv(table)))
    ),
    "zst": read_file(".csv.zst", write_zst),
    "parquet": read_file(".parquet", parquet.write_table),
    "parts of parquet": read_file(
        ".parquet", lambda table, path: parquet.write_table(table, path, row_group_size=50)
    ),
    "arrow": read_file(".arrow", lambda table, path: feather.write_feather(table, str(path))),
    "pandas": read_frame(lambda table: table.to_pandas()),
    "pandas of arrow": read_frame(lambda table: table.to_pandas(types_mapper=pandas.ArrowDtype)),
    "pandas of nullable": read_frame(lambda table: table.to_pandas().convert_dtypes()),
    "polars": read_frame(polars.from_arrow),
    "lazy polars": read_frame(lambda table: polars.from_arrow(table).lazy()),
    "pyarrow": read_frame(lambda table: table),
    "chunks": read_frame(lambda table: pyarrow.Table.from_batches(table.to_batches(37))),
    "stream": read_frame(OnlyAStream),
    "lists": read_frame(lambda t: {**t.to_pydict(), "ratio": list(t["ratio"].to_numpy())}),
}


def fit(federation):
    """Return the parameters of a model, and what the evaluation of it says."""
    experiment = fedfb.Experiment(data="rows.csv", **{**ROLES, "rounds": 2, "local_epochs": 2})
    outcome = train(experiment, federations={0: federation})
    return as_arrays(outcome.fitted[0].trained._replace(history=[])), outcome.result.runs


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return fit(SOURCES["csv"](make_rows(), tmp_path_factory.mktemp("csv")))


@pytest.mark.parametrize("name", SOURCES)
def test_the_same_rows_give_the_bits_of_one_model(name, reference, tmp_path):
    arrays, runs = fit(SOURCES[name](make_rows(), tmp_path))
    expected_arrays, expected_runs = reference
    assert arrays.keys() == expected_arrays.keys()
    for key, values in arrays.items():
        assert values.tobytes() == expected_arrays[key].tobytes(), key
    assert runs == expected_runs


@pytest.mark.parametrize(
    "name", slow_unless(lambda name: name in ("csv", "parquet", "polars"), SOURCES)
)
def test_another_number_gives_another_model(name, reference, tmp_path):
    """The comparison above sees a change of one cell."""
    rows = make_rows()
    changed = rows["price"].to_pylist()
    changed[5] += Decimal("0.01")
    place = rows.column_names.index("price")
    rows = rows.set_column(place, "price", pyarrow.array(changed, pyarrow.decimal128(12, 2)))
    arrays, _ = fit(SOURCES[name](rows, tmp_path))
    assert any(arrays[key].tobytes() != reference[0][key].tobytes() for key in arrays)
