from unicodedata import normalize

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfb.errors import DataError
from fedfb.tables import parse
from fedfb.tables.cells import clean
from fedfb.tables.csv_file import read_cells
from fedfb.tables.read import read_csv, read_csvs
from fedfb.tables.table import parse_number


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_separators_are_found_in_the_header(write, separator):
    path = write(f"a{separator}b\n1{separator}x\n")
    table = read_csv(path)
    assert (table.columns["a"].tolist(), table.columns["b"].tolist()) == ([1.0], ["x"])


def test_a_named_separator_wins_over_the_header(write):
    assert list(read_csv(write("a,b;c\n1,2;3\n"), ";").columns) == ["a,b", "c"]


def test_byte_order_mark_crlf_blank_lines_and_spaces_do_not_matter(write):
    table = read_csv(write("\ufeffage , sex\r\n 31, F \r\n\r\n52,M\r\n"))
    assert {k: v.tolist() for k, v in table.columns.items()} == {"age": [31, 52], "sex": ["F", "M"]}


def test_blank_lines_before_the_header_do_not_matter(write):
    assert read_csv(write("\n\na;b\n1;2\n")).columns["b"].tolist() == [2.0]


@pytest.mark.parametrize("cell", ["", "?", "NA", "NaN", "nan", " "])
def test_missing_cells_are_nan_among_numbers_and_empty_among_text(write, cell):
    table = read_csv(write(f"n,t\n1,x\n{cell},{cell}\n"))
    np.testing.assert_array_equal(table.columns["n"], [1.0, np.nan])
    assert table.columns["t"].tolist() == ["x", ""]


def test_a_column_with_nothing_but_gaps_is_text(write):
    assert read_csv(write("a,b\n,1\n?,2\n")).columns["a"].tolist() == ["", ""]


def test_quotes_may_hold_separators_and_line_breaks(write):
    table = read_csv(write('a,b\n"x, y","p\nq"\n'))
    assert (table.columns["a"].tolist(), table.columns["b"].tolist()) == (["x, y"], ["p\nq"])


def test_types_are_those_of_all_files_together(write):
    paths = [write("code,n\n1,1\n", "1.csv"), write("n,code\n2,A7\n", "2.csv")]
    first, second = read_csvs(paths)
    assert (first.columns["code"].tolist(), second.columns["code"].tolist()) == (["1"], ["A7"])
    assert first.columns["n"].dtype == second.columns["n"].dtype == np.float64


def test_columns_kept_as_text_stay_as_written(write):
    assert read_csvs([write("a\n01\n1.0\n")], text=["a"])[0].columns["a"].tolist() == ["01", "1.0"]


def test_only_the_first_column_of_a_name_is_read_and_no_other(write):
    cells = read_cells(write("name,a,b,a\nAnn,1,2,3\n"), only=("a",))
    assert {name: c.words.tolist() for name, c in cells.columns.items()} == {"a": ["1"]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "rows.csv is empty. Expected a header line"),
        ("\n \n", "rows.csv is empty. Expected a header line"),
        ("a,b\n", "rows.csv has a header but no rows"),
        ("a,b,a\n1,2,3\n", "column name 'a' occurs twice in the header .columns 1 and 3."),
        (",b\n1,2\n", "column 1 has no name"),
        ("a,b\n1,2\n\n1,2,3\n", "line 4: 3 cells, expected 2 as in the header"),
        ("\n\na,b\n1\n", "line 4: 1 cells, expected 2"),
        ('a,b\n"1\n2",3\n4\n', "line 4: 1 cells, expected 2"),
        ("a,b\n1,2\n3,inf\n", "line 3, column 'b': 'inf' is not finite"),
        ("a,b\n1,2\n3,-1e999\n", "line 3, column 'b': '-1e999' is not finite"),
        (b"a,b\n1,2\n\xff,3\n", "line 3: not UTF-8. Save the file as UTF-8"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(write, content, message):
    with pytest.raises(DataError, match=message):
        read_csv(write(content))


def test_a_cell_too_long_for_the_reader_is_told(write):
    with pytest.raises(DataError, match="line 2: field larger than field limit"):
        read_csv(write(f"a,b\n{'x' * 200_000},1\n"))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"there is no file .*absent\.csv"):
        read_csv(tmp_path / "absent.csv")


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        read_csv(tmp_path)


def test_an_unknown_needed_column_offers_the_nearest(write):
    with pytest.raises(DataError, match="unknown column 'ag'; did you mean 'age'"):
        read_cells(write("age\n1\n"), only=("ag",))


@given(
    rows=st.lists(
        st.tuples(
            st.floats(allow_nan=False, allow_infinity=False),
            st.text(st.characters(codec="utf-8", categories=["L", "P"]), min_size=1),
        ),
        min_size=1,
    )
)
def test_what_pandas_writes_is_read_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("pandas") / "rows.csv"
    # A word in front keeps the text from being a number or a mark for missing.
    frame = pandas.DataFrame({"n": [n for n, _ in rows], "t": [f"w{t}" for _, t in rows]})
    frame.to_csv(path, index=False)
    table = read_csv(path, ",")
    assert table.columns["n"].tolist() == frame["n"].tolist()
    # One letter may be written in several ways: all are read as one.
    assert table.columns["t"].tolist() == [normalize("NFC", text) for text in frame["t"]]


NUMBERS = st.floats(allow_nan=False, allow_infinity=False).map(repr)
SPELLINGS = [
    "+3",
    " 7",
    "7 ",
    "1_000",
    "0x1",
    "1.",
    ".5",
    "-0.0",
    "١٢",
    "1e3",
    "NAN",
    "01",
    "1e999",
]
WORDS = ["", "?", "NA", " NA ", "cook", "näher", "na\u0308her", "True", "nan(1)", "\xa05", "inf"]
CELLS = st.one_of(NUMBERS, st.integers().map(str), st.sampled_from(SPELLINGS + WORDS))


@given(
    first=st.lists(NUMBERS, min_size=1, max_size=6),
    rest=st.lists(CELLS, max_size=6),
    times=st.sampled_from([1, 9]),
    quotes=st.booleans(),
)
def test_a_column_is_what_python_reads_in_its_cells(tmp_path_factory, first, rest, times, quotes):
    """Whatever its first rows suggest: they decide how the column is read, and not what it is."""
    cells = [*first, *rest] * times
    lines = [f'"{cell}",x' if quotes else f"{cell},x" for cell in cells]
    path = tmp_path_factory.mktemp("cells") / "rows.csv"
    path.write_text("\n".join(["a,b", *lines]) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parse, "_SAMPLE", 40)
        column = read_cells(path).columns["a"]
        expected = clean(cells)
        numbers = [parse_number(cell) if cell else np.nan for cell in expected]
        assert column.words.tolist() == expected
        if None in numbers:
            assert column.numbers is None
        else:
            bits = (np.array(numbers) + 0.0).tobytes()
            assert column.numbers.tobytes() == bits
