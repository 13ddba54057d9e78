"""What an engine offers: one client's arithmetic, all runs of a grid at once."""

from typing import Literal, NamedTuple, Protocol, runtime_checkable

from fedfb.core import ClientData, Key, LocalSolver
from fedfb.engine.losses import RowLoss
from fedfb.models import Model
from fedfb.notions import Notion, Surrogate
from fedfb.shapes import Array, Float, Num


class Rebalance(NamedTuple):
    """How lambda moves inside a client's local training, on that client's own counts."""

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

    Every method is a pure function; parameters go in and come out in float64.
    """

    @property
    def model(self) -> Model: ...

    @property
    def instructions(self) -> str:
        """What does the arithmetic; under the same name a run has the same bits."""

    @property
    def releases_gil(self) -> bool:
        """Whether clients on threads of their own gain anything."""

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

        The solver's pull goes towards ``anchor``, by default where training starts.
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

        A row weighs its cell's weight, times its own where ``row_weights`` are given.
        """

    def cell_gradients(
        self,
        params: Float[Array, "r p"],
        data: ClientData,
        surrogate: RowLoss = "ce",
        row_weights: Float[Array, "r n"] | None = None,
    ) -> Float[Array, "r 2 a p"]:
        """Return the gradient of the loss summed over the rows of each cell, in one pass."""

    def logits(self, params: Float[Array, "r p"], x: Float[Array, "n d"]) -> Float[Array, "r n"]:
        """Return the logit of every row."""
