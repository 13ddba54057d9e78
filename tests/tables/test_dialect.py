"""The dialect of a file is detected from all its cells, or asked for; never guessed."""

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfb.data import federation_from_frames
from fedfb.data.schema_file import read_schema, write_schema
from fedfb.errors import ConfigError, DataError
from fedfb.experiments.spec import Experiment
from fedfb.experiments.spec_file import from_values
from fedfb.tables.dialect import DETECT, PLAIN, Dialect, Dialects, decode, detect_separator
from fedfb.tables.marks import settle_numbers
from fedfb.tables.read import read_files, read_rows
from fedfb.tables.sources import find_files, names_of
from fedfb.tables.values import cells_of
from own_files import load_own

NARROW = "\u202f"
MARKS = [(",", "."), (",", " "), (",", NARROW), (",", "'"), (".", ","), (".", " "), (".", "'")]


def write_number(x: float, decimal: str, thousands: str) -> str:
    return f"{x:,.2f}".translate(str.maketrans({",": thousands, ".": decimal}))


def settle(columns: dict[str, list[str]], dialect: Dialect = DETECT, separator: str = ";"):
    return settle_numbers(cells_of("rows", columns, columns.values()), dialect, separator)


@given(
    marks=st.sampled_from(MARKS),
    numbers=st.lists(st.integers(-(10**9), 10**9).map(lambda n: n / 100), min_size=5),
)
def test_numbers_are_read_as_they_were_meant_or_are_undecided(marks, numbers):
    cells = [write_number(x, *marks) for x in numbers]
    column = settle({"x": cells, "t": ["a"] * len(cells)}).columns["x"]
    np.testing.assert_array_equal(column.numbers, np.array(numbers) + 0.0)  # two digits decide


@given(marks=st.sampled_from(MARKS), numbers=st.lists(st.integers(1000, 10**9), min_size=1))
def test_whole_numbers_follow_declared_marks(marks, numbers):
    decimal, thousands = marks
    cells = [f"{n:,}".replace(",", thousands) for n in numbers]
    column = settle({"x": cells}, Dialect(decimal=decimal, thousands=thousands)).columns["x"]
    assert column.numbers.tolist() == numbers


@pytest.mark.parametrize("cell", ["1,234", "12,345", "1.234", "-999.999"])
def test_without_evidence_both_marks_are_an_error_that_names_the_flag(cell):
    column = settle({"x": [cell, "7"], "t": ["a", "b"]}).columns["x"]
    with pytest.raises(
        DataError, match=r"rows, row 1, column 'x'.*--decimal '[.,]' or --thousands"
    ):
        column.numbers  # noqa: B018 - the property raises
    assert column.words.tolist() == [cell, "7"]


@pytest.mark.parametrize(
    ("evidence", "cell", "number"),
    [
        ("12,5", "1.234", 1234),
        ("12,5", "1,234", 1.234),
        ("12.5", "1,234", 1234),
        ("12.5", "1.234", 1.234),
        ("0,125", "1.234", 1234),
        ("1.234.567", "1.234", 1234),
        ("1,234,567", "1,234", 1234),
        ("12,34,567", "1,234", 1234),
        ("1 234,5", "1,234", 1.234),
        ("1 234", "1,234", 1.234),
    ],
)
def test_another_column_decides(evidence, cell, number):
    assert settle({"x": [cell], "y": [evidence]}).columns["x"].numbers.tolist() == [number]


def test_a_point_is_the_decimal_mark_where_commas_separate_cells():
    assert settle({"x": ["1.234"]}, separator=",").columns["x"].numbers.tolist() == [1.234]


def test_columns_that_show_different_marks_are_each_read_by_their_own():
    file = settle({"x": ["1.5"], "y": ["2,5"]})
    assert [file.columns[name].numbers.tolist() for name in "xy"] == [[1.5], [2.5]]
    assert file.notes == ("rows: decimal comma, detected in column y",)


def test_one_column_with_two_decimal_marks_is_an_error_with_both_cells():
    column = settle({"x": ["1.5", "3", "2,5"]}).columns["x"]
    with pytest.raises(DataError, match=r"'1\.5' \(row 1\) and '2,5' \(row 3\)"):
        column.numbers  # noqa: B018 - the property raises


@pytest.mark.parametrize(
    "cells",
    [
        ["31.12.2024", "1.1.2025"],
        ["192.168.1.1", "10.0.0.7"],
        ["1.2.3", "1.2.4"],
        ["high", "low", "1,5"],
        ["030 1234567", "089 7654321"],
        ["1/2", "3/4"],
    ],
)
def test_dates_addresses_versions_and_words_stay_text(cells):
    file = settle({"x": cells})
    assert file.columns["x"].words.tolist() == cells
    assert file.columns["x"].numbers is None
    assert file.notes == ()


def test_marks_that_occur_late_are_seen_and_other_cells_stay():
    cells = ["12,5"] * 1500 + [f"{n},5" for n in range(30)] + ["1.234,5", "unknown"]
    words = settle({"x": cells}).columns["x"].words.tolist()
    assert words[:1] == ["12.5"]
    assert words[-2:] == ["1234.5", "unknown"]


def test_declared_marks_that_do_not_fit_are_an_error():
    for cell, dialect in (("1.5", Dialect(decimal=",")), ("1,5", Dialect(decimal="."))):
        column = settle({"x": [cell]}, dialect).columns["x"]
        with pytest.raises(DataError, match=f"'{cell}' is not a number with --decimal"):
            column.numbers  # noqa: B018 - the property raises


def test_nothing_is_detected_in_a_plain_dialect():
    assert settle({"x": ["1,5"]}, PLAIN).columns["x"].words.tolist() == ["1,5"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"separator": "||"}, "--separator is '||', expected one character"),
        ({"decimal": ";"}, "--decimal is ';', expected"),
        ({"thousands": "x"}, "--thousands is 'x', expected"),
        ({"decimal": ",", "thousands": ","}, "both ','"),
        ({"encoding": "utf-9"}, "'utf-9' is no encoding of text"),
        ({"encoding": "hex"}, "'hex' is no encoding of text"),
    ],
)
def test_a_dialect_that_cannot_be_is_refused(values, message):
    with pytest.raises(ConfigError, match=message.replace("|", r"\|")):
        Dialect(**values)


TEXT = "job,x\n" + "".join(f"{word},1\n" for word in ("Näher", "Köchin", "garçon", "señor"))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "cp1252"])
def test_encodings_are_detected(encoding):
    assert decode("rows", TEXT.encode(encoding)).content.decode() == TEXT


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252", "mac-roman", "cp850", "latin-1"])
def test_a_declared_encoding_is_used(encoding):
    assert decode("rows", TEXT.encode(encoding), encoding).content.decode() == TEXT


@pytest.mark.parametrize("encoding", ["mac-roman", "cp850"])
def test_an_encoding_that_is_not_certain_is_asked_for(encoding):
    with pytest.raises(DataError, match=rf"line 2: not UTF-8.*'Näher' with --encoding {encoding}"):
        decode("rows", TEXT.encode(encoding))


def test_a_guess_is_noted_with_line_word_and_flag():
    note = decode("rows", TEXT.encode("cp1252")).note
    assert "line 2" in note
    assert "'Näher'" in note
    assert "--encoding" in note


@pytest.mark.parametrize(
    ("lines", "separator"),
    [
        (["a,b\n", "1,2\n"], ","),
        (["a\n", "1,5;2\n", "2,5;3\n"], ","),
        (["a;b\n", "1,5;2,5\n", "2,5;3,5\n"], ";"),
        (['"x,y,z";b\n', "1;2\n", "3;4\n"], ";"),
        (["Age, in years;b\n", "1;2\n", "3;4\n"], ";"),
        (["a\tb\n", "1,2\t3,4\n"], "\t"),
        (["a|b\n", "1|2\n"], "|"),
        (["a\n", "1\n"], ","),
    ],
)
def test_the_separator_is_that_of_most_lines(lines, separator):
    assert detect_separator(lines) == separator


# Files


def bank(path: str, number=str, separator: str = ",", encoding: str = "utf-8", rows=range(40)):
    lines = [separator.join(("income", "job", "paid", "sex"))]
    for i in rows:
        cells = (
            number(1000 + i * 37.25),
            "Köchin" if i % 3 else "Näher",
            "yn"[i % 2],
            "FM"[i // 2 % 2],
        )
        lines.append(separator.join(cells))
    Path(path).write_bytes("\n".join([*lines, ""]).encode(encoding))


def german(x: float) -> str:
    return write_number(x, ",", ".")


OWN = {"label": "paid", "positive": "y", "sensitive": ("sex",)}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("banks").mkdir()
    bank("banks/a.csv")
    bank("banks/b.csv", german, ";", "cp1252", range(40, 80))
    bank("banks/c.txt", lambda x: write_number(x, ",", NARROW), "\t", "utf-16", range(80, 120))
    return tmp_path


def test_files_of_three_dialects_are_the_table_of_one(folder):
    federation = load_own("banks", **OWN)
    for name, rows in (("a", range(40)), ("b", range(40, 80)), ("c", range(80, 120))):
        bank(f"plain_{name}.csv", rows=rows)
    plain = load_own("plain_*.csv", **OWN)
    for client, other in zip(federation.clients, plain.clients, strict=True):
        np.testing.assert_array_equal(client.x, other.x)
    notes = " ".join(federation.notes)
    assert "banks/b.csv: decimal comma and thousands point, detected in column income" in notes
    assert "banks/c.txt: decimal comma and thousands space, detected in column income" in notes


def test_declared_dialects_give_the_same_bits_without_notes(folder):
    detected = load_own("banks/b.csv", **OWN)
    declared = load_own("banks/b.csv", **OWN, dialect=Dialect(";", ",", ".", "cp1252"))
    np.testing.assert_array_equal(detected.clients[0].x, declared.clients[0].x)
    assert not any("detected" in note or "UTF-8" in note for note in declared.notes)


def test_frames_of_text_are_read_as_files(folder):
    columns = {
        name: column.words.tolist() for name, column in read_rows("banks/a.csv").columns.items()
    }
    commas = {**columns, "income": [cell.replace(".", ",") for cell in columns["income"]]}
    one, other = (federation_from_frames({"a": frame}, **OWN) for frame in (columns, commas))
    np.testing.assert_array_equal(one.clients[0].x, other.clients[0].x)


SCHEMA = """
[columns.income]
role = "feature"
type = "number"
[columns.job]
role = "feature"
type = "category"
[columns.paid]
role = "label"
type = "yes-no"
positive = "y"
[columns.sex]
role = "sensitive"
type = "yes-no"
[files."b.csv"]
decimal = ","
thousands = "."
[files."*.tsv"]
encoding = "cp1252"
"""


def test_a_schema_declares_dialects_by_file_and_pattern(folder):
    Path("s.toml").write_text(SCHEMA)
    schema = read_schema("s.toml")
    assert dict(schema.files) == {
        "b.csv": Dialect(decimal=",", thousands="."),
        "*.tsv": Dialect(encoding="cp1252"),
    }
    Path("again.toml").write_text(write_schema(schema))
    assert read_schema("again.toml").files == schema.files
    bank("banks/b.csv", lambda x: f"{int(x):,}".replace(",", "."), ";")
    federation = load_own("banks/b.csv", schema="s.toml")
    assert federation.encoder.columns[0].mean > 1000
    with pytest.raises(DataError, match=r"column 'income': '1\.000' is 1\.000 or 1000"):
        load_own("banks/b.csv", **OWN)
    with pytest.raises(
        ConfigError, match=r"--decimal says '\.' and \[files\.\"b\.csv\"\] of the schema"
    ):
        load_own("banks/b.csv", schema="s.toml", dialect=Dialect(decimal="."))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('[files."x"]\ncomma = ","\n', "file 'x': unknown key 'comma'"),
        ('[files."x"]\ndecimal = 1\n', "file 'x': decimal is 1, expected text"),
        ('[files."x"]\ndecimal = "x"\n', "file 'x': --decimal is 'x'"),
    ],
)
def test_a_wrong_declaration_of_a_file_is_refused(tmp_path, table, message):
    (tmp_path / "s.toml").write_text(SCHEMA.partition("[files")[0] + table)
    with pytest.raises(ConfigError, match=message):
        read_schema(tmp_path / "s.toml")


def test_patterns_folders_and_files_are_put_together(folder):
    Path("other").mkdir()
    for name in ("other/a.csv", "other/.hidden.csv", "other/notes.md"):
        Path(name).write_text("a,b\n1,2\n")
    files = find_files("'banks/[ab].csv' other banks/a.csv")
    assert [str(path) for path in files.paths] == ["banks/a.csv", "other/a.csv", "banks/b.csv"]
    assert files.notes == ("other: not read, since they are no tables: notes.md",)
    assert names_of(files.paths) == ("banks/a.csv", "other/a.csv", "banks/b.csv")


def test_names_with_spaces_and_apostrophes_are_files(folder):
    for name in ("bob's file.csv", "two words.csv"):
        bank(name)
        assert [*read_files(name)] == [name.removesuffix(".csv")]


def test_a_single_pattern_keeps_its_hash_and_several_are_one_value():
    assert from_values({"data": ["clients/*.csv"]}).hash == Experiment("clients/*.csv").hash
    several = from_values({"data": ["a/*.csv", "b c.csv"]})
    assert several.data == "'a/*.csv' 'b c.csv'"
    assert several == from_values(json.loads(json.dumps({"data": several.data})))


def test_an_error_names_the_file_and_line_that_it_stands_in(folder):
    bank("banks/d.csv", rows=range(40))
    lines = Path("banks/d.csv").read_text().splitlines()
    for number, (column, message) in enumerate(
        [
            (0, r"banks/d\.csv, line 8: column 'income' holds \d+ numbers and 1 cells"),
            (2, r"banks/d\.csv, line 8: the label 'paid' is missing in 1 of 40 rows"),
            (3, r"banks/d\.csv, line 8: the sensitive column 'sex' is missing in 1 of \d+ rows"),
        ]
    ):
        cells = lines[7].split(",")
        cells[column] = "" if number else "l2"
        Path("banks/d.csv").write_text("\n".join([*lines[:7], ",".join(cells), *lines[8:], ""]))
        with pytest.raises(DataError, match=message):
            load_own("banks", **OWN)


def test_values_that_are_alike_are_named_with_the_unusual_one(folder):
    bank("banks/e.csv")
    text = Path("banks/e.csv").read_text().replace(",F\n", ",f\n")
    Path("banks/e.csv").write_text(text)
    with pytest.raises(DataError, match=r"banks/e\.csv, line 2: .*'F' and 'f'"):
        load_own("banks/a.csv banks/e.csv", **OWN)


def write_workbook(path: Path, rows: list[list[object]]) -> None:
    """Write the parts of a workbook that Excel itself writes, with two sheets."""
    office = "http://schemas.openxmlformats.org"
    related = f"{office}/officeDocument/2006/relationships"
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"

    def cell(place: str, value: object) -> str:
        if isinstance(value, bool):
            return f'<c r="{place}" t="b"><v>{int(value)}</v></c>'
        if isinstance(value, str):
            return f'<c r="{place}" t="inlineStr"><is><t>{value}</t></is></c>'
        return "" if value is None else f'<c r="{place}"><v>{value}</v></c>'

    def sheet(rows: list[list[object]]) -> str:
        lines = "".join(
            f'<row r="{r}">'
            + "".join(cell(f"{'ABC'[c]}{r}", v) for c, v in enumerate(row))
            + "</row>"
            for r, row in enumerate(rows, 1)
        )
        main = f"{office}/spreadsheetml/2006/main"
        return f'<worksheet xmlns="{main}"><sheetData>{lines}</sheetData></worksheet>'

    names = ("sheet1", "sheet2")
    sheets = "".join(
        f'<sheet name="{n}" sheetId="{i}" r:id="r{i}"/>' for i, n in enumerate(names, 1)
    )
    links = "".join(
        f'<Relationship Id="r{i}" Type="{related}/worksheet" Target="worksheets/{n}.xml"/>'
        for i, n in enumerate(names, 1)
    )
    relations = f"{office}/package/2006/relationships"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{office}/package/2006/content-types">'
        '<Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{kind}.sheet.main+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{relations}"><Relationship Id="r1" '
        f'Type="{related}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{office}/spreadsheetml/2006/main" '
        f'xmlns:r="{related}"><sheets>{sheets}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{relations}">{links}</Relationships>',
        "xl/worksheets/sheet1.xml": sheet(rows),
        "xl/worksheets/sheet2.xml": sheet([["a"]]),
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, text)


def test_an_excel_workbook_is_the_table_of_its_first_sheet(tmp_path):
    pytest.importorskip("python_calamine")
    rows = [["age", "job", "paid"], [31, "cook", True], [], [None, "Näher", False], [2.5, 7, 1]]
    write_workbook(tmp_path / "rows.xlsx", rows)
    cells = read_rows(tmp_path / "rows.xlsx")
    assert cells.columns["age"].numbers.tolist() == pytest.approx([31, np.nan, 2.5], nan_ok=True)
    assert cells.columns["job"].words.tolist() == ["cook", "Näher", "7"]
    assert cells.place(2) == f"{tmp_path / 'rows.xlsx'}, row 5"
    assert cells.notes == (f"{tmp_path / 'rows.xlsx'}: of its sheets only the first is read",)


@pytest.mark.parametrize("content", [b"PK\x03\x04", b"PK\x03\x04" + bytes(99)])
def test_a_damaged_workbook_is_refused(tmp_path, content):
    pytest.importorskip("python_calamine")
    (tmp_path / "rows.xlsx").write_bytes(content)
    with pytest.raises(DataError, match=r"rows\.xlsx cannot be read as Excel"):
        read_rows(tmp_path / "rows.xlsx")


def test_a_file_that_may_not_be_read_is_named(folder):
    if not os.geteuid():
        pytest.skip("root may read every file")
    Path("banks/a.csv").chmod(0)
    with pytest.raises(DataError, match=r"banks/a\.csv cannot be read: Permission denied"):
        load_own("banks", **OWN)


def test_dialects_of_files_are_found_by_name_pattern_and_path():
    declared = (("b.csv", Dialect(decimal=",")), ("x/*.csv", Dialect(decimal=".")))
    dialects = Dialects(DETECT, declared)
    assert [dialects.of(path).decimal for path in ("y/b.csv", "x/a.csv", "a.csv")] == [
        ",",
        ".",
        None,
    ]


def test_a_missing_header_is_told_from_a_misspelt_name(folder):
    Path("rows.csv").write_text("31,F,y\n52,M,n\n")
    with pytest.raises(DataError, match=r"unknown column 'paid'.*is the header line missing\?"):
        load_own("rows.csv", **OWN)


def test_numbers_in_one_file_and_words_in_another_are_never_categories(folder):
    bank("banks/d.csv", lambda x: "high" if x > 2000 else "low", rows=range(400))
    with pytest.raises(
        DataError, match=r"banks/d\.csv, line 2: column 'income' holds 120 numbers and 400"
    ):
        load_own("banks", **OWN)
