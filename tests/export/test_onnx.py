"""The ONNX file decides raw rows as fedfb does: preprocessing and thresholds inside."""

import os

import numpy as np
import onnxruntime
import pytest

from export.own_rows import SETTINGS, write_rows
from fedfb.data import encode_file
from fedfb.data.columns import NumberColumn
from fedfb.data.derive import Bins
from fedfb.errors import ConfigError
from fedfb.estimator import FedFBThresholdsClassifier
from fedfb.experiments.run_folder import load_model
from fedfb.export.formats import coefficients, of_classifier
from fedfb.export.handover import made_up_rows, on_an_edge, take_over
from fedfb.export.to_onnx import onnx_model, run_onnx
from fedfb.tables.csv_file import read_cells
from fedfb.tables.table import Table

METHODS = [
    {"algorithm": "fedfb"},
    {"algorithm": "fedfb", "sensitive_at_prediction": False},
    {"algorithm": "fedfb", "model": "mlp", "hidden": (7, 3)},
    {"algorithm": "fedfb-thresholds", "variant": "mixed", "notion": "eod"},
    {"algorithm": "hardt", "model": "mlp", "notion": "eo"},
    {"algorithm": "lft-ensemble", "variant": "randomised"},
    {"algorithm": "lft-ensemble", "variant": "soft", "model": "mlp"},
    {"algorithm": "lft-ensemble", "variant": "vote", "precision": "float64"},
    {"algorithm": "lft-fedavg", "sensitive_at_prediction": False},
]


def named(settings):
    return "-".join(str(value) for value in settings.values())


def assert_same(hand, table):
    """Scores to 1e-6; decisions, but for rows where rounding decides."""
    found, ours = run_onnx(onnx_model(hand).SerializeToString(), table), hand.decide(table)
    np.testing.assert_allclose(found.score, ours.score, rtol=0, atol=1e-6)
    clear = ~on_an_edge(hand, table)
    assert clear.mean() > 0.98
    np.testing.assert_allclose(found.decision[:, clear], ours.decision[:, clear], rtol=0, atol=1e-6)


def typed_as_read(hand, path):
    """The rows of a file as whoever has only numpy would read them."""
    cells = read_cells(path).as_text().columns
    columns = {
        name: np.array([float(cell or "nan") for cell in cells[name]])
        if number
        else np.array(cells[name], object)
        for name, number in hand.reading.columns.items()
    }
    return Table(columns, "new rows")


@pytest.mark.parametrize("settings", METHODS, ids=named)
def test_own_rows_with_gaps_unseen_values_and_crossed_groups(trained, tmp_path, settings):
    write_rows(tmp_path / "rows.csv")
    new = write_rows(tmp_path / "new.csv", seed=1, unseen=True)
    _, folder = trained(data=str(tmp_path / "rows.csv"), **{**SETTINGS, **settings})
    hand = take_over(folder)
    assert_same(hand, typed_as_read(hand, new))
    assert_same(hand, made_up_rows(hand))


def test_merged_and_new_groups_are_decided_as_the_rest_group(trained, tmp_path):
    write_rows(tmp_path / "rows.csv")
    new = write_rows(tmp_path / "new.csv", seed=1)
    merged = {"rest": "others", "minimum_group": 60, "sensitive_at_prediction": True}
    _, folder = trained(data=str(tmp_path / "rows.csv"), **{**SETTINGS, **merged})
    hand = take_over(folder)
    assert "others" in hand.encoder.groups.names
    assert hand.encoder.groups.merged
    assert_same(hand, typed_as_read(hand, new))
    assert_same(hand, made_up_rows(hand))
    *others, last = coefficients(hand)["groups"]
    assert (last["name"], last["values"]) == ("others", [])
    assert all(group["values"] for group in others)


def test_what_is_compared_is_what_fedfb_predict_gives(trained, tmp_path):
    write_rows(tmp_path / "rows.csv")
    new = write_rows(tmp_path / "new.csv", seed=1, unseen=True)
    _, folder = trained(data=str(tmp_path / "rows.csv"), algorithm="hardt", **SETTINGS)
    hand, saved = take_over(folder), load_model(folder)
    given = saved.predict(encode_file(saved.encoder, new))
    ours = hand.decide(typed_as_read(hand, new))
    np.testing.assert_array_equal(ours.score, given.score)
    np.testing.assert_array_equal(ours.decision, given.decision)


def test_codes_for_missing_values_and_merged_spellings_are_handed_over(trained, tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        f"{rng.choice([-1, 999, *range(40)])},{rng.choice(['Ulm', 'ulm', 'Bonn', '??'])},"
        f"{'FM'[i % 2]},{'yn'[i // 2 % 2]}"
        for i in range(200)
    ]
    (tmp_path / "rows.csv").write_text("\n".join(["hours,town,sex,y", *rows]) + "\n")
    (tmp_path / "schema.toml").write_text(
        '[columns.hours]\nrole = "feature"\ntype = "number"\nblank = ["-1", "999"]\n'
        '[columns.town]\nrole = "feature"\ntype = "category"\nmerge = { Ulm = ["ulm"] }\n'
        'categories = ["Bonn", "Ulm", "ulm", "??"]\nblank = ["??"]\n'
        '[columns.sex]\nrole = "sensitive"\ncategories = ["F", "M"]\n'
        '[columns.y]\nrole = "label"\npositive = "y"\ncategories = ["n", "y"]\n'
    )
    outcome, folder = trained(
        data=str(tmp_path / "rows.csv"), schema=str(tmp_path / "schema.toml"), algorithm="fedavg"
    )
    hand = take_over(folder)
    assert outcome.federation.feature_names == (
        *("hours", "hours is missing", "town=Bonn", "town=Ulm", "town=missing"),
    )
    assert_same(hand, typed_as_read(hand, tmp_path / "rows.csv"))
    kinds = [rule["kind"] for rule in coefficients(hand)["rules"]]
    assert kinds == ["blank", "blank", "merge"]


def raw_rows(outcome, folder, rows=3000):
    """The test rows of a built-in data set, back from numbers to raw cells."""
    hand, federation = take_over(folder), outcome.federation
    x = federation.test.x[:rows]
    cells, place = {}, 0
    for column in hand.encoder.columns:
        width = len(column.feature_names)
        part = x[:, place : place + width]
        place += width
        if isinstance(column, NumberColumn):
            values = part[:, 0] * column.sd + column.mean
            cells[column.name] = np.where(part[:, -1] == 1, np.nan, values) if width > 1 else values
        else:
            words = np.array([*column.categories, "unseen"], object)
            cells[column.name] = words[np.where(part.any(axis=1), part.argmax(axis=1), width)]
    names = [federation.group_names[number] for number in federation.test.group[:rows]]
    for rule in hand.reading.rules:
        if isinstance(rule, Bins):
            inside = dict(zip(rule.names, (*rule.edges, rule.edges[-1] + 1), strict=True))
            cells[rule.source] = np.array([inside[name] for name in names])
    for position, column in enumerate(hand.encoder.groups.columns):
        if column in hand.reading.columns:
            parts = [name.split(", ")[position].split("=")[-1] for name in names]
            cells[column] = np.array(parts, object)
    return hand, Table({name: cells[name] for name in hand.reading.columns}, "test rows")


@pytest.mark.parametrize(
    ("data", "algorithm"),
    [
        ("synthetic", "fedfb"),
        ("synthetic", "fedfb-thresholds"),
        ("compas", "fedfb"),
        ("compas", "fedfb-thresholds"),
        ("bank", "fedfb-thresholds"),
        ("adult", "fedfb"),
    ],
)
def test_the_test_set_is_decided_as_in_the_run(trained, data, algorithm):
    if data != "synthetic" and not os.environ.get("FEDFB_DATA"):
        pytest.skip("FEDFB_DATA does not name a folder with the published files")
    small = {"local_epochs": 1} if data in ("bank", "adult") else {}
    outcome, folder = trained(
        data=data, algorithm=algorithm, lr=(0.01,), sensitive_at_prediction=True, **small
    )
    hand, table = raw_rows(outcome, folder)
    assert_same(hand, table)
    run = outcome.fitted[0].predict(outcome.federation.test)
    found = run_onnx(onnx_model(hand).SerializeToString(), table)
    rows = len(table)
    np.testing.assert_allclose(found.score[0], run.score[0, :rows], rtol=0, atol=1e-6)


def test_a_group_that_training_did_not_have_is_decided_at_the_plain_threshold(trained, tmp_path):
    write_rows(tmp_path / "rows.csv")
    _, folder = trained(data=str(tmp_path / "rows.csv"), **SETTINGS)
    hand = take_over(folder)
    rows = made_up_rows(hand)
    strange = rows.with_column("sex", np.full(len(rows), "x", object))
    found = run_onnx(onnx_model(hand).SerializeToString(), strange)
    [chance] = hand.rule.chance  # FedFB has one cut for all rows
    np.testing.assert_array_equal(found.decision, found.score >= 1 - chance.mean())
    assert_same(hand, strange)


def test_the_file_says_what_it_is(trained):
    _, folder = trained(rows=200, test_rows=100)
    props = {p.key: p.value for p in onnx_model(take_over(folder)).metadata_props}
    assert props["algorithm"] == "fedfb"
    assert props["positive"] == "1"
    assert props["groups"] == "0; 1"


def test_outputs_make_way_for_a_column_of_their_name(trained, tmp_path):
    path = write_rows(tmp_path / "rows.csv")
    path.write_text(path.read_text().replace("years at job", "score", 1))
    _, folder = trained(data=str(path), **SETTINGS)
    content = onnx_model(take_over(folder)).SerializeToString()
    outputs = [o.name for o in onnxruntime.InferenceSession(content).get_outputs()]
    assert outputs == ["score_", "decision"]


def test_a_personal_model_is_one_client_s(trained):
    outcome, folder = trained(algorithm="ditto", notion="cp", rows=200, test_rows=100)
    with pytest.raises(ConfigError, match="every client has a model of its own"):
        take_over(folder)
    with pytest.raises(ConfigError, match="unknown client 'nobody'"):
        take_over(folder, client="nobody")
    hand = take_over(folder, client=outcome.federation.client_names[1])
    assert_same(hand, made_up_rows(hand))
    test = outcome.federation.test
    mine = np.flatnonzero(test.client == 1)
    own = hand.rule.decide(test.x[mine], test.group[mine]).score[0]
    np.testing.assert_array_equal(own, outcome.fitted[0].predict(test).score[0, mine])
    _, common = trained(rows=200, test_rows=100)
    with pytest.raises(ConfigError, match="one model for all clients"):
        take_over(common, client=outcome.federation.client_names[1])


def test_a_classifier_fitted_in_python_is_handed_over_too(loans):
    mixed = {"variant": "mixed", "notion": "eod", "sensitive_at_prediction": True}
    model = FedFBThresholdsClassifier(rounds=2, local_epochs=2, **mixed)
    X, groups = loans[["income", "job", "age"]], loans["sex"]
    model.fit(X, loans["repaid"], sensitive_features=groups, client=loans["branch"])
    hand = of_classifier(model)
    assert_same(hand, made_up_rows(hand))
    income, age = (X[name].to_numpy(float) for name in ("income", "age"))
    text = {"job": X["job"].fillna("").to_numpy(object), "sex": groups.to_numpy(object)}
    table = Table({"income": income, "age": age, **text}, "loans")
    found = run_onnx(onnx_model(hand).SerializeToString(), table)
    np.testing.assert_allclose(
        found.score[0], model.predict_proba(X, sensitive_features=groups)[:, 1], rtol=0, atol=1e-6
    )
