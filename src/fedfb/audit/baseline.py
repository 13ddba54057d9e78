"""One classifier beside another on the same rows: differences, with paired intervals."""

from collections.abc import Sequence

import numpy as np

from fedfb.audit.measures import LABELS, Record
from fedfb.audit.suppress import Published
from fedfb.core import Key, generator
from fedfb.notions.intervals import LEVEL
from fedfb.notions.values import enough, largest_rate_gap
from fedfb.shapes import Array, Float

DRAWS = 4_000
KEY: Key = (0, 8)
CRITICAL = 1.959964
"""The 97.5% quantile of the normal distribution."""


def accuracy_difference(joint: Float[Array, "2 2 2"]) -> Record:
    r"""Return the accuracy less the baseline's, from who is right where the other is wrong.

    .. math:: \frac{b - c}{n} \pm \frac{1.96}{n'}
              \sqrt{b' + c' - \frac{(b' - c')^2}{n'}}

    with half a row added to each of the four outcomes under the root (Agresti and Min 2005).

    >>> joint = np.array([[[50.0, 10.0], [5.0, 20.0]], [[20.0, 5.0], [10.0, 60.0]]])
    >>> found = accuracy_difference(joint)
    >>> round(found["value"], 3), [round(end, 3) for end in found["interval"]]
    (0.056, [-0.004, 0.115])
    """
    n = joint.sum()
    ours = joint[0, 0, 1] + joint[1, 1, 0]
    theirs = joint[0, 1, 0] + joint[1, 0, 1]
    b, c, rows = ours + 0.5, theirs + 0.5, n + 2
    half = CRITICAL * np.sqrt(b + c - (b - c) ** 2 / rows) / rows
    value = (ours - theirs) / n
    return {"value": float(value), "interval": [float(value - half), float(value + half)]}


def disparity_difference(
    tables: Float[Array, "l 2 2 a"], minimum: int, number: int
) -> Record | None:
    """Return the disparity less the baseline's, with an interval of redrawn tables.

    ``tables[block, decision, baseline, group]``. Every cell's rows are drawn anew with the shares
    that they have; the interval holds the middle 95% of the differences. Where a disparity is near
    0 it is rough: no disparity is below 0.
    """
    rows = tables.sum(axis=(1, 2))
    ours, theirs = (largest_rate_gap(side, rows, minimum) for side in _positives(tables))
    if ours is None or theirs is None:
        return None
    drawn = _redrawn(tables, rows, enough(rows, minimum), number)
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    value = ours - theirs
    ends = [min(float(low), value), max(float(high), value)]
    return {"value": value, "interval": ends, "baseline": theirs}


def _positives(tables: Float[Array, "*r 2 2 a"]) -> tuple[Array, Array]:
    """Return the positive decisions of both classifiers, by block and group."""
    return tables[..., 1, :, :].sum(axis=-2), tables[..., :, 1, :].sum(axis=-2)


def _redrawn(
    tables: Float[Array, "l 2 2 a"], rows: Float[Array, "l a"], there: Array, number: int
) -> Float[Array, " d"]:
    rng = generator((*KEY, number))
    sizes, n = np.where(there, np.rint(rows), 0), np.where(there, rows, 1.0)
    shares = np.moveaxis(tables / n[:, None, None, :], 3, 1).reshape(*rows.shape, 4)
    shares = np.where(there[:, :, None], shares, 0.25)
    shares = shares / shares.sum(axis=2, keepdims=True)
    drawn = rng.multinomial(sizes.astype(np.int64), shares, size=(DRAWS, *rows.shape))
    again = np.moveaxis(drawn.reshape(DRAWS, *rows.shape, 2, 2), 2, 4).astype(np.float64)
    total = np.where(there, sizes, 0).sum(axis=1)[None, :, None]
    sides = []
    for k in _positives(again):
        gaps = np.abs(k / np.maximum(sizes, 1) - k.sum(axis=2, keepdims=True) / total)
        sides.append(np.where(there, gaps, 0.0).max(axis=(1, 2)))
    return sides[0] - sides[1]


def comparison(
    joint: Float[Array, "2 2 2 a"], shown: Published, names: Sequence[str], minimum: int
) -> Record:
    """Return what differs between the classifier and its baseline, on what is published."""
    split, whole = np.where(shown.split, joint, 0.0), np.where(shown.whole, joint, 0.0)
    blocks = {
        "demographic_parity": whole.sum(axis=0)[None],
        "equal_opportunity": split[1:],
        "equalized_odds": split,
    }
    return {
        "accuracy": accuracy_difference(split.sum(axis=3)) if shown.split.any() else None,
        "notions": {
            notion: disparity_difference(tables, minimum, len(LABELS[notion]))
            for notion, tables in blocks.items()
        },
        "changed": changed(whole, shown, names),
    }


def changed(joint: Float[Array, "2 2 2 a"], shown: Published, names: Sequence[str]) -> list[Record]:
    """Return which share of each group's decisions differs, by the side that it falls to."""
    found = []
    for group in np.flatnonzero(shown.whole).tolist():
        table, n = joint[..., group].sum(axis=0), shown.rows[group]
        found.append(
            {
                "group": names[group],
                "to_favourable": float(table[1, 0] / n),
                "to_unfavourable": float(table[0, 1] / n),
            }
        )
    return found
