"""The evaluation of trained classifiers on test rows, one for each run."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from fedfb.core import Examples, Prediction
from fedfb.data.federation import Federation, training_cells
from fedfb.errors import DataError
from fedfb.experiments.result import Figures
from fedfb.experiments.seed_result import ClientRates, Evaluation, GroupRates, Quality, Statistic
from fedfb.notions.disparity import DisparityEstimate, disparities, loss_variances
from fedfb.notions.values import MINIMUM_ROWS, disparity_values, four_fifths, nan_to_none
from fedfb.shapes import Array, Bool, Float, Int, Num

SMALLEST_PROBABILITY = 1e-12
"""Scores are kept this far from 0 and 1, so one certain mistake costs 27.6 and not infinity."""


class Few(NamedTuple):
    """Groups, cells (label, group) and clients with too few training rows to be compared."""

    groups: Bool[Array, " a"]
    cells: Bool[Array, "2 a"]
    clients: Bool[Array, " i"]


def no_few(groups: int, clients: int) -> Few:
    """Return that no group, cell or client has too few rows."""
    return Few(*(np.zeros(shape, dtype=bool) for shape in (groups, (2, groups), clients)))


def few_of(federation: Federation, minimum: int) -> Few:
    """Return which groups, cells and clients have fewer training rows than the minimum."""
    sizes = np.zeros(len(federation.client_names))
    for client in federation.clients:
        sizes[client.id] = len(client.y)
    return few_in(training_cells(federation), sizes, minimum)


def few_in(cells: Num[Array, "2 a"], sizes: Num[Array, " i"], minimum: int) -> Few:
    """Return which groups, cells and clients have fewer rows than the minimum.

    Args:
        cells: training rows of all clients by label and group.
        sizes: training rows of each client.
        minimum: least number of rows to be compared.
    """
    return Few(cells.sum(axis=0) < minimum, cells < minimum, sizes < minimum)


def confusion_table(
    decision: Float[Array, " n"], examples: Examples, groups: int
) -> Float[Array, "2 2 a"]:
    r"""Count rows by label, decision and group.

    .. math:: C_{y1a} = \sum_{j: y_j = y, a_j = a} P(\hat y_j = 1), \qquad
              C_{y0a} = n_{ya} - C_{y1a}

    Args:
        decision: chance of a positive decision of each row, 0 to 1.
        examples: the rows, with labels and groups.
        groups: number of groups.

    >>> group = client = np.array([0, 0, 0])
    >>> examples = Examples(np.zeros((3, 1)), np.array([0, 1, 1]), group, client)
    >>> confusion_table(np.array([1.0, 1.0, 0.25]), examples, groups=1)[:, :, 0]
    array([[0.  , 1.  ],
           [0.75, 1.25]])
    """
    cell = examples.y * groups + examples.group
    rows = np.bincount(cell, minlength=2 * groups).reshape(2, groups)
    positives = np.bincount(cell, weights=decision, minlength=2 * groups).reshape(2, groups)
    # Of no rows at all numpy's weighted count is a whole number.
    return np.stack([rows - positives, positives], axis=1).astype(np.float64)


def cross_entropy(score: Float[Array, " n"], y: Int[Array, " n"]) -> Float[Array, " n"]:
    r"""Return each row's loss.

    .. math:: -y \log p - (1 - y) \log(1 - p)

    Args:
        score: probability of the positive label; 0 and 1 are clipped.
        y: labels, 0 or 1.

    >>> cross_entropy(np.array([0.5, 0.0]), np.array([1, 1])).round(2)
    array([ 0.69, 27.63])
    """
    # In float32 the upper bound would round to 1, and the loss of a certain mistake to infinity.
    p = np.clip(score.astype(np.float64), SMALLEST_PROBABILITY, 1 - SMALLEST_PROBABILITY)
    return -np.log(np.where(y == 1, p, 1 - p))


def client_loss_table(
    score: Float[Array, " n"], examples: Examples, clients: int
) -> Float[Array, "3 i"]:
    r"""Sum up rows, losses and squared losses of each client; rows of no client are left out.

    Args:
        score: probability of the positive label.
        examples: the rows; a client of -1 is no client.
        clients: number of clients.

    >>> examples = Examples(np.zeros((2, 1)), np.array([0, 1]), np.zeros(2, int), np.array([0, -1]))
    >>> client_loss_table(np.array([0.5, 0.5]), examples, clients=2).round(2)
    array([[1.  , 0.  ],
           [0.69, 0.  ],
           [0.48, 0.  ]])
    """
    owned = examples.client >= 0
    client = examples.client[owned]
    loss = cross_entropy(score[owned], examples.y[owned])
    powers = (np.ones_like(loss), loss, loss**2)
    sums = [np.bincount(client, weights=w, minlength=clients) for w in powers]
    return np.stack(sums).astype(np.float64)


def area_under_curve(score: Float[Array, " n"], y: Int[Array, " n"]) -> float | None:
    r"""Return the area under the ROC curve; None where the rows have one label only.

    .. math:: P(s_+>s_-)+\tfrac12P(s_+=s_-)=\frac{\sum_{y_j=1}r_j-n_+(n_++1)/2}{n_+n_-}

    with the ranks r, ties sharing their mean. Written out because importing scikit-learn takes
    longer than training: it is the reference in the tests.

    >>> area_under_curve(np.array([0.1, 0.4, 0.3, 0.8]), np.array([0, 0, 1, 1]))
    0.75
    """
    positives, negatives = int(y.sum()), int(len(y) - y.sum())
    if not positives or not negatives:
        return None
    in_order, positive_scores = (
        np.sort(score),
        np.sort(score[y == 1]),
    )  # searched in order is searched fast
    below, up_to = (np.searchsorted(in_order, positive_scores, side) for side in ("left", "right"))
    ranks = float((below + up_to + 1).sum() / 2)
    return (ranks - positives * (positives + 1) / 2) / (positives * negatives)


def _ratio(numerator: float, denominator: float) -> float | None:
    """Return the quotient; None where the denominator is 0.

    >>> _ratio(1.0, 4.0), _ratio(1.0, 0.0)
    (0.25, None)
    """
    return float(numerator / denominator) if denominator > 0 else None


def group_rates(name: str, table: Float[Array, "2 2"]) -> GroupRates:
    """Describe one group by its own confusion table ``table[label, decision]``.

    ``positives`` are its rows with a positive label.

    >>> rates = group_rates("all", np.array([[3.0, 1.0], [0.0, 0.0]]))
    >>> rates.n, rates.positives, rates.tpr, rates.fpr, rates.accuracy
    (4, 0, None, 0.25, 0.75)
    """
    [[rejected, wronged], [missed, hits]] = table.tolist()
    n = rejected + wronged + missed + hits
    return GroupRates(
        name=name,
        n=round(n),
        positives=round(missed + hits),
        positive_rate=_ratio(wronged + hits, n),
        tpr=_ratio(hits, missed + hits),
        fpr=_ratio(wronged, rejected + wronged),
        accuracy=_ratio(rejected + hits, n),
    )


def _client_rates(
    decision: Float[Array, "r n"],
    losses: Float[Array, "r 3 i"],
    examples: Examples,
    groups: int,
    client_names: Sequence[str],
    minimum: int,
    few: Few,
) -> list[tuple[ClientRates, ...]]:
    """Describe each client in every run: rows, accuracy, mean loss, disparities among its rows.

    ``loss_variance`` is that of the mean loss, None where client parity leaves the client out.

    Args:
        decision: chance of a positive decision by run and row.
        losses: rows, losses and squared losses by run and client, see :func:`client_loss_table`.
        examples: the rows.
        groups: number of groups.
        client_names: names by client id.
        minimum: least rows of a rate that enters a disparity.
        few: what had too few training rows to be compared.
    """
    owned = examples.client >= 0
    y, group, client = (part[owned] for part in (examples.y, examples.group, examples.client))
    # Every pair (client, group) counts as a group, so that one table serves all clients.
    crossed = Examples(examples.x[:0], y, client * groups + group, client)
    clients = len(client_names)
    tables = [confusion_table(of_run, crossed, clients * groups) for of_run in decision[:, owned]]
    by_client = np.stack(tables).reshape(-1, 2, 2, clients, groups).transpose(0, 3, 1, 2, 4)
    compared = np.where(few.groups, 0.0, by_client)
    disparity = {
        n: nan_to_none(values) for n, values in disparity_values(compared, minimum).items()
    }
    counted = by_client.sum(axis=4)
    right = (counted[:, :, 0, 0] + counted[:, :, 1, 1]).tolist()
    variance = nan_to_none(loss_variances(losses, minimum))
    return [
        tuple(
            ClientRates(
                name=name,
                n=round(n),
                accuracy=_ratio(right[run][client], n),
                loss=_ratio(total, n),
                loss_variance=variance[run][client],
                disparity={notion: values[run][client] for notion, values in disparity.items()},
            )
            for client, (name, n, total) in enumerate(zip(client_names, *sums, strict=True))
        )
        for run, sums in enumerate(losses[:, :2].tolist())
    ]


def local_disparity(clients: Sequence[ClientRates]) -> dict[str, float | None]:
    """Return the largest disparity among one client's own rows, over the clients that have one."""
    values = {
        notion: [value for client in clients if (value := client.disparity[notion]) is not None]
        for notion in (clients[0].disparity if clients else {})
    }
    return {notion: max(of_clients, default=None) for notion, of_clients in values.items()}


def evaluate_counts(
    confusion: Float[Array, "r 2 2 a"],
    losses: Float[Array, "r 3 i"] | None,
    group_names: Sequence[str],
    client_names: Sequence[str] = (),
    minimum: int = MINIMUM_ROWS,
    few: Few | None = None,
) -> list[Evaluation]:
    """Return one evaluation per run from counts alone, which are sums over clients.

    Args:
        confusion: rows by run, label, decision and group.
        losses: as in ``_client_rates``; None where clients are unknown.
        group_names: names by group number.
        client_names: names by client id.
        minimum: least rows of a rate that enters a disparity.
        few: what had too few training rows to be compared; None: nothing.
    """
    few = few or no_few(len(group_names), len(client_names))
    # A group without rows is not estimable: it is named, and it enters no disparity.
    by_group = np.where(few.groups, 0.0, confusion)
    by_label = np.where(few.groups | few.cells[:, None], 0.0, confusion)
    if losses is not None:
        losses = np.where(few.clients, 0.0, losses)
    estimates = disparities(by_group, losses, minimum, by_label)
    ratios = [four_fifths(compared, minimum) for compared in by_group]
    return [
        _evaluation(table, of_run, ratio_of_run, group_names, client_names)
        for table, of_run, ratio_of_run in zip(confusion, estimates, ratios, strict=True)
    ]


def _evaluation(
    confusion: Float[Array, "2 2 a"],
    estimates: Mapping[str, DisparityEstimate],
    four_fifths: float | None,
    group_names: Sequence[str],
    client_names: Sequence[str],
) -> Evaluation:
    everyone = group_rates("all", confusion.sum(axis=2))
    tpr, fpr = everyone.tpr, everyone.fpr
    names = {name: client_names if name == "client_parity" else group_names for name in estimates}
    return Evaluation(
        accuracy=everyone.accuracy,
        balanced_accuracy=None if tpr is None or fpr is None else (tpr + 1 - fpr) / 2,
        auc=None,
        disparity={name: estimate.value for name, estimate in estimates.items()},
        interval={
            name: None
            if estimate.low is None or estimate.high is None
            else (estimate.low, estimate.high)
            for name, estimate in estimates.items()
        },
        groups=tuple(
            group_rates(name, confusion[:, :, group]) for group, name in enumerate(group_names)
        ),
        clients=(),
        local_disparity={},
        four_fifths=four_fifths,
        not_estimable={
            name: tuple(names[name][number] for number in estimate.not_estimable)
            for name, estimate in estimates.items()
        },
        majority_accuracy=_ratio(confusion.sum(axis=(1, 2)).max(), confusion.sum()),
    )


def check_numbers(kind: str, numbers: Int[Array, " n"], names: Sequence[str]) -> None:
    """Refuse numbers without a name: in a table of cells they would count for another cell.

    Args:
        kind: ``group`` or ``client``, for the message.
        numbers: the number of each row; -1 is none.
        names: the names, in the order of numbers.
    """
    largest = int(numbers.max(initial=-1))
    if largest >= len(names):
        raise DataError(
            f"the rows to evaluate on name {kind} number {largest}, but only {len(names)} {kind}s "
            f"have a name ({', '.join(names)}). Give every {kind} a name, in the order of numbers."
        )


def evaluate(
    prediction: Prediction,
    examples: Examples,
    group_names: Sequence[str],
    client_names: Sequence[str],
    minimum: int = MINIMUM_ROWS,
    few: Few | None = None,
) -> list[Evaluation]:
    """Return one evaluation per run: accuracy, disparities with intervals, groups and clients.

    Group ``a`` is called ``group_names[a]``, the client with id ``i`` ``client_names[i]``. Numbers
    are plain floats, None where not estimable, never NaN. Of randomised decisions every figure is
    the expected one. ``majority_accuracy`` is what the better constant classifier reaches. A rate
    of fewer than ``minimum`` rows, and what had ``few`` training rows, enters no disparity.

    >>> y, group = np.tile([0, 1], 20), np.repeat([0, 1], 20)
    >>> examples = Examples(np.zeros((40, 1)), y, group, np.full(40, -1))
    >>> score = np.where(group == 0, 0.9, np.where(y == 1, 0.8, 0.1))[None]
    >>> [found] = evaluate(Prediction(score, np.round(score)), examples, ["f", "m"], [])
    >>> found.accuracy, found.disparity["demographic_parity"], found.clients
    (0.75, 0.25, ())
    """
    check_numbers("group", examples.group, group_names)
    check_numbers("client", examples.client, client_names)
    few = few or no_few(len(group_names), len(client_names))
    score, decision = prediction
    groups, has_clients = len(group_names), bool((examples.client >= 0).any())
    confusion = np.stack([confusion_table(of_run, examples, groups) for of_run in decision])
    losses = (
        np.stack([client_loss_table(of_run, examples, len(client_names)) for of_run in score])
        if has_clients
        else None
    )
    clients = (
        [() for _ in decision]
        if losses is None
        else _client_rates(decision, losses, examples, groups, client_names, minimum, few)
    )
    counted = evaluate_counts(confusion, losses, group_names, client_names, minimum, few)
    return [
        msgspec.structs.replace(
            evaluation,
            auc=area_under_curve(own_score, examples.y),
            clients=own_clients,
            local_disparity=local_disparity(own_clients),
        )
        for evaluation, own_score, own_clients in zip(counted, score, clients, strict=True)
    ]


def mean_and_std(values: Sequence[float | None]) -> Statistic:
    """Return mean and standard deviation (n - 1) of the estimable values, None for too few of them.

    >>> mean_and_std([1.0, 3.0, None]) == Statistic(mean=2.0, std=2**0.5)
    True
    >>> mean_and_std([1.0]).std is None
    True
    """
    estimable = [value for value in values if value is not None]
    return Statistic(
        mean=float(np.mean(estimable)) if estimable else None,
        std=float(np.std(estimable, ddof=1)) if len(estimable) > 1 else None,
    )


def summarise(runs: Sequence[Evaluation | Quality]) -> Figures:
    """Return mean and standard deviation of accuracy and of each disparity over the runs."""
    return Figures(
        accuracy=mean_and_std([run.accuracy for run in runs]),
        disparity={
            name: mean_and_std([run.disparity[name] for run in runs])
            for name in (runs[0].disparity if runs else {})
        },
    )
