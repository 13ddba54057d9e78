"""What every notion of fairness offers. A notion holds no data: counts and losses are handed in."""

from typing import Literal, Protocol, runtime_checkable

import numpy as np

from fedfb.shapes import Array, Bool, Float, Int, Num

Surrogate = Literal["zero_one", "prob", "ce"]
"""The loss that stands in the unfairness signal: 0-1 loss, ``|y - p|``, or cross-entropy."""


@runtime_checkable
class Notion(Protocol):
    """What is to be equal, and how FairBatch's weights move towards it.

    ``counts`` are pooled: rows by (label, group), or by client where ``reduce`` is ``gather``.
    ``lam`` has a leading run axis. The order of calls in a round is weights -> (clients train) ->
    share -> (sum) -> signal -> step.
    """

    @property
    def name(self) -> str: ...

    @property
    def reduce(self) -> Literal["sum", "gather"]:
        """Whether the server needs only the sum of the clients' shares, or each of them."""

    @property
    def minimum(self) -> int:
        """The least number of training rows of a group (or client) that is compared."""

    def init(self, counts: Num[Array, "*c"]) -> Float[Array, "*l"]:
        """Return the lambda at which every weight is 1, so that the first round is FedAvg."""

    def present(self, counts: Num[Array, "*c"]) -> Int[Array, " g"]:
        """Return the groups (or clients) that are compared; the first of them is the reference."""

    def omega(self, shift: Float[Array, "*s"]) -> Float[Array, "*s"]:
        """Return the weight, as a multiple of lambda's start, that shifts a group's logits so."""

    def shift(self, omega: Float[Array, "*s"]) -> Float[Array, "*s"]:
        """Return the shift of the logits that a weight amounts to; the inverse of omega."""

    def answer(self, counts: Num[Array, "*c"]) -> Float[Array, "*l"]:
        """Guess from counts how fast a group's value falls as its logits are shifted."""

    def disparity(self, gaps: Float[Array, "r *l"]) -> Float[Array, " r"]:
        """Return the one number that the gaps of all groups to their pooled value come to."""

    def weights(self, lam: Float[Array, "r *l"], counts: Num[Array, "*c"]) -> Float[Array, "r *w"]:
        """Return the weight omega of a row by its cell (label, group), or by its client."""

    def cell_weights(
        self, weights: Float[Array, "r *w"], client: int, groups: int
    ) -> Float[Array, "r 2 a"]:
        """Return the weights that one client's rows have, by cell."""

    def share(
        self, loss_sums: Float[Array, "r 2 a"], counts: Num[Array, "*c"], client: int
    ) -> Float[Array, "r s"]:
        """Return what one client sends: linear in its loss sums and free of constants."""

    def signal(
        self,
        total: Float[Array, "*i r s"],
        counts: Num[Array, "*c"],
        lacking: Bool[Array, " a"] | None = None,
    ) -> Float[Array, "r *l"]:
        """Return the direction mu from the sum (or stack) of shares. Constants enter here, once.

        Groups (or clients) that are ``lacking`` in this round, because nobody who took part has
        rows of them, stay out of mu.
        """

    def step(
        self,
        lam: Float[Array, "r *l"],
        signal: Float[Array, "r *l"],
        counts: Num[Array, "*c"],
        step_size: Float[Array, " r"],
    ) -> Float[Array, "r *l"]:
        """Return the projection of ``lam + step_size * signal`` onto the feasible set."""

    @property
    def values(self) -> int:
        """How many numbers a client says of the signal when every group is there."""

    @property
    def reach(self) -> tuple[float, float]:
        """The range of one client's share under a bounded loss, within which it is quantised."""

    def feasible(self, lam: Float[Array, "r *l"], counts: Num[Array, "*c"]) -> bool:
        """Tell whether every run's lambda lies in the feasible set, up to rounding."""


def ratio(numerator: Array, denominator: Array, empty: float) -> Float[Array, "..."]:
    """Divide, giving ``empty`` where the denominator is 0.

    >>> ratio(np.array([1.0, 2.0]), np.array([2, 0]), empty=1.0)
    array([0.5, 1. ])
    """
    safe = np.where(denominator == 0, 1, denominator)
    return np.where(denominator == 0, empty, numerator / safe)


def normalised(signal: Float[Array, "r *l"], by: Literal["none", "l2"]) -> Float[Array, "r *l"]:
    r"""Return mu itself or its direction.

    That is mu for ``none`` (the authors' code), :math:`\mu/\lVert\mu\rVert_2` for ``l2`` (the
    paper). A signal of length at most 1e-12 gives no direction: it becomes 0 and lambda stays.
    """
    length = np.sqrt(np.sum(signal**2, axis=tuple(range(1, signal.ndim)), keepdims=True))
    scale = 1.0 if by == "none" else 1.0 / np.where(length > 0, length, 1.0)
    return np.where(length > 1e-12, signal * scale, 0.0)


def decay(update: int, kind: Literal["const", "inv_sqrt", "inv"]) -> float:
    """Return the factor on the step size at the update-th move of lambda (1, 2, ...).

    >>> [decay(4, kind) for kind in ("const", "inv_sqrt", "inv")]
    [1.0, 0.5, 0.25]
    """
    factors: dict[str, float] = {"const": 1.0, "inv_sqrt": update**-0.5, "inv": 1.0 / update}
    return factors[kind]


def largest_size(gaps: Float[Array, "r *l"]) -> Float[Array, " r"]:
    """Return the largest size among each run's gaps.

    >>> largest_size(np.array([[0.1, -0.3], [0.0, 0.2]]))
    array([0.3, 0.2])
    """
    found: Float[Array, " r"] = np.abs(gaps).max(axis=tuple(range(1, gaps.ndim)))
    return found
