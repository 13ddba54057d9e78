"""Files that programs and people break: the right table, or an error that names file and line."""

import gzip
import io
import os
import threading
import zipfile

import pyarrow
import pytest

from fedfb.errors import FedFBError
from fedfb.tables.read import read_rows
from fedfb.tables.sources import find_files

ROWS = "age,job,paid\n" + "".join(f"{20 + i},cook,yes\n" for i in range(50))
TABLE = {"age": [str(20 + i) for i in range(50)], "job": ["cook"] * 50, "paid": ["yes"] * 50}
LONG = "age,job\n" + "31,cook\n" * 200_000


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    return file.getvalue()


def parquet() -> bytes:
    from pyarrow import parquet

    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.table(TABLE), sink)
    return sink.getvalue().to_pybytes()


def zst(content: str) -> bytes:
    return pyarrow.compress(content.encode(), "zstd", asbytes=True)


def last(column: str, *cells: str) -> dict[str, list[str]]:
    return {column: list(cells)}


GOOD = {
    "gz by its content": ("rows.csv", gzip.compress(ROWS.encode()), TABLE),
    "gz in two members": (
        "rows.csv.gz",
        gzip.compress(ROWS[:13].encode()) + gzip.compress(ROWS[13:].encode()),
        TABLE,
    ),
    "zst by its content": ("rows.txt", zst(ROWS), TABLE),
    "a mark of UTF-8": ("rows.csv", "\ufeff" + ROWS, TABLE),
    "a mark of UTF-16 LE": ("rows.csv", b"\xff\xfe" + ROWS.encode("utf-16-le"), TABLE),
    "a mark of UTF-16 BE": ("rows.csv", b"\xfe\xff" + ROWS.encode("utf-16-be"), TABLE),
    "a mark of UTF-32": ("rows.csv", ROWS.encode("utf-32"), TABLE),
    "UTF-16 without a mark": ("rows.csv", ROWS.encode("utf-16-be"), TABLE),
    "quotes with line breaks": ("rows.csv", 'a,b\n"1\n\n2",3\n', {"a": ["1\n\n2"], "b": ["3"]}),
    "a header with a line break": (
        "rows.csv",
        '"in\ncome",b\n1,2\n',
        {"in\ncome": ["1"], "b": ["2"]},
    ),
    "line ends of three systems": (
        "rows.csv",
        "a,b\r1,2\n3,4\r\n5,6",
        {"a": ["1", "3", "5"], "b": ["2", "4", "6"]},
    ),
    "marks of direction": (
        "rows.csv",
        "\u200fage\u200e,job\n\u202b31\u202c,\u2067cook\u2069\n",
        {"age": ["31"], "job": ["cook"]},
    ),
    "spaces without width": (
        "rows.csv",
        "a\u200bge,job\n31,co\u200bok\n31,cook\ufeff\n",
        {"age": ["31", "31"], "job": ["cook", "cook"]},
    ),
    "a Parquet file named .csv": ("rows.csv", parquet(), TABLE),
    "a CSV file named .parquet": ("rows.parquet", ROWS, TABLE),
    "Arabic digits": ("rows.csv", "age,b\n\u0663\u0661,2\n", {"age": [31.0]}),
    "full-width digits": ("rows.csv", "age,b\n\uff13\uff11,2\n", {"age": [31.0]}),
    "a Unicode minus": ("rows.csv", "x,b\n\u22123.5,2\n4,1\n", {"x": [-3.5, 4.0]}),
    "a last line without an end": ("rows.csv", ROWS.rstrip("\n"), TABLE),
    "separators at the ends of lines": ("rows.csv", ROWS.replace("\n", ",\n"), TABLE),
    "semicolons at the ends of lines": (
        "rows.csv",
        ROWS.replace(",", ";").replace("\n", ";;\n"),
        TABLE,
    ),
    "a header whose name has a separator": (
        "rows.csv",
        'a;"b,c,d"\n1;2\n3;4\n',
        {"a": ["1", "3"], "b,c,d": ["2", "4"]},
    ),
    "separators in quotes on all lines": (
        "rows.csv",
        'a;b\n"1,2,3";x\n"2,3,4";y\n',
        {"b": ["x", "y"]},
    ),
    "more commas in the header than cells": (
        "rows.csv",
        "a, b, c;d\n1;2\n3;4\n5;6\n",
        {"a, b, c": ["1", "3", "5"], "d": ["2", "4", "6"]},
    ),
    "a line that names the separator": ("rows.csv", "sep=;\na;b\n1;2\n", {"a": ["1"], "b": ["2"]}),
    "names that differ in case": ("rows.csv", "Age,age\n1,2\n", {"Age": ["1"], "age": ["2"]}),
    "blank lines and spaces": ("rows.csv", "\n  \na,b\n\n1,2\n\n", {"a": ["1"], "b": ["2"]}),
    "hexadecimal": ("rows.csv", "x,b\n0x10,1\n", {"x": ["0x10"]}),
    "underscores": ("rows.csv", "x,b\n1_000,1\n", {"x": ["1_000"]}),
}
"""File name, content, and the columns that it means: text, or numbers."""

BAD = {
    "gz cut short": (
        "rows.csv.gz",
        gzip.compress(LONG.encode())[:-9],
        "cannot be read as gzip: .runcated",
    ),
    "gz without its end": (
        "rows.csv.gz",
        gzip.compress(ROWS.encode())[:-3],
        "cannot be read as gzip",
    ),
    "gz with garbage behind": (
        "rows.csv.gz",
        gzip.compress(ROWS.encode()) + b"garbage",
        "cannot be read as gzip",
    ),
    "gz with another sum": (
        "rows.csv",
        gzip.compress(ROWS.encode())[:-8] + b"12345678",
        "cannot be read as gzip",
    ),
    "zst cut short": ("rows.csv.zst", zst(LONG)[:-5], "cannot be read as zstd"),
    "text named .gz": ("rows.csv.gz", ROWS, "cannot be read as gzip"),
    "NUL": ("rows.csv", ROWS.replace("24", "2\0"), "line 6: a NUL byte"),
    "100,000 columns": (
        "rows.csv",
        ",".join(f"c{i}" for i in range(100_000)) + "\n" + "1," * 99_999 + "1\n",
        "has 100000 columns",
    ),
    "a short row among many": (
        "rows.csv",
        LONG + "31\n" + LONG[8:],
        "line 200002: 1 cells, expected 2",
    ),
    "a long row among many": (
        "rows.csv",
        LONG + "31,cook,2\n" + LONG[8:],
        "line 200002: 3 cells, expected 2",
    ),
    "a quote never closed": ("rows.csv", ROWS + '70,"cook,yes\n', "line 52: .*Correct the quotes"),
    "a name twice in two forms": (
        "rows.csv",
        "caf\u00e9,cafe\u0301\n1,2\n",
        "occurs twice in the header",
    ),
    "a name twice beside marks": ("rows.csv", "a,\u200fa\n1,2\n", "occurs twice in the header"),
    "only a header": ("rows.csv", "a,b\n", "has a header but no rows"),
    "empty": ("rows.csv", "", "is empty"),
    "only blank lines": ("rows.csv", "\n \n\t\n", "is empty"),
    "only a comment": ("rows.csv", "# made in May\n", "has a header but no rows"),
    "an Excel file named .csv": ("rows.csv", zipped(), "an Excel workbook"),
    "a picture named .csv": ("rows.csv", b"\x89PNG\r\n\x1a\n" + bytes(range(99)), "a PNG picture"),
    "an old Excel file": ("rows.xls", b"\xd0\xcf\x11\xe0" + bytes(99), "an old Excel workbook"),
    "bytes at random": ("rows.csv", bytes(range(250, -1, -1)) * 4, "not UTF-8"),
    "a damaged Parquet file": ("rows.parquet", parquet()[:-9], "cannot be read as Parquet"),
    "a cell as long as a book": ("rows.csv", f"a,b\n{'x' * 200_000},1\n", "line 2: field larger"),
    "the header again": ("rows.csv", ROWS + ROWS, "line 52 repeats the header"),
    "a separator of two letters": ("rows.csv", "a||b\n1||2\n", "column 2 has no name"),
    "no name among names": ("rows.csv", "a,,b\n1,2,3\n", "column 2 has no name"),
    "cells under no name": ("rows.csv", "a,b,\n1,2,3\n", "column 3 has no name"),
    "a separator that no line has": ("rows.csv", "sep=;\na,b\n1,2\n", "line 2: .*Remove line 1"),
    "half of UTF-16": (
        "rows.csv",
        b"\xff\xfe" + ROWS.encode("utf-16-le")[:-1],
        "line 51: not utf-16-le",
    ),
    "UTF-8 with one broken byte": (
        "rows.csv",
        "job,x\nKöchin,1\n".encode() + b"K\xe4 \xa4chin,2\n",
        "line 3: not UTF-8",
    ),
}
"""File name, content, and what the message says beside the name of the file."""


@pytest.mark.parametrize(("name", "content", "columns"), GOOD.values(), ids=GOOD)
def test_what_a_file_means_is_read(tmp_path, name, content, columns):
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    cells = read_rows(path)
    for column, values in columns.items():
        read = cells.columns[column]
        is_text = isinstance(values[0], str)
        assert (read.words if is_text else read.numbers).tolist() == values
    assert set(columns) <= set(cells.columns)
    assert columns is not TABLE or list(cells.columns) == list(TABLE)


@pytest.mark.parametrize(("name", "content", "message"), BAD.values(), ids=BAD)
def test_what_nobody_can_read_is_refused_with_its_place(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(FedFBError, match=message) as refusal:
        read_rows(path)
    assert str(path) in str(refusal.value)
    assert len(str(refusal.value)) < 1000


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("1e400", "line 3, column 'x': '1e400' is not finite"),
        ("inf", "line 3, .*'inf' is not finite"),
    ],
)
def test_numbers_without_end_are_refused_with_their_line(tmp_path, cell, message):
    from fedfb.tables.read import read_csv

    (tmp_path / "rows.csv").write_text(f"x,b\n1,2\n{cell},3\n")
    with pytest.raises(FedFBError, match=message):
        read_csv(tmp_path / "rows.csv")


def test_a_link_that_leads_nowhere_is_refused(tmp_path):
    (tmp_path / "rows.csv").symlink_to(tmp_path / "absent.csv")
    for data in ("rows.csv", "*.csv"):
        with pytest.raises(FedFBError, match=r"is a link to .*absent.csv', which does not exist"):
            find_files(str(tmp_path / data))


def test_a_pipe_is_read_once_and_names_lines(tmp_path):
    reading, writing = os.pipe()
    os.write(writing, b"a,b\n1,2\n3\n")
    os.close(writing)
    for _ in range(2):
        with pytest.raises(FedFBError, match=f"/dev/fd/{reading}, line 3: 1 cells, expected 2"):
            read_rows(f"/dev/fd/{reading}")
    os.close(reading)


def test_a_named_pipe_with_compressed_content_is_a_file(tmp_path):
    path = tmp_path / "rows.fifo"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(gzip.compress(ROWS.encode()),))
    writer.start()
    [file] = find_files(str(path)).paths
    assert read_rows(file).columns["job"].words.tolist() == TABLE["job"]
    writer.join()
