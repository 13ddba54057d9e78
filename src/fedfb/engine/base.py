"""The protocol of an engine: one client's arithmetic, for all runs of a grid at once."""

from typing import Literal, NamedTuple, Protocol, runtime_checkable

from fedfb.core import ClientData, Key, LocalSolver
from fedfb.engine.curvature import Curvature
from fedfb.engine.losses import RowLoss
from fedfb.models import Model
from fedfb.notions import Notion, Surrogate
from fedfb.shapes import Array, Float, Num


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
