"""Dates that become numbers, by a schema or by --dates."""

from datetime import date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfb.data import encode_file
from fedfb.data.dates import derive_number, explain_cell, read_date, read_format
from fedfb.data.declare import Wanted
from fedfb.data.derive import rule_from_dict, rule_to_dict
from fedfb.data.encode import Encoder
from fedfb.data.fit_columns import no_rows
from fedfb.data.infer import infer
from fedfb.data.own import federation_from_frames
from fedfb.data.schema_file import read_schema, write_schema
from fedfb.errors import ConfigError, DataError
from fedfb.tables.values import cells_of
from own_files import load_own

DAYS = st.dates(date(1000, 1, 1), date(9000, 12, 31))
FORMATS = ["31.12.2024", "12/31/2024", "20241231", "31 Dec 2024", "December 31, 2024", "2024-12-31"]


@given(DAYS, st.sampled_from(FORMATS))
def test_a_date_is_read_as_it_is_written(day, example):
    code = read_format(example)
    assert read_date(day.strftime(code), code) == day
    assert read_date(f"{day.strftime(code)} 10:30", code) == day
    assert read_date(day.isoformat(), code) == day


@given(DAYS, DAYS)
def test_ages_agree_with_the_calendar(day, end):
    days = derive_number(day, f"age in days at {end}")
    assert day + timedelta(days) == end
    years = derive_number(day, f"age in years at {end}")
    assert abs(days / 365.2425 - years) < 1.01


@pytest.mark.parametrize(
    "cell", ["31.02.2024", "2023-02-29", "00.01.2024", "32.1.2024", "x", "1112024"]
)
def test_a_date_that_does_not_exist_is_none(cell):
    assert read_date(cell, "%d.%m.%Y") is None
    assert read_date(cell, "%d%m%Y") is None


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("3.4.2024", ["3 April 2024 or 4 March 2024", "'31.12.2024' or format = '12.31.2024'"]),
        ("31.1.2024", ["seems to be 31 January 2024", "format = '31.12.2024'"]),
        ("1/31/2024", ["seems to be 31 January 2024", "format = '12/31/2024'"]),
        ("20240131", ["format = '20241231'"]),
        ("1.2.45", ["1945 or of 2045", "four digits"]),
        ("30.02.2024", ["not a date that exists"]),
    ],
)  # fmt: skip
def test_an_undeclared_spelling_is_explained(cell, words):
    for part in words:
        assert part in explain_cell(cell, "")


@pytest.mark.parametrize("example", ["31.12.24", "25.4.2019", "%d.%m.%Y", "day", "31.12.2024 12"])
def test_a_format_is_the_last_day_of_2024(example):
    with pytest.raises(ConfigError, match="expected the 31st of December 2024"):
        read_format(example)


def frame(n: int = 60) -> dict[str, list[object]]:
    days = [date(2020, 1, 1) + timedelta(37 * i) for i in range(n)]
    return {
        "opened": [f"{day.day}.{day.month}.{day.year}" for day in days],
        "income": [float(1000 + i % 7) for i in range(n)],
        "sex": ["F", "M"] * (n // 2),
        "paid": [i % 3 == 0 for i in range(n)],
    }


DATES = ["opened: age in days at 2024-01-31, 31.12.2024"]


def federate(rows, **options):
    return federation_from_frames(rows, "paid", "True", "sex", split=False, **options)


def test_the_number_of_a_date_is_standardised_as_any_other():
    rows = frame()
    days = [date(2020, 1, 1) + timedelta(37 * i) for i in range(60)]
    ages = [float((date(2024, 1, 31) - day).days) for day in days]
    dates, numbers = federate(rows, dates=DATES), federate({**rows, "opened": ages})
    np.testing.assert_array_equal(dates.clients[0].x, numbers.clients[0].x)
    assert any("opened (age in days at 2024-01-31)" in note for note in dates.notes)


def test_dates_of_any_source_give_the_same_bits(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = frame()
    days = [date(2020, 1, 1) + timedelta(37 * i) for i in range(60)]
    spellings = [
        rows["opened"],
        [day.isoformat() for day in days],
        pa.array(days),
        pa.array([datetime(d.year, d.month, d.day, 23) for d in days], pa.timestamp("ns", "UTC")),
        np.array(days, "datetime64[D]"),
    ]
    parts = [federate({**rows, "opened": s}, dates=DATES).clients[0].x for s in spellings]
    table = pa.table({**rows, "opened": pa.array(days)})
    parquet.write_table(table, tmp_path / "rows.parquet")
    parts.append(encode_file(federate(rows, dates=DATES).encoder, tmp_path / "rows.parquet").x)
    for part in parts[1:]:
        np.testing.assert_array_equal(part, parts[0])


def test_missing_dates_are_missing_numbers_and_wrong_ones_name_file_line_and_cell(tmp_path):
    rows = frame()
    gaps = federate({**rows, "opened": ["", *rows["opened"][1:]]}, dates=DATES)
    assert gaps.feature_names == ("opened", "opened is missing", "income")
    lines = ["opened,income,sex,paid", *map("{},{},{},{}".format, *rows.values())]
    lines[5] = "31.2.2024" + lines[5][lines[5].index(",") :]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    with pytest.raises(
        DataError, match=r"rows.csv.*line 6.*'31\.2\.2024' is not a date that exists"
    ):
        load_own(str(tmp_path / "rows.csv"), "paid", "True", ("sex",), dates=tuple(DATES))


def test_raw_rows_are_decided_with_the_rule_of_training(tmp_path):
    rows = frame()
    federation = federate(rows, dates=DATES)
    encoder = Encoder.from_dict(federation.encoder.to_dict())
    assert [rule_from_dict(rule_to_dict(rule)) for rule in encoder.derived] == [*encoder.derived]
    (tmp_path / "new.csv").write_text(
        "\n".join(["opened,income", *map("{},{}".format, rows["opened"], rows["income"])])
    )
    np.testing.assert_array_equal(
        encode_file(encoder, tmp_path / "new.csv").x, federation.clients[0].x
    )
    (tmp_path / "new.csv").write_text("opened,income\n1.13.2024,5\n")
    with pytest.raises(DataError, match=r"'1\.13\.2024' is not a date that exists"):
        encode_file(encoder, tmp_path / "new.csv")


SCHEMA = """
[columns.opened]
role = "feature"
type = "date"
as = "year"
format = "31.12.2024"
[columns.income]
role = "feature"
type = "number"
[columns.sex]
role = "sensitive"
[columns.paid]
role = "label"
positive = "True"
"""


def test_a_schema_declares_dates_and_reads_back(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text(SCHEMA)
    schema = read_schema(path)
    path.write_text(write_schema(schema))
    assert read_schema(path).columns == schema.columns
    assert no_rows(schema).numbers("opened").shape == (0,)
    federation = federation_from_frames(frame(), schema=str(path), split=False)
    same = federate(frame(), dates=["opened: year, 31.12.2024"])
    np.testing.assert_array_equal(federation.clients[0].x, same.clients[0].x)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('as = "year"', 'as = "age"', "as is 'age', expected what to derive"),
        ('as = "year"', 'as = "age in days at 2024-02-30"', "expected what to derive"),
        ('as = "year"', "", "expected what to derive"),
        ('"31.12.2024"', '"dd.mm.yyyy"', "expected the 31st of December 2024"),
        ('type = "date"', 'type = "number"', "as and format belong to the type date"),
        ('role = "feature"', 'role = "sensitive"', "its ranges make the groups"),
    ],
)
def test_what_a_schema_cannot_say_about_dates_is_refused(tmp_path, before, after, message):
    path = tmp_path / "schema.toml"
    path.write_text(SCHEMA.replace(before, after, 1))
    with pytest.raises(ConfigError, match=message):
        read_schema(path)


def test_an_age_of_people_makes_groups_by_bins():
    rows = frame()
    rows["born"] = [f"{1950 + i}-06-15" for i in range(60)]
    federation = federation_from_frames(
        rows, "paid", "True", ("born",), split=False, bins=["born: 30,60"],
        dates=["born: age in years at 2024-01-31", *DATES],
    )  # fmt: skip
    assert federation.group_names == ("up to 30", "over 30 to 60", "over 60")


def test_a_column_of_dates_is_left_out_with_the_way_to_declare_it():
    rows = frame()
    cells = cells_of("rows", list(rows), list(rows.values()))
    schema, problems = infer([cells], Wanted("paid", "True", ("sex",)))
    assert any("--dates 'opened: year'" in problem.what for problem in problems)
    assert 'type = "date", as = "age in days at' in write_schema(schema)
