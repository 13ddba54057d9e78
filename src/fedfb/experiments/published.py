"""What the paper printed, typed in once, by its table's label."""

import tomllib
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any

from fedfb.data.request import DRAWN, SEVERAL_ATTRIBUTES
from fedfb.experiments.resolve import resolve
from fedfb.experiments.spec import Experiment
from fedfb.notions import long_name

TABLES = {"mlp": "tab:dp_mlp", "logistic": "tab:dp_lg"}

OURS_TO_CHOOSE = (
    *("data", "model", "algorithm", "outer", "alpha", "knobs", "lr", "seeds", "tune"),
    *("accuracy_floor", "scaling", "signal_loss", "normalise", "decay", "timing", "reference"),
    *("bits_mode", "rounding", "secure", "precision", "engine"),
)
"""Settings that no figure depends on by itself: which cell is meant, and how a method gets there.

In all others an experiment must agree with the paper. A setting that is not listed counts.
"""


def published(experiment: Experiment) -> dict[str, Any] | None:
    """Return the paper's figure for an experiment, None where it has none.

    Only the paper's own setting counts: its data, groups, clients, split and models, demographic
    parity, the group given to the model, its rounds, epochs and batches, every client in every
    round, nothing hidden by noise, and no disparity above 0 aimed at. The split is the one that
    the printed figures were made with: the files as they were published, not drawn anew.
    """
    beside = printed(TABLES.get(experiment.model), experiment.algorithm, experiment.data)
    if beside is None or _spell_out(experiment) != _spell_out(_in_papers_setting(experiment)):
        return None
    return beside


def _in_papers_setting(experiment: Experiment) -> Experiment:
    """Return the experiment as the paper has it; what is ours to choose stays."""
    return Experiment(
        **{name: getattr(experiment, name) for name in OURS_TO_CHOOSE},
        notion="demographic_parity",
        partition="paper",
        groups=2,
        heterogeneity="medium",
        resplit=False,
        sensitive_at_prediction=True,
        hidden=(4,),
        participation=1.0,
        dropout=0.0,
        local_epochs=30,
        batch=128,
        optimiser="adam",
        weight_decay=0.0,
        period=1,
        bits=None,
        privacy_epsilon=None,
    )


def _spell_out(experiment: Experiment) -> Experiment:
    """Fill in what an experiment leaves open, so that equal settings are equal."""
    from fedfb.data.datasets.synthetic import ROWS

    spelt = resolve(experiment)
    spelt = replace(spelt, notion=long_name(spelt.notion))
    if spelt.data == "synthetic":
        clients = spelt.clients or 3
        train, test = ROWS[clients]
        rows, test_rows = spelt.rows or train, spelt.test_rows or test
        spelt = replace(spelt, clients=clients, rows=rows, test_rows=test_rows)
    if spelt.data not in DRAWN and spelt.split_seed is None:
        spelt = replace(spelt, split_seed=spelt.split_of(0))
    if spelt.data in SEVERAL_ATTRIBUTES:
        usual = import_module(f"fedfb.data.datasets.{spelt.data}").ATTRIBUTES[0]
        spelt = replace(spelt, sensitive=tuple(sorted(spelt.sensitive or usual)))
    return spelt


def printed(label: str | None, row: str, column: str) -> dict[str, Any] | None:
    """Return what a table of the paper has in a cell, None where it has nothing.

    >>> printed("tab:dp_dh", "fedfb", "high")["disparity"]
    {'mean': 0.013, 'std': 0.008}
    """
    found = _tables().get(label or "", {}).get(row, {}).get(column)
    if found is None:
        return None
    # One table prints no spreads.
    both = found if len(found) == 4 else (found[0], None, found[1], None)
    accuracy, accuracy_std, disparity, disparity_std = both
    return {
        "table": label,
        "accuracy": {"mean": accuracy, "std": accuracy_std},
        "disparity": {"mean": disparity, "std": disparity_std},
    }


@cache
def _tables() -> dict[str, Any]:
    text = files("fedfb.experiments").joinpath("paper/published.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
