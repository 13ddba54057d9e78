"""``--features``: steps of numbers, taken by training where they help."""

import numpy as np
import pytest

from fedfb.errors import ConfigError
from fedfb.experiments.outcome import run, train
from fedfb.experiments.spec import Experiment


def write_rows(path, rows=1500, curved=True):
    """Rows of three clients, whose label depends on the middle of a range (or on a line)."""
    rng = np.random.default_rng(4)
    x, sex = rng.normal(size=rows), rng.choice(["F", "M"], rows)
    chance = np.where(np.abs(x) < 0.7, 0.9, 0.1) if curved else 1 / (1 + np.exp(-2 * x))
    y = np.where(rng.random(rows) < chance, "y", "n")
    part = rng.choice(["a", "b", "c"], rows)
    lines = [f"{a:.4f},{s},{c},{b}" for a, s, c, b in zip(x, sex, part, y, strict=True)]
    path.write_text("\n".join(["x,sex,site,y", *lines]) + "\n")


OWN = {"label": "y", "positive": "y", "sensitive": ("sex",), "client_column": "site"}


@pytest.mark.slow
@pytest.mark.parametrize("curved", [True, False])
def test_auto_takes_steps_where_validation_rows_ask_for_them(tmp_path, curved):
    write_rows(tmp_path / "rows.csv", curved=curved)
    by_kind = {}
    for kind in ("plain", "binned", "auto"):
        experiment = Experiment(data=str(tmp_path / "rows.csv"), features=kind, **OWN)
        by_kind[kind] = train(experiment)
    like = "binned" if curved else "plain"
    auto, other = by_kind["auto"], by_kind[like]
    assert auto.federation.feature_names == other.federation.feature_names
    assert auto.result.runs[0].accuracy == other.result.runs[0].accuracy
    assert any(note.startswith("--features auto") for note in auto.result.notes)
    if curved:
        gain = auto.result.runs[0].accuracy - by_kind["plain"].result.runs[0].accuracy
        assert gain > 0.15


@pytest.mark.slow
def test_masked_sums_find_the_same_steps(tmp_path):
    write_rows(tmp_path / "rows.csv")
    names = [
        train(
            Experiment(data=str(tmp_path / "rows.csv"), features="binned", secure=secure, **OWN)
        ).federation.encoder.columns[0]
        for secure in (False, True)
    ]
    assert names[0].steps == pytest.approx(names[1].steps, abs=1e-5)


def test_auto_is_refused_under_privacy_and_told_in_the_ledger(tmp_path):
    with pytest.raises(ConfigError, match="--features auto looks at validation rows"):
        run(Experiment(features="auto", privacy_epsilon=3.0))
    write_rows(tmp_path / "rows.csv", rows=300)
    experiment = Experiment(data=str(tmp_path / "rows.csv"), features="auto", rounds=2, **OWN)
    train(experiment, checkpoints=tmp_path, ledger=tmp_path / "ledger.jsonl")
    text = (tmp_path / "ledger.jsonl").read_text()
    assert '"features-1"' in text
    assert '"features-2"' in text
