"""Rates and disparities of what is published, with intervals: plain values, None where hidden.

What a classifier that does not see groups would show: the disparity of pure chance.

What each silo adds to a disparity: the disparity with it, and without it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fedfb.audit.suppress import Published
from fedfb.core import Key, generator
from fedfb.data.groups import values_of
from fedfb.notions.disparity import Estimate, four_fifths_interval, rate_estimate
from fedfb.notions.intervals import half_widths, rate_ends
from fedfb.notions.values import enough, largest_rate_gap
from fedfb.shapes import Array, Bool, Float

Record = dict[str, Any]  # nested JSON: its values have no common type

Blocks = tuple[Float[Array, "b a"], Float[Array, "b a"]]
"""Positive decisions and rows that a notion compares, by block (label) and group."""

BLOCKS: dict[str, Callable[[Published], Blocks]] = {
    "demographic_parity": lambda shown: (shown.selected[None], shown.rows[None]),
    "equal_opportunity": lambda shown: (shown.confusion[1:, 1], shown.by_label[1:]),
    "equalized_odds": lambda shown: (shown.confusion[:, 1], shown.by_label),
}
LABELS: dict[str, tuple[int | None, ...]] = {
    "demographic_parity": (None,),
    "equal_opportunity": (1,),
    "equalized_odds": (0, 1),
}
"""The label of each block's rows."""


ALL, SHOWN = "all", "shown"
"""Which groups a disparity compares: all that are large enough, or those of them that are shown."""


def rate(positives: float, rows: float) -> Record | None:
    """Return a rate with its interval, None where there are no rows.

    >>> rate(24.0, 96.0)["value"], rate(0.0, 0.0)
    (0.25, None)
    """
    if rows < 0.5:
        return None
    low, high = rate_ends(np.array([float(positives)]), np.array([float(rows)]))
    return {"value": float(positives / rows), "interval": [float(low[0]), float(high[0])]}


def rates(name: str, shown: Published, groups: Array) -> Record:
    """Describe some groups together, of those that are shown.

    What depends on labels comes from groups that are shown by label; ``n_by_label`` are the rows it
    comes from.
    """
    rows, table = shown.rows[groups].sum(), shown.confusion[:, :, groups].sum(axis=2)
    by_label = table.sum(axis=1)
    known = bool(by_label.sum() > 0)
    return {
        "name": name,
        "n": round(float(rows)) if rows else None,
        "n_by_label": [round(float(count)) for count in by_label] if known else None,
        "selection_rate": rate(shown.selected[groups].sum(), rows),
        "base_rate": rate(by_label[1], by_label.sum()),
        "tpr": rate(table[1, 1], by_label[1]),
        "fpr": rate(table[0, 1], by_label[0]),
        "accuracy": rate(np.trace(table), table.sum()),
    }


def everyone(shown: Published) -> Record:
    """Describe all groups that are shown together."""
    return rates("all", shown, np.arange(len(shown.rows)))


def group_records(shown: Published, names: Sequence[str]) -> list[Record]:
    """Describe every group; what is hidden is None."""
    records = [rates(name, shown, np.array([place])) for place, name in enumerate(names)]
    return [
        {**record, "none": True} if none else record
        for record, none in zip(records, shown.none.tolist(), strict=True)
    ]


def notions(
    shown: Published,
    names: Sequence[str],
    minimum: int,
    drawn_mix: bool,
    hidden: Bool[Array, " a"] | None = None,
) -> dict[str, Record]:
    """Return the disparities that tables of groups tell, by notion.

    A disparity compares all groups that have ``minimum`` rows of every kind it compares. Where one
    of them may be among the ``hidden`` groups (default: those shown, but not by label), the value
    is that of the groups shown: another figure, and ``compares`` says so.
    """
    of_labels = shown.whole & ~shown.split
    partly = {
        notion: bool((of_labels if hidden is None else hidden | of_labels).any())
        if notion != "demographic_parity"
        else hidden is not None and bool(hidden.any())
        for notion in BLOCKS
    }
    return {
        notion: {
            **disparity(*blocks(shown), names, LABELS[notion], minimum, drawn_mix),
            "compares": SHOWN if partly[notion] else ALL,
        }
        for notion, blocks in BLOCKS.items()
    }


def disparity(
    positives: Float[Array, "b a"],
    rows: Float[Array, "b a"],
    names: Sequence[str],
    labels: Sequence[int | None],
    minimum: int,
    drawn_mix: bool,
) -> Record:
    """Return a disparity, its interval, every signed gap with its own, and who is left out.

    ``between_groups`` is the largest rate less the least, over blocks the larger one: what
    fairlearn calls a difference.
    """
    estimate, bands = rate_estimate(positives, rows, minimum, drawn_mix)
    record = estimate_record(estimate, [names[place] for place in estimate.not_estimable])
    if bands is None:
        return {**record, "between_groups": None, "gaps": []}
    where = np.argwhere(enough(rows, minimum)).tolist()
    halves = half_widths(bands).tolist()
    gaps = [
        {
            "group": names[group],
            "label": labels[block],
            "gap": gap,
            "interval": [gap - half, gap + half],
        }
        for (block, group), gap, half in zip(where, bands.gap.tolist(), halves, strict=True)
    ]
    return {**record, "between_groups": between_groups(positives, rows, minimum), "gaps": gaps}


def estimate_record(estimate: Estimate, left_out: Sequence[str]) -> Record:
    """Return an estimate as plain values."""
    known = estimate.value is not None
    return {
        "value": estimate.value,
        "interval": [estimate.low, estimate.high] if known else None,
        "left_out": list(left_out),
    }


def between_groups(
    positives: Float[Array, "b a"], rows: Float[Array, "b a"], minimum: int
) -> float:
    """Return the range of the estimable rates, the largest over blocks."""
    spans = []
    for k, n in zip(positives, rows, strict=True):
        there = enough(n, minimum)
        spans.append(float(np.ptp(k[there] / n[there])))
    return max(spans)


def four_fifths(shown: Published) -> Record | None:
    """Return the least ratio of two groups' selection rates; None without two, or any selected."""
    k, n = shown.selected[shown.whole], shown.rows[shown.whole]
    if len(n) < 2 or not k.any():
        return None
    found = k / n
    low, high = four_fifths_interval(k, n)
    value = float(found.min() / found.max())
    return {"value": value, "interval": [min(low, value), max(high, value)]}


def by_attribute(
    shown: Published,
    names: Sequence[str],
    attributes: Sequence[str],
    minimum: int,
    drawn_mix: bool,
) -> list[Record]:
    """Describe every value of each attribute alone, from the crossed groups that are shown.

    Empty where groups are not crossed, or their names do not tell the values.
    """
    values = [known for name in names if (known := values_of(attributes, name)) is not None]
    if len(attributes) < 2 or len(values) < len(names):
        return []
    found = []
    for place, attribute in enumerate(attributes):
        own = np.array([value[place] for value in values])
        levels = sorted(set(own.tolist()))
        member = np.array([own == level for level in levels], dtype=np.float64)
        table = Published(
            rows=member @ shown.rows,
            selected=member @ shown.selected,
            confusion=shown.confusion @ member.T,
            whole=member @ shown.whole > 0,
            split=member @ shown.split > 0,
            none=member @ ~shown.none == 0,
        )
        if len(levels) > 1:
            found.append(
                {
                    "attribute": attribute,
                    "groups": group_records(table, levels),
                    "notions": notions(table, levels, minimum, drawn_mix),
                    "four_fifths": four_fifths(table),
                }
            )
    return found


DRAWS = 5_000
KEY: Key = (0, 9)
"""The draws are the same in every call: an audit is a function of its tables."""


def blind_disparities(
    positives: Float[Array, "b a"], rows: Float[Array, "b a"], minimum: int
) -> Float[Array, " d"]:
    r"""Return disparities of a classifier that favours as many rows, whatever their group.

    .. math:: (K_1, \dots, K_A) \sim \mathrm{Hypergeometric}(n_1, \dots, n_A; \textstyle\sum_a k_a)

    in every block: who is favoured is shuffled among its rows.
    """
    largest = np.zeros(DRAWS)
    for block, (k, n) in enumerate(zip(positives, rows, strict=True)):
        there = enough(n, minimum)
        sizes, total = np.rint(n[there]).astype(np.int64), round(float(k[there].sum()))
        drawn = generator((*KEY, block)).multivariate_hypergeometric(
            sizes, total, size=DRAWS, method="marginals"
        )
        gaps = np.abs(drawn / sizes - total / sizes.sum()).max(axis=1)
        largest = np.maximum(largest, gaps)
    return largest


def chance(shown: Published, found: Mapping[str, Record], minimum: int) -> dict[str, Record | None]:
    """Return mean and 95% quantile of chance's disparity, and how often it is as large as ours."""
    return {
        notion: None
        if found[notion]["value"] is None
        else chance_record(blind_disparities(*blocks(shown), minimum), found[notion]["value"])
        for notion, blocks in BLOCKS.items()
    }


def chance_record(drawn: Float[Array, " d"], value: float) -> Record:
    """Sum up disparities that chance has drawn, beside the one that was found."""
    as_large = (np.sum(drawn >= value - 1e-12) + 1) / (len(drawn) + 1)
    return {
        "mean": float(drawn.mean()),
        "quantile_95": float(np.quantile(drawn, 0.95)),
        "share_as_large": float(as_large),
    }


def chance_of_losses(
    rows: Float[Array, " i"], variance: Float[Array, " i"], value: float
) -> Record:
    """Return the range of mean losses that silos with one true mean would show.

    Means are taken as normal; each silo keeps the variance of its losses.
    """
    drawn = generator((*KEY, len(rows))).standard_normal((DRAWS, len(rows))) * np.sqrt(variance)
    return chance_record(np.ptp(drawn, axis=1), value)


def without(total: Published, silo: Published) -> Published:
    """Take what is shown of a silo out of what is shown of all.

    Only published numbers are used: of a silo whose cells are partly hidden, the rest stays in.
    """
    return total._replace(
        rows=total.rows - silo.rows,
        selected=total.selected - silo.selected,
        confusion=total.confusion - silo.confusion,
    )


def contributions(total: Published, silos: Mapping[str, Published], minimum: int) -> list[Record]:
    """Return for every silo the disparities without it, and how much of them is its doing.

    ``partly`` marks a silo of which some cells are hidden. A positive ``change`` says that the
    federation would be fairer without the silo.
    """
    found = []
    for name, silo in silos.items():
        rest, measured = without(total, silo), {}
        for notion, blocks in BLOCKS.items():
            after = largest_rate_gap(*blocks(rest), minimum)
            before = largest_rate_gap(*blocks(total), minimum)
            known = before is not None and after is not None and bool(silo.rows.any())
            measured[notion] = {
                "without": after if known else None,
                "change": before - after if known else None,  # type: ignore[operator]
            }
        hidden = ~silo.none & ~(silo.whole & (silo.split | ~total.split))
        found.append({"name": name, "partly": bool(hidden.any()), "notions": measured})
    return found
