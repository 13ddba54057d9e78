"""The released FedFB's rules: weights, the step of lambda, averages of models, and measures.

Arrays have a leading axis of seeds ``s``. ``counts`` are rows by label and group over all clients,
validation rows included. Averages exist as released and as they should be. Each difference between
the released code and FedFB as it should be has a name here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NamedTuple, get_args, get_type_hints

import numpy as np

from fedfb.core import ClientData, Examples
from fedfb.data import Federation
from fedfb.data.columns import NumberColumn
from fedfb.data.encode import Encoder
from fedfb.data.groups import Groups
from fedfb.errors import ConfigError, unknown_name
from fedfb.paper.released.data import ReleasedData, ReleasedRows
from fedfb.paper.released.training import Reduction, released_cross_entropy
from fedfb.shapes import Array, Float, Int


@dataclass(frozen=True)
class Flags:
    """The rules of one method; the first value of each is that of the printed two-group digits.

    averaging
        ``first-unweighted``: the first client's model enters with weight 1, not with its own.
        ``weighted``: every model with its own weight.
    rate
        ``decaying``: the learning rate of round t is lr / t. ``constant``: lr.
    fillers
        ``drawn``: each batch draws normal numbers that nobody uses, which moves later epochs'
        order. ``none``: not. Taken to be so because only then all digits come out.
    signal
        Losses that move lambda. ``label-one``: cross-entropy towards label 1, whatever the label.
        ``cross-entropy``: towards the label. ``zero-one``: wrong decisions.
    return_step
        Two groups, 2021 only. ``mixed``: when lambda must come back, cells of group 1 are set to
        1 minus those of group 0. ``mirrored``: the step forth, reversed.
    constant
        ``per-client``: the label-share term of the signal counts once per client. ``once``.
    bound
        ``first-group``: every group's weights are bounded by group 0's share. ``own-group``.
    step
        ``plain``: alpha / sqrt(t) times the signal. ``normalised``: the signal has length 1.
    selection
        ``last``: the last round's model is reported. ``least-disparity``: that of the round with
        the least disparity on training rows.
    """

    averaging: Literal["first-unweighted", "weighted"] = "first-unweighted"
    rate: Literal["decaying", "constant"] = "decaying"
    fillers: Literal["drawn", "none"] = "drawn"
    signal: Literal["label-one", "cross-entropy", "zero-one"] = "label-one"
    return_step: Literal["mixed", "mirrored"] = "mixed"
    constant: Literal["per-client", "once"] = "per-client"
    bound: Literal["first-group", "own-group"] = "first-group"
    step: Literal["plain", "normalised"] = "plain"
    selection: Literal["last", "least-disparity"] = "last"


RELEASED_METHODS = ("fedavg", "fedfb", "fedfb-2022")
"""FedAvg, FedFB of October 2021 (the printed digits), FedFB of the last release (2022)."""


def make_flags(method: str, groups: int, changes: Mapping[str, Any]) -> Flags:
    """Return the flags of a method.

    Args:
        method: one of ``METHODS``.
        groups: number of groups; FedFB of 2021 has other rules for two groups.
        changes: flags that differ from the method's, checked by name and value.

    >>> make_flags("fedavg", 2, {"averaging": "weighted"}).averaging
    'weighted'
    """
    if method not in RELEASED_METHODS:
        raise ConfigError(unknown_name("released method", method, RELEASED_METHODS))
    values = {name: get_args(hint) for name, hint in get_type_hints(Flags).items()}
    for name, value in changes.items():
        if name not in values:
            raise ConfigError(unknown_name("flag", name, [field.name for field in fields(Flags)]))
        if value not in values[name]:
            raise ConfigError(unknown_name(f"value of {name}", str(value), values[name]))
    return replace(_usual(method, groups), **changes)


def _usual(method: str, groups: int) -> Flags:
    """Return a method's own rules; FedFB of 2021 has two kinds, by the number of groups."""
    if method == "fedfb" and groups == 2:
        return Flags()
    later = Flags(rate="constant", fillers="none")
    return later if method == "fedfb" else replace(later, signal="cross-entropy")


def as_federation(data: ReleasedData) -> Federation:
    """Return the rows as a federation for our methods, every feature as it is.

    A client has all its rows, with the tenth that the released code keeps for validation: our
    methods hold out their own validation rows. Test rows belong to no client.
    """
    features = tuple(f"x{number}" for number in range(data.test.x.shape[1]))
    groups = Groups(("group",), tuple(str(number) for number in range(data.groups)))
    as_they_are = tuple(NumberColumn(name, 0.0, 1.0, False) for name in features)
    clients = [
        ClientData(number, rows.x, rows.y, rows.group, data.groups)
        for number, rows in enumerate(data.clients)
    ]
    test = data.test
    return Federation(
        name=data.name,
        clients=tuple(clients),
        test=Examples(test.x, test.y, test.group, np.full(len(test.y), -1)),
        group_names=groups.names,
        client_names=tuple(f"client {number}" for number in range(len(clients))),
        feature_names=features,
        # The group is the last feature already.
        encoder=Encoder(as_they_are, groups, "y", "1", sensitive_at_prediction=False),
    )


Lambda = Float[Array, "s 2 a"]


class ReleasedRule(NamedTuple):
    """The rule of one method.

    Attributes:
        start: lambda at first.
        weights: the weight of each cell, from lambda.
        reduction: how a batch's losses are reduced.
        losses_on: the rows of a client whose losses move lambda.
        step: takes lambda, loss sums by cell over all clients, alpha and the round; returns lambda.
    """

    start: Float[Array, "2 a"]
    weights: Callable[[Lambda], Lambda]
    reduction: Reduction
    losses_on: Literal["validation", "training"]
    step: Callable[[Lambda, Lambda, float, int], Lambda]


def choose_rule(
    method: str, flags: Flags, counts: Float[Array, "2 a"], clients: int
) -> ReleasedRule:
    """Return the rule of a method.

    Args:
        method: one of ``METHODS``.
        flags: the switches.
        counts: rows by label and group.
        clients: number of clients.
    """
    if method == "fedavg":
        return make_unweighted_rule(counts)
    if method == "fedfb" and counts.shape[1] == 2:
        return make_two_group_rule(flags, counts)
    return make_many_group_rule(flags, counts, clients)


def make_unweighted_rule(counts: Float[Array, "2 a"]) -> ReleasedRule:
    """Return FedAvg's rule: every row has the same weight."""
    return ReleasedRule(
        np.ones_like(counts), lambda lam: lam, "sum", "training", lambda lam, *_: lam
    )


def make_two_group_rule(flags: Flags, counts: Float[Array, "2 2"]) -> ReleasedRule:
    r"""Return October 2021's rule for two groups.

    .. math:: \lambda_{yz} = n_{yz}/n_z \text{ at first},\quad
              w_{yz} = \lambda_{yz}\, n_y / n_{yz},\quad
              \text{forth if } \frac{L_{00}}{n_0} - \frac{L_{01}}{n_1}
              > \frac{L_{10}}{n_0} - \frac{L_{11}}{n_1}

    Forth, :math:`\lambda_{00}` loses and :math:`\lambda_{01}` gains :math:`\alpha/t`, and
    :math:`\lambda_{1z} = 1 - \lambda_{0z}`. Back, as released, :math:`\lambda_{00}` gains and
    :math:`\lambda_{10}` loses it, and :math:`\lambda_{y1} = 1 - \lambda_{y0}`: this normalisation
    is not the one of the step forth.

    Args:
        flags: ``return_step`` counts.
        counts: rows by label and group.
    """
    sizes = counts.sum(axis=0)

    def step(lam: Lambda, losses: Lambda, alpha: float, number: int) -> Lambda:
        mean = losses / sizes
        forth = mean[:, 0, 0] - mean[:, 0, 1] > mean[:, 1, 0] - mean[:, 1, 1]
        move = alpha / number
        ahead = np.clip(lam[:, 0] + move * np.array([-1.0, 1.0]), 0, 1)
        back = np.clip(lam[:, 0] - move * np.array([-1.0, 1.0]), 0, 1)
        released = np.clip(lam[:, :, 0] + move * np.array([1.0, -1.0]), 0, 1)
        returned = (
            np.stack([back, 1 - back], axis=1)
            if flags.return_step == "mirrored"
            else np.stack([released, 1 - released], axis=2)
        )
        return np.where(forth[:, None, None], np.stack([ahead, 1 - ahead], axis=1), returned)

    return ReleasedRule(
        start=counts / sizes,
        weights=lambda lam: lam * counts.sum(axis=1, keepdims=True) / counts,
        reduction="weighted mean",
        losses_on="validation",
        step=step,
    )


def make_many_group_rule(flags: Flags, counts: Float[Array, "2 a"], clients: int) -> ReleasedRule:
    r"""Return the rule of the last release, and October 2021's for more than two groups.

    .. math:: \lambda_{yz} = n_z/n \text{ at first},\quad w_{yz} = \lambda_{yz}/n_z,\quad
              f_z = \frac{L_{10} - L_{00}}{n_0} - \frac{L_{1z} - L_{0z}}{n_z}
              + K \Big(\frac{n_{00}}{n_0} - \frac{n_{0z}}{n_z}\Big)

    with the number of clients K where it should be 1. From losses towards label 1 (October 2021) it
    is :math:`f_z = (L_{00} + L_{10})/n_0 - (L_{0z} + L_{1z})/n_z`. Then :math:`\lambda_{00}` loses
    :math:`\alpha f_z/\sqrt t` and :math:`\lambda_{0z}` gains it, both clipped to
    :math:`[0, 2 n_0/n]` for every z, and :math:`\lambda_{1z} = 2 n_0/n - \lambda_{0z}`. The correct
    bound is :math:`2 n_z/n`.

    Args:
        flags: ``bound``, ``constant``, ``signal`` and ``step`` count.
        counts: rows by label and group.
        clients: number of clients.
    """
    sizes = counts.sum(axis=0)
    shares = sizes / sizes.sum()
    bound = 2 * (shares if flags.bound == "own-group" else np.full_like(shares, shares[0]))
    times = clients if flags.constant == "per-client" else 1
    constant = times * (counts[0, 0] / sizes[0] - counts[0] / sizes)

    def signal(losses: Lambda) -> Float[Array, "s a"]:
        mean = losses / sizes
        if flags.signal == "label-one":
            rate = mean.sum(axis=1)
            return rate[:, :1] - rate
        rate = mean[:, 1] - mean[:, 0]
        return rate[:, :1] - rate + constant

    def step(lam: Lambda, losses: Lambda, alpha: float, number: int) -> Lambda:
        f = signal(losses)
        if flags.step == "normalised":
            f = f / np.maximum(np.linalg.norm(f, axis=1, keepdims=True), np.finfo(float).tiny)
        gain = f - np.eye(f.shape[1])[0] * f.sum(axis=1, keepdims=True)
        first_label = np.clip(lam[:, 0] + alpha / np.sqrt(number) * gain, 0, bound)
        return np.stack([first_label, bound - first_label], axis=1)

    return ReleasedRule(
        start=np.stack([shares, shares]),
        weights=lambda lam: lam / sizes,
        reduction="sum",
        losses_on="training",
        step=step,
    )


Averaging = Literal["first-unweighted", "weighted"]


def average_by_weight(
    models: Sequence[Float[Array, "s p"]], weights: Float[Array, "s i"], averaging: Averaging
) -> Float[Array, "s p"]:
    r"""Return the average of FedFB's models.

    .. math:: \frac{w_0 + \sum_{i \ge 1} c_i w_i}{\sum_i c_i}
              \quad\text{(released)} \qquad \frac{\sum_i c_i w_i}{\sum_i c_i}

    As released, client 0 has almost no influence, and the model shrinks by its share.

    Args:
        models: one for each client.
        weights: mass of each client's rows, by seed.
        averaging: as released, or correct.

    >>> models = [np.array([[4.0]]), np.array([[8.0]])]
    >>> average_by_weight(models, np.array([[3.0, 1.0]]), "first-unweighted")
    array([[3.]])
    >>> average_by_weight(models, np.array([[3.0, 1.0]]), "weighted")
    array([[5.]])
    """
    factors = weights.copy()
    if averaging == "first-unweighted":
        factors[:, 0] = 1.0
    total = np.einsum("si,isp->sp", factors, np.stack(models))
    return (total / weights.sum(axis=1, keepdims=True)).astype(models[0].dtype)


def average_by_size(
    models: Sequence[Float[Array, "s p"]],
    sizes: Sequence[int],
    first: Int[Array, " s"],
    averaging: Averaging,
) -> Float[Array, "s p"]:
    r"""Return the average of FedAvg's models.

    .. math:: \frac{w_f + \sum_{i \ne f} n_i w_i}{\sum_{i \ne f} n_i}
              \quad\text{(released)} \qquad \frac{\sum_i n_i w_i}{\sum_i n_i}

    Args:
        models: one for each client.
        sizes: rows of each client.
        first: for each seed the client f that is asked first.
        averaging: as released, or correct.

    >>> models = [np.array([[4.0]]), np.array([[8.0]])]
    >>> average_by_size(models, [3, 2], np.array([0]), "first-unweighted")
    array([[10.]])
    """
    factors = np.tile(np.array(sizes, float), (len(first), 1))
    totals = factors.sum(axis=1, keepdims=True)
    if averaging == "first-unweighted":
        seeds = np.arange(len(first))
        totals = totals - factors[seeds, first][:, None]
        factors[seeds, first] = 1.0
    return (np.einsum("si,isp->sp", factors, np.stack(models)) / totals).astype(models[0].dtype)


def first_clients(seeds: tuple[int, ...], clients: int) -> Int[Array, " s"]:
    """Return the client that each seed asks first; as the code seeds anew, it is so in every round.

    Args:
        seeds: of the runs.
        clients: number of clients.

    >>> first_clients((0, 1, 2, 3, 4), 3).tolist()
    [2, 0, 2, 1, 1]
    """
    return np.array([np.random.RandomState(seed).permutation(clients)[0] for seed in seeds])


def accuracies(margin: Float[Array, "s n"], rows: ReleasedRows) -> Float[Array, " s"]:
    """Return the share of correct decisions, by seed.

    Args:
        margin: by seed and row; a positive margin is a positive decision.
        rows: the rows.
    """
    return ((margin > 0) == rows.y).mean(axis=1)


def released_disparities(
    margin: Float[Array, "s n"], rows: ReleasedRows, groups: int
) -> Float[Array, " s"]:
    r"""Return the largest gap between a group's rate of positive decisions and the overall rate.

    .. math:: \max_z |P(\hat y = 1 \mid z) - P(\hat y = 1)|

    Args:
        margin: by seed and row; a positive margin is a positive decision.
        rows: the rows.
        groups: number of groups.
    """
    decision = margin > 0
    rate = decision.mean(axis=1)
    of_groups = [decision[:, rows.group == group].mean(axis=1) for group in range(groups)]
    return np.abs(np.stack(of_groups) - rate).max(axis=0)


def parity_differences(margin: Float[Array, "s n"], rows: ReleasedRows) -> Float[Array, " s"]:
    r"""Return :math:`|P(\hat y=1\mid 0)-P(\hat y=1\mid 1)|`, without other groups.

    Args:
        margin: by seed and row; a positive margin is a positive decision.
        rows: the rows.
    """
    rates = [(margin[:, rows.group == group] > 0).mean(axis=1) for group in (0, 1)]
    return np.abs(rates[0] - rates[1])


def released_loss_sums(
    margin: Float[Array, "s n"],
    rows: ReleasedRows,
    groups: int,
    signal: Literal["label-one", "cross-entropy", "zero-one"],
) -> Float[Array, "s 2 a"]:
    """Return losses summed by label and group.

    Args:
        margin: by seed and row.
        rows: the rows.
        groups: number of groups.
        signal: which loss; see :class:`fedfb.paper.released.rules.Flags`.
    """
    if signal == "zero-one":
        losses: Array = ((margin > 0) != rows.y).astype(np.float64)
    else:
        towards = np.ones_like(rows.y) if signal == "label-one" else rows.y
        losses = released_cross_entropy(margin, towards)
    cell = (rows.y * groups + rows.group)[:, None] == np.arange(2 * groups)
    return (losses @ cell.astype(np.float64)).reshape(len(margin), 2, groups)
