"""The page's tables of groups, and its section on silos."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fedfb.report.audit import words
from fedfb.report.numbers import number
from fedfb.report.page.content import Fold, Section, Table
from fedfb.report.tables import NAMES

Record = Mapping[str, Any]

ALONE = "Intervals are of 95%, each for its rate alone."
OWN = "Rows are those of groups that are shown by label."
LEFT_OUT = (
    "A plus: the federation would be fairer without the silo. Only rows that are shown are left "
    "out; *: some are hidden."
)


def group_table(caption: str, groups: Sequence[Record]) -> Table:
    """Return every group's rows and rates with their intervals."""
    rows = tuple(
        (
            str(group["name"]),
            words.rows_cell(group),
            *(_rate(group, key) for key in words.RATE_COLUMNS),
        )
        for group in groups
    )
    return Table(caption, ("group", "rows", *words.RATE_COLUMNS.values()), rows, ALONE)


def _rate(group: Record, key: str) -> str:
    """Write a rate; of the base rate, which is nobody's doing, without its interval."""
    if key == "base_rate":
        return number(group[key]["value"] if group[key] else None)
    return words.with_ends(group[key], "-")


def silo_section(record: Record) -> Iterator[Section]:
    """Yield the section on silos, where their own tables are known."""
    if not record["silos"]:
        return
    notions = [notion for notion in record["notions"] if notion != "client_parity"]
    shown = [_own_rows(record["silos"], notions)]
    if record["contributions"]:
        shown.append(_without_each(record["contributions"], notions))
    folds = tuple(
        Fold(
            f"Groups of {silo['name']}",
            (group_table(silo["name"], silo["groups"]), _disparities(silo)),
        )
        for silo in record["silos"]
    )
    yield Section("silos", "Silos", tables=tuple(shown), folds=folds)


def _own_rows(silos: Sequence[Record], notions: Sequence[str]) -> Table:
    rows = tuple(
        (
            silo["name"],
            words.rows_cell(silo),
            words.with_ends(silo["accuracy"], "-"),
            number(silo["loss"]),
            *(words.value(silo["notions"][notion]) for notion in notions),
        )
        for silo in silos
    )
    columns = ("silo", "rows", "accuracy", "loss", *(NAMES[notion] for notion in notions))
    return Table("Each silo's own rows", columns, rows, OWN)


def _without_each(contributions: Sequence[Record], notions: Sequence[str]) -> Table:
    rows = tuple(
        (
            one["name"] + (" *" if one["partly"] else ""),
            *(_left_out(one["notions"][notion]) for notion in notions),
        )
        for one in contributions
    )
    columns = ("left out", *(NAMES[notion] for notion in notions))
    caption = "The disparity of all without a silo, and what the silo adds to it"
    return Table(caption, columns, rows, LEFT_OUT)


def _left_out(found: Record) -> str:
    if found["without"] is None:
        return "-"
    return f"{number(found['without'])} ({words.signed(found['change'])})"


def _disparities(silo: Record) -> Table:
    rows = tuple(
        (NAMES[notion], words.with_ends(found, "not estimable"))
        for notion, found in silo["notions"].items()
    )
    return Table(f"Disparities of {silo['name']}", ("notion", "value"), rows)
