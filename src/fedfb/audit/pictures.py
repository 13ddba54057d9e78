"""Pictures of an audit: rates by group with their intervals, and calibration."""

from collections.abc import Sequence
from typing import Any

from fedfb.audit.result import Audit, AuditedGroup, Calibration, Measure
from fedfb.report.figures import MARKERS, style
from fedfb.report.html import (
    NARROW,
    THEME,
    WIDE,
    Mark,
    Picture,
    Size,
    blank_figure,
    colour_key,
    svg_of,
)
from fedfb.report.numbers import number

PANELS = {
    "selection_rate": "favourable decisions",
    "tpr": "of favourable labels (TPR)",
    "fpr": "of unfavourable labels (FPR)",
}
ROW = 30
"""Pixels that a group takes."""

AROUND = 64
"""Pixels above and below a panel's rows."""

LONGEST = {WIDE: 22, NARROW: 14}
"""Letters of a group's name beside a picture; the tables have it whole."""


def shorten(name: str, length: int) -> str:
    """Cut a long name.

    >>> shorten("Female x African-American", 12)
    'Female x Af…'
    """
    return name if len(name) <= length else name[: length - 1] + "…"


def rates_picture(audit: Audit) -> Picture | None:
    """Draw every group's rates with their intervals, beside those of all."""
    groups = [group for group in audit.groups if group.selection_rate]
    if not groups:
        return None
    panels = {
        key: title for key, title in PANELS.items() if any(group.rate(key) for group in groups)
    }

    def draw(size: Size, prefix: str) -> str:
        columns = len(panels) if size is WIDE else 1
        rows = -(-len(panels) // columns)
        height = rows * (ROW * len(groups) + AROUND)
        figure = blank_figure(size._replace(height=height))
        axes = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel()
        titles: dict[str, str] = {}
        for axis, (key, title) in zip(axes, panels.items(), strict=True):
            titles |= _draw_rates(axis, groups, audit.overall.rate(key), key, title, prefix)
            axis.set_yticks(range(len(groups)))
            axis.set_yticklabels([shorten(g.name, LONGEST[size]) for g in groups])
            axis.set_ylim(len(groups) - 0.5, -0.5)
        return svg_of(figure, prefix, titles)

    ends = [group.selection_rate.value for group in groups if group.selection_rate]
    return Picture(
        draw(WIDE, "rates-wide-"),
        draw(NARROW, "rates-narrow-"),
        f"Rates of {len(groups)} groups; favourable decisions from {number(min(ends))} to "
        f"{number(max(ends))}. The table has all numbers.",
        "Dots: rates; lines: 95% intervals of each rate alone; dashed: all groups together.",
    )


def _draw_rates(
    axis: Any,
    groups: Sequence[AuditedGroup],
    overall: Measure | None,
    key: str,
    title: str,
    prefix: str,
) -> dict[str, str]:
    titles = {}
    if overall:
        axis.axvline(
            overall.value, color=THEME.muted, linewidth=1.2, linestyle=(0, (4, 3)), zorder=1
        )
    for place, group in enumerate(groups):
        rate = group.rate(key)
        if rate is None:
            continue
        value, (low, high) = rate.value, rate.interval
        axis.plot([low, high], [place, place], color=THEME.series[0], linewidth=2.2, zorder=2)
        gid = f"{prefix}{key}-{place}"
        axis.plot(
            value, place, marker="o", markersize=8, color=THEME.series[0], linestyle="none",
            markeredgecolor=THEME.paper, markeredgewidth=0.8, gid=gid, zorder=3, clip_on=False,
        )  # fmt: skip
        titles[gid] = f"{group.name}, {title}: {number(value)} ({number(low)} to {number(high)})"
    axis.set_title(title, loc="left", fontsize=12, color=THEME.ink)
    style(axis, THEME)
    return titles


def calibration_picture(groups: Sequence[Calibration]) -> Picture:
    """Draw the share of favourable labels against the mean score, one line for each group."""

    def draw(size: Size, prefix: str) -> str:
        figure = blank_figure(size._replace(height=380 if size is WIDE else 340))
        axis, titles = figure.subplots(), {}
        axis.plot([0, 1], [0, 1], color=THEME.muted, linewidth=1, linestyle=(0, (4, 3)))
        number_of = 0
        for place, group in enumerate(groups):
            colour = THEME.series[place % len(THEME.series)]
            bins = group.bins
            xs, ys = [b.score for b in bins], [b.observed.value for b in bins]
            axis.plot(xs, ys, color=colour, linewidth=1.4, alpha=0.8)
            for x, y, bin in zip(xs, ys, bins, strict=True):
                gid = f"{prefix}point-{number_of}"
                number_of += 1
                axis.plot([x, x], bin.observed.interval, color=colour, linewidth=1, alpha=0.4)
                axis.plot(
                    x, y, marker=MARKERS[place % len(MARKERS)], markersize=7, color=colour,
                    markeredgecolor=THEME.paper, markeredgewidth=0.8, linestyle="none", gid=gid,
                    clip_on=False,
                )  # fmt: skip
                titles[gid] = (
                    f"{group.name}: mean score {number(x)}, favourable labels {number(y)}, "
                    f"{bin.n:,} rows"
                )
        axis.set_xlim(0, 1)
        axis.set_ylim(0, 1)
        axis.set_xlabel("mean score of the bin", color=THEME.ink, fontsize=12)
        axis.set_ylabel("favourable labels", color=THEME.ink, fontsize=12)
        style(axis, THEME)
        return svg_of(figure, prefix, titles)

    legend = [Mark(colour_key(place), group.name) for place, group in enumerate(groups)]
    worst = max(groups, key=lambda group: group.error)
    return Picture(
        draw(WIDE, "calibration-wide-"),
        draw(NARROW, "calibration-narrow-"),
        f"Calibration of {len(groups)} groups; the largest error is {number(worst.error)}, of "
        f"{worst.name}. The table has all numbers.",
        "On the dashed line a score means what it says. Above it the group does better than its "
        "scores say: they are too low. Thin lines: 95% intervals.",
        tuple(legend),
    )
