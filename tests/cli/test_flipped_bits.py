"""Files with a flipped bit: every command that reads them succeeds or refuses in a sentence.

Every kind of file that a command reads, 500 single flips each. In a folder of results every flip is
refused: none changes a result in silence.
"""

import json
import resource
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from cli.asking import OWN, Said
from cli.world import FAST, build, call, done, tiny_target
from fedfb.errors import FedFBError

pytestmark = pytest.mark.slow

FLIPS = 500
MOST_MEMORY = 2**20
"""KiB that reading may add: a length with a flipped bit is not believed."""


@pytest.fixture(scope="module", autouse=True)
def _world(tmp_path_factory):
    """Work in a folder with one file of every kind, the store among them."""
    folder = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("COLUMNS", "80")
        patch.setenv("FEDFB_STORE", str(folder / "store"))
        patch.setattr("sys.dont_write_bytecode", True)  # or a flipped plugin is not read again
        tiny_target(patch)
        build()
        shutil.copytree("kept", "unsealed")
        Path("unsealed/fedfb.sha256").unlink()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        yield
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_MEMORY


def flipped(path: Path, flips: int = FLIPS) -> Iterator[int]:
    """Flip one bit of a file at a time, drawn with a seed of its name, and mend it again."""
    whole = path.read_bytes()
    rng = np.random.default_rng(zlib.crc32(path.name.encode()))
    bits = rng.choice(8 * len(whole), size=flips, replace=8 * len(whole) < flips)
    try:
        for bit in map(int, bits):
            content = bytearray(whole)
            content[bit // 8] ^= 1 << bit % 8
            path.write_bytes(content)
            yield bit
    finally:
        path.write_bytes(whole)


def walk(path: str, attempt: Callable[[], Said], flips: int = FLIPS) -> list[Said]:
    """Attempt a command with every flip; return how each ended, all of them in one of two ways."""
    ends = []
    for bit in flipped(Path(path), flips):
        try:
            said = attempt()
        except Exception as error:
            error.add_note(f"with bit {bit} of {path} flipped")
            raise
        assert said.code in (0, 2), (bit, said)
        if said.code == 2:
            assert said.out == "", (bit, said)
            assert said.err.startswith(("fedfb: ", "Usage: ")), (bit, said)
            assert "Traceback" not in said.err
        ends.append(said)
    return ends


def reading(read: Callable[[], object]) -> Callable[[], Said]:
    """Return an attempt that calls what a command reads a file with."""

    def attempt() -> Said:
        try:
            read()
        except FedFBError as error:
            return Said(2, "", f"fedfb: {error}")
        return Said(0, "", "")

    return attempt


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("experiment.toml", ("run", "experiment.toml")),
        ("rows.csv", ("schema", "infer", "rows.csv", *OWN[:6])),
        ("rows.csv", ("predict", "kept", "rows.csv")),
        ("rows.parquet", ("schema", "infer", "rows.parquet", *OWN[:6])),
        ("schema.toml", ("schema", "check", "schema.toml", "rows.csv")),
        ("study/study.toml", ("study", "status", "study/study.toml")),
        ("study/run/events.jsonl", ("study", "status", "study/study.toml")),
        ("kept/fedfb.sha256", ("predict", "kept", "rows.csv")),
        ("unsealed/models.npz", ("predict", "unsealed", "rows.csv")),
        ("unsealed/preprocessing.json", ("predict", "unsealed", "rows.csv")),
        ("unsealed/experiment.toml", ("predict", "unsealed", "rows.csv")),
        ("unsealed/ledger.jsonl", ("ledger", "unsealed")),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_a_command_succeeds_or_refuses_in_a_sentence(path, command):
    done(*command)  # with the file as it was written
    fits = ("schema", "check")  # whose exit code 1 says that rows do not fit
    walk(
        path,
        lambda: (said := call(*command))._replace(
            code=0 if command[:2] == fits and said.code == 1 else said.code
        ),
    )


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("kept/experiment.toml", ("predict", "kept", "rows.csv")),
        ("kept/models.npz", ("predict", "kept", "rows.csv")),
        ("kept/preprocessing.json", ("predict", "kept", "rows.csv")),
        ("kept/result.json", ("report", "kept", "--force")),
        ("kept/versions.json", ("report", "kept", "--force")),
        ("kept/ledger.jsonl", ("ledger", "kept")),
        ("compared/comparison.json", ("report", "compared", "--force")),
        ("compared/fedfb/result.json", ("report", "compared", "--force")),
        ("frontier/frontier.json", ("report", "frontier", "--force")),
        ("reproduced/table1.json", ("report", "reproduced", "--force")),
        ("study/run/result.json", ("study", "fetch", "study/study.toml", "--to", "fetched")),
        ("study/run/audit.json", ("study", "fetch", "study/study.toml", "--to", "fetched")),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_no_flip_changes_a_result_in_silence(path, command):
    done(*command)  # with the file as it was written
    shutil.rmtree("fetched", ignore_errors=True)
    for said in walk(path, lambda: call(*command)):
        assert said.code == 2
        assert "has changed since fedfb wrote it" in said.err
    assert not Path("fetched").exists()


@pytest.mark.parametrize("folder", ["unsealed", "frontier", "reproduced"])
def test_results_without_digests_become_a_page_or_a_sentence(folder, tmp_path):
    from fedfb.files import interpreting
    from fedfb.paper.page import page_of_folder
    from fedfb.report.folder import WRITTEN

    def make_page():
        with interpreting(copy, WRITTEN):  # as fedfb report does
            page_of_folder(copy)

    copy = tmp_path / folder
    shutil.copytree(folder, copy)
    for sums in copy.rglob("fedfb.sha256"):
        sums.unlink()
    page_of_folder(copy)  # as they were written, they become a page
    names = ("result.json", "frontier.json", "table1.json")
    for path in (path for name in names for path in copy.rglob(name)):
        walk(str(path), reading(make_page), flips=6)


CHECKPOINT = "checkpoint.npz"


def own_rows():
    from fedfb.data import load
    from fedfb.experiments.spec import Experiment

    own = Experiment(data="rows.csv", label="y", positive="y", sensitive=("sex",))
    return load(own.request, 0)


def scores():
    from fedfb.audit.scores_file import Columns, scores_subject

    return scores_subject("scores.csv", Columns("y", "1", ("sex",), score="p"))


def checkpoint():
    from fedfb.runtime import archive as checkpoint

    return checkpoint.load_archive(Path(CHECKPOINT), "")


def model_to_export():
    from fedfb.export.handover import take_over

    return take_over(Path("unsealed"))


def own_schema():
    from fedfb.data.schema_file import read_schema

    return read_schema("schema.toml")


def population():
    from fedfb.theory.achievable import read_population

    return read_population(Path("population.toml"))


def plugin():
    from fedfb.algorithms.method import read_methods

    return read_methods(Path("plugin.py"))


def served():
    from fedfb.study.folder import StudyFolder
    from fedfb.study.seal import check_signatures

    study, _, signatures = StudyFolder(Path("study")).read(Path("study/study.toml"))
    check_signatures(study, signatures)


def keys():
    from fedfb.study.keys import read_private_keys

    return read_private_keys(Path("north.key"))


def client():
    from fedfb.study.study import read_study
    from fedfb.study.trial import open_rows

    return open_rows(read_study(Path("study/study.toml")), 0, Path("east.csv"))


def public_keys():
    from fedfb.study.keys import read_public_keys

    return read_public_keys(Path("north.pub"))


def totals():
    """Read all that a client goes on from: the records of its journal."""
    from fedfb.study.journal import Journal
    from fedfb.study.study import read_study

    journal = Journal(Path("east.state"), read_study(Path("study/study.toml")).seal)
    found = [journal.find_total(number) for number in range(journal.count_totals())]
    return [*found, journal.find_memory("run")]


@pytest.mark.parametrize(
    ("path", "read"),
    [
        ("rows.csv", own_rows),
        ("schema.toml", own_schema),
        ("scores.csv", scores),
        ("unsealed/result.json", model_to_export),
        ("population.toml", population),
        ("plugin.py", plugin),
        ("study/study.toml", served),
        ("study/secrets/server.key", served),
        ("study/east.sig", served),
        ("north.key", keys),
        ("north.pub", public_keys),
        ("east.csv", client),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_commands_read_before_they_work_is_read_or_refused(path, read):
    read()  # as it was written, it can be read
    walk(path, reading(read))


@pytest.mark.parametrize(
    ("path", "read"),
    [(CHECKPOINT, checkpoint)],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_arrays_are_read_as_they_were_written_or_refused(path, read):
    whole = read()
    assert whole
    refusals = 0
    for bit in flipped(Path(path)):
        try:
            np.testing.assert_equal(read(), whole, err_msg=str(bit))
        except FedFBError:
            refusals += 1
    assert refusals > FLIPS / 2  # a flipped date of the archive changes nothing


def test_a_journal_is_read_as_it_was_written_or_refused():
    whole = totals()
    assert len(whole) > 3
    for bit in flipped(Path("east.state/journal.sqlite")):
        try:
            found = totals()
        except FedFBError:
            continue
        # A flip in an unused page, or in a line of the ledger, changes no total.
        assert found[: len(whole) - 1] == whole[:-1] or len(found) < len(whole), str(bit)


def test_a_cell_is_computed_again_or_as_it_was(capsys):
    from fedfb.paper.reproduce import _load_or_make

    figure = {"mean": 0.75, "std": None}
    point = {"settings": {}, "accuracy": figure, "disparity": {"demographic_parity": figure}}
    cell = {"points": [point], "cpu_seconds": 1.5}
    assert _load_or_make("a cell", Path("cells"), lambda: cell) == cell
    [path] = Path("cells").glob("*.json")
    digests = Path("cells/fedfb.sha256").read_bytes()
    for _ in flipped(path):
        anew = cell | {"again": 1}
        assert _load_or_make("a cell", Path("cells"), lambda anew=anew: anew) == anew
        assert "It is computed again" in capsys.readouterr().err
        Path("cells/fedfb.sha256").write_bytes(digests)
    Path("cells/fedfb.sha256").unlink()
    for points in ("x", [{}], [1], [point | {"accuracy": None}], [point | {"settings": 1}]):
        path.write_text(json.dumps(cell | {"points": points}))
        assert _load_or_make("a cell", Path("cells"), lambda: cell) == cell
        Path("cells/fedfb.sha256").unlink()


@pytest.mark.parametrize("bit", range(0, 8 * 64, 37))
def test_a_run_is_resumed_or_refused_in_a_sentence(bit):
    path = Path("kept/checkpoints/run-seed-0.npz")
    whole = path.read_bytes()
    content = bytearray(whole)
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)
    said = call("run", "--data", "rows.csv", *OWN, *FAST, "--out", "kept", "--resume")
    path.write_bytes(whole)
    assert said.code in (0, 2)
    if said.code == 2:
        assert "run-seed-0.npz cannot be read" in said.err
        assert "Remove it" in said.err


def test_a_record_of_the_store_is_trained_again_or_as_it_was():
    from fedfb.experiments.cache import SeedRecord, Store

    store, key = Store(Path("own-store"), lambda sentence: None), {"seed": 0}
    record = SeedRecord(number=1, results=())
    store.put(key, record)
    assert store.get(key) == record
    for _ in flipped(store.path(key)):
        assert store.get(key) in (record, None)


def test_lengths_that_nobody_has_are_not_believed():
    import io
    import zipfile

    from fedfb.files import unpack_arrays

    header = b"\x93NUMPY\x01\x00"
    for shape in ("(1152921504606846976,)", "(4611686018427387904, 8)", "(-1,)", "(1e9,)", "([],)"):
        text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("a.npy", header + len(text).to_bytes(2, "little") + text.encode())
        with pytest.raises(FedFBError, match="not a whole npz file"):
            unpack_arrays(file.getvalue(), "here", "arrays")
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", bytes(10**7))
    with pytest.raises(FedFBError, match="compressed"):
        unpack_arrays(bomb.getvalue(), "here", "arrays")
