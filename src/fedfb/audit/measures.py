"""Figures of an audit, from published counts: rates, disparities, chance, contributions.

Every figure is a function of what ``fedfb.audit.suppress`` publishes. A figure is None where its
rows are hidden. Chance is the disparity of a classifier that does not see groups. A client's
contribution is the disparity with the client less the disparity without it.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fedfb.audit.result import (
    AttributeRates,
    AuditedGroup,
    Compares,
    Contribution,
    Disparity,
    GroupGap,
    LeftOutGroup,
    Measure,
    Notions,
)
from fedfb.audit.suppress import PublishedTable
from fedfb.data.groups import values_of
from fedfb.experiments.seed_result import Interval
from fedfb.notions.disparity import DisparityEstimate, rate_estimate
from fedfb.notions.intervals import rate_ends
from fedfb.notions.values import (
    Chance,
    draw_blind_disparities,
    enough,
    four_fifths_interval,
    largest_rate_gap,
    summarize_draws,
)
from fedfb.shapes import Array, Bool, Float

Blocks = tuple[Float[Array, "b a"], Float[Array, "b a"]]
"""Positive decisions and rows that a notion compares, by block (label) and group."""

BLOCKS: dict[str, Callable[[PublishedTable], Blocks]] = {
    "demographic_parity": lambda table: (table.selected[None], table.rows[None]),
    "equal_opportunity": lambda table: (table.confusion[1:, 1], table.by_label[1:]),
    "equalized_odds": lambda table: (table.confusion[:, 1], table.by_label),
}
LABELS: dict[str, tuple[int | None, ...]] = {
    "demographic_parity": (None,),
    "equal_opportunity": (1,),
    "equalized_odds": (0, 1),
}
"""The label of each block's rows."""


def measure_rate(positives: float, rows: float) -> Measure | None:
    """Return a rate with its interval, None where there are no rows.

    >>> measure_rate(24.0, 96.0).value, measure_rate(0.0, 0.0)
    (0.25, None)
    """
    if rows < 0.5:
        return None
    low, high = rate_ends(np.array([float(positives)]), np.array([float(rows)]))
    return Measure(float(positives / rows), (float(low[0]), float(high[0])))


def describe_rates(
    name: str, table: PublishedTable, groups: Array, *, without_rows: bool = False
) -> AuditedGroup:
    """Return rows and rates of some groups together, as far as they are published.

    Rates that depend on labels come from groups that are published by label. ``n_by_label`` are
    the rows of these groups.

    Args:
        name: name of the groups together.
        table: published counts.
        groups: numbers of the groups.
        without_rows: whether the groups have no rows at all, which is not the same as hidden.

    """
    rows, confusion = table.rows[groups].sum(), table.confusion[:, :, groups].sum(axis=2)
    negatives, positives = confusion.sum(axis=1)
    counts = (round(float(negatives)), round(float(positives)))
    return AuditedGroup(
        name=name,
        n=round(float(rows)) if rows else None,
        n_by_label=counts if negatives + positives > 0 else None,
        selection_rate=measure_rate(table.selected[groups].sum(), rows),
        base_rate=measure_rate(positives, negatives + positives),
        tpr=measure_rate(confusion[1, 1], positives),
        fpr=measure_rate(confusion[0, 1], negatives),
        accuracy=measure_rate(np.trace(confusion), confusion.sum()),
        none=without_rows,
    )


def describe_all(table: PublishedTable) -> AuditedGroup:
    """Return rows and rates of all published groups together."""
    return describe_rates("all", table, np.arange(len(table.rows)))


def describe_groups(table: PublishedTable, names: Sequence[str]) -> tuple[AuditedGroup, ...]:
    """Return rows and rates of every group."""
    return tuple(
        describe_rates(name, table, np.array([place]), without_rows=bool(table.none[place]))
        for place, name in enumerate(names)
    )


def measure_notions(
    table: PublishedTable,
    names: Sequence[str],
    minimum: int,
    drawn_mix: bool,
    hidden: Bool[Array, " a"] | None = None,
) -> Notions:
    """Return the disparities of groups, by notion.

    A disparity compares all groups that have ``minimum`` rows of every kind it compares. One of
    these groups may be hidden. Then the value is that of the published groups, which is another
    figure, and ``compares`` says so.

    Args:
        table: published counts.
        names: names of the groups.
        minimum: fewest rows of a group that is compared.
        drawn_mix: whether the sizes of the groups were drawn too, which makes intervals longer.
        hidden: groups that are hidden and may be large enough; default: those that are published,
            but not by label.

    """
    no_labels = table.whole & ~table.split
    partly_labels = bool((no_labels if hidden is None else hidden | no_labels).any())
    partly_whole = hidden is not None and bool(hidden.any())

    def measure(notion: str, partly: bool) -> Disparity:
        return measure_disparity(
            *BLOCKS[notion](table), names, LABELS[notion], minimum, drawn_mix,
            compares="shown" if partly else "all",
        )  # fmt: skip

    return Notions(
        measure("demographic_parity", partly_whole),
        measure("equal_opportunity", partly_labels),
        measure("equalized_odds", partly_labels),
    )


def measure_disparity(
    positives: Float[Array, "b a"],
    rows: Float[Array, "b a"],
    names: Sequence[str],
    labels: Sequence[int | None],
    minimum: int,
    drawn_mix: bool,
    compares: Compares = "all",
) -> Disparity:
    """Return a disparity, its interval, and every signed gap with its own interval.

    Args:
        positives: favourable decisions by block and group.
        rows: rows by block and group.
        names: names of the groups.
        labels: label of each block's rows, None for both labels.
        minimum: fewest rows of a group that is compared.
        drawn_mix: whether the sizes of the groups were drawn too.
        compares: whether all groups that are large enough are in the table.

    """
    estimate, bands = rate_estimate(positives, rows, minimum, drawn_mix)
    left_out = tuple(names[place] for place in estimate.not_estimable)
    interval = read_interval(estimate)
    if bands is None:
        return Disparity(estimate.value, interval, left_out, None, (), compares)
    places = np.argwhere(enough(rows, minimum)).tolist()
    ends = (part.tolist() for part in (bands.gap, bands.alone_low, bands.alone_high))
    gaps = tuple(
        GroupGap(names[group], labels[block], gap, (low, high))
        for (block, group), gap, low, high in zip(places, *ends, strict=True)
    )
    spread = range_of_rates(positives, rows, minimum)
    return Disparity(estimate.value, interval, left_out, spread, gaps, compares)


def read_interval(estimate: DisparityEstimate) -> Interval | None:
    """Return the interval of an estimate, None where it is not estimable."""
    if estimate.low is None or estimate.high is None:
        return None
    return (estimate.low, estimate.high)


def range_of_rates(
    positives: Float[Array, "b a"], rows: Float[Array, "b a"], minimum: int
) -> float:
    """Return the range of the estimable rates, the largest over blocks."""
    spans = []
    for k, n in zip(positives, rows, strict=True):
        large = enough(n, minimum)
        spans.append(float(np.ptp(k[large] / n[large])))
    return max(spans)


def measure_four_fifths(table: PublishedTable) -> Measure | None:
    """Return the least ratio of two groups' selection rates.

    Returns None where fewer than two groups are published, or no row is selected.
    """
    k, n = table.selected[table.whole], table.rows[table.whole]
    if len(n) < 2 or not k.any():
        return None
    rates = k / n
    low, high = four_fifths_interval(k, n)
    value = float(rates.min() / rates.max())
    return Measure(value, (min(low, value), max(high, value)))


def describe_attributes(
    table: PublishedTable,
    names: Sequence[str],
    attributes: Sequence[str],
    minimum: int,
    drawn_mix: bool,
) -> tuple[AttributeRates, ...]:
    """Return rates by every value of each attribute, from the crossed groups that are published.

    Empty where groups are not crossed, or where their names do not hold the values.

    Args:
        table: published counts of the crossed groups.
        names: names of the crossed groups.
        attributes: sensitive columns that form the groups.
        minimum: fewest rows of a group that is compared.
        drawn_mix: whether the sizes of the groups were drawn too.

    """
    values = [parts for name in names if (parts := values_of(attributes, name)) is not None]
    if len(attributes) < 2 or len(values) < len(names):
        return ()
    descriptions = []
    for place, attribute in enumerate(attributes):
        level_of_group = np.array([value[place] for value in values])
        levels = sorted(set(level_of_group.tolist()))
        member = np.array([level_of_group == level for level in levels], dtype=np.float64)
        by_level = PublishedTable(
            rows=member @ table.rows,
            selected=member @ table.selected,
            confusion=table.confusion @ member.T,
            whole=member @ table.whole > 0,
            split=member @ table.split > 0,
            none=member @ ~table.none == 0,
        )
        if len(levels) > 1:
            descriptions.append(
                AttributeRates(
                    attribute=attribute,
                    groups=describe_groups(by_level, levels),
                    notions=measure_notions(by_level, levels, minimum, drawn_mix),
                    four_fifths=measure_four_fifths(by_level),
                )
            )
    return tuple(descriptions)


def expect_by_chance(
    table: PublishedTable, notions: Mapping[str, Disparity], minimum: int
) -> dict[str, Chance | None]:
    """Return what chance shows for each notion; None where the disparity is not estimable."""
    return {
        notion: None
        if (value := notions[notion].value) is None
        else summarize_draws(draw_blind_disparities(*blocks(table), minimum), value)
        for notion, blocks in BLOCKS.items()
    }


def leave_out(total: PublishedTable, client: PublishedTable) -> PublishedTable:
    """Return the published total less what is published of a client.

    Only published numbers are used: the hidden rows of a client stay in the total.
    """
    return total._replace(
        rows=total.rows - client.rows,
        selected=total.selected - client.selected,
        confusion=total.confusion - client.confusion,
    )


def measure_contributions(
    total: PublishedTable, clients: Mapping[str, PublishedTable], minimum: int
) -> tuple[Contribution, ...]:
    """Return for every client the disparities without it, and by how much it raises them.

    A positive ``change`` says that the disparity is smaller without the client.

    Args:
        total: what is published of all clients together.
        clients: what is published of each client, by name.
        minimum: fewest rows of a group that is compared.

    """
    contributions = []
    for name, client in clients.items():
        rest = leave_out(total, client)
        notions = {}
        for notion, blocks in BLOCKS.items():
            after = largest_rate_gap(*blocks(rest), minimum)
            before = largest_rate_gap(*blocks(total), minimum)
            if before is None or after is None or not client.rows.any():
                notions[notion] = LeftOutGroup(None, None)
            else:
                notions[notion] = LeftOutGroup(after, before - after)
        hidden = ~client.none & ~(client.whole & (client.split | ~total.split))
        contributions.append(Contribution(name, bool(hidden.any()), notions))
    return tuple(contributions)
