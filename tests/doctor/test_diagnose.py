"""All problems of files are reported at once, each under its file, with line, count and remedy."""

import json
from pathlib import Path

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfb.data import encode_file
from fedfb.data.declare import Wanted
from fedfb.data.schema_file import read_schema
from fedfb.doctor.diagnose import diagnose
from fedfb.doctor.settle import settle
from fedfb.errors import DataError
from fedfb.report.doctor import print_diagnosis, survey_values
from fedfb.tables.dialect import DETECT
from fedfb.tables.read import read_rows
from messy import bank, write_banks
from own_files import load_own

BANKS = Wanted("approved", "ja", ("sex",))
OWN = {"label": "approved", "positive": "ja", "sensitive": ("sex",)}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "banks").mkdir()
    return tmp_path / "banks"


def found(wanted: Wanted = BANKS, data: str = "banks") -> dict[tuple[str, str], list]:
    """Return the problems by kind and column."""
    by_kind: dict[tuple[str, str], list] = {}
    for problem in diagnose(data, wanted, DETECT).problems:
        by_kind.setdefault((problem.kind, problem.column), []).append(problem)
    return by_kind


def test_five_messy_files_are_known_by_file_line_and_count(folder):
    write_banks(folder)
    places = {
        key: [(Path(p.source).stem[-1], p.line, p.count, p.stops) for p in problems]
        for key, problems in found().items()
    }
    everywhere = [(letter, 2, 120, True) for letter in "abcde"]
    assert places == {
        ("identifier", "customer_id"): everywhere,
        ("date", "opened"): everywhere,
        ("dialect", ""): [("b", 0, 1, False)],
        ("other name", "income"): [("c", 0, 1, True)],
        ("spelling", "approved"): [("c", 12, 3, True)],
        ("absent column", "job"): [("d", 0, 1, True)],
        ("missing group", "sex"): [("d", 6, 2, True)],
        ("missing label", "approved"): [("d", 9, 1, True)],
        ("extra column", "branch"): [("e", 0, 1, True)],
        ("small group", "sex"): [("e", 7, 1, False)],
    }


def test_a_run_reports_what_stops_it_in_one_error(folder):
    write_banks(folder)
    with pytest.raises(DataError) as refusal:
        load_own("banks", **OWN)
    lines = str(refusal.value).splitlines()
    assert lines[0] == "8 problems of the files:"
    assert "banks/bank_d.csv has no column 'job', but banks/bank_a.csv has" in lines
    place = lines.index("banks/bank_d.csv")
    assert set(lines[place + 1 : place + 3]) == {
        "  line 6: the sensitive column 'sex' is missing in 2 of 120 rows",
        "  line 9: the label 'approved' is missing in 1 of 120 rows",
    }
    assert any("--ignore 'job,branch,customer_id,opened'" in line for line in lines)


def test_the_schema_of_fix_settles_them_and_trains(folder):
    write_banks(folder)
    settlement = settle(diagnose("banks", BANKS, DETECT))
    assert settlement.left == ()
    text = settlement.text()
    Path("schema.toml").write_text(text, encoding="utf-8")
    tables = [block for block in text.split("\n\n") if "[columns.opened]" in block]
    assert tables[0].startswith("# LEFT OUT: Column 'opened' looks like a date")
    federation = load_own("banks", schema="schema.toml")
    assert federation.client_names == tuple(f"bank_{letter}" for letter in "abcde")
    assert federation.feature_names == ("income", "age")
    counts = [len(c.y) for c in federation.clients]
    tested = np.bincount(federation.test.client).tolist()
    assert [a + b for a, b in zip(counts, tested, strict=True)] == [120, 120, 120, 117, 120]
    assert (
        "rows without a label, group or client were left out, as declared: 2 of 120 in "
        "banks/bank_d.csv (sex), 1 of 120 in banks/bank_d.csv (approved)"
    ) in federation.notes
    by_name = dict(zip(federation.client_names, federation.clients, strict=True))
    assert all(0 < by_name[f"bank_{letter}"].y.mean() < 1 for letter in "abcde")


def test_renamed_columns_and_decimals_are_read_as_in_clean_files(folder):
    """The settled files give the numbers of the same files without faults."""
    write_banks(folder)
    Path("schema.toml").write_text(settle(diagnose("banks", BANKS, DETECT)).text())
    messy = load_own("banks", schema="schema.toml")
    Path("clean").mkdir()
    for seed, letter in enumerate("abcde", start=1):
        rows = bank(seed).drop(columns="job")
        if letter == "c":
            rows.loc[[10, 20, 30], "approved"] = "ja"
        if letter == "d":
            rows = rows.drop(index=[4, 40, 7])
        if letter == "e":
            rows.loc[5, "sex"] = "diverse"
        rows.to_csv(f"clean/bank_{letter}.csv", index=False)
    clean = load_own("clean", ignore=("customer_id", "opened"), **OWN)
    for one, other in zip(messy.clients, clean.clients, strict=True):
        np.testing.assert_array_equal(one.x, other.x)
        np.testing.assert_array_equal(one.y, other.y)


def write(name: str, frame: pandas.DataFrame) -> None:
    frame.to_csv(f"banks/{name}.csv", index=False)


def clean_bank(seed: int, rows: int = 120) -> pandas.DataFrame:
    return bank(seed, rows).drop(columns=["customer_id", "opened"])


def test_clean_files_have_no_problems(folder):
    for seed in range(3):
        write(f"c{seed}", clean_bank(seed))
    diagnosis = diagnose("banks", BANKS, DETECT)
    assert print_diagnosis(diagnosis) == "3 files, 360 rows: no problems.\n"
    assert not diagnosis.stops


def label_copies(label: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return columns that tell the label: renamed, negated, as numbers, and within rounding."""
    yes = label == "ja"
    return {
        "renamed": np.where(yes, "good", "bad"),
        "negated": np.where(yes, 0, 1),
        "three words": np.where(yes, rng.choice(["paid", "early"], len(yes)), "late"),
        "rounded": np.where(yes, 0.999, 0.001) + rng.uniform(0, 0.001, len(yes)),
        "code": np.where(yes, rng.choice([1, 3, 5], len(yes)), rng.choice([2, 4], len(yes))),
    }


@settings(max_examples=10, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6))
def test_copies_of_the_label_are_found_and_independent_columns_are_not(tmp_path_factory, seed):
    rng = np.random.default_rng(seed)
    rows = clean_bank(seed, 200)
    copies = label_copies(rows["approved"].to_numpy(), rng)
    others = {
        "coin": rng.choice(["a", "b"], 200),
        "number": rng.normal(size=200),
        "many": rng.integers(0, 60, 200).astype(str) + "x",
    }
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    rows.assign(**copies, **others).to_csv(path, index=False)
    problems = found(data=str(path))
    tells = {column for kind, column in problems if kind == "label copy"}
    assert tells == set(copies)


def test_codes_for_missing_values_are_found_and_count_as_missing(folder):
    rows = clean_bank(1, 200).assign(hours=np.arange(200) % 41, debts=np.arange(200) % 7)
    rows.loc[::20, "hours"], rows.loc[::25, "debts"] = 999, -1
    write("a", rows)
    problems = found()
    [hours], [debts] = problems["code", "hours"], problems["code", "debts"]
    assert (hours.count, hours.line, hours.example, hours.stops) == (10, 2, "999", False)
    assert (debts.count, debts.example) == (8, "-1")
    assert ("code", "age") not in problems

    Path("schema.toml").write_text(settle(diagnose("banks", BANKS, DETECT)).text())
    federation = load_own("banks", schema="schema.toml")
    columns = {column.name: column for column in federation.encoder.columns}
    assert columns["hours"].indicator
    assert columns["hours"].mean < 41
    raw = encode_file(federation.encoder, "banks/a.csv")
    place = federation.feature_names.index("hours")
    coded = rows["hours"] == 999
    assert (raw.x[coded, place] == 0).all()
    assert (raw.x[coded, place + 1] == 1).all()


def test_words_among_numbers_become_missing_and_their_line_is_known(folder):
    rows = clean_bank(1, 200).astype({"income": object})
    rows.loc[17, "income"] = "k.A."
    write("a", clean_bank(2, 200))
    write("b", rows)
    [problem] = found()["mixture", "income"]
    assert (problem.source, problem.line, problem.count) == ("banks/b.csv", 19, 1)
    Path("schema.toml").write_text(settle(diagnose("banks", BANKS, DETECT)).text())
    assert 'blank = ["k.A."]' in Path("schema.toml").read_text()
    assert "income" in load_own("banks", schema="schema.toml").feature_names


def test_spellings_of_features_become_one_category(folder):
    rows = clean_bank(1, 200)
    rows.loc[::4, "job"] = [f"{job.upper()}  " for job in rows.loc[::4, "job"]]
    write("a", rows)
    [*problems] = found()["spelling", "job"]
    assert len(problems) == len(set(rows["job"].str.strip().str.lower()))
    assert not any(problem.stops for problem in problems)
    Path("schema.toml").write_text(settle(diagnose("banks", BANKS, DETECT)).text())
    names = load_own("banks", schema="schema.toml").feature_names
    expected = {f"job={job}" for job in ("clerk", "cook", "nurse", "Bäcker")}
    assert {name for name in names if name.startswith("job")} == expected


def test_labels_in_other_words_stop_a_run_and_are_translated(folder):
    write("a", clean_bank(1).replace({"approved": {"ja": "yes", "nein": "no"}}))
    write("b", clean_bank(2))
    wanted = BANKS._replace(positive="yes")
    [problem] = found(wanted)["other values", "approved"]
    assert (problem.source, problem.stops) == ("banks/b.csv", True)
    assert problem.option == "--merge 'approved: ja=yes, nein=no'"
    Path("schema.toml").write_text(settle(diagnose("banks", wanted, DETECT)).text())
    federation = load_own("banks", schema="schema.toml")
    assert all(client.y.mean() > 0.1 for client in federation.clients)


def test_repeated_rows_copies_and_shared_rows_are_found(folder):
    rows = clean_bank(1)
    write("a", pandas.concat([rows, rows.iloc[[3, 4]]]))
    write("b", pandas.concat([clean_bank(2), rows.iloc[[9]]]))
    write("c", pandas.concat([rows, rows.iloc[[3, 4]]]))
    problems = found()
    [repeated] = problems["repeated rows", ""]
    assert (repeated.source, repeated.count, repeated.line) == ("banks/a.csv", 2, 122)
    [shared] = problems["shared rows", ""]
    assert (shared.source, shared.count, shared.line) == ("banks/b.csv", 1, 122)
    assert shared.what.endswith("also in banks/a.csv")
    [copy] = problems["copy", ""]
    assert (copy.source, copy.what) == ("banks/c.csv", "has the same rows as banks/a.csv")


def test_equal_rows_of_few_categories_are_no_copies(folder):
    rng = np.random.default_rng(0)
    columns = {name: rng.choice(["x", "y"], 300) for name in ("p", "q", "sex", "approved")}
    write("a", pandas.DataFrame(columns).replace({"approved": {"x": "ja", "y": "nein"}}))
    assert not {kind for kind, _ in found()} & {"repeated rows", "shared rows", "copy"}


def test_empty_constant_and_client_columns_are_found(folder):
    for seed, name in enumerate("abc"):
        rows = clean_bank(seed).assign(land="DE", note="", bank=name, job=1)
        write(name, rows.assign(job="" if name == "b" else rows["age"] % 3))
    problems = found()
    assert [p.source for p in problems["empty", "job"]] == ["banks/b.csv"]
    for kind, column in (("constant", "land"), ("empty", "note"), ("client copy", "bank")):
        assert [p.count for p in problems[kind, column]] == [120, 120, 120]
    schema = settle(diagnose("banks", BANKS, DETECT)).schema
    assert [c.name for c in schema.of("ignored")] == ["land", "note", "bank"]


def test_numbers_in_one_file_and_text_in_another_are_named(folder):
    write("a", clean_bank(1).assign(grade=np.arange(120) % 5))
    write("b", clean_bank(2).assign(grade=[f"G{i % 5}" for i in range(120)]))
    write("c", clean_bank(3).assign(grade=np.arange(120) % 5))
    [problem] = found()["kinds differ", "grade"]
    assert (problem.source, problem.count, problem.example) == ("banks/b.csv", 120, "G0")


def test_rare_categories_and_a_client_of_one_label_are_found(folder):
    rows = clean_bank(1)
    rows.loc[50, "job"] = "pilot"
    write("a", rows)
    write("b", clean_bank(2).assign(approved="nein"))
    problems = found()
    [rare] = problems["rare values", "job"]
    assert (rare.source, rare.line, rare.example) == ("banks/a.csv", 52, "pilot")
    [label] = problems["one label", "approved"]
    assert label.what == "client 'b': none of its 120 rows have approved = 'ja'"
    assert not label.stops


def test_files_that_cannot_be_read_do_not_hide_the_others(folder):
    write("a", clean_bank(1))
    Path("banks/b.csv").write_bytes(b'x,y\n1,"2\n')
    Path("banks/c.csv").write_text("")
    Path("banks/d.parquet").write_bytes(b"PAR1 and no more")
    diagnosis = diagnose("banks", BANKS, DETECT)
    unreadable = [p.source for p in diagnosis.problems if p.kind == "unreadable"]
    assert sorted(unreadable) == ["banks/b.csv", "banks/c.csv", "banks/d.parquet"]
    assert [file.name for file in diagnosis.files] == ["banks/a.csv"]
    with pytest.raises(DataError) as refusal:
        load_own("banks", **OWN)
    assert all(name in str(refusal.value) for name in unreadable)
    for name in ("a.csv", "b.csv"):
        Path("banks", name).unlink()
    text = print_diagnosis(diagnose("banks", BANKS, DETECT))
    assert text.startswith("2 files, 0 rows, 2 not readable: 1 problem, of which 1 stops a run.")


def test_a_file_of_one_row_stops_a_run_beside_other_problems(folder):
    write("a", bank(1))
    write("b", bank(2, 1))
    [problem] = found()["few rows", ""]
    assert (problem.source, problem.stops) == ("banks/b.csv", True)
    with pytest.raises(DataError, match=r"(?s)3 problems.*client 'b' has 1 rows"):
        load_own("banks", **OWN)


def test_parquet_counts_rows_and_one_file_may_name_its_clients(folder):
    rows = pandas.concat([clean_bank(s).assign(bank=f"b{s}") for s in range(3)], ignore_index=True)
    rows = rows.astype({"sex": object})
    rows.loc[[130, 131], "sex"] = None
    rows.loc[rows["bank"] == "b2", "approved"] = "ja"
    rows.to_parquet("banks/all.parquet", index=False)
    problems = found(BANKS._replace(client_column="bank"))
    [group] = problems["missing group", "sex"]
    assert (group.line, group.unit, group.count) == (131, "row", 2)
    [label] = problems["one label", "approved"]
    assert label.what == "client 'b2': all of its 120 rows have approved = 'ja'"


def test_many_files_are_summarised_within_80_columns(folder):
    for seed in range(25):
        rows = bank(seed, 40).assign(region=seed % 3) if seed % 10 == 0 else bank(seed, 40)
        write(f"bank_{seed:02}", rows)
    text = print_diagnosis(diagnose("banks", BANKS, DETECT))
    assert max(map(len, text.splitlines())) <= 80
    assert "25 files, 1,000 rows" in text
    assert len(text.splitlines()) < 90
    [line] = [line for line in text.splitlines() if "region: in few files only" in line]
    assert line.split()[-2:] == ["3", "3"]


def test_without_a_label_candidates_are_named(folder):
    write("a", clean_bank(1))
    diagnosis = diagnose("banks", Wanted("", "", ()), DETECT)
    assert diagnosis.candidates.label == (("approved", ("ja", "nein")),)
    assert [name for name, _ in diagnosis.candidates.sensitive] == ["age", "sex"]
    assert "--label: candidates are approved (ja, nein)" in print_diagnosis(diagnosis)


def test_ages_as_groups_are_ranges_in_the_schema(folder):
    write("a", clean_bank(1, 300))
    wanted = BANKS._replace(sensitive=("age",))
    assert ("many groups", "age") in found(wanted)
    settlement = settle(diagnose("banks", wanted, DETECT))
    assert settlement.left == ()
    Path("schema.toml").write_text(settlement.text())
    assert len(read_schema("schema.toml").named["age"].bins) == 3
    assert len(load_own("banks", schema="schema.toml").group_names) == 4


def test_what_no_schema_settles_is_left(folder):
    write("a", clean_bank(1))
    write("b", clean_bank(2).drop(columns="sex"))
    Path("banks/c.csv").write_text("")
    left = settle(diagnose("banks", BANKS, DETECT)).left
    assert [(p.kind, p.source) for p in left] == [
        ("unreadable", "banks/c.csv"),
        ("absent column", "banks/b.csv"),
    ]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    lines=st.lists(st.sampled_from(["1,a", "2,b", "", " ", "3, c"]), min_size=1, max_size=12),
    end=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
    above=st.integers(0, 2),
)
def test_lines_are_those_of_the_csv_reader(tmp_path_factory, lines, end, last, above):
    """Plain files are counted by their line ends; the law is the reader of Python."""
    rows = [number for number, line in enumerate(lines) if line and line != " "]
    if not rows or " " in lines:
        return
    path = tmp_path_factory.mktemp("lines") / "rows.csv"
    text = end.join([""] * above + ["x,y", *lines]) + end * last
    path.write_bytes(text.encode())
    cells = read_rows(path)
    expected = [number + above + 2 for number in rows]
    assert cells.lines_of(np.arange(len(rows))) == expected
    path.write_bytes(text.replace("x,y", '"x",y').encode())
    assert read_rows(path).lines_of(np.arange(len(rows))) == expected


def test_json_has_all_that_the_table_has(folder):
    write_banks(folder)
    diagnosis = diagnose("banks", BANKS, DETECT)
    values = json.loads(survey_values(diagnosis))
    assert values["stops"] is True
    assert [file["encoding"] for file in values["files"]][:2] == ["utf-8", "cp1252"]
    assert len(values["problems"]) == len(diagnosis.problems)
    assert values["problems"][0].keys() >= {"source", "kind", "line", "count", "option", "stops"}
    assert values["tables"][1]["row_names"] == [f"bank_{letter}" for letter in "abcde"]
