"""A method as users see it: its name, its knobs, and how it is built from settings."""

from collections.abc import Callable, Mapping
from math import inf
from typing import Any, Literal, NamedTuple

from fedfb.core import Algorithm, LocalSolver
from fedfb.engine import Engine
from fedfb.notions import Notion
from fedfb.shapes import Array, Float

ALL_NOTIONS = ("demographic_parity", "equal_opportunity", "equalized_odds", "client_parity")
GROUP_NOTIONS = ALL_NOTIONS[:3]

OuterRule = Literal["solve", "step", "paper"]
"""How a method finds its weights."""


class Knob(NamedTuple):
    """A number that tunes a method: its default, the grid that tuning tries, and its range.

    ``for_clients`` is the default and the grid where clients are compared, not groups.
    ``if_private`` is the default under differential privacy.
    """

    default: float
    grid: tuple[float, ...]
    help: str
    low: float = 0.0
    high: float = inf
    for_clients: tuple[float, tuple[float, ...]] | None = None
    if_private: float | None = None

    def usual(self, notion: str, private: bool = False) -> tuple[float, tuple[float, ...]]:
        """Return the default and the grid for a notion.

        Args:
            notion: long name of the notion.
            private: whether training is differentially private.

        >>> Knob(0.5, (0.1, 0.5), "", for_clients=(2.0, (1.0, 2.0))).usual("client_parity")
        (2.0, (1.0, 2.0))
        """
        if notion == "client_parity" and self.for_clients is not None:
            return self.for_clients
        if private and self.if_private is not None:
            return self.if_private, (self.if_private,)
        return self.default, self.grid


class Problem(NamedTuple):
    """The arguments of a method's ``make``.

    ``knobs`` holds one value per run of the grid. ``options`` are the other settings by name.
    """

    engine: Engine
    solver: LocalSolver
    notion: Notion
    knobs: Mapping[str, Float[Array, " r"]]
    variant: str
    options: Mapping[str, Any]


DESCENT: Mapping[str, tuple[str, ...]] = {"optimiser": (), "weight_decay": ()}
"""The settings that a method reads if every exchange is one gradient step."""

TRAINING: Mapping[str, tuple[str, ...]] = {**DESCENT, "local_epochs": (), "batch": ()}
"""The settings that a method reads if clients train between exchanges."""


class Method(NamedTuple):
    """A method as users see it.

    Args:
        name: name in settings.
        summary: one line for lists.
        paper: the reference.
        make: builds the algorithm.
        fair: whether the method aims at a notion.
        knobs: the numbers that tune it.
        variants: its forms; the first is the default.
        pooled: the variants that train on all rows in one place.
        notions: the notions that it can aim at.
        most_groups: the largest number of groups; None: any number.
        rounds: default number of rounds. If every exchange is a gradient step, number of steps.
        one_fit: the variants in which an exact fit needs one round: their weights never move.
        learning_rate: default learning rate.
        learning_rates: the grid that tuning tries.
        reconstruction: whether it is built from a description, not from its paper. Pages then say
            "after".
        additive: whether pooled sums are all it needs. With one gradient step a round and a group
            notion (any notion, if not ``fair``), it then does not matter how rows are distributed
            over clients.
        local: whether it bounds the disparity of each client's rows, not that of all rows.
        outer_rules: the ways to find weights (or thresholds); the first is the default. ``solve``
            has a ``target`` in place of the knob ``alpha``, and chooses its own learning rate if
            none is set.
        reads: the settings that ``make`` or the solver reads besides the knobs, each with the
            variants and outer rules in which it is read (empty: in all). A setting that is set and
            not read is refused.
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
    one_fit: tuple[str, ...] = ()
    learning_rate: float = 0.005
    learning_rates: tuple[float, ...] = (0.001, 0.005, 0.01)
    reconstruction: bool = False
    additive: bool = True
    local: bool = False
    outer_rules: tuple[OuterRule, ...] = ()
    reads: Mapping[str, tuple[str, ...]] = TRAINING

    def is_pooled(self, variant: str) -> bool:
        """Return True if a variant trains on all rows in one place."""
        return variant in self.pooled
