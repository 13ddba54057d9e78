"""``fedfb run``: what it prints, and that it repeats itself."""

import json

import numpy as np
import pytest
from msgspec import convert

from cli.asking import OWN, TINY, client_file, refused
from fedfb.data.federation import ONE_GROUP
from fedfb.experiments.result import Result
from fedfb.report.text import print_run

DISPARITIES = {"demographic_parity", "spd", "equal_opportunity", "equalized_odds", "client_parity"}
REPORT = {"data", "model", "algorithm", "notion", "settings", "runs", "summary"}
RUN = {
    *("seed", "settings", "accuracy", "balanced_accuracy", "auc", "disparity", "interval"),
    *("groups", "clients", "rounds"),
}


def numbers(report):
    """What a report measures, without the settings it was given."""
    runs = [{k: v for k, v in run.items() if k != "settings"} for run in report["runs"]]
    return [runs, report["summary"]]


@pytest.mark.parametrize("groups", [2, 3])
def test_json_has_every_field_of_the_specification(tiny, groups):
    report = tiny("--groups", groups, "--seeds", 2, "--json").json
    assert set(report) >= REPORT
    assert len(report["runs"]) == 2
    for run in report["runs"]:
        assert set(run) >= RUN
        assert set(run["disparity"]) == set(run["interval"]) == DISPARITIES
        assert (run["disparity"]["spd"] is None) == (groups == 3)
        assert run["interval"]["spd"] is None or len(run["interval"]["spd"]) == 2
        assert len(run["groups"]) == groups
        for group in run["groups"]:
            assert set(group) >= {"name", "n", "positive_rate", "tpr", "fpr", "accuracy"}
        for client in run["clients"]:
            assert set(client) >= {"name", "n", "accuracy", "loss"}
        assert [row["round"] for row in run["rounds"]] == [1, 2]
        assert set(run["rounds"][0]) >= {"signal", "lambda", "accuracy", "disparity"}
    summary = report["summary"]
    accuracies = [run["accuracy"] for run in report["runs"]]
    assert summary["accuracy"]["mean"] == pytest.approx(np.mean(accuracies))
    assert summary["accuracy"]["std"] == pytest.approx(np.std(accuracies, ddof=1))
    assert set(summary["disparity"]) == DISPARITIES


@pytest.mark.slow
@pytest.mark.parametrize("data", ["adult", "compas", "bank"])
def test_published_data_have_every_field_too(fedfb, published, capsys, data):
    report = fedfb("run", "--data", data, "--rounds", 1, "--local-epochs", 1, "--json").json
    [run] = report["runs"]
    assert set(run) >= RUN
    assert (run["disparity"]["spd"] is None) == (data != "adult")
    print_run(convert(report, Result))
    table = capsys.readouterr().out
    assert max(map(len, table.splitlines())) <= 80
    assert all(group["name"] in table for group in run["groups"])


def test_without_clients_of_test_rows_client_parity_is_null(fedfb, write):
    write(client_file())
    write(client_file(12), "test.csv")
    said = fedfb("run", "--data", "rows.csv", "--test", "test.csv", *OWN, "--json")
    [run] = said.json["runs"]
    assert run["disparity"]["client_parity"] is run["interval"]["client_parity"] is None
    assert run["clients"] == []


def test_a_table_shows_rates_by_group_and_the_four_fifths_ratio_in_80_columns(fedfb, write):
    write(client_file(60, sex=("[0, 25)", "[/bold]", "a very long name of a group indeed"))
          .replace("[0, 25)", '"[0, 25)"'))  # fmt: skip
    said = fedfb("run", "--data", "rows.csv", *OWN, "--tune", "--alpha", ".1,.2")
    assert said.code == 0, said.err
    for words in ("positive", "TPR", "FPR", "four-fifths ratio", "group given to the model: no"):
        assert words in said.out
    assert "[0, 25)" in said.out
    assert "[/bold]" in said.out
    assert max(map(len, said.out.splitlines())) <= 80


def test_seeds_are_a_number_a_range_or_a_list(tiny):
    for given, meant in [("2", [0, 1]), ("100:102", [100, 101]), ("4,", [4]), ("3,1", [3, 1])]:
        assert [r["seed"] for r in tiny("--seeds", given, "--json").json["runs"]] == meant


def test_a_run_repeats_itself_to_the_bit(tiny):
    assert tiny("--seeds", 2, "--json").out == tiny("--seeds", 2, "--json").out


def test_a_seeds_result_does_not_depend_on_the_other_seeds(tiny):
    together = tiny("--seeds", 3, "--json").json["runs"]
    assert [tiny("--seeds", f"{seed},", "--json").json["runs"][0] for seed in (2, 0)] == [
        together[2],
        together[0],
    ]


def test_a_grid_gives_the_same_runs_as_single_settings(tiny):
    flags = ("--model", "mlp", "--precision", "float64", "--json")
    grid = tiny("--alpha", ".1,2", "--lr", ".01,.1", *flags).json["runs"]
    for run in grid:
        alpha, lr = run["settings"]["alpha"], run["settings"]["lr"]
        [alone] = tiny("--alpha", alpha, "--lr", lr, *flags).json["runs"]
        for field in ("auc", "accuracy"):
            assert alone[field] == pytest.approx(run[field], abs=1e-10)
        for one, other in zip(alone["rounds"], run["rounds"], strict=True):
            np.testing.assert_allclose(one["signal"], other["signal"], rtol=0, atol=1e-10)
            np.testing.assert_allclose(one["lambda"], other["lambda"], rtol=0, atol=1e-10)


def test_a_split_seed_fixes_the_rows_of_every_seed(tiny):
    def sizes(*flags):
        runs = tiny("--seeds", 3, *flags, "--json").json["runs"]
        return {tuple(group["n"] for group in run["groups"]) for run in runs}

    assert len(sizes()) > 1
    assert len(sizes("--split-seed", 0)) == 1


def test_k_is_another_name_of_the_period(tiny):
    assert tiny("--k", 2, "--json").out == tiny("--period", 2, "--json").out
    assert tiny("--k", 2, "--json").json["runs"][0]["rounds"][0]["signal"] is None


def test_flags_override_the_experiment_file_and_switches_can_be_turned_off(fedfb, write):
    path = write(
        'rows = 200\ntest_rows = 200\nrounds = 1\nlocal_epochs = 1\nalpha = [0.1, 1]\nlr = 0.05\n'
        'notion = "eo"\nseeds = 2\nreference = "mean"\ntune = true\n',
        "experiment.toml",
    )  # fmt: skip
    settings = fedfb("run", path, "--notion", "dp", "--seeds", "7,", "--json").json["settings"]
    assert (settings["notion"], settings["seeds"], settings["rounds"]) == ("dp", [7], 1)
    assert (settings["reference"], settings["tune"]) == ("mean", True)
    assert (settings["alpha"], settings["lr"]) == ([0.1, 1.0], [0.05])
    report = fedfb("run", path, "--no-tune", "--reference", "first", "--json").json
    assert (report["settings"]["reference"], report["tuning"]) == ("first", None)


def test_whether_the_model_is_given_the_group_is_always_printed(tiny):
    for given in ("yes", "no"):
        flags = ("--sensitive-at-prediction", given)
        assert f"group given to the model: {given}\n" in tiny(*flags).out
        assert tiny(*flags, "--json").json["settings"]["sensitive_at_prediction"] is (
            given == "yes"
        )


def test_clients_by_pattern_and_one_file_with_a_client_column(fedfb, write):
    write(client_file(40), "clients/north.csv")
    write(client_file(60), "clients/south.csv")
    [run] = fedfb("run", "--data", "clients/*.csv", *OWN, "--json").json["runs"]
    assert [(c["name"], c["n"]) for c in run["clients"]] == [("north", 12), ("south", 18)]
    lines = client_file(40).splitlines()
    towns = ["town", *("a" if i % 3 else "b" for i in range(40))]
    write("\n".join(f"{line},{town}" for line, town in zip(lines, towns, strict=True)) + "\n")
    flags = ("--data", "rows.csv", "--client-column", "town")
    [run] = fedfb("run", *flags, *OWN, "--json").json["runs"]
    assert [client["name"] for client in run["clients"]] == ["a", "b"]


def test_several_sensitive_columns_are_crossed(fedfb, write):
    rows = [f"{i % 9},{'FM'[i % 2]},{'BW'[i // 2 % 2]},{'yn'[i // 4 % 2]}" for i in range(80)]
    write("\n".join(["age,sex,race,y", *rows]) + "\n")
    said = fedfb("run", "--data", "rows.csv", *OWN, "--sensitive", "sex,race", "--json")
    assert said.json["groups"] == [f"sex={s}, race={r}" for s in "FM" for r in "BW"]


def test_missing_numbers_become_the_mean_and_are_told(fedfb, write):
    write(client_file() + "NaN,F,y\n,M,n\n" * 4)
    said = fedfb("run", "--data", "rows.csv", *OWN)
    assert said.code == 0, said.err
    assert "note: missing numbers became the training mean" in said.out


def test_one_group_only_gives_fedavg_and_a_note(fedfb, write):
    write(client_file(60, sex="F"), "clients/north.csv")
    write(client_file(30, sex="F"), "clients/south.csv")

    def run(algorithm):
        step = ("--alpha", 2) if algorithm == "fedfb" else ()
        flags = ("--algorithm", algorithm, "--rounds", 3, "--solver", "local", *step)
        return fedfb("run", "--data", "clients/*.csv", *OWN, *flags, "--json").json

    fair, plain = run("fedfb"), run("fedavg")
    assert ONE_GROUP in fair["notes"]
    for field in ("accuracy", "auc", "clients", "groups"):
        assert fair["runs"][0][field] == plain["runs"][0][field]


@pytest.mark.parametrize("notion", ["dp", "eo", "eod", "cp"])
def test_a_client_without_a_cell_works(fedfb, write, notion):
    write(client_file(60, sex="F"), "clients/north.csv")
    south = [f"{i % 5},M,{'yyn'[i % 3]}" for i in range(60)]
    write("\n".join(["age,sex,y", *south]) + "\n", "clients/south.csv")
    flags = ("--notion", notion, "--rounds", 2, "--alpha", 2)
    [run] = fedfb("run", "--data", "clients/*.csv", *OWN, *flags, "--json").json["runs"]
    assert np.isfinite(run["rounds"][-1]["signal"]).all()


def test_tuning_is_recorded_with_all_it_tried(tiny):
    report = tiny("--tune", "--alpha", ".1,1", "--lr", ".05", "--json").json
    tried = [candidate["setting"] for candidate in report["tuning"]["candidates"]]
    assert tried == [{"alpha": 0.1, "lr": 0.05}, {"alpha": 1.0, "lr": 0.05}]
    assert report["tuning"]["chosen"] == report["runs"][0]["settings"]
    assert "chosen on validation rows" in tiny("--tune", "--alpha", ".1,1").out


def test_talk_goes_to_stderr_and_data_to_stdout(fedfb):
    said = fedfb("run", *TINY, "--out", "kept", "--json")
    assert json.loads(said.out)["data"] == "synthetic"
    assert said.err == "Model, results, rounds and ledger are in kept.\n"
    assert fedfb("run", *TINY).err == ""


def test_a_failed_run_prints_no_data(tiny):
    refused(tiny("--data", "absent.csv", "--json"))
