"""``fedfb run`` and ``fedfb audit`` say the same of one run, or say that it is another figure."""

import json

import pytest

GROUPS = ("demographic_parity", "equal_opportunity", "equalized_odds")
SMALL = ("--rounds", 2, "--local-epochs", 2, "--lr", ".05")


@pytest.fixture
def both(fedfb, tmp_path):
    """Run and audit; return the run's record and the audit's, and what was printed."""

    def make(*flags):
        assert fedfb("run", *SMALL, *flags, "--out", "kept").code == 0
        said = fedfb("audit", "kept", "--out", "audited")
        assert said.code == 0, said.err
        result = json.loads((tmp_path / "kept/result.json").read_text())
        return result["runs"][0], json.loads((tmp_path / "audited/audit.json").read_text()), said

    return make


def pairs(run, audit):
    """Return (where, notion, the run's value, the audit's record) of all rows and each client."""
    for notion in (*GROUPS, "client_parity"):
        yield "all", notion, run["disparity"][notion], audit["notions"][notion]
    for client, audited in zip(run["clients"], audit["clients"], strict=True):
        assert client["name"] == audited["name"]
        for notion in GROUPS:
            yield client["name"], notion, client["disparity"][notion], audited["notions"][notion]


@pytest.mark.parametrize("rows", [90, 120, 1500])
@pytest.mark.parametrize("groups", [2, 3])
def test_a_disparity_has_one_value_or_another_name(both, rows, groups):
    run, audit, said = both("--rows", 300, "--test-rows", rows, "--groups", groups)
    partial = False
    for where, notion, value, found in pairs(run, audit):
        if found["compares"] == "all":
            same = pytest.approx(value, abs=1e-9) if value is not None else None
            assert found["value"] == same, (where, notion)
        partial |= found["compares"] == "shown" and found["value"] is not None
    assert ("* This compares the groups that are shown" in said.out) == partial
    assert ("*" in said.out) == partial
    if rows == 1500:
        assert not partial


def test_with_rows_enough_a_client_has_the_same_rows_accuracy_and_loss(both):
    run, audit, _ = both("--rows", 300)
    for client, audited in zip(run["clients"], audit["clients"], strict=True):
        assert audited["compares"] == "all"
        assert (audited["n"], audited["accuracy"]["value"]) == (client["n"], client["accuracy"])
        assert audited["loss"] == pytest.approx(client["loss"], abs=1e-9)


@pytest.mark.slow
def test_an_audit_repeats_what_its_run_found_on_clients_left_out(both, fedfb):
    run, audit, said = both("--rows", 900, "--test-rows", 900, "--leave-out-clients")
    parts = [run["leave_out"]["everyone"], *run["leave_out"]["clients"]]
    assert [part["name"] for part in audit["left_out"]] == [part["name"] for part in parts]
    for audited, part in zip(audit["left_out"], parts, strict=True):
        assert audited["disparity"] == part["excluded"]["disparity"]["demographic_parity"]
        assert audited["accuracy_if_trained_on"] == part["included"]["accuracy"]
    assert "Clients that the run left out of training" in said.out
    few = json.loads(fedfb("audit", "kept", "--minimum", 150, "--json").out)
    assert len(few["left_out"]) < len(parts)
    assert "figures are hidden" in few["notes"][-1]
    assert all(part["name"] != "all clients" for part in few["left_out"])
