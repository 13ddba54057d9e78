"""Every method by its name: what it is, what it is tuned by, how it is built from settings."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fedfb.algorithms.fedavg import fedavg
from fedfb.algorithms.fedfb import Outer, fedfb
from fedfb.core import Algorithm, LocalSolver
from fedfb.engine import Engine
from fedfb.errors import ConfigError, unknown_name
from fedfb.notions import Notion, Surrogate
from fedfb.shapes import Array, Float

Knobs = Mapping[str, Float[Array, " r"]]
"""What differs between the runs of a grid, one value per run."""

Make = Callable[[Engine, LocalSolver, Notion, Knobs, Mapping[str, Any]], Algorithm]


class Method(NamedTuple):
    """A method as users know it.

    ``pooled`` methods train on all rows in one place, ``fair`` ones aim at the notion. ``grid``
    holds the values that tuning tries for each of its own knobs, beside the learning rate.
    """

    name: str
    summary: str
    paper: str
    pooled: bool
    fair: bool
    grid: Mapping[str, tuple[float, ...]]
    make: Make


def _make_fedavg(
    engine: Engine, solver: LocalSolver, notion: Notion, knobs: Knobs, options: Mapping[str, Any]
) -> Algorithm:
    return fedavg(engine, solver)


def _make_fedfb(
    engine: Engine, solver: LocalSolver, notion: Notion, knobs: Knobs, options: Mapping[str, Any]
) -> Algorithm:
    outer = Outer(
        alpha=knobs["alpha"],
        surrogate=options["signal_loss"] or _usual_surrogate(notion),
        normalise=options["normalise"],
        decay=options["decay"],
        timing=options["timing"],
        period=options["period"],
        bits=options["bits"],
        bits_mode=options["bits_mode"],
        rounding=options["rounding"],
    )
    return fedfb(engine, solver, notion, outer, options["scaling"])


def _usual_surrogate(notion: Notion) -> Surrogate:
    """Return the loss whose gap is the disparity: |y - p| for rates, cross-entropy for clients."""
    return "ce" if notion.name == "client_parity" else "prob"


ALPHA_GRID = (0.001, 0.05, 0.08, 0.1, 0.2, 0.5, 1.0, 2.0)

METHODS = {
    method.name: method
    for method in (
        Method(
            "fedavg",
            "train locally, average; no fairness",
            "McMahan et al. 2017",
            pooled=False,
            fair=False,
            grid={},
            make=_make_fedavg,
        ),
        Method(
            "fedfb",
            "FairBatch across clients: weights moved by summed signals",
            "Zeng, Chen, Lee 2021",
            pooled=False,
            fair=True,
            grid={"alpha": ALPHA_GRID},
            make=_make_fedfb,
        ),
        Method(
            "cfl",
            "the same rule on pooled rows: the limit without privacy",
            "Roh et al. 2021 (FairBatch)",
            pooled=True,
            fair=True,
            grid={"alpha": ALPHA_GRID},
            make=_make_fedfb,
        ),
    )
}


def find_method(name: str) -> Method:
    """Return the method of that name.

    >>> find_method("cfl").pooled
    True
    """
    if name not in METHODS:
        raise ConfigError(unknown_name("algorithm", name, METHODS))
    return METHODS[name]
