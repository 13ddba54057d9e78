"""``--secure``, ``--dropout`` and ``fedfb ledger``: what is masked, shown, and refused."""

import json

import pytest

from cli.asking import OWN, client_file, refused

FAST = ("--lr", ".01", "--clients", "4")
STEPS = ("--local-epochs", "30")  # as usual: a method of single steps reads no other


@pytest.fixture
def three_clients(write):
    for number, name in enumerate(("north", "east", "south")):
        write(client_file(start=number), f"clients/{name}.csv")
    return ("--data", "clients/*.csv", *OWN, "--rounds", "2", "--local-epochs", "1", "--lr", ".01")


def test_fedfb_shows_only_masked_sums(tiny, fedfb):
    assert tiny(*FAST, "--secure", "--out", "kept").code == 0
    told = fedfb("ledger", "kept", "--json").json
    assert told["server_received_only_sums"]
    up = [line for line in told["questions"] if line["way"] == "up"]
    assert {line["task"] for line in up} == {"count", "fit", "measure", "confusion"}
    assert {line["seen"] for line in up} == {"masked"}
    assert {line["seen"] for line in told["messages"] if line["way"] == "up"} == {"masked"}
    assert len(told["clients"]) == 4
    said = fedfb("ledger", "kept").out
    assert "only the sum" in said
    assert "unmasked" not in said
    assert "everything was masked: the server received only sums." in " ".join(said.split())
    assert "built-in data are one table" in " ".join(said.split())
    assert max(map(len, said.splitlines())) <= 80


def test_afl_shows_single_values(tiny, fedfb):
    flags = ("--rows", 200, "--test-rows", 200, "--rounds", 2)
    fedfb("run", *flags, "--algorithm", "afl", "--notion", "cp", "--out", "kept")
    told = fedfb("ledger", "kept", "--json").json
    assert not told["server_received_only_sums"]
    assert not told["needs_only_sums"]
    seen = {line["task"]: line["seen"] for line in told["questions"] if line["way"] == "up"}
    assert seen["losses"] == seen["roll call"] == "single"
    assert seen["gradient"] == "unmasked"
    said = fedfb("ledger", "kept").out
    assert "The method needs single values ('losses', 'roll call')" in " ".join(said.split())
    assert max(map(len, said.splitlines())) <= 80


def test_totals_by_client_are_those_of_the_messages(tiny, fedfb):
    tiny(*FAST, "--secure", "--dropout", ".3", "--seeds", "2", "--rounds", "5", "--out", "kept")
    told = fedfb("ledger", "kept", "--json").json
    for way, kinds in (("up", ("masked", "no values")), ("down", ("public",))):
        by_question = sum(line["bytes"] for line in told["questions"] if line["way"] == way)
        by_client = sum(c[kind]["bytes"] for c in told["clients"] for kind in kinds if kind in c)
        assert by_question == by_client > 0
    assert any("no values" in client for client in told["clients"])
    # Of those who are left the signal is a ratio: their losses by cell, and their rows; and wrong
    # decisions are counted.
    # After the last round the models of all rounds are measured.
    [signal, at_end] = [
        line
        for line in told["questions"]
        if (line["task"], line["way"]) == ("measure", "up") and line["seen"] == "masked"
    ]
    assert set(signal["parts"]) == set(at_end["parts"]) == {"losses", "rows", "mistakes"}


def test_secure_runs_end_with_the_numbers_of_plain_ones(tiny):
    flags = (*FAST, "--dropout", ".3", "--json", "--precision", "float64")
    plain, masked = tiny(*flags).json, tiny(*flags, "--secure").json
    for one, other in zip(plain["runs"], masked["runs"], strict=True):
        assert one["accuracy"] == pytest.approx(other["accuracy"], abs=1e-9)
        for left, right in zip(one["rounds"], other["rounds"], strict=True):
            assert left["lambda"] == pytest.approx(right["lambda"], abs=1e-5)
            assert left["signal"] == pytest.approx(right["signal"], abs=1e-5)


def test_dropouts_change_a_plain_run_too(tiny):
    runs = [tiny(*FAST, *more, "--json").json for more in ((), ("--dropout", ".3"))]
    assert runs[0]["runs"][0]["rounds"] != runs[1]["runs"][0]["rounds"]


def test_a_finished_secure_run_can_be_resumed_and_has_the_same_ledger(tiny, tmp_path):
    flags = (*FAST, "--secure", "--out", "kept")
    first = tiny(*flags, "--json")
    before = (tmp_path / "kept/ledger.jsonl").read_bytes()
    assert tiny(*flags, "--resume", "--json").out == first.out
    assert (tmp_path / "kept/ledger.jsonl").read_bytes() == before


def test_compare_masks_every_method_or_trains_none(fedfb):
    tiny = ("compare", *FAST, "--rows", 200, "--test-rows", 200, "--rounds", 2, "--secure")
    usual = fedfb(*tiny, "--json").json
    assert [one["algorithm"] for one in usual["results"]] == ["fedavg", "fedfb"]
    refused(fedfb(*tiny, "--algorithms", "fedavg,cfl"), "cfl (plain) trains on all rows in one")


def test_columns_of_own_clients_are_scaled_by_masked_sums(three_clients, fedfb, tmp_path):
    assert fedfb("run", *three_clients, "--out", "plain").code == 0
    assert fedfb("run", *three_clients, "--secure", "--out", "masked").code == 0
    plain, masked = (
        json.loads((tmp_path / name / "preprocessing.json").read_text())["encoder"]["columns"]
        for name in ("plain", "masked")
    )
    for one, other in zip(plain, masked, strict=True):
        assert one["mean"] == pytest.approx(other["mean"], rel=1e-9)
        assert one["sd"] == pytest.approx(other["sd"], rel=1e-9)
    told = fedfb("ledger", "masked", "--json").json
    assert [client["client"] for client in told["clients"]] == ["east", "north", "south"]
    columns = [line for line in told["questions"] if line["phase"] == "data"]
    assert [line["task"] for line in columns if line["way"] == "up"] == [
        *("row counts", "column sums", "column distances", "column squares"),
    ]
    assert told["server_received_only_sums"]
    assert not told["columns_scaled_before_dealing"]
    assert max(map(len, fedfb("ledger", "masked").out.splitlines())) <= 80


def test_the_columns_of_an_interrupted_run_are_asked_again_and_stand_once(three_clients, fedfb):
    flags = ("run", *three_clients, "--secure", "--out", "kept")
    fedfb(*flags)
    first = fedfb("ledger", "kept").out
    fedfb(*flags, "--resume")
    assert fedfb("ledger", "kept").out == first


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--algorithm", "cfl"), "nothing is summed there"),
        (("--notion", "cp", "--bits", 8), "fedfb without --bits"),
        (("--algorithm", "afl", "--notion", "cp", *STEPS), "'roll call' and 'losses'"),
        (("--clients", 2), "at least 3 clients in every round, and 2 of 2 take part"),
        (("--participation", 0.5), "raise --participation"),
        (("--clients", 4, "--dropout", 0.5), "at most 1 may"),
        (("--dropout", 0.95), "--dropout must be"),
        (("--dropout", "many"), "--dropout: expected a number"),
    ],
)
def test_what_cannot_be_secure_is_refused_before_training(tiny, tmp_path, flags, words):
    refused(tiny("--secure", "--lr", ".01", *flags, "--out", "kept"), words)
    assert not (tmp_path / "kept").exists()


def test_a_folder_without_a_ledger_is_told(fedfb, write):
    write("", "kept/notes.txt")
    refused(fedfb("ledger", "kept"), "kept holds no ledger", "--out")
    refused(fedfb("ledger", "absent"), "absent holds no ledger")
    write("{}\nnonsense\n{}\n", "kept/ledger.jsonl")
    refused(fedfb("ledger", "kept"), "cannot be read")


def test_an_interrupted_run_has_a_ledger_too(tiny, fedfb, tmp_path):
    tiny(*FAST, "--secure", "--out", "kept")
    path = tmp_path / "kept/ledger.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:5]) + "\n" + lines[5][:30])
    (tmp_path / "kept/fedfb.sha256").unlink()  # written at the end of a run
    told = fedfb("ledger", "kept", "--json").json
    assert len(told["messages"]) == 4
    assert json.loads(lines[0])["clients"] == [client["client"] for client in told["clients"]]
