"""What an engine offers: one client's arithmetic, all runs of a grid at once."""

from typing import Protocol, runtime_checkable

from fedfb.core import ClientData, Key, LocalSolver
from fedfb.models import Network
from fedfb.notions import Surrogate
from fedfb.shapes import Array, Float


@runtime_checkable
class Engine(Protocol):
    """One client's arithmetic.

    Every method is a pure function; parameters go in and come out in float64.
    """

    @property
    def model(self) -> Network: ...

    def train(
        self,
        params: Float[Array, "r p"],
        data: ClientData,
        cell_weights: Float[Array, "r 2 a"],
        solver: LocalSolver,
        key: Key,
    ) -> Float[Array, "r p"]:
        """Return the parameters after all local epochs on the weighted cross-entropy."""

    def loss_sums(
        self, params: Float[Array, "r p"], data: ClientData, surrogate: Surrogate
    ) -> Float[Array, "r 2 a"]:
        """Return the loss summed over the rows of each cell (label, group)."""

    def confusion(self, params: Float[Array, "r p"], data: ClientData) -> Float[Array, "r 2 2 a"]:
        """Return the number of rows by label, decision and group."""

    def gradient(
        self,
        params: Float[Array, "r p"],
        data: ClientData,
        cell_weights: Float[Array, "r 2 a"],
        surrogate: Surrogate = "ce",
    ) -> Float[Array, "r p"]:
        """Return the gradient of the weighted loss summed over all rows."""

    def cell_gradients(
        self, params: Float[Array, "r p"], data: ClientData, surrogate: Surrogate = "ce"
    ) -> Float[Array, "r 2 a p"]:
        """Return the gradient of the loss summed over the rows of each cell."""

    def logits(self, params: Float[Array, "r p"], x: Float[Array, "n d"]) -> Float[Array, "r n"]:
        """Return the logit of every row."""
