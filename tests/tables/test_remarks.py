"""Files as spreadsheets and people leave them: titles, units, words for yes, other forms."""

import numpy as np
import pytest

from fedfb.data.declare import Wanted
from fedfb.doctor.diagnose import diagnose
from fedfb.errors import DataError
from fedfb.tables.dialect import DETECT
from fedfb.tables.read import read_rows
from own_files import load_own

ROWS = 60
ROLES = {"label": "paid", "positive": "yes", "sensitive": ("sex",)}


def columns(**others):
    rng = np.random.default_rng(0)
    return {
        "income": [f"{n:.2f}" for n in rng.lognormal(8, 0.5, ROWS)],
        "sex": rng.choice(["F", "M"], ROWS).tolist(),
        "paid": rng.choice(["yes", "no"], ROWS).tolist(),
        **others,
    }


def write(path, table, above="", between="", mark=","):
    lines = [mark.join(cells) for cells in zip(*table.values(), strict=True)]
    half = len(lines) // 2
    text = [mark.join(table), *lines[:half], *([between] if between else []), *lines[half:]]
    path.write_text(above + "\n".join(text) + "\n")
    return str(path)


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize(
    ("above", "header"),
    [("Loans of 2024\n", 2), ("Loans\n\n", 3), ("Loans{0}{0}\n{0}{0}\n", 3), ("# a\n# b\n", 3)],
)
def test_a_title_above_the_header_is_refused_with_both_lines(tmp_path, above, header, mark):
    path = write(tmp_path / "rows.csv", columns(), above.format(mark), mark=mark)
    with pytest.raises(DataError, match=rf"rows.csv, line 1: 1 cells.* \(line {header}, it seems"):
        read_rows(path)


def test_a_header_without_the_name_of_the_last_column_is_no_title(tmp_path):
    (tmp_path / "rows.csv").write_text("a,\n" + "1,\n" * 9)
    assert [*read_rows(tmp_path / "rows.csv").columns] == ["a"]
    (tmp_path / "rows.csv").write_text("a,b\n" + "1,2,3\n" * 9)
    with pytest.raises(DataError, match="line 1: 2 cells, expected 3 as in the rows below"):
        read_rows(tmp_path / "rows.csv")


def test_two_files_one_behind_the_other_repeat_the_header_also_with_its_mark(tmp_path):
    for mark in ("", "\ufeff"):
        path = write(tmp_path / "rows.csv", columns(), between=f"{mark}income,sex,paid")
        with pytest.raises(DataError, match="line 32 repeats the header"):
            read_rows(path)


@pytest.mark.parametrize(
    ("content", "form"),
    [
        ('[{"a": 1}]', "a JSON file"),
        ('{"a": 1}\n{"a": 2}\n', "a JSON file"),
        ("<!DOCTYPE html>\n<table></table>", "an HTML page"),
        ("<?xml version='1.0'?><rows/>", "an XML file"),
    ],
)
def test_other_forms_of_tables_are_named(tmp_path, content, form):
    (tmp_path / "rows.csv").write_text(content)
    with pytest.raises(DataError, match=f"rows.csv is {form}, not a table in text"):
        read_rows(tmp_path / "rows.csv")


@pytest.mark.parametrize(
    ("cells", "example"),
    [
        ([f"{n} kg" for n in range(ROWS)], "'0 kg': a unit"),
        ([f"{n / 10}k" for n in range(ROWS)], "'0.0k': a unit"),
        ([f"{n} m²" if n % 3 else str(n) for n in range(ROWS)], "'1 m²': a unit"),
        ([f"{n}°C" for n in range(ROWS)], "'0°C': a unit"),
        ([f"{n % 24:02d}:{n:02d}" for n in range(ROWS)], "'00:00': a time of day"),
    ],
)
def test_numbers_with_units_are_no_categories(tmp_path, cells, example):
    path = write(tmp_path / "rows.csv", columns(load=cells))
    with pytest.raises(DataError) as refusal:
        load_own(path, **ROLES, split_seed=1)
    assert f"line {3 if 'm²' in example else 2}: column 'load'" in str(refusal.value)
    assert example in str(refusal.value)


@pytest.mark.parametrize("letters", ["ABCDEFGH", "xyz"])
def test_codes_that_end_in_letters_stay_categories(tmp_path, letters):
    few = [f"{n % 4}{letters[n % len(letters)]}" for n in range(ROWS)]
    federation = load_own(write(tmp_path / "rows.csv", columns(code=few)), **ROLES)
    assert any(name.startswith("code=") for name in federation.feature_names)


def test_words_for_yes_of_several_languages_are_reported(tmp_path):
    words = (["0", "1", "true", "Ja", "nein", "False"] * ROWS)[:ROWS]
    path = write(tmp_path / "rows.csv", columns(owner=words))
    problems = diagnose(path, Wanted("paid", "yes", ("sex",)), DETECT).problems
    assert [(p.kind, p.count) for p in problems if p.column == "owner"] == [("spelling", 20)] * 2


def test_numbers_that_cannot_be_added_up_are_found_before_a_run(tmp_path):
    incomes = columns()["income"]
    path = write(tmp_path / "rows.csv", columns(income=[*incomes[:-3], *["1e308"] * 3]))
    [problem] = diagnose(path, Wanted("paid", "yes", ("sex",)), DETECT).problems
    assert (problem.kind, problem.stops, problem.count, problem.line) == ("not finite", True, 3, 59)
    with pytest.raises(DataError, match="feature 'income' is not finite"):
        load_own(path, **ROLES)


def test_a_backslash_and_n_is_a_missing_cell_as_databases_write_it(tmp_path):
    cells = ["\\N" if n % 5 == 0 else str(n) for n in range(ROWS)]
    column = read_rows(write(tmp_path / "rows.csv", columns(age=cells))).columns["age"]
    assert np.isnan(column.numbers).sum() == ROWS // 5
