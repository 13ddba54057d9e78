"""An audit in words: sentences and cells that all surfaces share, and tables for a terminal."""

from collections.abc import Iterator, Sequence

from fedfb.audit.result import (
    Audit,
    AuditedClient,
    AuditedClientParity,
    AuditedGroup,
    AuditFigure,
    Calibration,
    Disparity,
    Measure,
    Rates,
)
from fedfb.audit.shrink import shrinkage_tables
from fedfb.experiments.seed_result import EVERYONE, Interval
from fedfb.notions.values import Chance
from fedfb.report.left_out import NARROW, WIDE
from fedfb.report.numbers import NAMES, ends_in_words, number
from fedfb.report.table import (
    MOST_CLIENTS,
    ManyValues,
    Table,
    make_console,
    note_on_many,
    print_table,
    summarise_many,
    write_count,
)

LEFT_OUT_NOTE = (
    "{}: the model of all clients, on the same rows. all clients: each row is decided by the model "
    "without its client."
)
ALONE = "Intervals are of 95%, each for its rate alone."

"""The most clients that are printed; the page and JSON have all."""


def print_audit(audit: Audit) -> None:
    """Print the headline, then disparities, groups, clients, calibration and baseline."""
    console = make_console()
    console.print(audit.name, style="bold", end="")
    console.print(f": {audit.decided_by}; {audit.rows}")
    console.print(headline(audit) + "\n")
    print_table(_tabulate_disparities(audit), console)
    console.print("chance: mean and 95% quantile of a classifier that does not see groups\n")
    print_table(rates_table("Groups", [*audit.groups, audit.overall], narrow=True), console)
    console.print("\n" + four_fifths_sentence(audit))
    for attribute in audit.by_attribute:
        console.print()
        print_table(
            rates_table(f"By {attribute.attribute}", attribute.groups, narrow=True), console
        )
    for table in shrinkage_tables(audit):
        console.print()
        print_table(table, console)
    if audit.clients:
        console.print()
        print_table(_tabulate_clients(audit, audit.clients), console)
        console.print(
            "change: what the client adds to the disparity of all (+: fairer without it)",
            style="dim",
        )
    if audit.left_out:
        console.print()
        print_table(left_out_table(audit, narrow=True), console)
    if audit.calibration:
        console.print()
        print_table(_tabulate_calibration(audit.calibration), console)
    if audit.comparison:
        console.print()
        title = f"Less the baseline {audit.baseline}"
        columns = ("", "difference", "95% interval (paired)")
        print_table(Table(title, columns, tuple(difference_rows(audit))), console)
    for line in hidden_sentences(audit):
        console.print(line)
    for note in audit.notes:
        console.print(f"note: {note}", style="dim")


def _tabulate_disparities(audit: Audit) -> Table:
    rows: list[tuple[str, ...]] = []
    for notion, disparity in audit.notions.by_name.items():
        chance = audit.chance[notion]
        if disparity.interval is None or chance is None:
            rows.append((NAMES[notion], "-", "not estimable", "", ""))
            continue
        by_chance = (number(chance.mean), number(chance.quantile_95))
        ends = ends_in_words(disparity.interval)
        rows.append((NAMES[notion], value(disparity), ends, *by_chance))
    return Table("Disparity", ("", "value", "95% interval", "chance", "its 95%"), tuple(rows))


def rates_table(caption: str, groups: Sequence[AuditedGroup], narrow: bool = False) -> Table:
    """Return every group's rows and rates with their intervals.

    Args:
        caption: of the table.
        groups: one row each.
        narrow: for a terminal, without intervals.
    """
    cell = _write_rate_alone if narrow else _write_rate
    rows = tuple(
        (group.name, rows_cell(group), *(cell(group, key) for key in RATE_COLUMNS))
        for group in groups
    )
    columns = ("" if narrow else "group", "rows", *RATE_COLUMNS.values())
    return Table(caption, columns, rows, "" if narrow else ALONE)


def _write_rate_alone(group: Rates, key: str) -> str:
    return rate_cell(group.rate(key))


def _write_rate(group: Rates, key: str) -> str:
    """Write a rate with its interval. The base rate is no decision and goes without."""
    rate = group.rate(key)
    return rate_cell(rate) if key == "base_rate" else with_ends(rate, "-")


def _tabulate_clients(audit: Audit, clients: Sequence[AuditedClient]) -> Table:
    notion = aim(audit)
    # A client has no client parity of its own.
    notion = notion if notion != "client_parity" else "demographic_parity"
    changes = {part.name: part.notions[notion].change for part in audit.contributions or ()}
    caption, columns = (
        f"Clients ({NAMES[notion]})",
        ("", "rows", "accuracy", "loss", "own", "change"),
    )
    if len(clients) > MOST_CLIENTS:
        change = [changes.get(client.name) for client in clients]
        rows, note = summarise_clients(clients, [notion], ManyValues(change, signed))
        return Table(caption, columns, rows, note)
    rows = tuple(
        (
            client.name,
            rows_cell(client),
            rate_cell(client.accuracy),
            number(client.loss),
            value(client.notions.of_groups[notion]),
            signed(changes.get(client.name)),
        )
        for client in clients
    )
    return Table(caption, columns, rows)


def summarise_clients(
    clients: Sequence[AuditedClient], notions: Sequence[str], *more: ManyValues
) -> tuple[tuple[tuple[str, ...], ...], str]:
    """Return rows about many clients, ranked by their losses, and a note on these rows.

    Cells that are hidden are in no quantile.

    Args:
        clients: the clients.
        notions: notions whose disparity within each client is a column.
        *more: columns after these.
    """
    loss = [client.loss for client in clients]
    columns = [
        ManyValues([client.n for client in clients], write_count),
        ManyValues([None if c.accuracy is None else c.accuracy.value for c in clients], number),
        ManyValues(loss, number),
        *(
            ManyValues([client.notions.of_groups[notion].value for client in clients], number)
            for notion in notions
        ),
        *more,
    ]
    rows = summarise_many([client.name for client in clients], columns, loss)
    return rows, note_on_many(len(clients), "loss")


def left_out_table(audit: Audit, narrow: bool = False) -> Table:
    """Return the figures of the run on clients that it left out of training.

    Of many clients those with the largest disparities are shown.

    Args:
        audit: with such figures.
        narrow: for a terminal.
    """
    notion = audit.notion or "demographic_parity"
    everyone = [part for part in audit.left_out or () if part.name == EVERYONE]
    clients = [part for part in audit.left_out or () if part.name != EVERYONE]
    many = len(clients) > MOST_CLIENTS
    if many:
        ranked = sorted(clients, key=lambda client: -(client.disparity or 0.0))
        clients = ranked[:MOST_CLIENTS]
    rows = tuple(
        (
            part.name,
            f"{part.n:,}",
            number(part.accuracy),
            number(part.accuracy_if_trained_on),
            number(part.disparity),
            ends_in_words(part.interval),
            number(None if part.chance is None else part.chance.mean),
            number(part.disparity_if_trained_on),
        )
        for part in (*everyone, *clients)
    )
    note = LEFT_OUT_NOTE.format("full" if narrow else "If trained on")
    note += f" The {MOST_CLIENTS} with the largest disparities; JSON has all." if many else ""
    caption = f"Clients that the run left out of training ({NAMES[notion]})"
    return Table(caption, NARROW if narrow else WIDE, rows, note)


def _tabulate_calibration(groups: Sequence[Calibration]) -> Table:
    rows = tuple(
        (group.name, *map(number, (group.mean_score, group.base_rate, group.error)))
        for group in groups
    )
    return Table("Calibration", ("", "mean score", "base rate", "error"), rows)


def difference_rows(audit: Audit) -> list[tuple[str, str, str]]:
    """Return name, difference and interval of accuracy and every notion, less the baseline's."""
    if audit.comparison is None:
        return []
    notions = {NAMES[notion]: part for notion, part in audit.comparison.notions.items()}
    return [
        (name, "-", "not estimable")
        if difference is None
        else (name, signed(difference.value), " to ".join(map(signed, difference.interval)))
        for name, difference in {"accuracy": audit.comparison.accuracy, **notions}.items()
    ]


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


STAR = "*"


def value(disparity: Disparity | AuditedClientParity) -> str:
    """Write a disparity, with a star where it compares the published groups only.

    >>> value(Disparity(0.25, (0.2, 0.3), (), 0.3, (), "shown"))
    '.250*'
    """
    return number(disparity.value) + STAR * is_partial(disparity)


def is_partial(figure: AuditFigure) -> bool:
    """Return True if a figure leaves out groups that are hidden here and may be large enough."""
    if isinstance(figure, Measure):
        return False
    return figure.value is not None and figure.compares == "shown"


def rate_cell(rate: Measure | None) -> str:
    """Write a rate without its interval, a dash where the rate is hidden."""
    return number(None if rate is None else rate.value)


def with_ends(figure: AuditFigure | None, hidden: str = "hidden") -> str:
    """Write a figure with its interval.

    Args:
        figure: a rate, a ratio or a disparity.
        hidden: text where there is no figure.

    >>> with_ends(Measure(0.25, (0.2, 0.3))), with_ends(None)
    ('.250 [.200, .300]', 'hidden')
    """
    if figure is None or figure.interval is None:
        return hidden
    low, high = figure.interval
    star = STAR * is_partial(figure)
    return f"{number(figure.value)}{star} [{number(low)}, {number(high)}]"


def signed(value: float | None) -> str:
    """Write a difference with its sign.

    >>> signed(0.0312), signed(-0.5), signed(None), signed(0.0)
    ('+.031', '-.500', '-', '.000')
    """
    text = number(value)
    return f"+{text}" if value is not None and round(value, 3) > 0 else text


def aim(audit: Audit) -> str:
    """Return the notion of the headline: what was trained for, where it is estimable."""
    notion = audit.notion or "demographic_parity"
    disparity = audit.notions.by_name.get(notion)
    return notion if disparity and disparity.value is not None else "demographic_parity"


def headline(audit: Audit) -> str:
    """Say the largest gap, the group that has it, its interval, and what chance would show."""
    notion = aim(audit)
    disparity, chance = audit.notions.by_name[notion], audit.chance[notion]
    if disparity.interval is None or chance is None:
        return (
            f"Not estimable: fewer than two groups have {audit.minimum} rows or more of what "
            "is compared."
        )
    low, high = disparity.interval
    ends = f"95% interval {number(low)} to {number(high)}"
    if isinstance(disparity, AuditedClientParity):
        gap = f"The mean losses of clients differ by up to {value(disparity)} ({ends})"
    else:
        gap = f"{_name_worst(disparity)} ({NAMES[notion]} {value(disparity)}, {ends})"
    return f"{gap}: {_judge(disparity.interval, chance)}. {_describe_chance(notion, chance)}."


def _judge(interval: Interval, chance: Chance) -> str:
    if interval[0] == 0:
        return "within chance"
    if chance.share_as_large > 0.05:
        return "groups differ, but chance alone often shows a difference as large"
    return "beyond chance"


def _describe_chance(notion: str, chance: Chance) -> str:
    source = (
        "Clients with the same mean loss"
        if notion == "client_parity"
        else "A classifier blind to groups"
    )
    mean, quantile = number(chance.mean), number(chance.quantile_95)
    return f"{source} would show {mean} on average at these sizes, and 1 in 20 more than {quantile}"


def _name_worst(disparity: Disparity) -> str:
    worst = max(disparity.gaps, key=lambda gap: abs(gap.gap))
    points = f"{100 * abs(worst.gap):.1f} points"
    side = "less" if worst.gap < 0 else "more"
    return (
        f"Group {worst.group} gets favourable decisions {points} {side} often than all"
        f"{AMONG[worst.label]}"
    )


def four_fifths_sentence(audit: Audit) -> str:
    """Say the four-fifths ratio and on which side of .8 it is."""
    ratio = audit.four_fifths
    if ratio is None:
        return "The four-fifths ratio is not estimable: nobody is selected, or one group is shown."
    low, high = ratio.interval
    if low >= 0.8:
        side = "it meets .8"
    elif high < 0.8:
        side = "it is below .8"
    else:
        side = f"it {'meets' if ratio.value >= 0.8 else 'is below'} .8, but not for certain"
    return f"Four-fifths ratio (least to largest selection rate): {with_ends(ratio)}; {side}."


def hidden_sentences(audit: Audit) -> Iterator[str]:
    """Say what is hidden, and what the totals therefore leave out."""
    hidden, least, clients = audit.hidden, audit.minimum, audit.clients or ()
    if hidden.groups:
        yield (
            f"Hidden, with fewer than {least} rows: {', '.join(hidden.groups)}. Their rows are "
            "in no figure and no total."
        )
    if hidden.by_label:
        yield (
            f"Shown without labels, with fewer than {least} rows of one label: "
            f"{', '.join(hidden.by_label)}. Their rows are in no figure that depends on labels."
        )
    tables = (audit.notions, *(client.notions for client in clients))
    if any(is_partial(disparity) for part in tables for disparity in part.by_name.values()):
        yield (
            f"* This compares the groups that are shown; fedfb run compares all that have {least} "
            "rows or more, and may give another value."
        )
    if any(client.compares == "shown" for client in clients):
        yield "Rows, accuracy and loss of a client are those of the groups shown by label."


def count(value: int | None, hidden: str) -> str:
    """Write a number of rows.

    >>> count(1200, "< 10"), count(None, "< 10")
    ('1,200', '< 10')
    """
    return hidden if value is None else f"{value:,}"


def rows_cell(part: Rates) -> str:
    """Write how many rows a group or client has: a number, 'none' or 'hidden'.

    The cell does not say whether a hidden number is small, or hides another one.
    """
    empty = isinstance(part, AuditedGroup) and part.none
    return count(part.n, "none" if empty else "hidden")
