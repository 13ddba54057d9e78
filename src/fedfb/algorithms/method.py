"""A method as users see it, the built-in methods by name, and methods from a file of the user.

Methods are listed in this order and imported when they are first used. A file of the user defines
``METHOD`` or ``METHODS``; ``fedfb --plugin FILE`` and :func:`read_methods` read it.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from math import inf
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Literal, NamedTuple, Protocol

from fedfb.core import Algorithm, LocalSolver
from fedfb.engine import Engine
from fedfb.errors import ConfigError, unknown_name
from fedfb.notions import Notion, Surrogate
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


class Options(Protocol):
    """The settings of an experiment that methods read beside their knobs."""

    @property
    def rounds(self) -> int | None: ...
    @property
    def participation(self) -> float: ...
    @property
    def dropout(self) -> float: ...
    @property
    def sensitive_at_prediction(self) -> bool: ...
    @property
    def scaling(self) -> Literal["mass", "sample"]: ...
    @property
    def outer(self) -> OuterRule | None: ...
    @property
    def signal_loss(self) -> Surrogate | None: ...
    @property
    def normalise(self) -> Literal["none", "l2"]: ...
    @property
    def decay(self) -> Literal["const", "inv_sqrt", "inv"]: ...
    @property
    def timing(self) -> Literal["post", "piggyback", "local"]: ...
    @property
    def period(self) -> int: ...
    @property
    def bits(self) -> int | None: ...
    @property
    def bits_mode(self) -> Literal["per_value", "per_round"]: ...
    @property
    def rounding(self) -> Literal["nearest", "stochastic"]: ...
    @property
    def privacy_epsilon(self) -> float | None: ...
    @property
    def cut(self) -> Literal["common", "half"] | None: ...


class Problem(NamedTuple):
    """The arguments of a method's ``make``.

    ``knobs`` holds one value per run of the grid. ``options`` is the experiment, with its other
    settings.
    """

    engine: Engine
    solver: LocalSolver
    notion: Notion
    knobs: Mapping[str, Float[Array, " r"]]
    variant: str
    options: Options


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


_HOME = {
    "fedavg": "fedavg.METHOD",
    "fedprox": "fedavg.FEDPROX",
    "fedfb": "fedfb.fedfb.METHOD",
    "cfl": "fedfb.fedfb.CFL",
    "fedfb-sums": "fedfb.sums.METHOD",
    "fedfb-thresholds": "fedfb.thresholds.METHOD",
    "lft-ensemble": "baselines.lft.LFT_ENSEMBLE",
    "lft-fedavg": "baselines.lft.LFT_FEDAVG",
    "fairfed": "baselines.fairfed.METHOD",
    "reweighing": "baselines.reweighing.METHOD",
    "hardt": "baselines.hardt.METHOD",
    "fairbatch": "baselines.fairbatch.METHOD",
    "zafar": "baselines.zafar.METHOD",
    "agnosticfair": "baselines.agnosticfair.METHOD",
    "fpfl": "baselines.fpfl.METHOD",
    "fedfair": "baselines.fedfair.METHOD",
    "fcfl": "baselines.fcfl.METHOD",
    "fairfl": "baselines.fairfl.METHOD",
    "q-ffl": "baselines.q_ffl.METHOD",
    "ditto": "baselines.ditto.METHOD",
    "gifair": "baselines.gifair.METHOD",
    "afl": "baselines.afl.METHOD",
    "term": "baselines.term.METHOD",
}


class Methods(MutableMapping[str, Method]):
    """Methods by name. A built-in method is imported at first access: a run needs one method."""

    def __init__(self) -> None:
        self._methods: dict[str, Method | None] = dict.fromkeys(_HOME)

    def __getitem__(self, name: str) -> Method:
        method = self._methods[name]
        if method is None:
            module, _, attribute = _HOME[name].rpartition(".")
            method = getattr(import_module(f"fedfb.algorithms.{module}"), attribute)
            self._methods[name] = method
        return method

    def __setitem__(self, name: str, method: Method) -> None:
        self._methods[name] = method

    def __delitem__(self, name: str) -> None:
        del self._methods[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._methods)

    def __len__(self) -> int:
        return len(self._methods)


METHODS = Methods()


def find_method(name: str) -> Method:
    """Return the method with this name.

    >>> find_method("cfl").is_pooled("plain")
    True
    """
    if name not in METHODS:
        raise ConfigError(unknown_name("algorithm", name, METHODS))
    return METHODS[name]


def register(method: Method) -> None:
    """Add a method under its name, in this process.

    >>> register(METHODS["fedavg"])  # the same method again: nothing changes
    """
    present = METHODS.get(method.name)
    if present is not None and present is not method:
        raise ConfigError(
            f"there is already an algorithm {method.name!r} ({present.summary}; {present.paper}). "
            "Give yours another name."
        )
    METHODS[method.name] = method


_EXPECTED = "Expected METHOD = Method(...), or METHODS, a list of them (docs/extend.md)."


def read_methods(path: Path) -> tuple[Method, ...]:
    """Run a Python file and return the METHOD, or the METHODS, that it defines."""
    names = vars(_imported(path))
    if "METHOD" not in names and "METHODS" not in names:
        raise ConfigError(f"the plugin {path} has no METHOD. {_EXPECTED}")
    methods = [names["METHOD"]] if "METHOD" in names else names["METHODS"]
    if not isinstance(methods, list):
        kind = type(methods).__name__
        raise ConfigError(f"the plugin {path} has METHODS of type {kind}. {_EXPECTED}")
    for method in methods:
        if not isinstance(method, Method):
            kind = type(method).__name__
            raise ConfigError(f"the plugin {path} has a METHOD of type {kind}. {_EXPECTED}")
    return tuple(methods)


def _imported(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigError(f"there is no plugin {path}. Expected a Python file. {_EXPECTED}")
    name = f"fedfb_plugin_{path.stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"the plugin {path} is not a Python file, whose name ends in .py.")
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses of the file look their module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # anybody's code: whatever it raises is told with its line
        del sys.modules[name]
        line, kind = _line(error, path), type(error).__name__
        raise ConfigError(f"the plugin {path} stops in line {line} with {kind}: {error}") from error
    return module


def _line(error: Exception, path: Path) -> int | str:
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return error.lineno
    lines = [f.lineno for f in extract_tb(error.__traceback__) if f.filename == str(path)]
    return next((line for line in reversed(lines) if line is not None), "unknown")
