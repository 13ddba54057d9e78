"""One study with all that a schema can say: its result is what one process makes of the files.

Ranges, merged values, columns that are left out, clipped and robust scales, gaps, a Parquet file, a
category of one client only; a learning rate that is picked, an audit, and what is achievable.
"""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas
import pytest
from msgspec import structs

from fedfb.audit.model_rows import ModelChoice, model_subject
from fedfb.audit.record import audit
from fedfb.audit.result import read_audit
from fedfb.data.encode import Encoder
from fedfb.data.schema_file import read_schema
from fedfb.experiments.codec import to_builtins
from fedfb.experiments.run_folder import read_result, save
from fedfb.experiments.secure import make_audit_add
from fedfb.experiments.shortfalls import other_notes
from fedfb.experiments.spec import Experiment
from fedfb.runtime.ledger import read_ledger
from fedfb.study.disclosure import describe_uploads
from fedfb.study.journal import Log
from fedfb.study.results import SUMS_ONLY, FinishedRun, make_audit_text
from fedfb.theory.achievable import achievable
from fedfb.theory.from_scores import count_scores, describe_scores, population_of
from study.by_hand import CLIENTS, federation, make_with, run_by_hand
from study.replay import assert_same_bits

pytestmark = pytest.mark.slow

SCHEMA = """
crossed = ["sex", "age"]
[columns.nr]
role = "ignored"
[columns.age]
role = "sensitive"
type = "number"
bins = [55]
[columns.sex]
role = "sensitive"
type = "category"
categories = ["F", "M", "X"]
merge = { "F or X" = ["F", "X"] }
[columns.pulse]
role = "feature"
type = "number"
scale = "robust"
[columns.cost]
role = "feature"
type = "number"
scale = "clip"
[columns.height]
role = "feature"
type = "number"
[columns.ward]
role = "feature"
type = "category"
categories = ["acute", "day", "hospice", "maternity", "never"]
[columns.urgent]
role = "label"
type = "yes-no"
categories = ["no", "yes"]
positive = "yes"
"""


def write_clients(folder, rows):
    """Write files with gaps: one of Parquet, one with a column more, one with a ward of its own."""
    federation.write_clients(folder, rows)
    for number, client in enumerate(CLIENTS):
        path = folder / f"{client}.csv"
        frame, rng = pandas.read_csv(path).drop(columns="region"), np.random.default_rng(number)
        frame["cost"] = rng.lognormal(5, 2, rows)
        frame["height"] = np.where(rng.random(rows) < 0.1, np.nan, rng.normal(170, 9, rows))
        frame.loc[rng.random(rows) < 0.05, "sex"] = "X"
        if client == "south":
            frame.insert(0, "nr", range(rows))
        if client == "west":
            frame.loc[frame.index % 9 == 0, "ward"] = "hospice"
        if client == "north":
            path.unlink()
            frame.to_parquet(path.with_suffix(".parquet"))
        else:
            frame.to_csv(path, index=False)
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A study by hand, and the same experiment in one process."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "given.toml").write_text(SCHEMA)
    clients = write_clients(folder / "clients", 480)
    made = make_with(
        folder, clients, read_schema(folder / "given.toml"),
        Experiment(rounds=2, local_epochs=2), achievable=True,
    )  # fmt: skip
    ends = run_by_hand(made)
    assert not isinstance(ends.server, BaseException), ends.server
    alone = federation.train_alone(made.study, folder, clients, ledger=folder / "ledger.jsonl",
                                   checkpoints=folder)  # fmt: skip
    save(alone, folder / "alone")
    kept = made.run
    report = json.loads((kept / "result.json").read_text())
    return SimpleNamespace(**locals())


def test_the_model_has_the_bits_of_one_process(whole):
    state = federation.final_state(whole.kept)
    assert_same_bits(state, whole.alone.fitted[0].trained.state._asdict())
    assert np.ptp(state["lam"]) > 0


def test_rows_are_encoded_as_in_one_process(whole):
    found = json.loads((whole.kept / "preprocessing.json").read_text())
    alone = json.loads((whole.folder / "alone" / "preprocessing.json").read_text())
    assert found == alone
    [ward] = [c for c in found["encoder"]["columns"] if c["name"] == "ward"]
    assert ward["categories"] == ["acute", "day", "hospice", "maternity"]
    assert found["encoder"]["groups"]["names"][0] == "sex=F or X, age=up to 55"


def test_the_same_exchanges_are_asked_of_columns_and_in_every_round(whole):
    def asked(path):
        return {
            account.phase: [
                (e.round, e.question, e.task, e.seen, {k: list(v) for k, v in e.parts.items()})
                for e in account.entries
                if e.way == "up"
            ]
            for account in read_ledger(path)
        }  # fmt: skip

    found, alone = asked(whole.kept / "ledger.jsonl"), asked(whole.folder / "ledger.jsonl")
    assert found["data"] == alone["data"]
    assert {task for _, _, task, *_ in found["data"]} >= {
        *("row counts", "category counts", "robust histograms", "clip sums"),
    }
    for phase in ("tune", "run"):
        # The histogram of scores follows the last round, and the test rows follow it.
        training = [one for one in found[phase] if one[2] != "test"]
        assert training == alone[phase]
        assert [one[2] for one in training if one[0] > 2] == ["histogram"]
    assert {seen for phase in found.values() for *_, seen, _ in phase} == {"masked", "single"}
    single = [one for phase in found.values() for one in phase if one[3] == "single"]
    assert {task for _, _, task, *_ in single} == {"scores"}


def test_the_learning_rate_is_picked_on_validation_sums(whole):
    [found], [alone] = whole.report["picked"], to_builtins(whole.alone.result.picked)
    assert found["chosen"] == alone["chosen"]
    for one, other in zip(found["candidates"], alone["candidates"], strict=True):
        assert one["setting"] == other["setting"]
        for name in ("accuracy", "disparity", "loss", "off_target"):
            assert one[name] == pytest.approx(other[name], abs=1e-6)


def test_test_figures_have_the_intervals_and_groups_of_one_process(whole):
    [found], [alone] = whole.report["runs"], whole.alone.result.runs
    alone = json.loads(json.dumps(to_builtins(alone)))
    unknown = {"auc", "clients", "local_disparity", "rounds", "copied"}
    unknown |= {"loss", "loss_spread", "constant_loss", "loss_error", "calibration"}
    for name in alone.keys() - unknown:
        expected = alone[name]
        if name in ("disparity", "interval", "chance"):
            expected = {**expected, "client_parity": None}
        if name == "at_one_half" and expected is not None:
            expected["disparity"]["client_parity"] = None
        assert found[name] == expected, name
    assert found.keys() == alone.keys() - {"calibration"}
    assert found["rounds"] == alone["rounds"]
    notes = other_notes(read_result(whole.kept, "a result"))
    others = other_notes(whole.alone.result)
    assert [note for note in notes if note != SUMS_ONLY] == others
    ours = {**whole.report, **dict.fromkeys(("data", "settings", "experiment_hash", "notes"))}
    assert ours.keys() == {*to_builtins(whole.alone.result), "study", "client_names"}


def test_the_audit_is_that_of_the_run_in_one_process(whole):
    found = read_audit(whole.kept / "audit.json")
    subject = model_subject(whole.folder / "alone", ModelChoice())
    alone = audit(subject, secure=True, add=make_audit_add(True, None))
    differing = {name: getattr(alone, name) for name in ("name", "data", "hashes", "notes")}
    assert structs.replace(found, **differing) == alone
    assert found.calibration


def test_rows_that_nothing_can_be_said_of_leave_no_audit(whole, tmp_path):
    encoder = Encoder.from_dict(encoder_of(whole))
    known = FinishedRun(encoder, None, None, None, {"confusion": np.zeros((1, 2, 2, 4))}, None)
    said = []
    log = Log(tmp_path / "events.jsonl", said.append)
    assert make_audit_text(whole.made.study, known, whole.kept, log.write) == ""
    assert "no audit: no row has the favourable label (urgent = 'yes')" in said[0]


def test_what_is_achievable_is_what_the_files_tell_in_one_process(whole):
    found = json.loads((whole.kept / "achievable.json").read_text())
    scored = count_scores(whole.alone.experiment)
    plain = count_scores(replace(whole.alone.experiment, secure=False))  # as the command does
    np.testing.assert_array_equal(scored.counts, plain.counts)
    alone = {**achievable(population_of(scored.counts)), **describe_scores(scored, 0)}
    assert found == json.loads(json.dumps(alone))


def test_every_side_makes_the_same_files_itself(whole):
    for name in CLIENTS:
        state = whole.made.state(name)
        for file in ("result.json", "audit.json", "achievable.json", "models.npz"):
            assert (state / file).read_bytes() == (whole.kept / file).read_bytes(), file


def test_a_client_lists_its_own_messages_in_a_ledger_of_its_own(whole):
    server = {a.phase: a for a in read_ledger(whole.kept / "ledger.jsonl")}
    for id, name in enumerate(CLIENTS):
        for account in read_ledger(whole.made.state(name) / "ledger.jsonl"):
            sent = [e for e in account.entries if e.way == "up"]
            received = [e for e in server[account.phase].entries if e.way == "up"]
            assert {tuple(e.clients) for e in sent} == {(id,)}
            total = sum(e.bytes for e in received if id in e.clients)
            assert sum(e.bytes for e in sent) == total


def test_a_client_reads_that_its_own_scores_will_be_seen(whole):
    rows = whole.made.rows("east")
    said = "\n".join(describe_uploads(whole.made.study, "east", "east.csv", rows))
    assert "in each of 200 bins, by label and group; YOUR OWN VALUE" in said
    assert "histograms of pulse, cost" in said
    assert "learning rate" in said, said


def encoder_of(whole):
    return json.loads((whole.kept / "preprocessing.json").read_text())["encoder"]
