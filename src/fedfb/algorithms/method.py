"""What a method is to its users: a name, what it is tuned by, and how it is built from settings."""

from collections.abc import Callable, Mapping
from math import inf
from typing import Any, NamedTuple

from fedfb.core import Algorithm, LocalSolver
from fedfb.engine import Engine
from fedfb.notions import Notion
from fedfb.shapes import Array, Float

ALL_NOTIONS = ("demographic_parity", "equal_opportunity", "equalized_odds", "client_parity")
GROUP_NOTIONS = ALL_NOTIONS[:3]


class Knob(NamedTuple):
    """A number that a method is set to: its usual value, what tuning tries, and its range.

    ``for_clients`` are usual value and grid where clients are compared instead of groups,
    ``if_private`` is the usual value where noise hides single rows.
    """

    default: float
    grid: tuple[float, ...]
    help: str
    low: float = 0.0
    high: float = inf
    for_clients: tuple[float, tuple[float, ...]] | None = None
    if_private: float | None = None

    def usual(self, notion: str, private: bool = False) -> tuple[float, tuple[float, ...]]:
        """Return the usual value and the grid for a notion.

        >>> Knob(0.5, (0.1, 0.5), "", for_clients=(2.0, (1.0, 2.0))).usual("client_parity")
        (2.0, (1.0, 2.0))
        """
        if notion == "client_parity" and self.for_clients is not None:
            return self.for_clients
        if private and self.if_private is not None:
            return self.if_private, (self.if_private,)
        return self.default, self.grid


class Problem(NamedTuple):
    """All that a method is built from. ``knobs`` hold one value per run of the grid."""

    engine: Engine
    solver: LocalSolver
    notion: Notion
    knobs: Mapping[str, Float[Array, " r"]]
    variant: str
    options: Mapping[str, Any]


DESCENT: Mapping[str, tuple[str, ...]] = {"optimiser": (), "weight_decay": ()}
"""What a method reads whose every exchange is one gradient step."""

TRAINING: Mapping[str, tuple[str, ...]] = {**DESCENT, "local_epochs": (), "batch": ()}
"""What a method reads whose clients train in between."""


class Method(NamedTuple):
    """A method as users know it.

    ``variants`` are its forms, the first the usual one; those in ``pooled`` train on all rows in
    one place. ``fair`` methods aim at a notion, one of ``notions``, for at most ``most_groups``
    groups; a ``local`` one bounds the disparity of every client's own rows, not that of all rows
    together. ``outer_rules`` are the ways in which it can find its weights (or thresholds), the
    usual one first;
    ``solve`` has no knob ``alpha`` but a ``target``, and picks its learning rate itself unless one
    is given. ``rounds`` is the usual number of rounds; where every
    gradient step is an exchange, of steps. A ``reconstruction`` is built from a description, not
    from its paper: it says "after". An ``additive`` method needs only pooled sums: under group
    notions (all, if it is not ``fair``), with one gradient step a round, it does not matter how
    rows are spread over clients. ``reads`` names the settings that its ``make`` or its solver reads
    beside the knobs, each with the variants and outer rules in which it does (none: in all): a
    setting that is given and not read is refused.
    """

    name: str
    summary: str
    paper: str
    make: Callable[[Problem], Algorithm]
    fair: bool = True
    knobs: Mapping[str, Knob] = {}
    variants: tuple[str, ...] = ("plain",)
    pooled: tuple[str, ...] = ()
    notions: tuple[str, ...] = GROUP_NOTIONS
    most_groups: int | None = None
    rounds: int = 10
    learning_rate: float = 0.005
    learning_rates: tuple[float, ...] = (0.001, 0.005, 0.01)
    reconstruction: bool = False
    additive: bool = True
    local: bool = False
    outer_rules: tuple[str, ...] = ()
    reads: Mapping[str, tuple[str, ...]] = TRAINING

    def is_pooled(self, variant: str) -> bool:
        """Tell whether a variant trains on all rows in one place."""
        return variant in self.pooled
