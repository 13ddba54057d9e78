"""An audit as one page: headline, disparities, groups, silos, calibration, baseline, model card.

The page's tables of groups, and its section on silos.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fedfb.audit import text as words
from fedfb.audit.pictures import calibration_picture, rates_picture
from fedfb.report.headline import MEANS
from fedfb.report.html import Figure, Fold, Page, Section, Table
from fedfb.report.numbers import number
from fedfb.report.text import NAMES

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
            (group_table(silo["name"], silo["groups"]), _client_disparities(silo)),
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


def _client_disparities(silo: Record) -> Table:
    rows = tuple(
        (NAMES[notion], words.with_ends(found, "not estimable"))
        for notion, found in silo["notions"].items()
    )
    return Table(f"Disparities of {silo['name']}", ("notion", "value"), rows)


CHANCE = (
    "Chance: what a classifier that favours as many rows, but does not see groups, would show at "
    "these sizes (for silos: if all had the same mean loss). As large: how often it would be as "
    "large as what was found."
)
HIDING = (
    "A cell is the rows that a rate is taken of: a group, a group's rows with one label, either of "
    "them in a silo. One with fewer rows than the minimum is shown nowhere, neither its number of "
    "rows nor its rate, and its rows are in no total that would tell of it. In the silos' tables "
    "further cells are hidden where a small one could be worked out from totals."
)


def audit_page(record: Record) -> Page:
    """Return the page of an audit."""
    sections = [
        _disparities(record),
        _groups(record),
        *silo_section(record),
        *_calibration(record),
        *_baseline(record),
        _hidden(record),
        _card(record),
    ]
    return Page(
        title=f"Audit of {record['name']}",
        kind=f"{record['decided_by']}; {record['rows']}",
        headline=words.headline(record),
        figures=_figures(record),
        sections=tuple(sections),
        footer=f"Made by fedfb audit from tables of counts of {len(record['silo_names'])} silos.",
    )


def _figures(record: Record) -> tuple[Figure, ...]:
    notion, overall = words.aim(record), record["overall"]
    found, ratio = record["notions"][notion], record["four_fifths"]
    figures = [Figure(NAMES[notion], *_value_and_ends(found))]
    if ratio:
        figures.append(Figure("four-fifths ratio", *_value_and_ends(ratio)))
    if overall["accuracy"]:
        figures.append(Figure("accuracy", *_value_and_ends(overall["accuracy"])))
    shown = len(record["groups"]) - len(record["hidden"]["groups"])
    figures.append(
        Figure("rows", words.count(overall["n"], "-"), f"{shown} groups, "
               f"{len(record['silo_names'])} silos")
    )  # fmt: skip
    return tuple(figures)


def _value_and_ends(found: Record) -> tuple[str, str]:
    if found["value"] is None:
        return "-", "not estimable"
    low, high = found["interval"]
    return words.value(found), f"95% interval {number(low)} to {number(high)}"


def _disparities(record: Record) -> Section:
    rows = []
    for notion, found in record["notions"].items():
        expected = record["chance"][notion]
        if found["value"] is None:
            rows.append((NAMES[notion], "-", "not estimable", "-", "-", "-", "-"))
            continue
        rows.append(
            (
                NAMES[notion],
                words.value(found),
                " to ".join(map(number, found["interval"])),
                number(found.get("between_groups")),
                number(expected["mean"]),
                number(expected["quantile_95"]),
                _share(expected["share_as_large"]),
            )
        )
    columns = (
        "notion", "value", "95% interval", "largest less least",
        "chance: mean", "its 95% quantile", "as large",
    )  # fmt: skip
    means = tuple((NAMES[name], f"{text[0].upper()}{text[1:]}.") for name, text in MEANS.items())
    return Section(
        "disparities",
        "Disparities",
        (words.four_fifths_sentence(record),),
        tables=(Table("Four notions", columns, tuple(rows), CHANCE),),
        folds=(
            Fold("What each notion measures", (Table("Notions", ("notion", "value"), means),)),
            Fold("Every signed gap", tuple(_gap_tables(record["notions"]))),
        ),
    )


def _share(share: float) -> str:
    return "< .001" if share < 0.001 else number(share)


def _gap_tables(notions: Mapping[str, Record]) -> Iterator[Table]:
    for notion, found in notions.items():
        if notion == "client_parity" or not found["gaps"]:
            continue
        rows = tuple(
            (
                one["group"],
                "all" if one["label"] is None else ("unfavourable", "favourable")[one["label"]],
                words.signed(one["gap"]),
                " to ".join(map(words.signed, one["interval"])),
            )
            for one in found["gaps"]
        )
        columns = ("group", "rows with label", "its rate less that of all", "95% interval")
        yield Table(f"Gaps, {NAMES[notion]}", columns, rows, "Each interval is of its gap alone.")


def _groups(record: Record) -> Section:
    picture = rates_picture(record)
    shown = [group_table("Groups", [*record["groups"], record["overall"]])]
    shown += [
        group_table(f"By {one['attribute']}", one["groups"]) for one in record["by_attribute"]
    ]
    told = [
        f"By {one['attribute']} alone: {NAMES['demographic_parity']} "
        f"{words.with_ends(one['notions']['demographic_parity'], 'not estimable')}."
        for one in record["by_attribute"]
    ]
    pictures = (picture,) if picture else ()
    return Section("groups", "Groups", tuple(told), pictures, tuple(shown))


def _calibration(record: Record) -> Iterator[Section]:
    groups = record["calibration"]
    if not groups:
        return
    rows = tuple(
        (
            group["name"],
            number(group["mean_score"]),
            number(group["base_rate"]),
            words.signed(group["mean_score"] - group["base_rate"]),
            number(group["error"]),
        )
        for group in groups
    )
    columns = ("group", "mean score", "favourable labels", "difference", "calibration error")
    note = (
        "The error is the mean distance, over rows, of a bin's mean score from its share of "
        "favourable labels."
    )
    bins = tuple(_bin_table(group) for group in groups)
    yield Section(
        "calibration",
        "Calibration",
        pictures=(calibration_picture(groups),),
        tables=(Table("Does a score mean the same in every group?", columns, rows, note),),
        folds=(Fold("Bin by bin", bins),),
    )


def _bin_table(group: Record) -> Table:
    rows = tuple(
        (
            f"{number(one['from'], 1)} to {number(one['to'], 1)}",
            f"{one['n']:,}",
            number(one["score"]),
            words.with_ends(one["observed"]),
        )
        for one in group["bins"]
    )
    note = "Neighbouring bins are joined until each has enough rows."
    return Table(group["name"], ("scores", "rows", "mean score", "favourable labels"), rows, note)


def _baseline(record: Record) -> Iterator[Section]:
    found = record["comparison"]
    if not found:
        return
    compared = {"accuracy": found["accuracy"]}
    compared |= {NAMES[notion]: one for notion, one in found["notions"].items()}
    rows = tuple(
        (name, "-", "not estimable")
        if one is None
        else (name, words.signed(one["value"]), " to ".join(map(words.signed, one["interval"])))
        for name, one in compared.items()
    )
    changed = tuple(
        (one["group"], number(one["to_favourable"]), number(one["to_unfavourable"]))
        for one in found["changed"]
    )
    yield Section(
        "baseline",
        f"Beside {record['baseline']}",
        tables=(
            Table(
                f"Less {record['baseline']}, on the same rows",
                ("", "difference", "95% interval"),
                rows,
                "Intervals are paired: they come from the joint tables of both decisions.",
            ),
            Table(
                "Whose decisions differ",
                ("group", "favourable here only", "favourable there only"),
                changed,
                "Shares of the group's rows.",
            ),
        ),
    )


def _hidden(record: Record) -> Section:
    told = [f"Minimum: {record['minimum']} rows.", HIDING, *words.hidden_sentences(record)]
    told += [f"{note[0].upper()}{note[1:]}." for note in record["notes"]]
    return Section("hidden", "What is not shown", tuple(told))


def _card(record: Record) -> Section:
    rows = tuple(
        (title if place == 0 else "", line)
        for title, lines in record["card"].items()
        for place, line in enumerate(lines)
    )
    table = Table("Also in model-card.md", ("topic", "statement"), rows)
    return Section("card", "Model card", tables=(table,))
