"""200 malformed tables: a clear error, or the result of the table as it was meant."""

import dataclasses
import unicodedata
from collections.abc import Callable

import numpy as np
import pandas
import pytest

from data.test_frames import same
from fedfb.data import federation_from_frames
from fedfb.errors import FedFBError
from fedfb.tables.cells import MAX_COLUMNS, MISSING
from own_files import load_own

OWN = {"label": "paid", "positive": "yes", "sensitive": ("sex",)}
Rng = np.random.Generator
REFUSED = None
"""What a table comes to that nobody can mend."""


def clean(rng: Rng) -> pandas.DataFrame:
    rows = int(rng.integers(80, 160))
    return pandas.DataFrame(
        {
            "income": rng.normal(3e4, 9e3, rows).round(2),
            "children": rng.integers(0, 5, rows),
            "job": rng.choice(["cook", "Näher", "clerk, senior", "3"], rows),
            "paid": rng.choice(["yes", "no"], rows),
            "sex": rng.choice(["F", "M"], rows),
        }
    )


def csv(frame: pandas.DataFrame, **options: object) -> bytes:
    return frame.to_csv(index=False, **options).encode()


def line_of(rng: Rng, frame: pandas.DataFrame) -> int:
    return int(rng.integers(1, len(frame)))


def edited(rng: Rng, frame: pandas.DataFrame, edit: Callable[[str], str]) -> bytes:
    """Change one line of the file."""
    lines = csv(frame).decode().splitlines()
    number = line_of(rng, frame)
    lines[number] = edit(lines[number])
    return "\n".join(lines).encode()


def some_cells(rng: Rng, frame: pandas.DataFrame, column: str, value: object) -> pandas.DataFrame:
    changed = frame.astype({column: object})
    rows = rng.choice(len(frame), int(rng.integers(1, 6)), replace=False)
    changed.loc[rows, column] = value
    return changed


# What is mended: the result is that of the clean table.


def other_separator(rng, frame):
    return csv(frame, sep=str(rng.choice([";", "\t", "|"]))), frame


def byte_order_mark(rng, frame):
    return b"\xef\xbb\xbf" + csv(frame, lineterminator=str(rng.choice(["\n", "\r\n"]))), frame


def line_ends(rng, frame):
    return csv(frame, lineterminator=str(rng.choice(["\r\n", "\r"]))), frame


def blank_lines(rng, frame):
    lines = csv(frame).decode().splitlines()
    for place in rng.integers(0, len(lines), 5):
        lines.insert(int(place), "")
    return "\n".join([*lines, "", ""]).encode(), frame


def every_cell_quoted(rng, frame):
    return csv(frame, quoting=1, sep=str(rng.choice([",", ";"]))), frame


def spaces_around_cells(rng, frame):
    space = str(rng.choice([" ", "\t", "\xa0", "\u200b"]))
    padded = frame.astype(str).map(lambda cell: f"{space}{cell}{space}")
    return csv(padded.rename(columns=lambda name: f"{name} "), sep=";"), frame


def letters_written_in_two_ways(rng, frame):
    decomposed = frame.assign(job=[unicodedata.normalize("NFD", job) for job in frame["job"]])
    mixed = frame["job"].where(rng.random(len(frame)) < 0.5, decomposed["job"])
    return csv(frame.assign(job=mixed)), frame


def missing_in_many_spellings(rng, frame):
    column = str(rng.choice(["income", "children", "job"]))
    gaps = rng.random(len(frame)) < 0.2
    spelt = rng.choice(sorted(MISSING - {""}), len(frame))
    written = frame.astype(object)
    written[column] = np.where(gaps, spelt, written[column])
    meant = frame.astype(object)
    meant[column] = meant[column].mask(gaps, None)
    return csv(written), meant


def unicode_everywhere(rng, frame):
    word = "".join(rng.choice(list("ëßж中أ😀"), 4))
    renamed = frame.rename(columns={"job": word}).assign(**{word: frame["job"] + word})
    return csv(renamed), renamed


def whole_numbers_as_fractions(rng, frame):
    return csv(frame.assign(children=frame["children"].astype(float))), frame


def quoted_line_breaks(rng, frame):
    broken = frame.assign(job=frame["job"] + "\n" + "x" * int(rng.integers(1, 5)))
    return csv(broken), broken


def decimal_commas(rng, frame):
    mark = str(rng.choice([".", " ", "'", "\u202f"]))
    numbers = [f"{x:,.2f}".replace(",", "_").replace(".", ",").replace("_", mark)
               for x in frame["income"]]  # fmt: skip
    return csv(frame.assign(income=numbers), sep=";"), frame


def thousands_marks(rng, frame):
    mark = str(rng.choice([" ", "'", "\u2019", "\xa0"]))
    whole = frame.assign(income=frame["income"].astype(int))
    return csv(whole.assign(income=[f"{x:,}".replace(",", mark) for x in whole["income"]])), whole


def other_encodings(rng, frame):
    encoding = str(rng.choice(["utf-16", "utf-16-le", "latin-1", "utf-32", "utf-16-be"]))
    return csv(frame.assign(job="Näher")).decode().encode(encoding), frame.assign(job="Näher")


# What nobody can mend.


def separators_nobody_reads(rng, frame):
    return csv(frame, sep=str(rng.choice([":", "~", "^"]))), REFUSED


def header_in_another_separator(rng, frame):
    header, _, rest = csv(frame, sep=";").partition(b"\n")
    return header.replace(b";", b",") + b"\n" + rest, REFUSED


def thousands_or_decimals(rng, frame):
    mark = str(rng.choice([",", "."]))
    numbers = [f"{int(x):,}".replace(",", mark) for x in frame["income"]]
    return csv(frame.assign(income=numbers), sep=";"), REFUSED


def words_among_numbers(rng, frame):
    word = str(rng.choice(["unknown", "12O", "1.2.3", "-", "3 000 EUR", "1_000"]))
    return csv(some_cells(rng, frame, "income", word)), REFUSED


def numbers_without_end(rng, frame):
    return csv(some_cells(rng, frame, "income", str(rng.choice(["inf", "-1e999"])))), REFUSED


def names_that_stand_twice(rng, frame):
    first, second = rng.choice(frame.columns, 2, replace=False)
    return csv(frame.rename(columns={first: f" {second}"}), sep=";"), REFUSED


def column_without_name(rng, frame):
    return frame.to_csv(index=True).encode(), REFUSED


def nothing_in_the_file(rng, frame):
    contents = (b"", b"\n\n", b"  \r\n", b"\xef\xbb\xbf", csv(frame.iloc[:0]))
    return contents[int(rng.integers(len(contents)))], REFUSED


def one_row(rng, frame):
    return csv(frame.iloc[: int(rng.integers(1, 3))].assign(paid="yes")), REFUSED


def no_header(rng, frame):
    return csv(frame, header=False), REFUSED


def remark_above_the_header(rng, frame):
    return str(rng.choice(["# made in May\n", "sep=;\n", "Report 2024,,,\n"])).encode() + csv(
        frame
    ), REFUSED


def a_cell_too_many(rng, frame):
    return edited(rng, frame, lambda line: line + ",x"), REFUSED


def a_cell_too_few(rng, frame):
    return edited(rng, frame, lambda line: line.rpartition(",")[0]), REFUSED


def a_quote_that_never_ends(rng, frame):
    return edited(rng, frame, lambda line: line[: line.rindex(",") + 1] + '"F'), REFUSED


def a_file_cut_off(rng, frame):
    content = csv(frame)
    last = content.rstrip(b"\n").rfind(b"\n")
    return content[: last + 1 + int(rng.integers(1, 6))], REFUSED


def other_code_pages(rng, frame):
    word, encoding = (("Näher", "mac-roman"), ("Näher", "cp850"), ("швея", "cp1251"),
                      ("łódź", "cp1250"), ("裁縫", "shift_jis"))[int(rng.integers(5))]  # fmt: skip
    return csv(frame.assign(job=word)).decode().encode(encoding), REFUSED


def nul_bytes(rng, frame):
    return edited(rng, frame, lambda line: line.replace(",", ",\0", 1)), REFUSED


def labels_missing(rng, frame):
    return csv(some_cells(rng, frame, str(rng.choice(["paid", "sex"])), "")), REFUSED


def labels_in_two_spellings(rng, frame):
    column, value = (("paid", "Yes"), ("sex", "f"), ("paid", "y e s"))[int(rng.integers(3))]
    return csv(some_cells(rng, frame, column, value)), REFUSED


def one_label_only(rng, frame):
    return csv(frame.assign(paid=str(rng.choice(["yes", "no"])))), REFUSED


def huge_categories(rng, frame):
    words = [f"w{number}" for number in rng.integers(0, 40_000, 4200)]
    large = frame.sample(len(words), replace=True, random_state=int(rng.integers(99)))
    return csv(large.assign(job=words)), REFUSED


def identifiers(rng, frame):
    return csv(frame.assign(customer_id=rng.permutation(10**5)[: len(frame)])), REFUSED


def dates(rng, frame):
    days = pandas.date_range("2024-01-01", periods=len(frame)).strftime(
        str(rng.choice(["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%y", "%Y%m%d"]))
    )
    return csv(frame.assign(day=days)), REFUSED


def free_text(rng, frame):
    words = ["late", "again", "and", "then", "paid", "in", "full"]
    said = [" ".join(rng.permutation(words)[:6]) for _ in range(len(frame))]
    return csv(frame.assign(remark=said)), REFUSED


def too_many_columns(rng, frame):
    names = [f"c{number}" for number in range(MAX_COLUMNS)]
    wide = pandas.DataFrame(1, index=range(3), columns=[*names, "paid", "sex"])
    return csv(wide), REFUSED


def a_cell_as_long_as_a_book(rng, frame):
    return csv(some_cells(rng, frame, "job", "x" * 200_000)), REFUSED


def a_name_nobody_knows(rng, frame):
    column = str(rng.choice(["paid", "sex"]))
    return csv(frame.rename(columns={column: column.upper()})), REFUSED


MENDED = (
    other_separator,
    byte_order_mark,
    line_ends,
    blank_lines,
    every_cell_quoted,
    spaces_around_cells,
    letters_written_in_two_ways,
    missing_in_many_spellings,
    unicode_everywhere,
    whole_numbers_as_fractions,
    quoted_line_breaks,
    decimal_commas,
    thousands_marks,
    other_encodings,
)
BROKEN = {
    separators_nobody_reads: "unknown column 'paid'|2 cells, expected 1",
    header_in_another_separator: "line 2: . cells, expected 5",
    thousands_or_decimals: "line 2, column 'income': '[0-9.,]+' is [0-9.]+ or [0-9.]+, .*--decimal",
    words_among_numbers: r"column 'income' holds \d+ numbers and \d cells that are none, such as",
    numbers_without_end: "is not finite",
    names_that_stand_twice: "occurs twice in the header",
    column_without_name: "column 1 has no name",
    nothing_in_the_file: "is empty|has a header but no rows",
    one_row: "client 'rows' has 1 rows|all of the [12] training rows",
    no_header: "unknown column 'paid'|has no name|occurs twice",
    remark_above_the_header: "cells, expected|has no name",
    a_cell_too_many: r"line \d+: 6 cells, expected 5",
    a_cell_too_few: r"line \d+: [34] cells, expected 5",
    a_quote_that_never_ends: r"line \d+: .*Correct the quotes there",
    a_file_cut_off: r"line \d+: [12] cells, expected 5",
    other_code_pages: r"line \d+: not UTF-8.*--encoding (mac-roman|cp850|cp125|shift_jis)",
    nul_bytes: r"line \d+: a NUL byte",
    labels_missing: r"is missing in \d of \d+ rows",
    labels_in_two_spellings: "which are probably the same",
    one_label_only: "training rows have paid = 'yes'|'yes' never occurs",
    identifiers: "'customer_id' looks like an identifier.*--ignore 'customer_id'",
    dates: "'day' looks like a date.*--ignore 'day'",
    free_text: "'remark' looks like free text.*--ignore 'remark'",
    a_cell_as_long_as_a_book: "field larger than field limit",
    a_name_nobody_knows: "unknown column '(paid|sex)'.*Valid: ",
    huge_categories: r"'job' has [34]\d\d\d different values, and at most 2000",
    too_many_columns: "has 5002 columns, and at most 5000 can be read",
}
"""Each with what is told of it."""

CASES = [
    *((harm, seed) for harm in MENDED for seed in range(7)),
    *((harm, seed) for harm in BROKEN for seed in range(5)),
]


def test_there_are_at_least_200_cases():
    assert len(CASES) >= 200


@pytest.mark.parametrize(
    ("harm", "seed"), CASES, ids=[f"{harm.__name__}-{seed}" for harm, seed in CASES]
)
def test_a_malformed_table_is_told_or_mended(harm, seed, tmp_path):
    rng = np.random.default_rng(seed)
    content, meant = harm(rng, clean(rng))
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    if meant is REFUSED:
        with pytest.raises(FedFBError, match=BROKEN[harm]) as told:
            load_own(str(path), **OWN)
        assert len(str(told.value)) < 1500
    else:
        federation = load_own(str(path), **OWN)
        notes = tuple(note for note in federation.notes if not note.startswith(str(path)))
        expected = federation_from_frames({"rows": meant}, **OWN)
        same(dataclasses.replace(federation, notes=notes), expected)
