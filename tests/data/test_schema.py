"""A schema file gives the run of the flags it was inferred from; what contradicts it is told."""

from dataclasses import replace

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.test_frames import people, same
from fedfb.data import encode_file, federation_from_frames
from fedfb.data.conform import check_file
from fedfb.data.declare import Wanted
from fedfb.data.infer import infer
from fedfb.data.schema import ColumnSchema, Schema, bin_names
from fedfb.data.schema_file import read_schema, write_schema
from fedfb.data.statistics import add_in_clear
from fedfb.errors import ConfigError, DataError
from fedfb.tables.problems import number_lines
from fedfb.tables.read import read_rows
from own_files import load_own

FLAGS = {
    "label": "paid",
    "positive": "yes",
    "sensitive": ("town", "sex", "age"),
    "bins": ("age: 30,50",),
    "merge": ("town: c+d=rest",),
    "ignore": ("nr",),
}


def client(rows: int, seed: int) -> pandas.DataFrame:
    rng = np.random.default_rng(seed)
    town = rng.choice(list("abcd"), rows, p=(0.45, 0.45, 0.05, 0.05))
    return people(rows, seed).assign(town=town, age=rng.integers(18, 90, rows), nr=range(rows))


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Three clients, in files whose columns differ in order, and their schema in schema.toml."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clients").mkdir()
    for seed, name in enumerate(("north", "south", "west")):
        frame = client(400, seed)
        frame[np.random.default_rng(seed).permutation(frame.columns)].to_csv(
            f"clients/{name}.csv", index=False
        )
    wanted = Wanted(**FLAGS)
    cells = [read_rows(path) for path in sorted((tmp_path / "clients").iterdir())]
    (tmp_path / "schema.toml").write_text(write_schema(infer(cells, wanted).schema))
    return tmp_path


def test_a_schema_gives_the_federation_of_its_flags(files):
    by_flags = load_own("clients/*.csv", **FLAGS)
    same(by_flags, load_own("clients/*.csv", schema="schema.toml"))
    frames = {path.stem: pandas.read_csv(path) for path in (files / "clients").iterdir()}
    same(by_flags, federation_from_frames(frames, schema="schema.toml"))


def test_groups_are_named_by_column_and_value_and_ordered_by_range(files):
    names = load_own("clients/*.csv", schema="schema.toml").group_names
    assert len(names) == 3 * 2 * 3
    assert names[:3] == (
        "town=a, sex=F, age=up to 30",
        "town=a, sex=F, age=over 30 to 50",
        "town=a, sex=F, age=over 50",
    )
    assert "town=rest, sex=M, age=over 50" in names


def test_raw_rows_are_binned_and_merged_as_in_training(files):
    federation = load_own("clients/*.csv", schema="schema.toml")
    rows = "age,town,sex,income,children,job,member\n30,d,M,1,2,cook,True\n30.5,a,F,1,2,,True\n"
    (files / "new.csv").write_text(rows)
    raw = encode_file(federation.encoder, "new.csv")
    assert [federation.group_names[group] for group in raw.group] == [
        "town=rest, sex=M, age=up to 30",
        "town=a, sex=F, age=over 30 to 50",
    ]


def test_flags_that_say_the_same_as_the_schema_are_welcome(files):
    given = {"label": "paid", "sensitive": ("town", "sex", "age")}
    same(
        load_own("clients/*.csv", schema="schema.toml"),
        load_own("clients/*.csv", schema="schema.toml", **given),
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"label": "sex"}, "--label says 'sex' and the schema schema.toml says 'paid'"),
        ({"positive": "no"}, "--positive says 'no'"),
        ({"sensitive": ("sex", "town", "age")}, "--sensitive says sex,town,age and the schema"),
        ({"client_column": "town"}, "--client-column says 'town'"),
        ({"ignore": ("nr",)}, "--ignore and --schema both declare"),
        ({"bins": ("age: 3",)}, "--bins and --schema both declare"),
        ({"merge": ("town: a+b=c",)}, "--merge and --schema both declare"),
    ],
)
def test_flags_that_contradict_the_schema_are_refused(files, flags, message):
    with pytest.raises(ConfigError, match=message):
        load_own("clients/*.csv", schema="schema.toml", **flags)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("income = ", "incme = "), "not valid TOML"),
        (
            ('type = "number"', 'typ = "number"'),
            "column .*: unknown key 'typ'; did you mean 'type'",
        ),
        (('role = "label"', 'role = "lable"'), "unknown role 'lable'; did you mean 'label'"),
        (('role = "label"', 'role = "sensitive"'), "no column is the label"),
        (('role = "sensitive"', 'role = "ignored"'), "no column is sensitive"),
        (('positive = "yes"', 'positive = "maybe"'), "'maybe' is not among the values"),
        (('positive = "yes"', ""), "needs its favourable value"),
        (("bins = [30, 50]", "bins = [50, 30]"), "expected numbers that rise"),
        (("bins = [30, 50]", 'bins = ["a"]'), "expected a list of numbers"),
        (("bins = [30, 50]", ""), "have to be declared: bins"),
        (('["c", "d"]', '["c", "e"]'), "'e' is to be merged and does not occur"),
        (('scale = "standard"', 'scale = "log"'), "unknown scale 'log'"),
        (('missing = "mean"', 'missing = "category"'), "does not fit the role feature"),
        (('crossed = ["town", ', 'crossed = ["job", '), "expected the sensitive columns"),
    ],
)
def test_what_is_wrong_in_a_schema_is_told(files, change, message):
    text = (files / "schema.toml").read_text()
    if change[0].startswith("income"):
        text = text.replace("[columns.income]", "[columns.income")
    else:
        assert change[0] in text
        text = text.replace(*change)
    (files / "schema.toml").write_text(text)
    with pytest.raises((ConfigError, DataError), match=f"schema.toml.*{message}"):
        read_schema("schema.toml")


def test_cells_that_do_not_fit_are_all_found_and_stop_a_run(files):
    path = files / "clients/west.csv"
    frame = pandas.read_csv(path).astype(object)
    frame.loc[3, "income"], frame.loc[5, "job"], frame.loc[7, "sex"] = "much", "king", "X"
    frame.loc[9, "age"] = None
    frame.assign(extra=1).drop(columns="children").to_csv(path, index=False)
    rows = read_rows(path)
    problems = number_lines(check_file(rows, read_schema("schema.toml")), [rows])
    assert {(p.line, p.column, p.kind, p.count) for p in problems} == {
        (0, "extra", "undeclared column", 400),
        (0, "children", "absent column", 400),
        (5, "income", "not a number", 1),
        (7, "job", "undeclared value", 1),
        (9, "sex", "undeclared value", 1),
        (11, "age", "missing group", 1),
    }
    frame.to_csv(path, index=False)
    with pytest.raises(DataError) as refusal:
        load_own("clients/*.csv", schema="schema.toml")
    lines = str(refusal.value).splitlines()
    assert lines[:2] == ["4 problems of the files:", "clients/west.csv"]
    assert "  line 5, column 'income': 'much' is not a number" in lines


def test_a_code_declared_a_category_is_one_and_a_declared_identifier_is_a_feature(files):
    text = (files / "schema.toml").read_text()
    for column, kind in (("children", "category"), ("nr", "number")):
        before = text[text.index(f"[columns.{column}]") :].split("\n\n")[0]
        text = text.replace(before, f'[columns.{column}]\nrole = "feature"\ntype = "{kind}"\n')
    (files / "schema.toml").write_text(text)
    names = load_own("clients/*.csv", schema="schema.toml").feature_names
    assert {"children=0", "children=4", "nr"} <= set(names)


def test_scales_are_declared_stored_and_noted(files):
    text = (files / "schema.toml").read_text()
    income = text[text.index("[columns.income]") :].split("\n\n")[0]
    clipped = income.replace('scale = "standard"', 'scale = "clip"')
    (files / "schema.toml").write_text(text.replace(income, clipped))
    federation = load_own("clients/*.csv", schema="schema.toml")
    [column] = [column for column in federation.encoder.columns if column.name == "income"]
    assert column.low < column.mean < column.high
    said = "numbers were clipped to their 1% and 99% quantiles: income (known to"
    assert any(note.startswith(said) for note in federation.notes)
    again = type(federation.encoder).from_dict(federation.encoder.to_dict())
    assert again == federation.encoder


def test_a_number_of_declared_range_is_scaled_by_it_and_by_no_row(files):
    text = (files / "schema.toml").read_text()
    income = text[text.index("[columns.income]") :].split("\n\n")[0]
    asked = []

    def add(question, told, answers):
        asked.extend(value.size for said in answers.values() for value in said.values())
        return add_in_clear(question, told, answers)

    learnt = load_own("clients/*.csv", schema="schema.toml", add=add)
    before = len(asked)
    (files / "schema.toml").write_text(text.replace(income, income + "\nrange = [0, 1200]"))
    declared = load_own("clients/*.csv", schema="schema.toml", add=add)
    [column] = [column for column in declared.encoder.columns if column.name == "income"]
    assert (column.mean, column.sd) == (600.0, pytest.approx(1200 / 12**0.5))
    assert sum(asked[before:]) < sum(asked[:before])
    assert learnt.encoder != declared.encoder


@pytest.mark.parametrize("wrong", ["[5, 1]", "[1]", "[1, 1]", '["a", "b"]'])
def test_a_range_that_is_none_is_refused(files, wrong):
    text = (files / "schema.toml").read_text()
    income = text[text.index("[columns.income]") :].split("\n\n")[0]
    (files / "schema.toml").write_text(text.replace(income, f"{income}\nrange = {wrong}"))
    with pytest.raises(ConfigError, match="range"):
        load_own("clients/*.csv", schema="schema.toml")


@pytest.mark.parametrize(
    ("flags", "error", "message"),
    [
        ({"bins": ()}, DataError, "column 'age' is sensitive and has 7. different values.*--bins"),
        ({"ignore": ()}, DataError, "column 'nr' looks like an identifier.*--ignore 'nr'"),
        ({"bins": ("age 30",)}, ConfigError, "--bins 'age 30': expected 'age: 25,40,65'"),
        ({"bins": ("age: 50,30",)}, ConfigError, "expected numbers that rise"),
        ({"bins": ("town: 3",)}, DataError, "'town' is to be binned and holds 'a'"),
        ({"bins": ("income: 3", "age: 3")}, ConfigError, "'income' is to be binned and is not"),
        ({"merge": ("town: c+d",)}, ConfigError, "'c\\+d' for 'town' cannot be read"),
        ({"merge": ("town: c+x=rest",)}, ConfigError, "'x' is to be merged and does not occur"),
        ({"merge": ("town: c+d=r, d=s",)}, ConfigError, "'d' is merged twice"),
        ({"merge": ("town: c=r", "town: d=r")}, ConfigError, "column 'town' is declared twice"),
        ({"ignore": ("nrr",)}, DataError, "unknown column 'nrr'; did you mean 'nr'"),
        ({"ignore": ("sex",)}, ConfigError, "'sex' is both named and left out"),
    ],
)
def test_what_is_wrong_with_declarations_is_told(files, flags, error, message):
    with pytest.raises(error, match=message):
        load_own("clients/*.csv", **{**FLAGS, **flags})


def test_values_that_differ_in_spelling_only_are_not_taken_for_two():
    frame = people(60)
    frame.loc[3, "paid"] = "Yes"
    with pytest.raises(DataError, match="the values 'Yes' and 'yes', which are probably the same"):
        federation_from_frames(frame, "paid", "yes", "sex")
    spelt = people(60).assign(paid=["1", "0", "1.0", "0"] * 15)
    with pytest.raises(DataError, match=r"the values '1' and '1\.0'"):
        federation_from_frames(spelt, "paid", "1", "sex")
    frame = people(60)
    frame.loc[frame.index % 2 == 0, "sex"] = "f"
    with pytest.raises(DataError, match="the values 'F' and 'f'"):
        federation_from_frames(frame, "paid", "yes", "sex")
    merged = federation_from_frames(frame, "paid", "yes", "sex", merge=["sex: f+F=F"])
    assert merged.group_names == ("F", "M")


def test_values_of_the_label_are_merged_by_declaration():
    frame = people(90).assign(grade=[*"ABCDF"] * 18)
    merge = ["grade: A+B+C=passed"]
    found = federation_from_frames(frame, "grade", "passed", "sex", merge=merge, split=False)
    assert found.clients[0].y.tolist() == [1, 1, 1, 0, 0] * 18
    with pytest.raises(DataError, match="'A' never occurs in the label column 'grade'"):
        federation_from_frames(frame, "grade", "A", "sex", merge=merge)


def test_small_groups_are_named_with_the_remedy():
    frame = people(200)
    frame.loc[:3, "sex"] = "D"
    notes = federation_from_frames(frame, "paid", "yes", "sex", split=False).notes
    [note] = [note for note in notes if "are not compared" in note]
    assert "--minimum-group" in note
    assert note.endswith(": D (4). Merge them into one group by --rest NAME.")
    small = federation_from_frames(people(200), "paid", "yes", "sex").notes
    assert not any("are not compared" in note for note in small)


def test_whether_sensitive_attributes_are_features_is_noted():
    for is_given, said in ((True, "are features"), (False, "are not features")):
        found = federation_from_frames(
            people(60), "paid", "yes", ("sex", "town"), sensitive_at_prediction=is_given
        )
        [note] = [note for note in found.notes if "sensitive attributes" in note]
        assert said in note
        assert note.endswith(": sex, town")


def test_how_columns_were_read_is_noted():
    found = federation_from_frames(people(60), "paid", "yes", "sex", ignore=["town"])
    expected = "columns: numbers income, children; categories job (3), member (2); left out town"
    assert expected in found.notes


def test_ranges_are_named_by_their_ends():
    assert bin_names((0.5,)) == ("up to 0.5", "over 0.5")


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=6)


@settings(derandomize=True)
@given(
    names=st.lists(TEXT, min_size=5, max_size=5, unique=True),
    values=st.lists(TEXT, min_size=2, max_size=4, unique=True),
    edges=st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=3, unique=True),
    positive=st.integers(0, 1),
)
def test_a_schema_is_read_back_as_it_was_written(tmp_path_factory, names, values, edges, positive):
    label, group, age, number, town = names
    values = tuple(sorted(values))
    schema = Schema(
        (
            ColumnSchema(number, "feature", "number", missing="mean", scale="clip"),
            ColumnSchema(f"{number} too", "feature", "number", missing="mean", range=(-1.5, 1e9)),
            ColumnSchema(town, "feature", "category", values, missing="category"),
            ColumnSchema(age, "sensitive", "number", bins=tuple(sorted(edges))),
            ColumnSchema(group, "sensitive", "category", values, merge=((town, values),)),
            ColumnSchema(label, "label", "category", values, positive=values[positive]),
        ),
        crossed=(group, age),
        client=group,
    )
    path = tmp_path_factory.mktemp("schema") / "schema.toml"
    path.write_text(write_schema(schema), encoding="utf-8")
    assert replace(read_schema(path), source=schema.source) == schema
