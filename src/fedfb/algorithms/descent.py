r"""Fits of networks by summed gradients: the path of the fit is that of the pooled rows.

The objective is

.. math:: f(w)=\sum_j\omega_j\,\ell_j(w)+\frac{r}{2}\lVert w\rVert^2

Its value and its gradient are sums over rows, hence sums over clients. The server minimises f by
L-BFGS, and asks for both at every point. No client moves the model by itself, so that clients whose
rows differ cannot drift apart, and there is neither a learning rate nor a number of local epochs.

The ridge r decides how closely the network follows its training rows. The first fit is made with
every ridge of :data:`RIDGES` on nine tenths of the rows; the ridge with the least summed loss on
the other rows is taken, and the fit goes on with all rows. Which rows are held out follows from
their values and the seed alone, not from the client that has them.

One more trial is the logistic regression that the network contains: two units pass its logit on,
:math:`z=[z]_+-[-z]_+`. Where no ridge does better on the rows that are held out, the network stays
there (the ridge :data:`LINEAR`).
"""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from fedfb.core import Arrays, ClientData, Key, generator
from fedfb.engine import Engine, cell_counts
from fedfb.engine.rows import ArrayCache, chunks
from fedfb.models import Model, Network
from fedfb.shapes import Array, Float, Int

RIDGES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
"""What is tried. 1 is the ridge of exact fits, which costs as much as one row."""

USUAL_RIDGE = 10.0
"""The ridge where no row is held out."""

LINEAR, RIDGE_OF_LINEAR = -1.0, 1.0
"""The mark of a network that stays the logistic regression that it contains, and the ridge then."""

FOLDS, FEW, MOST_FOLDS = 10, 300, 5
"""The parts that rows are split in by chance. The first is held out; if it has fewer than FEW rows,
so are the next, each in trials of its own, up to MOST_FOLDS."""

CLOSE, SMALL_STEPS = 1e-6, 3
"""A fit ends after so many steps in a row that each lower the mean loss by less than CLOSE."""

MOST_STEPS = 200
"""The most steps of a fit."""

PATIENCE = 20
"""A fit on nine tenths of the rows ends after so many steps without a lower loss on the others."""

PAIRS = 10
"""The steps that L-BFGS remembers."""

ENOUGH, MOST_HALVINGS = 1e-4, 12
"""A step is taken if the loss falls by this part of what its slope promises; otherwise it is
halved, so many times at most."""

_DRAW = 45
"""The part of the key that draws the rows that are held out."""

_PARTS: ArrayCache[tuple[ClientData, ClientData]] = ArrayCache()
_FOLDS: ArrayCache[Int[Array, " n"]] = ArrayCache()


def fold_of_rows(data: ClientData, seed: int) -> Int[Array, " n"]:
    """Return the part of each row, from 1 to FOLDS: it follows from the row's values and the seed.

    A row is in the same part however rows are distributed over clients, and so are its copies. The
    arithmetic is in whole numbers: it is exact in every order.

    Args:
        data: the client's rows.
        seed: of the run.
    """
    x = np.ascontiguousarray(data.x)
    bits = x.view(f"u{x.dtype.itemsize}")
    factors = generator((seed, _DRAW)).integers(2**63, size=x.shape[1] + 3, dtype=np.uint64)
    factors = 2 * factors + np.uint64(1)  # odd factors lose no bit
    value = data.y.astype(np.uint64) * factors[-1] + factors[-2]
    for rows in chunks(len(value)):
        value[rows] += (bits[rows] * factors[: x.shape[1]]).sum(axis=1, dtype=np.uint64)
    value ^= value >> np.uint64(32)
    value *= factors[-3]
    part: Int[Array, " n"] = (value >> np.uint64(32)) * np.uint64(FOLDS) >> np.uint64(32)
    return part.astype(np.int64) + 1


def cached_folds(data: ClientData, seed: int) -> Int[Array, " n"]:
    """Return :func:`fold_of_rows`, which is cached if the rows are read-only."""
    return _FOLDS.of((data.x, data.y), seed, lambda: fold_of_rows(data, seed))


def split_rows(data: ClientData, seed: int, fold: int) -> tuple[ClientData, ClientData]:
    """Return the rows to train on and the rows that are held out; cached if they are read-only.

    Args:
        data: the client's rows.
        seed: of the run.
        fold: the part that is held out.
    """

    def split() -> tuple[ClientData, ClientData]:
        held = cached_folds(data, seed) == fold
        train, rest = (
            data._replace(x=data.x[rows], y=data.y[rows], group=data.group[rows]).read_only()
            for rows in (~held, held)
        )
        return train, rest

    return _PARTS.of((data.x, data.y, data.group), ("fold", seed, fold), split)


def gradient_upload(
    engine: Engine,
    broadcast: Arrays,
    data: ClientData,
    weights: Float[Array, "r 2 a"],
    key: Key,
) -> Arrays:
    """Return one client's part of the sums: weight, loss and gradient, and the loss held out.

    Args:
        engine: does the arithmetic.
        broadcast: ``params``, and in ``fold`` the part that each run holds out (0: none).
        data: the client's rows.
        weights: weights of the rows by run, label and group.
        key: holds the seed.
    """
    params, folds = broadcast["params"], broadcast["fold"]
    names = ("weight", "loss", "held_out_weight", "held_out_loss")
    upload: Arrays = {name: np.zeros(len(params)) for name in names}
    upload["gradient"] = np.zeros(params.shape)
    if folds.any():  # a client without rows of a part has nothing to hold out
        folds = np.where(np.isin(folds, cached_folds(data, key[0])), folds, 0)
    for fold in np.unique(folds):
        runs, train, held = folds == fold, data, None
        if fold:
            train, held = split_rows(data, key[0], int(fold))
        for prefix, rows in (("", train), ("held_out_", held)):
            if rows is None or not len(rows.y):
                continue
            losses = engine.loss_sums(params[runs], rows, "ce")
            upload[f"{prefix}weight"][runs] = np.sum(weights[runs] * cell_counts(rows), axis=(1, 2))
            upload[f"{prefix}loss"][runs] = np.sum(weights[runs] * losses, axis=(1, 2))
        if len(train.y):
            upload["gradient"][runs] = engine.gradient(params[runs], train, weights[runs])
    return upload


class Descended(NamedTuple):
    """Where a fit ended, and the mean loss and the weight of the rows that are held out."""

    params: Float[Array, " p"]
    held_out: float
    held_out_weight: float


Descent = Generator[Float[Array, " p"], Arrays, Descended]
"""Yields the points at which one run needs sums."""


class _Point(NamedTuple):
    """The sums of one run at a point, with the ridge, by weight of the rows."""

    weight: float
    value: float
    gradient: Float[Array, " p"]
    held_out: float
    held_out_weight: float


def descend(start: Float[Array, " p"], ridge: float, weight_decay: float) -> Descent:
    """Minimise f from a start by L-BFGS.

    A total over other rows (clients dropped out) cannot be compared with the last: the step is
    taken, and not remembered.

    Args:
        start: parameters before the fit.
        ridge: r.
        weight_decay: added to the ridge once for each row of weight 1.
    """
    pairs = deque[tuple[Array, Array]](maxlen=PAIRS)
    w, small, least, since = start, 0, np.inf, 0
    here = _read_point((yield w), w, ridge, weight_decay)
    for _ in range(MOST_STEPS if here.weight > 0 else 0):
        step = recall_steps(here.gradient, _usual_step(here.gradient, pairs), pairs)
        promise = float(here.gradient @ step)
        for halvings in range(MOST_HALVINGS + 1):
            moved, fall = step / 2**halvings, promise / 2**halvings
            there = _read_point((yield w - moved), w - moved, ridge, weight_decay)
            same_rows = bool(np.isclose(there.weight, here.weight, rtol=1e-6))
            if not same_rows or there.value <= here.value - ENOUGH * fall:
                break
        else:
            break  # no step lowers the loss: what is left is rounding
        if same_rows:
            pairs.append((-moved, there.gradient - here.gradient))
        small = small + 1 if here.value - there.value < CLOSE else 0
        w, here = w - moved, there
        least, since = min(least, here.held_out), 0 if here.held_out < least else since + 1
        if small >= SMALL_STEPS or (since >= PATIENCE and np.isfinite(least)):
            break
    return Descended(w, here.held_out, here.held_out_weight)


def descend_linearly(start: Float[Array, " p"], network: Network, weight_decay: float) -> Descent:
    """Fit the logistic regression that a network contains; the points are networks.

    Args:
        start: the first unit of the first layer is where the fit starts.
        network: has two units or more in every hidden layer.
        weight_decay: see :func:`descend`.
    """
    weight, bias = network.split(start[None])[0]
    fit = descend(np.append(weight[0, :, 0], bias[0, 0]), RIDGE_OF_LINEAR, weight_decay)
    point = next(fit)
    while True:
        total = yield embed_logistic(point, network)
        weight, bias = network.split(total["gradient"][None])[0]
        # The second unit has the opposite weights: so has its part of the derivative.
        slope = np.append(weight[0, :, 0] - weight[0, :, 1], bias[0, 0] - bias[0, 1])
        try:
            point = fit.send({**total, "gradient": slope})
        except StopIteration as end:
            ended: Descended = end.value
            return ended._replace(params=embed_logistic(ended.params, network))


def embed_logistic(point: Float[Array, " p"], network: Network) -> Float[Array, " q"]:
    """Return the network whose logit is that of a logistic regression.

    >>> embed_logistic(np.array([2.0, 5.0]), Network(1, (2,))).tolist()
    [2.0, -2.0, 5.0, -5.0, 1.0, -1.0, 0.0]
    """
    params = np.zeros((1, network.size))
    first, *middle, last = network.split(params)
    weight, bias = first
    weight[0, :, :2], bias[0, :2] = np.outer(point[:-1], [1, -1]), (point[-1], -point[-1])
    for weight, _ in middle:
        weight[0, [0, 1], [0, 1]] = 1
    last[0][0, :2, 0] = 1, -1
    return params[0]


def contains_logistic(model: Model) -> bool:
    """Return True if every hidden layer, of which there is one at least, has two units or more."""
    return isinstance(model, Network) and min(model.hidden, default=0) >= 2


def _read_point(total: Arrays, w: Float[Array, " p"], ridge: float, weight_decay: float) -> _Point:
    weight, rest = float(total["weight"]), float(total["held_out_weight"])
    scale = 1 / weight if weight > 0 else 0.0
    pull = ridge + weight_decay * weight
    return _Point(
        weight,
        scale * float(total["loss"] + pull * (w @ w) / 2),
        scale * (total["gradient"] + pull * w),
        float(total["held_out_loss"]) / rest if rest > 0 else np.nan,
        rest,
    )


def _usual_step(gradient: Float[Array, " p"], pairs: Sequence[tuple[Array, Array]]) -> float:
    """Return the inverse curvature along the last step; at first one that moves by at most 1."""
    if pairs and (useful := float(pairs[-1][0] @ pairs[-1][1])) > 0:
        return useful / float(pairs[-1][1] @ pairs[-1][1])
    return 1 / max(1.0, float(np.linalg.norm(gradient)))


def recall_steps(
    gradient: Float[Array, " p"],
    inverse: float | Float[Array, " p"],
    pairs: Sequence[tuple[Array, Array]],
) -> Float[Array, " p"]:
    """Return the step of L-BFGS (Nocedal, Wright 2006, Algorithm 7.4).

    Args:
        gradient: at the point.
        inverse: inverse curvature to start from, a number or a diagonal.
        pairs: the last moves, each with the change of the gradient.
    """
    q, parts = gradient.copy(), list[float]()
    useful = [(s, y, 1 / (s @ y)) for s, y in pairs if s @ y > 0]
    for s, y, scale in reversed(useful):
        parts.append(scale * (s @ q))
        q -= parts[-1] * y
    step = q * inverse
    for (s, y, scale), part in zip(useful, reversed(parts), strict=True):
        step += (part - scale * (y @ step)) * s
    return step


AskSums = Callable[[Float[Array, "r p"], Int[Array, " r"]], Arrays]
"""Points, and the runs that they belong to -> the total of the uploads."""

End = TypeVar("End")


def run_fits(
    fits: Sequence[Generator[Float[Array, " p"], Arrays, End]], ask_sums: AskSums
) -> list[End]:
    """Run several fits side by side, and return their ends. A fit that is done is not asked for."""
    points, ends = {run: next(fit) for run, fit in enumerate(fits)}, dict[int, End]()
    while points:
        total = ask_sums(np.stack(list(points.values())), np.array(list(points)))
        for place, run in enumerate(list(points)):
            try:
                points[run] = fits[run].send(
                    {name: sums[place, ...] for name, sums in total.items()}  # arrays, no scalars
                )
            except StopIteration as end:
                ends[run] = end.value
                del points[run]
    return [ends[run] for run in range(len(fits))]


AskFold = Callable[[Float[Array, "r p"], Int[Array, " r"], Int[Array, " r"]], Arrays]
"""Points, their runs, and the part of the rows that each holds out -> the total of the uploads."""


def start_fit(
    start: Float[Array, " p"], ridge: float, weight_decay: float, model: Model
) -> Descent:
    """Return a fit with a ridge, or that of the logistic regression which the network contains."""
    if ridge == LINEAR and isinstance(model, Network):
        return descend_linearly(start, model, weight_decay)
    return descend(start, ridge, weight_decay)


def choose_ridges(
    ask_fold: AskFold,
    start: Float[Array, "r p"],
    weight_decay: float,
    like: Int[Array, " r"],
    model: Model,
) -> tuple[Float[Array, "r p"], Float[Array, " r"]]:
    """Return the fit with the ridge of least held-out loss, and this ridge, of every run.

    Args:
        ask_fold: one exchange.
        start: where the fits start.
        weight_decay: see :func:`descend`.
        like: the first run that has the same start and the same weights; only this one is fitted.
        model: the network.
    """
    leaders, places = np.unique(like, return_inverse=True)
    ridges = (*RIDGES, LINEAR) if contains_logistic(model) else RIDGES

    def try_out(folds: Sequence[int]) -> list[Descended]:
        trials = [(fold, run, ridge) for fold in folds for run in leaders for ridge in ridges]
        fits = [start_fit(start[run], ridge, weight_decay, model) for _, run, ridge in trials]
        parts, owners = (np.array([trial[place] for trial in trials]) for place in (0, 1))
        return run_fits(fits, lambda points, of: ask_fold(points, owners[of], parts[of]))

    ends = first = try_out([1])
    if any(end.held_out_weight < FEW for end in first):
        ends = [*first, *try_out(range(2, MOST_FOLDS + 1))]
    losses, weights = (
        np.array([end[place] for end in ends]).reshape(-1, len(leaders), len(ridges))
        for place in (1, 2)
    )
    total = np.where(weights > 0, losses, 0.0) * weights
    best = total.sum(axis=0).argmin(axis=1)
    best = np.where(weights.sum(axis=(0, 2)) > 0, best, ridges.index(USUAL_RIDGE))
    chosen = [first[run * len(ridges) + place].params for run, place in enumerate(best)]
    return np.stack(chosen)[places], np.array(ridges)[best][places]


def first_alike(start: Float[Array, "r p"], by_run: Arrays) -> Int[Array, " r"]:
    """Return for every run the first run with the same start and the same arrays.

    >>> first_alike(np.array([[1.0], [2.0], [1.0]]), {}).tolist()
    [0, 1, 0]
    """
    arrays = [start, *by_run.values()]
    runs = range(len(start))
    return np.array(
        [
            next(first for first in runs if all(np.array_equal(a[first], a[run]) for a in arrays))
            for run in runs
        ]
    )
