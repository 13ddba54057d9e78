"""What goes wrong before a study runs is told in words: who, what was expected, what to do."""

import json
import resource
import socket
import subprocess
from dataclasses import replace

import pytest

from fedfb.errors import ConfigError, DataError
from fedfb.experiments.spec import Experiment
from fedfb.study.client import open_client
from fedfb.study.keys import create, make_private_keys, read_bundle, read_server_secrets
from fedfb.study.study import read_study, study_from_toml, study_to_toml
from study.by_hand import federation, make, open_clients, run_by_hand

QUICK = Experiment(algorithm="fedavg", rounds=1, local_epochs=1, lr=(0.02,))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make(tmp_path_factory.mktemp("made"), QUICK)


@pytest.fixture
def served(tmp_path):
    """A study whose SuperLink runs in this process, and the clients' folder."""
    from fedfb.study.transport.server import open_superlink

    study, _ = make(tmp_path, QUICK, wait_s=3.0)
    planned, secrets = read_server_secrets(study)
    planned = replace(planned, address=f"127.0.0.1:{federation.free_port()}")
    with open_superlink(planned, secrets, study.parent / "secrets"):
        yield study, planned.address


def joined(bundle, address, folder):
    from fedfb.study.transport.client import activate_node, open_fleet_client

    there = replace(bundle, study=replace(bundle.study, address=address))
    with open_fleet_client(there) as client:
        return activate_node(there, client, folder, lambda text: None)


def bundle_of(study, client="north"):
    return read_bundle(study.parent / "bundles" / f"{client}.bundle")


def test_a_registered_node_joins_and_joins_again_at_once(served, tmp_path):
    study, address = served
    assert joined(bundle_of(study), address, tmp_path) == joined(
        bundle_of(study), address, tmp_path
    )


def test_an_unregistered_node_is_told_so(served, tmp_path):
    study, address = served
    stranger = replace(bundle_of(study), keys=make_private_keys())
    with pytest.raises(ConfigError, match="accept 'north': its node key is not registered"):
        joined(stranger, address, tmp_path)


def test_a_wrong_certificate_is_noticed_before_anything_is_sent(served, made, tmp_path):
    study, address = served
    other = bundle_of(made[0])
    with pytest.raises(ConfigError, match=r"not the one of this study .*Nothing was sent"):
        joined(other, address, tmp_path)
    with pytest.raises(ConfigError, match="not the one of this study"):  # made for another name
        joined(bundle_of(study), address.replace("127.0.0.1", "localhost"), tmp_path)


def test_a_server_that_is_not_there_is_waited_for_and_then_told(made, tmp_path):
    bundle = bundle_of(made[0])
    with pytest.raises(DataError, match=r"no server at 127.0.0.1:\d+ for 0.5 seconds"):
        joined(bundle, f"127.0.0.1:{federation.free_port()}", tmp_path)


def test_a_port_in_use_is_told(made):
    from fedfb.study.transport.server import open_superlink

    planned, secrets = read_server_secrets(made[0])
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        planned = replace(planned, address=f"127.0.0.1:{taken.getsockname()[1]}")
        with (
            pytest.raises(ConfigError, match="cannot be used: Address already in use"),
            open_superlink(planned, secrets, made[0].parent / "secrets"),
        ):
            pass


def test_only_the_fleet_routes_exist():
    from fedfb.study.transport.server import make_fleet_app

    paths = {getattr(route, "path", "") for route in make_fleet_app().router.routes}
    served = {path for path in paths if path}
    assert not {path for path in served if "control" in path or "runtime" in path}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("age,", "years,"), "mine.csv has no column 'age', but the study's schema has"),
        (("acute", "intensive"), r"line \d+.*'intensive' is not among the declared categories"),
        (("F,rural", "X,rural"), "column 'sex': 'X' is not among the declared categories"),
        (("F,rural", ",rural"), "the sensitive column 'sex' is missing in"),
    ],
)
def test_a_file_that_does_not_fit_the_schema_is_refused_with_its_line(
    change, words, made, tmp_path
):
    study, clients = made
    (tmp_path / "mine.csv").write_text((clients / "north.csv").read_text().replace(*change))
    with pytest.raises(DataError, match=words):
        open_client(bundle_of(study), tmp_path / "mine.csv", tmp_path)


def test_joining_with_a_file_that_does_not_fit_ends_in_words(made, tmp_path):
    study, clients = made
    lines = (clients / "north.csv").read_text().splitlines()
    lines[3] = "old" + lines[3][lines[3].index(",") :]
    (tmp_path / "mine.csv").write_text("\n".join(lines))
    bundle = study.parent / "bundles" / "north.bundle"
    said = subprocess.run(
        [*federation.FEDFB, "join", str(bundle), "--data", str(tmp_path / "mine.csv")],
        capture_output=True,
        text=True,
    )
    assert said.returncode == 2
    assert "Traceback" not in said.stderr
    assert "line 4, column 'age': 'old' is not a number" in said.stderr


def test_joining_shows_what_will_be_sent_and_asks_once(made):
    study, clients = made
    bundle = study.parent / "bundles" / "north.bundle"
    said = subprocess.run(
        [*federation.FEDFB, "join", str(bundle), "--data", str(clients / "north.csv")],
        input="n\n",
        capture_output=True,
        text=True,
    )
    assert said.returncode == 1
    assert "No row leaves this machine" in said.stdout
    assert "The group is not an input of the model." in said.stdout
    assert "fit: weighted (9), weight (1); sums over all clients" in said.stdout


@pytest.mark.slow
def test_a_full_disk_stops_the_client_and_the_server_in_words(tmp_path):
    study, clients = make(tmp_path, QUICK)
    client = open_clients(study, clients)[0]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    there = {**open_clients(study, clients), 0: replace(client, folder=tmp_path / "made.csv" / "x")}
    (tmp_path / "made.csv").write_text("")
    with pytest.raises(Exception, match=r"east: cannot write to .*Make room"):
        run_by_hand(study, clients, there=there)
    secrets = study.parent / "study.toml"
    full = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, {hard}))\n"
    run = (
        "import sys; sys.argv = ['fedfb', 'serve', sys.argv[1]]\nfrom fedfb.cli import main; main()"
    )
    # -B: bytecode cut off by the limit would stop every process that comes after.
    said = subprocess.run(
        [federation.FEDFB[0], "-B", "-c", full + run, str(secrets)], capture_output=True, text=True
    )
    assert said.returncode == 2, said.stderr
    assert "File too large. Make room there" in said.stderr
    assert "Traceback" not in said.stderr
    assert resource.getrlimit(resource.RLIMIT_FSIZE) == (soft, hard)


def test_keys_that_a_client_made_itself_never_leave_it(made, tmp_path):
    study = read_study(made[0])
    own = make_private_keys()
    create(study, tmp_path / "study", {"north": own.public})
    path = tmp_path / "study" / "bundles" / "north.bundle"
    assert own.identity not in "".join(
        file.read_text() for file in (tmp_path / "study").rglob("*") if file.is_file()
    )
    with pytest.raises(ConfigError, match="Name their file by --key"):
        read_bundle(path)
    (tmp_path / "north.key").write_text(json.dumps(own._asdict()))
    assert read_bundle(path, tmp_path / "north.key").keys == own
    (tmp_path / "other.key").write_text(json.dumps(make_private_keys()._asdict()))
    with pytest.raises(ConfigError, match="the keys are not those of 'north'"):
        read_bundle(path, tmp_path / "other.key")


def test_a_study_is_read_as_it_was_written(made):
    study = read_study(made[0])
    assert study_from_toml(study_to_toml(study), "here") == study


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"least": 2}, "of 4 clients at least 3 must answer"),
        ({"address": "nowhere"}, "expected host:port"),
        ({"clients": ("b", "a", "c")}, "different names in order"),
        ({"timeout_s": 0.0}, "more than 0"),
        ({"experiment": Experiment(leave_out_clients=True)}, "with all of its clients"),
    ],
)
def test_a_study_that_cannot_be_run_is_refused(made, changes, words):
    with pytest.raises(ConfigError, match=words):
        replace(read_study(made[0]), **changes)
