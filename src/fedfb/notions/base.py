"""The protocol of a fairness notion, notions by their names, and functions that notions share.

A notion holds no data. Counts and losses are arguments.
"""

from dataclasses import replace
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from fedfb.errors import ConfigError, unknown_name
from fedfb.shapes import Array, Bool, Float, Int, Num

Surrogate = Literal["zero_one", "prob", "ce"]
"""The loss that the unfairness signal is made of: 0-1 loss, ``|y - p|``, or cross-entropy."""


@runtime_checkable
class Notion(Protocol):
    """A fairness notion, and how FairBatch's weights move towards it.

    The order of calls in a round is weights -> (clients train) -> share -> (sum over clients) ->
    signal -> step. Arguments that several methods share:

    Args:
        counts: pooled rows by (label, group), or by client where ``reduce`` is ``gather``.
        lam: the parameter of the weights, with a leading run axis.
        loss_sums: losses of one client, summed by run, label and group.
        client: id of the client.
        step_size: one value per run.
    """

    @property
    def name(self) -> str: ...

    @property
    def reduce(self) -> Literal["sum", "gather"]:
        """``sum`` if the sum of the clients' shares suffices, ``gather`` if each is needed."""

    @property
    def minimum(self) -> int:
        """The smallest number of training rows with which a group (or client) is compared."""

    def init(self, counts: Num[Array, "*c"]) -> Float[Array, "*l"]:
        """Return the lambda at which every weight is 1. The first round is then FedAvg's."""

    def present(self, counts: Num[Array, "*c"]) -> Int[Array, " g"]:
        """Return the groups (or clients) that are compared; the first of them is the reference."""

    def omega(self, shift: Float[Array, "*s"]) -> Float[Array, "*s"]:
        """Return the weight, as a multiple of the initial lambda, for a shift of the logits."""

    def shift(self, omega: Float[Array, "*s"]) -> Float[Array, "*s"]:
        """Return the shift of the logits for a weight. The inverse of :meth:`omega`."""

    def guess_slope(self, counts: Num[Array, "*c"]) -> Float[Array, "*l"]:
        """Guess from counts how fast a group's value falls when its logits are shifted."""

    def disparity(self, gaps: Float[Array, "r *l"]) -> Float[Array, " r"]:
        """Return the disparity of each run from the gaps of all groups to the pooled value."""

    def weights(self, lam: Float[Array, "r *l"], counts: Num[Array, "*c"]) -> Float[Array, "r *w"]:
        """Return the weight omega of a row by its cell (label, group), or by client."""

    def cell_weights(
        self, weights: Float[Array, "r *w"], client: int, groups: int
    ) -> Float[Array, "r 2 a"]:
        """Return the weights of one client's rows, by cell."""

    def share(
        self, loss_sums: Float[Array, "r 2 a"], counts: Num[Array, "*c"], client: int
    ) -> Float[Array, "r s"]:
        """Return the upload of one client: linear in its loss sums, without constants."""

    def signal(
        self,
        total: Float[Array, "*i r s"],
        counts: Num[Array, "*c"],
        lacking: Bool[Array, " a"] | None = None,
    ) -> Float[Array, "r *l"]:
        """Return the signal mu from the sum (or stack) of shares. Constants are added here, once.

        Args:
            total: the sum of the clients' shares, or their stack where ``reduce`` is ``gather``.
            counts: pooled counts.
            lacking: groups (or clients) of which no participant of the round has rows. The signal
                leaves them out. None: every group has rows.
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
        """The number of values that a client sends for the signal if all groups are compared."""

    @property
    def reach(self) -> tuple[float, float]:
        """The range of one client's share under a bounded loss: the range of the quantiser."""

    def feasible(self, lam: Float[Array, "r *l"], counts: Num[Array, "*c"]) -> bool:
        """Return True if every run's lambda lies in the feasible set, up to rounding."""


def ratio(numerator: Array, denominator: Array, empty: float) -> Float[Array, "..."]:
    """Divide; return ``empty`` where the denominator is 0.

    Args:
        numerator: any shape that fits the denominator.
        denominator: any shape; zeros are allowed.
        empty: the result where the denominator is 0.

    >>> ratio(np.array([1.0, 2.0]), np.array([2, 0]), empty=1.0)
    array([0.5, 1. ])
    """
    safe = np.where(denominator == 0, 1, denominator)
    return np.where(denominator == 0, empty, numerator / safe)


def normalise(signal: Float[Array, "r *l"], by: Literal["none", "l2"]) -> Float[Array, "r *l"]:
    r"""Return the signal mu, or the signal scaled to length 1.

    Args:
        signal: mu, with a leading run axis. A signal of length at most 1e-12 has no direction:
            it becomes 0, and lambda does not move.
        by: ``none`` keeps mu (the authors' code), ``l2`` gives :math:`\mu/\lVert\mu\rVert_2`
            (the paper).
    """
    length = np.sqrt(np.sum(signal**2, axis=tuple(range(1, signal.ndim)), keepdims=True))
    scale = 1.0 if by == "none" else 1.0 / np.where(length > 0, length, 1.0)
    return np.where(length > 1e-12, signal * scale, 0.0)


def decay(update: int, kind: Literal["const", "inv_sqrt", "inv"]) -> float:
    """Return the factor on the step size.

    Args:
        update: number of the move of lambda: 1, 2, ...
        kind: constant, 1 / sqrt(update), or 1 / update.

    >>> [decay(4, kind) for kind in ("const", "inv_sqrt", "inv")]
    [1.0, 0.5, 0.25]
    """
    factors: dict[str, float] = {"const": 1.0, "inv_sqrt": update**-0.5, "inv": 1.0 / update}
    return factors[kind]


def largest_size(gaps: Float[Array, "r *l"]) -> Float[Array, " r"]:
    """Return the largest absolute gap of each run.

    >>> largest_size(np.array([[0.1, -0.3], [0.0, 0.2]]))
    array([0.3, 0.2])
    """
    largest: Float[Array, " r"] = np.abs(gaps).max(axis=tuple(range(1, gaps.ndim)))
    return largest


SHORT_NAMES = {
    "dp": "demographic_parity",
    "eo": "equal_opportunity",
    "eod": "equalized_odds",
    "cp": "client_parity",
}


def long_name(name: str) -> str:
    """Return the long name of a notion given either name.

    >>> long_name("eo"), long_name("client_parity")
    ('equal_opportunity', 'client_parity')
    """
    full = SHORT_NAMES.get(name, name.replace("-", "_"))
    if full not in SHORT_NAMES.values():
        raise ConfigError(unknown_name("notion", name, [*SHORT_NAMES, *SHORT_NAMES.values()]))
    return full


def labels_of(name: str) -> tuple[int, ...]:
    """Return the labels among whose rows a notion compares rates; empty: among all rows.

    >>> labels_of("eo"), labels_of("dp")
    ((1,), ())
    """
    return {"equal_opportunity": (1,), "equalized_odds": (0, 1)}.get(long_name(name), ())


def make_notion(name: str, groups: int, symmetric: bool = False, minimum: int = 1) -> Notion:
    """Return the notion of that name for a number of groups.

    Args:
        name: the short or the long name.
        groups: number of groups in the data.
        symmetric: whether groups are compared with their mean, not with the first group.
        minimum: the smallest number of training rows with which a group (or client) is compared.

    >>> make_notion("dp", groups=3).name
    'demographic_parity'
    """
    # Imported at use: a run needs one notion.
    match long_name(name):
        case "demographic_parity":
            from fedfb.notions.demographic_parity import DemographicParity

            return DemographicParity(groups, symmetric, minimum=minimum)
        case "equal_opportunity":
            from fedfb.notions.equalized_odds import EqualOpportunity

            return EqualOpportunity(groups, symmetric, minimum=minimum)
        case "equalized_odds":
            from fedfb.notions.equalized_odds import EqualizedOdds

            return EqualizedOdds(groups, symmetric, minimum=minimum)
        case _:
            from fedfb.notions.client_parity import ClientParity

            return ClientParity(symmetric, minimum=minimum)


def symmetric(notion: Notion) -> Notion:
    """Return the notion in the form that compares groups with their mean, not with the first."""
    form: Any = notion  # the protocol does not say that notions are dataclasses
    centred: Notion = replace(form, symmetric=True)
    return centred
