"""What is wrong is told in a sentence on stderr, with exit code 2 and nothing on stdout."""

import pytest

from cli.asking import OWN, client_file, refused


@pytest.mark.parametrize(
    ("flags", "fragments"),
    [
        ("--algorithm fedbf", ["unknown algorithm 'fedbf'; did you mean 'fedfb'", "cfl"]),
        ("--notion dpp", ["unknown notion 'dpp'; did you mean 'dp'"]),
        ("--model mpl", ["--model: unknown value 'mpl'; did you mean 'mlp'"]),
        ("--decay inv_sqr", ["--decay: unknown value 'inv_sqr'; did you mean 'inv_sqrt'"]),
        ("--timing pots", ["--timing: unknown value 'pots'; did you mean 'post'"]),
        ("--optimiser adm", ["did you mean 'adam'"]),
        ("--precision float3", ["did you mean 'float32'"]),
        ("--partition shares", ["unknown partition 'shares'"]),
        ("--sensitive-at-prediction maybe", ["--sensitive-at-prediction: expected yes or no"]),
        ("--round 3", ["No such option", "--rounds"]),
    ],
)
def test_an_unknown_name_is_met_with_the_nearest_valid_one(tiny, flags, fragments):
    refused(tiny(*flags.split()), *fragments)


def test_an_unknown_data_set_is_met_with_the_nearest_and_with_how_to_give_files(fedfb):
    refused(fedfb("run", "--data", "adlt"), "unknown data set 'adlt'; did you mean 'adult'", ".csv")


@pytest.mark.parametrize(
    ("flags", "fragments"),
    [
        ("--alpha -1", ["--alpha must be a finite number of at least 0, got -1.0"]),
        ("--alpha nan", ["--alpha must be a finite number", "got nan"]),
        ("--alpha .1,inf", ["--alpha must be a finite number", "got inf"]),
        ("--alpha .1,x", ["--alpha: expected a number, got 'x'"]),
        ("--lr 0", ["--lr must be a finite number above 0, got 0.0"]),
        ("--lr nan", ["--lr must be a finite number above 0, got nan"]),
        ("--lr inf", ["--lr must be a finite number above 0, got inf"]),
        ("--lr -.1", ["--lr must be a finite number above 0"]),
        ("--rounds 0", ["--rounds must be a whole number of at least 1, got 0"]),
        ("--rounds 2.5", ["--rounds: expected a whole number, got '2.5'"]),
        ("--local-epochs 0", ["--local-epochs must be a whole number of at least 1"]),
        ("--batch 0", ["--batch must be a whole number of at least 1"]),
        ("--weight-decay -1", ["--weight-decay must be a finite number of at least 0"]),
        ("--bits 0", ["--bits must be a whole number of at least 1 and at most 32, got 0"]),
        ("--bits 33", ["--bits must be", "at most 32, got 33"]),
        ("--period 0", ["--period must be a whole number of at least 1"]),
        ("--k 0", ["--period must be a whole number of at least 1"]),
        ("--hidden 0", ["--hidden must be a whole number of at least 1, got 0"]),
        ("--hidden 4,x", ["--hidden: expected a whole number, got 'x'"]),
        ("--seeds 0", ["--seeds: '0' names no seed", "100:110"]),
        ("--seeds 3:3", ["--seeds: '3:3' names no seed"]),
        ("--seeds x", ["--seeds: expected a whole number, got 'x'"]),
        ("--seeds 1.5", ["--seeds: expected a whole number, got '1.5'"]),
        ("--seeds -1:1", ["--seeds must be a whole number of at least 0, got -1"]),
        ("--seeds 1,1", ["--seeds must differ from each other, got [1, 1]"]),
        ("--split-seed -1", ["--split-seed must be a whole number of at least 0"]),
        (
            "--accuracy-floor 1.5",
            ["--accuracy-floor must be a finite number", "at most 1, got 1.5"],
        ),
        ("--accuracy-floor -.1", ["--accuracy-floor must be a finite number of at least 0"]),
        ("--partition shares:.5,.6/.5,.5", ["sum to 1.1", "sum to 1 within each group"]),
        ("--clients 5", ["--clients must be a whole number of at least 2 and at most 4, got 5"]),
        ("--groups 1", ["--groups must be a whole number of at least 2 and at most 3, got 1"]),
        ("--rows 3", ["--rows must be a whole number of at least 20, got 3"]),
    ],
)
def test_a_value_out_of_range_is_refused_with_the_range(tiny, flags, fragments):
    refused(tiny(*flags.split()), *fragments)


@pytest.mark.parametrize(
    ("flags", "fragments"),
    [
        ("run --label y", ["label (--label) does not apply to 'synthetic'", "Leave it out"]),
        ("run --data adult --label y", ["label (--label) does not apply to 'adult'"]),
        ("run --data adult --clients 3", ["clients (--clients) does not apply to 'adult'"]),
        ("run --data adult --rows 30", ["rows (--rows) does not apply to 'adult'"]),
        ("run --notion cp --timing piggyback", ["timing 'piggyback'", "Use --timing post"]),
        ("run --timing local", ["belong to no model", "--outer step"]),
        ("run --bits 1 --bits-mode per_round --groups 3", ["Give at least --bits"]),
        ("run --resume", ["--resume needs the folder", "--out DIR"]),
        ("run --data rows.csv", ["need label (--label)"]),
        ("compare --algorithms fedavg,fedavg", ["--algorithms takes different names"]),
        ("compare --algorithms ,", ["--algorithms takes different names"]),
        ("compare --algorithms fedavg,fdfb", ["unknown algorithm 'fdfb'; did you mean 'fedfb'"]),
        ("compare --notion dq", ["unknown notion 'dq'; did you mean 'dp'"]),
        ("compare --plot missing/points.png", ["there is no folder missing", "Make it first"]),
        ("compare --plot points.gif", ["--plot points.gif", ".png, .svg, .pdf"]),
        ("compare --plot points", ["--plot points", ".png, .svg, .pdf"]),
        ("predict", ["Missing argument"]),
        ("nothing", ["No such command 'nothing'"]),
    ],
)
def test_what_does_not_apply_or_is_missing_is_told(fedfb, write, flags, fragments):
    write(client_file())
    refused(fedfb(*flags.split()), *fragments)


@pytest.mark.parametrize(
    ("content", "fragments"),
    [
        ("rounds = [", ["experiment.toml cannot be read: it is not valid TOML: Invalid value"]),
        (b"\xff", ["experiment.toml cannot be read: it is not valid UTF-8 text"]),
        ("round = 3", ["unknown setting 'round'; did you mean 'rounds'"]),
        ("seeds = [1.5]", ["--seeds must be a whole number of at least 0, got 1.5"]),
        ("seeds = [true]", ["--seeds must be a whole number of at least 0, got True"]),
        ("seeds = []", ["--seeds takes at least one value"]),
        ("hidden = []", ["--hidden takes at least one value"]),
        ('alpha = ["a"]', ["--alpha must be a finite number of at least 0, got 'a'"]),
        ("alpha = [[1]]", ["--alpha must be a finite number of at least 0, got [1]"]),
        ("sensitive = [1]", ["--sensitive must be text, got 1"]),
        ("rounds = [1]", ["--rounds takes a whole number of at least 1, got [1]"]),
        ("rounds = true", ["--rounds takes a whole number of at least 1, got True"]),
        ('tune = "perhaps"', ["--tune: expected yes or no, got 'perhaps'"]),
        ("[data]\nname = 1", ["--data takes text, got {'name': 1}"]),
        ("lr = nan", ["--lr must be a finite number above 0, got nan"]),
    ],
)
def test_what_is_wrong_in_an_experiment_file_is_told(fedfb, write, content, fragments):
    refused(fedfb("run", write(content, "experiment.toml")), *fragments)


def test_an_experiment_file_that_is_not_there_is_named(fedfb, tmp_path):
    refused(fedfb("run", "absent.toml"), "cannot read absent.toml: No such file", "--data")
    refused(fedfb("run", tmp_path), "Is a directory")


@pytest.mark.parametrize(
    ("content", "flags", "fragments"),
    [
        (client_file() + "inf,F,y\n", "", ["rows.csv, line 42, column 'age': 'inf' is not finite"]),
        (
            client_file() + "1e400,F,y\n",
            "",
            ["rows.csv, line 42, column 'age': '1e400' is not finite"],
        ),
        (
            client_file().replace("n\n", "y\n"),
            "",
            ["all of the 40 training rows", "Two classes are"],
        ),
        (client_file() + "3,F\n", "", ["rows.csv, line 42: 2 cells, expected 3"]),
        (b"age,sex,y\n\xff,F,y\n", "", ["rows.csv, line 2: not UTF-8"]),
        (b"PK\x03\x04\x00\xff", "", ["rows.csv"]),
        ("", "", ["rows.csv is empty"]),
        ("age,sex,y\n", "", ["has a header but no rows"]),
        (client_file(), "--label z", ["unknown column 'z'"]),
        (client_file(), "--sensitive sx", ["unknown column 'sx'; did you mean 'sex'"]),
        (client_file(), "--positive yes", ["'yes' never occurs in the label column 'y'"]),
        (client_file(), "--client-column ages", ["unknown column 'ages'; did you mean 'age'"]),
        (client_file() + "1,,y\n", "", ["the sensitive column 'sex' is missing in 1 of 41 rows"]),
        (client_file() + "1,F,\n", "", ["the label 'y' is missing in 1 of 41 rows"]),
        (client_file(), "--test absent.csv", ["there is no file 'absent.csv'"]),
        (client_file(6), "--tune", ["chosen on 10% of every client's rows", "Add rows"]),
    ],
)
def test_what_is_wrong_with_ones_own_file_is_told(fedfb, write, content, flags, fragments):
    write(content)
    refused(fedfb("run", "--data", "rows.csv", *OWN, *flags.split()), *fragments)


def test_a_file_that_is_not_there_and_a_pattern_that_matches_none_are_told(fedfb):
    refused(fedfb("run", "--data", "absent.csv", *OWN), "no file matches 'absent.csv'")
    refused(fedfb("run", "--data", "clients/*.csv", *OWN), "no file matches 'clients/*.csv'")


def test_a_client_without_rows_to_train_on_is_named(fedfb, write):
    write(client_file(), "clients/north.csv")
    write("age,sex,y\n3,F,y\n", "clients/south.csv")
    refused(fedfb("run", "--data", "clients/*.csv", *OWN), "client 'south' has 1 rows")
    write("age,sex,y\n", "clients/south.csv")
    refused(fedfb("run", "--data", "clients/*.csv", *OWN), "south.csv has a header but no rows")


def test_clients_with_other_columns_are_named(fedfb, write):
    write(client_file(), "clients/north.csv")
    write(client_file().replace("age,", "years,", 1), "clients/south.csv")
    refused(fedfb("run", "--data", "clients/*.csv", *OWN), "south.csv has no column 'age'")


def test_a_group_that_only_test_rows_have_is_named(fedfb, write):
    write(client_file())
    write(client_file(6, sex="FX"), "test.csv")
    said = fedfb("run", "--data", "rows.csv", "--test", "test.csv", *OWN)
    refused(said, "group 'X' (3 rows) does not occur in training rows", "remove these rows")


def test_a_folder_of_published_files_without_the_file_is_named(fedfb, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFB_DATA", str(tmp_path))
    refused(fedfb("run", "--data", "adult"), "FEDFB_DATA is", "there is no adult.data in it")


def test_a_published_file_that_was_changed_is_refused(fedfb, write, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFB_DATA", str(tmp_path))
    write("age,income\n", "compas-scores-two-years.csv")
    refused(fedfb("run", "--data", "compas"), "is not the published file", "sha256")


def test_a_run_that_diverges_names_round_client_and_setting(tiny):
    said = tiny("--model", "mlp", "--optimiser", "sgd", "--lr", "1e300", "--seeds", "2")
    refused(said, "diverged in round 1 on client 'client 0' (seed 0, target 0, lr 1e+300", "--lr")


def test_a_run_whose_last_round_diverges_is_told_too(tiny):
    flags = ("--algorithm", "fedavg", "--rounds", 1, "--model", "mlp", "--optimiser", "sgd")
    said = tiny(*flags, "--lr", "1e30", "--engine", "numpy")
    refused(said, "after round 1 the model's scores are not finite (seed 0, lr 1e+30)", "--lr")


def test_a_pooled_run_that_diverges_names_no_single_client(tiny):
    said = tiny("--algorithm", "cfl", "--model", "mlp", "--optimiser", "sgd", "--lr", "1e300")
    refused(said, "diverged in round 1 on client 'all rows pooled'")


def test_debug_shows_where_an_error_arose(fedfb, monkeypatch):
    from fedfb.cli import main
    from fedfb.errors import ConfigError

    monkeypatch.setattr("sys.argv", ["fedfb", "run", "--rounds", "0", "--debug"])
    with pytest.raises(ConfigError, match="--rounds must be"):
        main()


@pytest.mark.parametrize(
    ("command", "fragments"),
    [
        ("run --hidden 8", ["--hidden has no effect with --model logistic", "--model mlp"]),
        ("run --k 3 --algorithm fedavg", ["--period has no effect with fedavg"]),
        ("run --privacy-clip 2", ["--privacy-clip has no effect without --privacy-epsilon"]),
        ("run --data adult --clients 3", ["clients (--clients) does not apply to 'adult'"]),
        ("run --q .5", ["q (--q) does not apply to 'synthetic'"]),
        ("run --data fig1b --q .5", ["q"]),
        ("run --bins age:25", ["bins (--bins) does not apply to 'synthetic'"]),
        ("compare --decay inv --algorithms fedavg,fedfb", ["--decay has no effect with fedfb"]),
        ("compare --algorithms fedavg,q-ffl", ["q-ffl does not aim at demographic parity"]),
        ("compare --out kept --no-store", ["--no-store has no effect with --out"]),
        ("frontier --hidden 8 --algorithms fedavg,fedfb", ["--hidden has no effect"]),
        ("explain fedavg --alpha 1", ["--alpha has no effect with fedavg"]),
        ("achievable --setting fig2 --rows 100", ["--rows has no effect without --data"]),
        ("predict folder rows.csv --force", ["--force has no effect without --out"]),
        (
            "audit --scores s.csv --decision d --threshold .4 --label y --positive 1",
            ["--threshold does not apply to a column of decisions"],
        ),
    ],
)
def test_a_flag_without_effect_is_refused(fedfb, tmp_path, command, fragments):
    refused(fedfb(*command.split()), *fragments)
    assert list(tmp_path.iterdir()) == []


def test_a_reproduction_names_all_missing_data_before_it_trains(fedfb, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFB_DATA", str(tmp_path))
    said = fedfb("reproduce", "all", "--quick")
    refused(said, "nothing was trained: data are missing of adult, bank, compas")
    assert said.err.count("nothing was trained") == 1
    assert list(tmp_path.iterdir()) == []
