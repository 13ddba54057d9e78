"""The estimator gives what the command line gives, in all the places scikit-learn has for it."""

import json
import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fedfb
from fedfb.errors import ConfigError, DataError
from fedfb.estimator import (
    CLASSIFIERS,
    FedAvgClassifier,
    FedFBClassifier,
    FedFBThresholdsClassifier,
)
from fedfb.experiments.effect import is_read
from fedfb.experiments.run_folder import load_model
from fedfb.experiments.spec import Experiment

FEATURES = ["income", "job", "age"]
SMALL = {"rounds": 3, "local_epochs": 5}
FLAGS = ("--rounds", 3, "--local-epochs", 5, "--seeds", "7:8", "--notion", "eo")
OWN = ("--label", "repaid", "--positive", "yes", "--sensitive", "sex")


def fitted(estimator, rows):
    return estimator.fit(
        rows[FEATURES], rows["repaid"], sensitive_features=rows["sex"], client=rows["branch"]
    )


def as_polars(rows: pd.DataFrame) -> pl.DataFrame:
    return pl.from_pandas(rows)


@pytest.mark.parametrize(
    ("classifier", "more", "flags"),
    [
        (FedFBClassifier, {"target": 0.02}, ("--target", ".02")),
        (FedFBClassifier, {"model": "mlp", "hidden": (6, 3)}, ("--model=mlp", "--hidden=6,3")),
        (FedFBThresholdsClassifier, {"variant": "mixed"}, ("--variant", "mixed")),
    ],
    ids=["fedfb", "mlp", "thresholds"],
)
@pytest.mark.parametrize("convert", [lambda rows: rows, as_polars], ids=["pandas", "polars"])
def test_the_command_line_gives_the_same_on_the_same_rows(
    fedfb_command, tmp_path, loans, new_loans, classifier, more, flags, convert
):
    for branch, rows in loans.groupby("branch"):
        rows.drop(columns="branch").to_csv(tmp_path / f"{branch}.csv", index=False)
    new_loans.drop(columns="branch").to_csv(tmp_path / "test.txt", index=False)
    said = fedfb_command(
        *("run", "--data", "*.csv", *OWN, *FLAGS, *flags, "--test", "test.txt"),
        *("--algorithm", classifier.algorithm, "--out", "kept", "--json"),
        *("--sensitive-at-prediction", "yes"),
    ).json
    ours = fitted(
        classifier(
            notion="eo",
            **{**SMALL, **more},
            positive="yes",
            random_state=7,
            sensitive_at_prediction=True,
        ),
        convert(loans),
    )
    new = convert(new_loans)
    groups = {"sensitive_features": new["sex"]}
    assert ours.score(new[FEATURES], new["repaid"], **groups) == said["runs"][0]["accuracy"]
    assert json.loads(json.dumps(ours.history_)) == said["runs"][0]["rounds"]
    on_new = ours.report(new[FEATURES], new["repaid"], **groups)
    assert on_new.runs[0].disparity == said["runs"][0]["disparity"]
    saved = load_model(tmp_path / "kept")
    rows = fedfb.data.encode_file(saved.encoder, tmp_path / "test.txt")
    score, decision = saved.predict(rows)
    np.testing.assert_array_equal(ours.predict_proba(new[FEATURES], **groups)[:, 1], score[0])
    np.testing.assert_array_equal(ours.decide(new[FEATURES], **groups), decision[0])


@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=lambda one: one.algorithm)
def test_every_method_can_be_fitted_cloned_and_copied(classifier, loans):
    small = {"rounds": 2, "sensitive_at_prediction": classifier.by_group}
    if is_read(Experiment(algorithm=classifier.algorithm), "local_epochs"):
        small["local_epochs"] = 1
    model = fitted(clone(classifier(**small)), loans)
    groups = {"sensitive_features": loans["sex"]}
    proba = model.predict_proba(loans[FEATURES], **groups)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_proba(loans[FEATURES], **groups), proba)
    assert set(model.predict(loans[FEATURES], **groups)) <= {"no", "yes"}
    assert len(model.history_) == 2
    assert model.__doc__.startswith(f"{classifier.algorithm}: ")


def test_there_is_a_class_for_every_method_but_the_personal_one():
    assert {one.algorithm for one in CLASSIFIERS} == set(fedfb.algorithms.METHODS) - {"ditto"}


def test_less_disparity_is_bought_with_accuracy(loans):
    plain, fair = (
        fitted(one(local_epochs=10), loans) for one in (FedAvgClassifier, FedFBClassifier)
    )
    gaps = [one.report().runs[0].disparity["demographic_parity"] for one in (plain, fair)]
    assert gaps[0] > 0.1
    assert gaps[1] < gaps[0] / 2


def test_without_groups_it_warns_and_trains_as_fedavg(loans):
    X, y = loans[["income", "age"]], loans["repaid"]
    with pytest.warns(UserWarning, match="no sensitive_features were given"):
        fair = FedFBClassifier(**SMALL, lr=0.01).fit(X, y, client=loans["branch"])
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*no sensitive_features")
        plain = FedAvgClassifier(**SMALL, lr=0.01).fit(X, y, client=loans["branch"])
    np.testing.assert_array_equal(fair.predict_proba(X), plain.predict_proba(X))


def test_calibrated_scores_are_probabilities_by_group(loans):
    model = fitted(FedFBClassifier(sensitive_at_prediction=True), loans)
    groups = loans["sex"]
    chance = model.calibrated(loans[FEATURES], sensitive_features=groups)
    good = (loans["repaid"] == model.positive_).to_numpy()
    for group in groups.unique():
        rows = (groups == group).to_numpy()
        assert chance[rows].mean() == pytest.approx(good[rows].mean(), abs=0.05)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(
        copy.calibrated(loans[FEATURES], sensitive_features=groups), chance
    )
    with pytest.raises(ValueError, match="give sensitive_features"):
        model.calibrated(loans[FEATURES])
    with pytest.raises(ValueError, match="no calibrated scores"):
        fitted(FedAvgClassifier(), loans).calibrated(loans[FEATURES], sensitive_features=groups)


@pytest.mark.slow
def test_features_are_chosen_in_a_classifier_too(loans):
    for kind in ("binned", "auto"):
        model = fitted(FedFBClassifier(settings={"features": kind}), loans)
        assert len(model.predict(loans[FEATURES])) == len(loans)
    steps = fitted(FedFBClassifier(settings={"features": "binned"}), loans).encoder_.columns
    assert any(getattr(column, "steps", ()) for column in steps)


def test_without_clients_all_rows_are_one_client(loans):
    X, y, groups = loans[FEATURES], loans["repaid"], {"sensitive_features": loans["sex"]}
    alone = FedFBClassifier(**SMALL).fit(X, y, **groups)
    assert alone.clients_ == ["all"]
    one = FedFBClassifier(**SMALL).fit(X, y, **groups, client=np.full(len(X), "all"))
    np.testing.assert_array_equal(alone.predict_proba(X), one.predict_proba(X))


def test_the_favourable_label_can_be_named(loans):
    given = {"sensitive_features": loans["sex"], "client": loans["branch"]}
    model = FedFBClassifier(**SMALL, notion="eo", positive="no")
    model.fit(loans[FEATURES], loans["repaid"], **given)
    assert model.classes_.tolist() == ["no", "yes"]
    proba, chance = model.predict_proba(loans[FEATURES]), model.decide(loans[FEATURES])
    np.testing.assert_array_equal(model.predict(loans[FEATURES]) == "no", chance == 1)
    np.testing.assert_array_equal(proba[:, 0] >= 0.5, chance == 1)
    np.testing.assert_array_equal(model.decision_function(loans[FEATURES]) > 0, chance == 0)


def test_several_sensitive_columns_are_crossed_whatever_their_order(loans):
    both = loans[["sex", "branch"]]
    model = FedFBThresholdsClassifier(**SMALL, sensitive_at_prediction=True)
    with pytest.warns(fedfb.TargetNotReachedWarning, match="is reached without"):
        model.fit(loans[["income", "age"]], loans["repaid"], sensitive_features=both)
    assert model.groups_ == [
        f"sex={sex}, branch={branch}" for sex in "fm" for branch in ("east", "north", "west")
    ]
    chance = model.decide(loans[["income", "age"]], sensitive_features=both)
    swapped = model.decide(loans[["income", "age"]], sensitive_features=both[["branch", "sex"]])
    by_place = model.decide(loans[["income", "age"]], sensitive_features=both.to_numpy())
    np.testing.assert_array_equal(chance, swapped)
    np.testing.assert_array_equal(chance, by_place)


def test_mixed_decisions_are_thrown_alike_each_time_and_scored_as_expected(loans):
    mixed = {"variant": "mixed", "notion": "eod", "sensitive_at_prediction": True}
    model = fitted(FedFBThresholdsClassifier(**SMALL, **mixed), loans)
    groups = {"sensitive_features": loans["sex"]}
    chance = model.decide(loans[FEATURES], **groups)
    assert ((chance > 0) & (chance < 1)).any()
    first, second = (model.predict(loans[FEATURES], **groups) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    right = np.where(loans["repaid"] == "yes", chance, 1 - chance)
    assert model.score(loans[FEATURES], loans["repaid"], **groups) == right.mean()


@pytest.mark.slow
def test_a_pipeline_a_clone_and_another_process_give_the_same_bits(loans, routing):
    X, y, model = loans[FEATURES], loans["repaid"], FedFBClassifier(**SMALL, target=0.05)
    given = {"sensitive_features": loans["sex"], "client": loans["branch"]}
    expected = model.fit(X, y, **given).predict_proba(X)
    piped = make_pipeline("passthrough", clone(model)).fit(X, y, **given)
    np.testing.assert_array_equal(piped.predict_proba(X), expected)
    tasks = [joblib.delayed(FedFBClassifier.fit)(clone(model), X, y, **given) for _ in range(2)]
    for elsewhere in joblib.Parallel(n_jobs=2)(tasks):
        np.testing.assert_array_equal(elsewhere.predict_proba(X), expected)


def test_cross_validation_hands_every_fold_its_groups_and_clients(loans, routing):
    X, y = loans[["income", "age"]], loans["repaid"]
    given = {"sensitive_features": loans["sex"], "client": loans["branch"]}
    model = FedFBClassifier(lr=0.05)
    scores = cross_val_score(model, X, y, params=given, cv=3)
    piped = make_pipeline(StandardScaler(), model)
    scaled = cross_val_score(piped, X, y, params=given, cv=3)
    np.testing.assert_allclose(scaled, scores, atol=1 / 80)  # scaled twice: the last bits differ
    assert np.mean(scores) > 0.6


def test_a_grid_search_finds_the_best_target(loans, routing):
    search = GridSearchCV(FedFBClassifier(**SMALL), {"target": [0.0, 1.0]}, cv=2)
    search.fit(
        *(loans[FEATURES], loans["repaid"]),
        sensitive_features=loans["sex"],
        client=loans["branch"],
    )
    assert search.best_params_ == {"target": 1.0}  # free to be unfair, it is more accurate
    assert search.best_estimator_.groups_ == ["f", "m"]


def test_the_report_is_that_of_the_command_line_and_a_page(loans, tmp_path):
    model = fitted(FedFBClassifier(**SMALL), loans)
    assert "figures are of the training rows" in model.report().notes
    assert len(model.report().runs[0].groups) == 2
    page = model.report(to=tmp_path / "page.html")
    assert "demographic parity" in page.read_text().lower()
    with pytest.raises(ConfigError, match="exists already"):
        model.report(to=page)


def test_what_cannot_be_done_is_told(loans):
    X, y, groups = loans[FEATURES], loans["repaid"], loans["sex"]
    with pytest.raises(ConfigError, match="fedavg cannot be trained to a disparity"):
        FedAvgClassifier(target=0.1).fit(X, y)
    with pytest.raises(ConfigError, match="positive='maybe' is not one of the labels"):
        FedFBClassifier(positive="maybe").fit(X, y, sensitive_features=groups)
    with pytest.raises(DataError, match="the client is missing in 1 of"):
        FedFBClassifier().fit(X, y, sensitive_features=groups, client=[None, *groups[1:]])
    with pytest.raises(DataError, match="'number' looks like an identifier"):
        FedFBClassifier().fit(X.assign(number=range(len(X))), y, sensitive_features=groups)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        FedFBClassifier().fit(X, y, sensitive_features=groups[1:])
    by_group = FedFBThresholdsClassifier(**SMALL, sensitive_at_prediction=True)
    by_group.fit(X, y, sensitive_features=groups)
    with pytest.raises(ValueError, match="needs the group of every row"):
        by_group.predict(X)
    plain = FedAvgClassifier(**SMALL).fit(X, y, sensitive_features=groups)
    with pytest.raises(ValueError, match="needs the group of every row"):
        plain.report(X, y)  # deciding does not need the groups, judging does
    with pytest.raises(DataError, match="'income' is not finite"):
        plain.predict(X.assign(income=np.inf))
    with pytest.raises(DataError, match="group 'x'"):
        by_group.report(X, y, sensitive_features=["x", *groups[1:]])
    # A row of a group that training did not have can be decided, and not be judged.
    known = by_group.predict(X, sensitive_features=groups)
    strange = by_group.predict(X, sensitive_features=["x", *groups[1:]])
    np.testing.assert_array_equal(strange[1:], known[1:])
    with pytest.raises(DataError, match="sensitive_features has 2 columns"):
        by_group.predict(X, sensitive_features=loans[["sex", "branch"]])


def test_the_paper_s_classifier_is_at_the_top():
    assert fedfb.FedFBClassifier is FedFBClassifier
