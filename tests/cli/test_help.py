"""Every command and every setting can be looked up, and the help is there at once."""

import os
import subprocess
import sys
from dataclasses import fields
from importlib.metadata import version

import pytest

from fedfb.experiments.spec import Experiment
from fedfb.settings import flag_of, setting_of

COMMANDS = (
    "run",
    "compare",
    "predict",
    "explain",
    "ledger",
    "demo",
    "list",
    "check",
    "achievable",
    "reproduce",
    "frontier",
    "report",
    "audit",
    "export",
    "doctor",
    "schema",
    "study",
)


def test_the_version_is_that_of_the_installed_package(fedfb):
    assert fedfb("--version").out.splitlines()[0] == f"fedfb {version('fedfb')}"


@pytest.mark.parametrize(
    ("variable", "value", "line"),
    [
        ("FEDFB_ENGINE", "auto", "engine: native ("),
        ("FEDFB_ENGINE", "numpy", "engine: numpy: FEDFB_ENGINE=numpy"),
        ("FEDFB_ENGINE", "fast", "engine: none: unknown engine 'fast'"),
        ("FEDFB_KERNEL", __file__, "engine: none: the kernel cannot be loaded"),
    ],
)
def test_the_version_says_which_engine_runs_and_why(variable, value, line):
    command = [sys.executable, "-m", "fedfb", "--version"]
    environment = {**os.environ, "FEDFB_ENGINE": "auto", variable: value}
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[1].startswith(line)


def test_the_commands_are_those_tested_here(fedfb):
    listed = fedfb("--help").out.split("Commands:")[1].strip().splitlines()
    assert [line.split()[0] for line in listed] == list(COMMANDS)
    assert not any(line.endswith("...") for line in listed)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_has_an_example_and_fits_80_columns(fedfb, command):
    said = fedfb(command, "--help")
    assert said.code == 0
    assert f"Example: fedfb {command}" in said.out
    assert max(map(len, said.out.splitlines())) <= 80
    assert "\\" not in said.out


@pytest.mark.parametrize("command", ["run", "compare"])
def test_every_setting_of_an_experiment_has_a_flag_and_words(fedfb, command):
    said = fedfb(command, "--help")
    flags = {word.rstrip(",") for word in said.out.split() if word.startswith("--")}
    words = " ".join(said.out.split())
    for field in fields(Experiment):
        if command == "compare" and field.name == "algorithm":
            continue
        assert flag_of(field.name) in flags
        assert len(setting_of(field).help) > 10
        assert setting_of(field).help in words


def test_options_stand_in_sections(fedfb):
    said = fedfb("run", "--help").out
    for section in ("Options:", "Data:", "Method:", "Signal and weights:", "Run:"):
        assert f"\n{section}\n" in said


def test_without_a_command_the_help_is_shown(fedfb):
    said = fedfb()
    assert "Commands:" in said.out + said.err


@pytest.mark.parametrize("arguments", ["--help", "run --help", "run --rounds 0"])
def test_help_and_refusals_do_not_wait_for_heavy_imports(arguments):
    asked = f"sys.argv[1:] = {arguments.split()!r}"
    heavy = "{'numpy', 'scipy', 'sklearn', 'matplotlib', 'pooch', 'rich'}"
    code = (
        f"import sys; {asked}\nfrom fedfb.cli import main\ntry:\n    main()\n"
        f"except SystemExit:\n    print(sorted({heavy} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
