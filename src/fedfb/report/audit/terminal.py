"""An audit as tables that read well in a terminal of 80 columns."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from fedfb.report.audit import words
from fedfb.report.numbers import number
from fedfb.report.tables import NAMES, make_console, make_table

Record = Mapping[str, Any]

MOST_SILOS = 20
"""Of more silos only so many are printed; the page and JSON have all."""


def print_audit(record: Record) -> None:
    """Print the headline, then disparities, groups, silos, calibration and baseline."""
    console = make_console()
    console.print(record["name"], style="bold", end="")
    console.print(f": {record['decided_by']}; {record['rows']}")
    console.print(words.headline(record) + "\n")
    console.print(_disparities(record))
    console.print("chance: mean and 95% quantile of a classifier that does not see groups\n")
    console.print(_groups("Groups", record["groups"], record["overall"]))
    console.print("\n" + words.four_fifths_sentence(record))
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
    for line in words.hidden_sentences(record):
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
        table.add_row(NAMES[notion], words.value(found), ends, *by_chance)
    return table


def _groups(title: str, groups: Sequence[Record], overall: Record | None = None) -> Table:
    table = make_table(title, "", "rows", *words.RATE_COLUMNS.values())
    for group in [*groups, *([overall] if overall else [])]:
        cells = [number(group[key]["value"]) if group[key] else "-" for key in words.RATE_COLUMNS]
        table.add_row(group["name"], words.rows_cell(group), *cells)
    return table


def _silos(record: Record) -> Table:
    notion = words.aim(record)
    notion = notion if notion != "client_parity" else "demographic_parity"
    table = make_table(f"Silos ({NAMES[notion]})", "", "rows", "accuracy", "loss", "own", "change")
    changes = {one["name"]: one for one in record["contributions"] or []}
    for silo in record["silos"][:MOST_SILOS]:
        change = changes.get(silo["name"], {}).get("notions", {}).get(notion, {}).get("change")
        table.add_row(
            silo["name"],
            words.rows_cell(silo),
            number(silo["accuracy"]["value"]) if silo["accuracy"] else "-",
            number(silo["loss"]),
            words.value(silo["notions"][notion]),
            words.signed(change),
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
            table.add_row(
                name, words.signed(one["value"]), " to ".join(map(words.signed, one["interval"]))
            )
    return table
