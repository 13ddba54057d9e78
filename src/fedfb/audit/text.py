"""An audit as tables that read well in a terminal of 80 columns.

What an audit found, in words and cells that the terminal and the page share.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from fedfb.report.numbers import number
from fedfb.report.text import NAMES, make_console, make_table

Record = Mapping[str, Any]


MOST_SILOS = 20
"""Of more silos only so many are printed; the page and JSON have all."""


def print_audit(record: Record) -> None:
    """Print the headline, then disparities, groups, silos, calibration and baseline."""
    console = make_console()
    console.print(record["name"], style="bold", end="")
    console.print(f": {record['decided_by']}; {record['rows']}")
    console.print(headline(record) + "\n")
    console.print(_disparities(record))
    console.print("chance: mean and 95% quantile of a classifier that does not see groups\n")
    console.print(_groups("Groups", record["groups"], record["overall"]))
    console.print("\n" + four_fifths_sentence(record))
    for one in record["by_attribute"]:
        console.print()
        console.print(_groups(f"By {one['attribute']}", one["groups"]))
    if record["silos"]:
        console.print()
        console.print(_silos(record))
        console.print(
            "change: what the silo adds to the disparity of all (+: fairer without it)", style="dim"
        )
    if record["calibration"]:
        console.print()
        console.print(_calibration(record["calibration"]))
    if record["comparison"]:
        console.print()
        console.print(_comparison(record))
    for line in hidden_sentences(record):
        console.print(line)
    for note in record["notes"]:
        console.print(f"note: {note}", style="dim")


def _disparities(record: Record) -> Table:
    table = make_table("Disparity", "", "value", "95% interval", "chance", "its 95%")
    for notion, found in record["notions"].items():
        expected = record["chance"][notion]
        if found["value"] is None:
            table.add_row(NAMES[notion], "-", "not estimable", "", "")
            continue
        ends = " to ".join(map(number, found["interval"]))
        by_chance = [number(expected[key]) for key in ("mean", "quantile_95")]
        table.add_row(NAMES[notion], value(found), ends, *by_chance)
    return table


def _groups(title: str, groups: Sequence[Record], overall: Record | None = None) -> Table:
    table = make_table(title, "", "rows", *RATE_COLUMNS.values())
    for group in [*groups, *([overall] if overall else [])]:
        cells = [number(group[key]["value"]) if group[key] else "-" for key in RATE_COLUMNS]
        table.add_row(group["name"], rows_cell(group), *cells)
    return table


def _silos(record: Record) -> Table:
    notion = aim(record)
    notion = notion if notion != "client_parity" else "demographic_parity"
    table = make_table(f"Silos ({NAMES[notion]})", "", "rows", "accuracy", "loss", "own", "change")
    changes = {one["name"]: one for one in record["contributions"] or []}
    for silo in record["silos"][:MOST_SILOS]:
        change = changes.get(silo["name"], {}).get("notions", {}).get(notion, {}).get("change")
        table.add_row(
            silo["name"],
            rows_cell(silo),
            number(silo["accuracy"]["value"]) if silo["accuracy"] else "-",
            number(silo["loss"]),
            value(silo["notions"][notion]),
            signed(change),
        )
    if len(record["silos"]) > MOST_SILOS:
        table.add_row(f"... and {len(record['silos']) - MOST_SILOS} more")
    return table


def _calibration(groups: Sequence[Record]) -> Table:
    table = make_table("Calibration", "", "mean score", "base rate", "error")
    for group in groups:
        cells = (number(group[key]) for key in ("mean_score", "base_rate", "error"))
        table.add_row(group["name"], *cells)
    return table


def _comparison(record: Record) -> Table:
    table = make_table(
        f"Less the baseline {record['baseline']}", "", "difference", "95% interval (paired)"
    )
    found = record["comparison"]
    rows = {"accuracy": found["accuracy"]}
    rows |= {NAMES[notion]: one for notion, one in found["notions"].items()}
    for name, one in rows.items():
        if one is None:
            table.add_row(name, "-", "not estimable")
        else:
            table.add_row(name, signed(one["value"]), " to ".join(map(signed, one["interval"])))
    return table


RATE_COLUMNS = {
    "selection_rate": "selected",
    "base_rate": "base rate",
    "tpr": "TPR",
    "fpr": "FPR",
    "accuracy": "accuracy",
}
"""The rates of a group, by the names that tables give them."""

AMONG = {
    None: "",
    0: " among rows whose label is unfavourable",
    1: " among rows whose label is favourable",
}


def value(found: Record) -> str:
    """Write a disparity; with a star where it compares the groups shown only.

    >>> value({"value": 0.25, "compares": "shown"}), value({"value": 0.25, "compares": "all"})
    ('.250*', '.250')
    """
    return number(found["value"]) + STAR * is_partial(found)


def is_partial(found: Record) -> bool:
    """Return True if a figure leaves out groups that are hidden here and may be large enough."""
    return found["value"] is not None and found.get("compares") == "shown"


STAR = "*"


def with_ends(found: Record | None, hidden: str = "hidden") -> str:
    """Write a figure with its interval.

    >>> with_ends({"value": 0.25, "interval": [0.2, 0.3]}), with_ends(None)
    ('.250 [.200, .300]', 'hidden')
    """
    if found is None or found["value"] is None:
        return hidden
    low, high = found["interval"]
    return f"{value(found)} [{number(low)}, {number(high)}]"


def signed(value: float | None) -> str:
    """Write a difference with its sign.

    >>> signed(0.0312), signed(-0.5), signed(None), signed(0.0)
    ('+.031', '-.500', '-', '.000')
    """
    text = number(value)
    return f"+{text}" if value is not None and round(value, 3) > 0 else text


def aim(record: Record) -> str:
    """Return the notion that the headline is about: what was trained for, if it is known."""
    wanted = record.get("notion") or "demographic_parity"
    found = record["notions"].get(wanted)
    return wanted if found and found["value"] is not None else "demographic_parity"


def headline(record: Record) -> str:
    """Say the largest gap, whose it is, how sure that is, and what chance would show."""
    notion = aim(record)
    found, expected = record["notions"][notion], record["chance"][notion]
    if found["value"] is None:
        return (
            f"Not estimable: fewer than two groups have {record['minimum']} rows or more of what "
            "is compared."
        )
    low, high = found["interval"]
    sure = f"95% interval {number(low)} to {number(high)}"
    if notion == "client_parity":
        what = f"The mean losses of silos differ by up to {value(found)} ({sure})"
    else:
        what = f"{_whose(found)} ({NAMES[notion]} {value(found)}, {sure})"
    return f"{what}: {_verdict(found, expected)}. {_by_chance(notion, expected)}."


def _verdict(found: Record, expected: Record) -> str:
    if found["interval"][0] == 0:
        return "no more than chance may show"
    if expected["share_as_large"] > 0.05:
        return "a difference is there, but chance alone often shows one as large"
    return "more than chance explains"


def _by_chance(notion: str, expected: Record) -> str:
    who = "Silos that are alike" if notion == "client_parity" else "A classifier blind to groups"
    mean, most = number(expected["mean"]), number(expected["quantile_95"])
    return f"{who} would show {mean} on average at these sizes, and 1 in 20 more than {most}"


def _whose(found: Record) -> str:
    worst = max(found["gaps"], key=lambda one: abs(one["gap"]))
    points = f"{100 * abs(worst['gap']):.1f} points"
    side = "less" if worst["gap"] < 0 else "more"
    return (
        f"Group {worst['group']} gets favourable decisions {points} {side} often than all"
        f"{AMONG[worst['label']]}"
    )


def four_fifths_sentence(record: Record) -> str:
    """Say the four-fifths ratio and on which side of .8 it is."""
    found = record["four_fifths"]
    if found is None:
        return "The four-fifths ratio is not estimable: nobody is selected, or one group is shown."
    low, high = found["interval"]
    if low >= 0.8:
        side = "it meets .8"
    elif high < 0.8:
        side = "it is below .8"
    else:
        side = f"it {'meets' if found['value'] >= 0.8 else 'is below'} .8, but not for certain"
    return f"Four-fifths ratio (least to largest selection rate): {with_ends(found)}; {side}."


def hidden_sentences(record: Record) -> Iterator[str]:
    """Say what is hidden, and what the totals therefore leave out."""
    hidden, least = record["hidden"], record["minimum"]
    if hidden["groups"]:
        yield (
            f"Hidden, with fewer than {least} rows: {', '.join(hidden['groups'])}. Their rows are "
            "in no figure and no total."
        )
    if hidden["by_label"]:
        yield (
            f"Shown without labels, with fewer than {least} rows of one label: "
            f"{', '.join(hidden['by_label'])}. Their rows are in no figure that depends on labels."
        )
    parts = [record, *(record["silos"] or [])]
    if any(is_partial(found) for part in parts for found in part["notions"].values()):
        yield (
            f"* This compares the groups that are shown; fedfb run compares all that have {least} "
            "rows or more, and may give another value."
        )
    if any(silo["compares"] == "shown" for silo in record["silos"] or []):
        yield "Rows, accuracy and loss of a silo are those of the groups shown by label."


def count(value: int | None, hidden: str) -> str:
    """Write a number of rows.

    >>> count(1200, "< 10"), count(None, "< 10")
    ('1,200', '< 10')
    """
    return hidden if value is None else f"{value:,}"


def rows_cell(part: Record) -> str:
    """Write how many rows a group or silo has: a number, 'none', or that it is hidden.

    Whether a hidden cell is small, or hides another one, is not told.

    >>> rows_cell({"n": None, "none": True}), rows_cell({"n": None}), rows_cell({"n": 12})
    ('none', 'hidden', '12')
    """
    return count(part["n"], "none" if part.get("none") else "hidden")
