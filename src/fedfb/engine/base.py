"""The protocol of an engine, its losses, and the choice of the engine that runs.

An engine is one client's arithmetic, for all runs of a grid at once. Its losses are functions of a
logit, with their derivatives, elementwise. The native engine runs if it was compiled, otherwise
numpy.
"""

import os
import sys
from functools import cache
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

from fedfb.core import ClientData, Key, LocalSolver
from fedfb.errors import ConfigError, unknown_name
from fedfb.models import Model, TorchModel, is_own
from fedfb.notions import Notion, Surrogate
from fedfb.shapes import Array, Float, Num

RowLoss = Literal["zero_one", "prob", "ce", "logit", "steep", "mistake"]
"""The losses that are summed over rows: the surrogates of a signal, and statistics of the logit."""

STEEPNESS = 10.0


def sigmoid(z: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """Return 1/(1+exp(-z)) without overflow.

    >>> sigmoid(np.array([0.0, 1e4]))
    array([0.5, 1. ])
    """
    return 0.5 + 0.5 * np.tanh(0.5 * z)


def decide(z: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """Decide positively where p >= 1/2, that is z >= 0; a tie is positive."""
    return (z >= 0).astype(np.float64)


def loss(z: Float[Array, "*s"], y: Num[Array, "*#s"], kind: RowLoss) -> Float[Array, "*s"]:
    r"""Return the loss of each row.

    Args:
        z: logits.
        y: labels.
        kind: ``ce`` cross-entropy, ``prob`` :math:`|y-p|`, ``zero_one`` :math:`1[\hat y\ne y]`; or
            a statistic of the logit: ``logit`` z, ``steep`` :math:`\sigma(10z)` (nearly the
            decision), ``mistake`` :math:`\min(0,(2y-1)z)`.

    >>> loss(np.array([0.0, 2.0]), np.array([1, 0]), "zero_one")
    array([0., 1.])
    """
    losses: Float[Array, "*s"]
    match kind:
        case "zero_one":
            losses = np.abs(decide(z) - y)
        case "prob":
            losses = np.abs(y - sigmoid(z))
        case "logit":
            losses = z
        case "steep":
            losses = sigmoid(STEEPNESS * z)
        case "mistake":
            losses = np.minimum(0.0, (2 * y - 1) * z)
        case _:
            # numpy's own logaddexp takes four times as long.
            losses = np.maximum(z, 0.0) + _log_of_one_and(np.exp(-np.abs(z))) - y * z
    return losses


def _log_of_one_and(e: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """Return log(1 + e). In single precision the error is 6e-8, in a third of log1p's time."""
    return np.log(1 + e) if e.dtype == np.float32 else np.log1p(e)


def slope(z: Float[Array, "*s"], y: Num[Array, "*#s"], kind: RowLoss) -> Float[Array, "*s"]:
    """Return the derivative of the loss with respect to the logit.

    The arguments are those of :func:`loss`; the 0-1 loss has no derivative and is refused.
    """
    slopes: Float[Array, "*s"]
    match kind:
        case "zero_one":
            raise ConfigError(
                "the 0-1 loss has no gradient; a method that follows the gradient of its signal "
                "needs the surrogate 'prob' or 'ce' (--signal-loss prob)."
            )
        case "prob":
            p = sigmoid(z)
            slopes = (1 - 2 * y) * p * (1 - p)
        case "logit":
            slopes = np.ones_like(z)
        case "steep":
            p = sigmoid(STEEPNESS * z)
            slopes = STEEPNESS * p * (1 - p)
        case "mistake":
            sign = 2 * y - 1
            slopes = np.where(sign * z < 0, sign * np.ones_like(z), 0.0).astype(z.dtype)
        case _:
            slopes = sigmoid(z) - y
    return slopes


class Curvature(NamedTuple):
    r"""Sums over rows of the weighted cross-entropy and its derivatives, by run.

    .. math:: \sum_j\omega_j\ell_j,\qquad \sum_j\omega_j(p_j-y_j)\,x_j,\qquad
              \sum_j\omega_j\,p_j(1-p_j)\,x_jx_j^\top

    ``second`` is the lower triangle of the matrix, row by row, or its diagonal.
    """

    loss: Float[Array, " r"]
    gradient: Float[Array, "r p"]
    second: Float[Array, "r q"]


class Rebalance(NamedTuple):
    """How lambda moves inside a client's local training.

    Args:
        notion: the fairness notion.
        counts: the client's counts.
        alpha: step size, one value per run.
        surrogate: loss of the signal.
        normalise: whether the signal is scaled to length 1.
        decay: how the step size falls with the number of moves.
        updates: number of moves before this training.
    """

    notion: Notion
    counts: Num[Array, "*c"]
    alpha: Float[Array, " r"]
    surrogate: Surrogate = "prob"
    normalise: Literal["none", "l2"] = "none"
    decay: Literal["const", "inv_sqrt", "inv"] = "inv_sqrt"
    updates: int = 0


@runtime_checkable
class Engine(Protocol):
    """One client's arithmetic.

    Every method is a pure function. Parameters are float64 in arguments and in results. Arguments
    that several methods share:

    Args:
        params: parameters, one vector per run.
        data: the client's rows.
        cell_weights: weights of the rows by run, label and group.
        solver: local training.
        key: draws the order of the rows.
        surrogate: the loss.
        row_weights: weights of single rows by run; None: every row has weight 1.
    """

    @property
    def model(self) -> Model: ...

    @property
    def instructions(self) -> str:
        """Name of the arithmetic. With the same name a run has the same bits."""

    @property
    def releases_gil(self) -> bool:
        """Whether several clients on several threads are faster than on one thread."""

    def train(
        self,
        params: Float[Array, "r p"],
        data: ClientData,
        cell_weights: Float[Array, "r 2 a"],
        solver: LocalSolver,
        key: Key,
        anchor: Float[Array, "r p"] | None = None,
    ) -> Float[Array, "r p"]:
        """Return the parameters after all local epochs on the weighted cross-entropy.

        The solver's proximal term pulls towards ``anchor``; None: towards the start of training.
        """

    def train_rebalancing(
        self,
        params: Float[Array, "r p"],
        data: ClientData,
        lam: Float[Array, "r *l"],
        rule: Rebalance,
        solver: LocalSolver,
        key: Key,
    ) -> tuple[Float[Array, "r p"], Float[Array, "r *l"]]:
        """Train as FairBatch on this client's rows alone: lambda moves after every local epoch."""

    def loss_sums(
        self, params: Float[Array, "r p"], data: ClientData, surrogate: RowLoss
    ) -> Float[Array, "r 2 a"]:
        """Return the loss summed over the rows of each cell (label, group)."""

    def confusion(self, params: Float[Array, "r p"], data: ClientData) -> Float[Array, "r 2 2 a"]:
        """Return the number of rows by label, decision and group."""

    def gradient(
        self,
        params: Float[Array, "r p"],
        data: ClientData,
        cell_weights: Float[Array, "r 2 a"],
        surrogate: RowLoss = "ce",
        row_weights: Float[Array, "r n"] | None = None,
    ) -> Float[Array, "r p"]:
        """Return the gradient of the weighted loss summed over all rows.

        The weight of a row is that of its cell, times its row weight.
        """

    def cell_gradients(
        self,
        params: Float[Array, "r p"],
        data: ClientData,
        surrogate: RowLoss = "ce",
        row_weights: Float[Array, "r n"] | None = None,
    ) -> Float[Array, "r 2 a p"]:
        """Return the gradient of the loss summed over the rows of each cell, in one pass."""

    def curvature(
        self,
        params: Float[Array, "r p"],
        data: ClientData,
        cell_weights: Float[Array, "r 2 a"],
        full: bool = True,
    ) -> Curvature:
        """Return the sums of a Newton step of logistic regression, in double precision.

        ``full``: the triangle of second derivatives; otherwise its diagonal.
        """

    def logits(self, params: Float[Array, "r p"], x: Float[Array, "n d"]) -> Float[Array, "r n"]:
        """Return the logit of every row."""


ENGINES = ("auto", "native", "numpy")

ENGINE_VARIABLE = "FEDFB_ENGINE"
"""The environment variable that states what ``auto`` means."""

NOT_COMPILED = "the native engine was not compiled when fedfb was installed"


def choose_engine(name: str, model: Model, dtype: Any) -> Engine:
    """Return an engine for a model.

    Args:
        name: one of ENGINES; ``auto`` is the native engine if it can be used.
        model: the model. A torch model always has the torch engine.
        dtype: float32 or float64.

    >>> from fedfb.models import Network
    >>> choose_engine("numpy", Network(2), "float64").instructions
    'numpy'
    """
    if isinstance(model, TorchModel):
        return _torch_engine(name, model, dtype)
    # Imported at use: a run needs one engine.
    if is_native(name):
        from fedfb.engine.native import NativeEngine

        return NativeEngine(model, dtype)
    from fedfb.engine.numpy_engine import NumpyEngine

    return NumpyEngine(model, dtype)


def _torch_engine(name: str, model: TorchModel, dtype: Any) -> Engine:
    from fedfb.engine.torch_engine import TorchEngine

    if name != "auto":
        raise ConfigError(
            f"--engine {name} trains --model logistic and mlp, and {model.name} is a torch model: "
            "leave --engine out."
        )
    return TorchEngine(model, dtype)


class _EngineChoice(NamedTuple):
    """The name of the engine that runs, and why this engine."""

    name: str
    reason: str


def explain_engine(name: str, model: str = "logistic") -> _EngineChoice:
    """Return the engine that a name means for a model, and the reason.

    Args:
        name: one of :data:`ENGINES`, as ``--engine`` takes it.
        model: as ``--model`` takes it; ``module:function`` is a torch model.

    >>> explain_engine("numpy")
    _EngineChoice(name='numpy', reason='--engine numpy')
    >>> explain_engine("auto", "nets:build")
    _EngineChoice(name='torch', reason='nets:build is a torch model')
    """
    if is_own(model):
        return _EngineChoice("torch", f"{model} is a torch model")
    reason, wanted = f"--engine {name}", name
    if name == "auto":
        wanted = os.environ.get(ENGINE_VARIABLE, "auto")
        reason = f"{ENGINE_VARIABLE}={wanted}"
    if wanted not in ENGINES:
        raise ConfigError(unknown_name("engine", wanted, ENGINES))
    if wanted != "auto":
        return _EngineChoice(wanted, reason)
    from fedfb.engine.native.library import is_built  # here: it imports this module

    if is_built():
        return _EngineChoice("native", "the default")
    return _EngineChoice("numpy", NOT_COMPILED)


def is_native(name: str) -> bool:
    """Return True if a name means the native engine.

    >>> is_native("native"), is_native("numpy")
    (True, False)
    """
    choice = explain_engine(name)
    if choice.reason == NOT_COMPILED:
        _tell_of_the_fallback()
    return choice.name == "native"


def describe_engine() -> str:
    """Return which engine runs here if no setting names one, or why none can."""
    from fedfb.engine.native.library import best_instructions

    try:
        choice = explain_engine("auto")
        name = f"native ({best_instructions()})" if choice.name == "native" else choice.name
    except ConfigError as error:
        return f"none: {error}"
    return f"{name}: {choice.reason}"


@cache
def _tell_of_the_fallback() -> None:
    """Warn once in a process that training will be slow."""
    sys.stderr.write(
        f"{NOT_COMPILED.capitalize()}: numpy does its work, a few "
        "times slower. With a C compiler, install fedfb again.\n"
    )
