"""Files that are read back run no code, leave their folder alone, and are believed in nothing."""

import io
import json
import resource
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedfb
from cli.asking import OWN, client_file, refused
from cli.world import FAST, call, done
from fedfb.errors import ConfigError, DataError
from fedfb.files import pack_arrays, unpack_arrays

EVIL = """from pathlib import Path
Path("ran").write_text("code of a stranger ran")
def build(features):
    from torch import nn
    return nn.Linear(features, 1)
"""

HOSTILE = (None, True, -1, 0.5, 10**18, 1e308, "\x1b[2J", "../../x", [], {}, [[]], {"": None})
"""Values in the place of those that fedfb wrote."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A folder with rows, and a run on them without digests, as a stranger would send it."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("rows.csv").write_text(client_file())
        done("run", "--data", "rows.csv", *OWN, *FAST, "--out", "kept")
        Path("kept/fedfb.sha256").unlink()
        Path("evil.py").write_text(EVIL)
    return folder


@pytest.fixture
def world(trained, tmp_path, monkeypatch) -> Path:
    copy = tmp_path / "world"
    shutil.copytree(trained, copy)
    monkeypatch.chdir(copy)
    return copy


def name_code(model: str = "evil:build") -> None:
    path = Path("kept/experiment.toml")
    path.write_text(path.read_text().replace('model = "logistic"', f'model = "{model}"'))


COMMANDS = (
    ("predict", "kept", "rows.csv"),
    ("audit", "kept"),
    ("audit", "kept", "--data", "rows.csv"),
    ("export", "kept", "--to", "json"),
    ("export", "kept", "--to", "onnx"),
    ("export", "kept", "--to", "skops"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_folder_that_names_code_is_refused_and_the_code_does_not_run(world, command):
    name_code()
    refused(call(*command), "names code", "'evil:build'", "--trust-code")
    assert not Path("ran").exists()


@pytest.mark.parametrize("command", [("report", "kept"), ("ledger", "kept"), ("list",)])
def test_a_command_that_needs_no_model_runs_no_code_either(world, command):
    name_code()
    done(*command)
    assert not Path("ran").exists()


def test_a_settings_file_that_names_code_needs_the_name_typed(world):
    name_code()
    refused(call("run", "kept/experiment.toml"), "names code", "--model evil:build")
    assert not Path("ran").exists()


def test_in_python_a_folder_that_names_code_is_refused(world):
    name_code("os:abort")
    with pytest.raises(ConfigError, match="trust_code=True"):
        fedfb.load_model("kept")


def test_trusted_code_runs(world):
    pytest.importorskip("torch", reason="torch is not installed")
    name_code()
    said = call("predict", "kept", "rows.csv", "--trust-code")
    assert said.code in (0, 2)
    assert Path("ran").exists()


def test_a_baseline_that_names_code_is_refused(world):
    shutil.copytree("kept", "baseline")
    name_code()
    Path("kept").rename("stranger")
    Path("baseline").rename("kept")
    refused(call("audit", "kept", "--baseline", "stranger"), "names code", "'evil:build'")
    assert not Path("ran").exists()


@pytest.mark.parametrize("key", ["data", "test"])
def test_a_folder_that_names_a_server_is_not_logged_in_to(world, key):
    path = Path("kept/experiment.toml")
    lines = [line for line in path.read_text().splitlines() if not line.startswith(f"{key} =")]
    lines.append(f'{key} = "postgresql://evil.example:1/db?table=t"')
    path.write_text("\n".join(lines))
    refused(call("audit", "kept"), "evil.example", "--trust-code")


@pytest.mark.parametrize("name", ["../outside", "/etc", "a/b", "..", "."])
def test_a_comparison_reads_no_run_outside_its_folder(world, name):
    shutil.copytree("kept", "outside")
    Path("compared").mkdir()
    Path("compared/comparison.json").write_text(json.dumps({"algorithms": [name]}))
    refused(call("report", "compared"), "comparison.json cannot be read")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of every value in JSON."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def replace_at(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    copy = json.loads(json.dumps(value))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return copy


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("preprocessing.json", ("predict", "kept", "rows.csv")),
        ("preprocessing.json", ("report", "kept", "--force")),
        ("result.json", ("report", "kept", "--force")),
        ("result.json", ("export", "kept", "--to", "json", "--force")),
        ("versions.json", ("report", "kept", "--force")),
    ],
)
def test_every_value_of_a_file_may_be_hostile(world, name, command):
    path = Path("kept") / name
    written = json.loads(path.read_text())
    before, files = memory(), sorted(Path().rglob("*"))
    attempts = [(place, new) for place in places(written) for new in HOSTILE]
    chosen = np.random.default_rng(0).permutation(len(attempts))[:60]
    for place, new in (attempts[number] for number in chosen):
        path.write_text(json.dumps(replace_at(written, place, new)))
        said = call(*command)
        assert said.code in (0, 2), (place, new, said)
        assert said.err.startswith("fedfb: ") or said.code == 0, (place, new, said)
        assert "\x1b" not in said.out + said.err, (place, new)
    assert memory() - before < 2**19
    made = {path.name for path in sorted(Path().rglob("*")) if path not in files}
    assert made <= {"report.html", "model.json"}


def memory() -> int:
    """Return the KiB that this process has needed so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.parametrize("inputs", [0, -1, 10**9, 1.5, "3", True, None, [3], 7])
@pytest.mark.parametrize("command", [("predict", "kept", "rows.csv"), ("report", "kept")])
def test_the_number_of_inputs_is_a_whole_number_within_bounds(world, inputs, command):
    path = Path("kept/preprocessing.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "inputs": inputs}))
    if inputs == 7 and command[0] == "report":
        return  # a report shows the number, and uses it for nothing
    refused(call(*command), "inputs", "kept")


@pytest.mark.parametrize(
    "line",
    [
        "hidden = [1000000000000]\nmodel_ = 1", "rounds = 1000000000000000000",
        "seeds = 10000000000", 'seeds = "0:10000000000"', "local_epochs = 1e300",
        'algorithm = "../evil"', 'notion = "\\u001b[2J"', 'engine = "torch"',
    ],
)  # fmt: skip
def test_a_hostile_setting_is_refused_or_has_no_effect(world, line):
    path = Path("kept/experiment.toml")
    name = line.split(" = ")[0]
    lines = [text for text in path.read_text().splitlines() if not text.startswith(f"{name} =")]
    path.write_text("\n".join([*lines, line]))
    said = call("predict", "kept", "rows.csv")
    assert said.code in (0, 2)
    assert "\x1b" not in said.out + said.err


def pack_header(header: str, content: bytes = b"") -> bytes:
    """Return an archive with one member whose header declares what it likes."""
    text = header.encode() + b" " * (117 - len(header)) + b"\n"
    member = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + content
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.npy", member)
    return file.getvalue()


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (100000000000,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (300000, 300000), }",
        "{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000,), }",
        "{'descr': '|V0', 'fortran_order': False, 'shape': (1000000000000,), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': [('a', '|O')], 'fortran_order': False, 'shape': (1,), }",
        "{'descr': __import__('os'), 'fortran_order': False, 'shape': (1,), }",
    ],
)
def test_an_array_is_no_longer_than_its_file(header):
    before = memory()
    with pytest.raises(DataError, match="here"):
        unpack_arrays(pack_header(header), "here", "arrays")
    assert memory() - before < 2**16


def test_a_compressed_or_repeated_member_is_no_bomb():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", bytes(2**26))
    with pytest.raises(DataError, match="compressed"):
        unpack_arrays(file.getvalue(), "here", "arrays")
    # Many entries of the directory point to the same bytes.
    content = bytearray(pack_arrays({"a": np.zeros(100), "b": np.zeros(100)}))
    directory = content.index(b"PK\x01\x02")
    entry = content[directory : content.index(b"PK\x01\x02", directory + 1)]
    end = content.index(b"PK\x05\x06")
    tail = bytearray(content[end:])
    count, size = 50, 50 * len(entry)
    tail[8:10] = tail[10:12] = count.to_bytes(2, "little")
    tail[12:16] = size.to_bytes(4, "little")
    with pytest.raises(DataError, match="longer than the file"):
        unpack_arrays(bytes(content[:directory] + entry * count + tail), "here", "arrays")


@pytest.mark.parametrize("name", ["models.npz", "preprocessing.json", "experiment.toml"])
def test_a_pipe_in_a_folder_is_refused_at_once(world, name):
    import os

    (Path("kept") / name).unlink()
    os.mkfifo(Path("kept") / name)
    refused(call("predict", "kept", "rows.csv"), "no ordinary file")


@pytest.mark.parametrize("name", ["models.npz", "preprocessing.json", "experiment.toml"])
def test_a_link_to_a_device_is_refused_at_once(world, name):
    (Path("kept") / name).unlink()
    (Path("kept") / name).symlink_to("/dev/zero")
    refused(call("predict", "kept", "rows.csv"), "no ordinary file")
