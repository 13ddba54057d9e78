"""Every client's epsilon is told: printed, in the JSON report, the ledger and the page."""

import json

import pytest
from typer.testing import CliRunner

from fedfb.cli.app import app

RUN = ("--rows", "300", "--test-rows", "200", "--rounds", "2", "--local-epochs", "1")
RUN += ("--lr", "0.005")
PRIVATE = ("--privacy-epsilon", "2", "--privacy-delta", "1e-4")


def fedfb(*arguments):
    done = CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("private") / "run"
    printed = fedfb("run", *RUN, *PRIVATE, "--out", out)
    return out, printed


def clients(folder):
    return json.loads((folder / "result.json").read_text())["privacy"]["clients"]


def test_the_summary_tells_every_client(folder):
    out, printed = folder
    assert "delta 0.0001" in printed
    for client in clients(out):
        assert f"{client['epsilon']:.3f}" in printed
    for word in ("Not covered", "test rows", "public", "simulation"):
        assert word in printed


def test_the_ledger_tells_every_client(folder):
    out, _ = folder
    assert "epsilon" in fedfb("ledger", out)
    [account] = json.loads(fedfb("ledger", out, "--json"))["privacy"]
    assert account["clients"] == clients(out)
    assert account["not_covered"]


def test_the_page_tells_every_client(folder):
    out, _ = folder
    fedfb("report", out)
    page = (out / "report.html").read_text(encoding="utf-8")
    assert 'id="privacy"' in page
    for client in clients(out):
        assert f"{client['epsilon']:.3f}" in page
    assert "Not covered" in page


def test_a_saved_private_model_predicts_and_the_run_resumes(folder, tmp_path):
    out, _ = folder
    before = (out / "models.npz").read_bytes()
    fedfb("run", *RUN, *PRIVATE, "--out", out, "--resume")
    assert (out / "models.npz").read_bytes() == before


@pytest.mark.slow
def test_the_frontier_is_drawn_over_epsilons(tmp_path):
    out, picture = tmp_path / "frontier", tmp_path / "three.png"
    arguments = ("--algorithms", "fedavg,fedfb", "--target", "0", "--privacy-epsilons", "1,inf")
    printed = fedfb(
        "frontier", *RUN, *arguments, "--seeds", "2", "--out", out, "--plot", picture, "--no-store"
    )
    assert printed.count("fedavg") == 2
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "epsilon" in (out / "frontier.csv").read_text().splitlines()[0]
    fedfb("report", out)
    assert "Epsilon inf" in (out / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("epsilons", ["0,1", "1,1", "-1", "many"])
def test_bad_epsilons_are_refused(epsilons):
    done = CliRunner().invoke(app, ["frontier", "--privacy-epsilons", epsilons])
    assert done.exit_code != 0
