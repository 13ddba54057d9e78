r"""Fits of networks by summed gradients: the path of the fit is that of the pooled rows.

The objective is

.. math:: f(w)=\sum_j\omega_j\,\ell_j(w)+\frac{r}{2}\lVert w\rVert^2

Its value and its gradient are sums over rows, hence sums over clients. The server minimises f by
L-BFGS, and asks for both at every point. No client moves the model by itself, so that clients whose
rows differ cannot drift apart, and there is neither a learning rate nor a number of local epochs.

The ridge r decides how closely the network follows its training rows. The first fit is made with
every ridge of :data:`RIDGES` on about nine tenths of the rows; the ridge with the least summed loss
on the other rows is taken, and the fit goes on with all rows. Which rows are held out follows from
their values and the seed alone, not from the client that has them.
"""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from fedfb.core import Arrays, ClientData, Key, generator
from fedfb.engine import Engine, cell_counts
from fedfb.engine.rows import ArrayCache, chunks
from fedfb.shapes import Array, Bool, Float, Int

RIDGES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
"""What is tried. 1 is the ridge of exact fits, which costs as much as one row."""

USUAL_RIDGE = 10.0
"""The ridge where no row is held out."""

HELD_OUT = 0.1
"""The share of the rows, by chance, that the ridge is chosen on."""

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


def held_out_rows(data: ClientData, seed: int) -> Bool[Array, " n"]:
    """Return True for about a tenth of the rows: which, follows from their values and the seed.

    The same rows are held out however rows are distributed over clients, and copies of a row are on
    the same side. The arithmetic is in whole numbers: it is exact in every order.

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
    drawn: Bool[Array, " n"] = value >> np.uint64(32) < int(HELD_OUT * 2**32)
    return drawn


def split_rows(data: ClientData, seed: int) -> tuple[ClientData, ClientData]:
    """Return the rows to train on and the rows that are held out; cached if they are read-only."""

    def split() -> tuple[ClientData, ClientData]:
        held = held_out_rows(data, seed)
        train, rest = (
            data._replace(x=data.x[rows], y=data.y[rows], group=data.group[rows]).read_only()
            for rows in (~held, held)
        )
        return train, rest

    return _PARTS.of((data.x, data.y, data.group), ("held out", seed), split)


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
        broadcast: ``params``, and in ``choosing`` whether a tenth of the rows is held out.
        data: the client's rows.
        weights: weights of the rows by run, label and group.
        key: holds the seed.
    """
    params, held_out = broadcast["params"], None
    if broadcast["choosing"]:
        data, held_out = split_rows(data, key[0])

    def sum_up(rows: ClientData | None) -> tuple[Float[Array, " r"], Float[Array, " r"]]:
        if rows is None or not len(rows.y):
            return np.zeros(len(params)), np.zeros(len(params))
        losses = engine.loss_sums(params, rows, "ce")
        return np.sum(weights * cell_counts(rows), axis=(1, 2)), np.sum(weights * losses, (1, 2))

    weight, loss = sum_up(data)
    rest_weight, rest_loss = sum_up(held_out)
    empty = not len(data.y)
    return {
        "weight": weight,
        "loss": loss,
        "gradient": np.zeros(params.shape) if empty else engine.gradient(params, data, weights),
        "held_out_weight": rest_weight,
        "held_out_loss": rest_loss,
    }


class Descended(NamedTuple):
    """Where a fit ended, and the mean loss of the rows that are held out (NaN: none are)."""

    params: Float[Array, " p"]
    held_out: float


Descent = Generator[Float[Array, " p"], Arrays, Descended]
"""Yields the points at which one run needs sums."""


class _Point(NamedTuple):
    """The sums of one run at a point, with the ridge, by weight of the rows."""

    weight: float
    value: float
    gradient: Float[Array, " p"]
    held_out: float


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
    return Descended(w, here.held_out)


def _read_point(total: Arrays, w: Float[Array, " p"], ridge: float, weight_decay: float) -> _Point:
    weight, rest = float(total["weight"]), float(total["held_out_weight"])
    scale = 1 / weight if weight > 0 else 0.0
    pull = ridge + weight_decay * weight
    return _Point(
        weight,
        scale * float(total["loss"] + pull * (w @ w) / 2),
        scale * (total["gradient"] + pull * w),
        float(total["held_out_loss"]) / rest if rest > 0 else np.nan,
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
                points[run] = fits[run].send({name: sums[place] for name, sums in total.items()})
            except StopIteration as end:
                ends[run] = end.value
                del points[run]
    return [ends[run] for run in range(len(fits))]


def choose_ridges(
    ask_sums: AskSums, start: Float[Array, "r p"], weight_decay: float, like: Int[Array, " r"]
) -> tuple[Float[Array, "r p"], Float[Array, " r"]]:
    """Return the fit with the ridge of least held-out loss, and this ridge, of every run.

    Args:
        ask_sums: one exchange, with a tenth of the rows held out.
        start: where the fits start.
        weight_decay: see :func:`descend`.
        like: the first run that has the same start and the same weights; only this one is fitted.
    """
    leaders, places = np.unique(like, return_inverse=True)
    trials = [(run, ridge) for run in leaders for ridge in RIDGES]
    fits = [descend(start[run], ridge, weight_decay) for run, ridge in trials]
    owners = np.array([run for run, _ in trials])
    ends = run_fits(fits, lambda points, numbers: ask_sums(points, owners[numbers]))
    params, ridges = [], []
    for first in range(0, len(trials), len(RIDGES)):
        of_run = ends[first : first + len(RIDGES)]
        losses = np.array([end.held_out for end in of_run])
        best = RIDGES.index(USUAL_RIDGE) if np.isnan(losses).any() else int(np.argmin(losses))
        params.append(of_run[best].params)
        ridges.append(RIDGES[best])
    return np.stack(params)[places], np.array(ridges)[places]


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
