"""What a run says of itself in sentences: it names what it has, by the right names."""

import pytest

from fedfb.experiments.outcome import run
from fedfb.experiments.spec import Experiment
from fedfb.report.text import findings

TINY = {"rows": 200, "test_rows": 100, "local_epochs": 2, "seeds": (0,)}


def client(of_ten):
    rows = range(100)
    lines = (f"{i // 10 % 2},{'fm'[i % 2]},{int(i % 10 < of_ten)}" for i in rows)
    return "\n".join(["x,sex,y", *lines]) + "\n"


@pytest.mark.parametrize(
    "more", [{"algorithm": "fedfb", "bits": 16}, {"algorithm": "cfl"}], ids=str
)
def test_under_client_parity_weights_at_their_bound_are_those_of_clients(tmp_path, more):
    """No weights make the clients' losses equal, so those of the easy clients end at the bound."""
    for name, of_ten in (("east", 9), ("north", 9), ("south", 6)):
        (tmp_path / f"{name}.csv").write_text(client(of_ten))
    settings = {**more, "notion": "cp", "lr": (0.05,), "batch": 16}
    own = {"data": f"{tmp_path}/*.csv", "label": "y", "positive": "1", "sensitive": ("sex",)}
    report = run(Experiment(**own, **settings, rounds=15, local_epochs=3), warn=False)
    assert report.runs[0].method.at_bound == ("east", "north")
    missed = [note for note in report.notes if note.startswith("Target missed")]
    assert all("Weights of east and north are at their bound" in note for note in missed)
    [run_record] = report.runs
    shown = run_record.interval["client_parity"][0] > 0
    assert bool(missed) == (run_record.training.missed and shown)


@pytest.mark.parametrize("variant", ["randomised", "vote"])
def test_an_ensemble_is_said_to_have_no_thresholds(variant):
    experiment = Experiment(algorithm="lft-ensemble", variant=variant, lr=(0.005,), **TINY)
    report = run(experiment)
    assert report.runs[0].at_one_half is not None
    said = " ".join(findings(report))
    assert "cut at 1/2 these scores would be" in said
    assert "threshold" not in said


@pytest.mark.parametrize("algorithm", ["fedfb-thresholds", "hardt"])
def test_thresholds_are_said_where_the_method_has_some(algorithm):
    experiment = Experiment(
        algorithm=algorithm, rounds=2, sensitive_at_prediction=True, lr=(0.005,), **TINY
    )
    assert "with a threshold for each group" in " ".join(findings(run(experiment)))
