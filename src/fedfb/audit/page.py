"""An audit as one page: headline, disparities, groups, clients, calibration, baseline, card."""

from collections.abc import Iterator, Mapping, Sequence

from fedfb.audit import text as words
from fedfb.audit.pictures import calibration_picture, rates_picture
from fedfb.audit.result import (
    AUDITED_NOTIONS,
    Audit,
    AuditedClient,
    Calibration,
    Contribution,
    Disparity,
    LeftOutGroup,
    Measure,
)
from fedfb.audit.result import AuditFigure as Value
from fedfb.audit.shrink import shrinkage_tables
from fedfb.report.headline import NOTION_MEANINGS
from fedfb.report.html import Figure, Fold, Page, Section
from fedfb.report.numbers import NAMES, number
from fedfb.report.table import MOST_CLIENTS, ManyValues, Table, note_on_many, summarise_many

BY_LABEL = "Rows are those of groups that are shown by label."
LEFT_OUT = (
    "A plus: the federation would be fairer without the client. Only rows that are shown are left "
    "out; *: some are hidden."
)


def client_section(audit: Audit) -> Iterator[Section]:
    """Yield the section on clients, where the tables of single clients are known."""
    if not audit.clients:
        return
    tables = [_tabulate_clients(audit.clients)]
    if audit.contributions:
        tables.append(_tabulate_contributions(audit.contributions))
    folds = tuple(
        Fold(
            f"Groups of {client.name}",
            (words.rates_table(client.name, client.groups), _tabulate_disparities(client)),
        )
        for client in (audit.clients if len(audit.clients) <= MOST_CLIENTS else ())
    )
    yield Section("clients", "Clients", tables=tuple(tables), folds=folds)


def _tabulate_clients(clients: Sequence[AuditedClient]) -> Table:
    columns = ("client", "rows", "accuracy", "loss", *(NAMES[notion] for notion in AUDITED_NOTIONS))
    if len(clients) > MOST_CLIENTS:
        some, note = words.summarise_clients(clients, AUDITED_NOTIONS)
        return Table("Rows of each client", columns, some, f"{note} {BY_LABEL}")
    rows = tuple(
        (
            client.name,
            words.rows_cell(client),
            words.with_ends(client.accuracy, "-"),
            number(client.loss),
            *(words.value(disparity) for disparity in client.notions.of_groups.values()),
        )
        for client in clients
    )
    return Table("Rows of each client", columns, rows, BY_LABEL)


def _tabulate_contributions(contributions: Sequence[Contribution]) -> Table:
    rows = tuple(
        (
            client.name + (" *" if client.partly else ""),
            *(_write_change(client.notions[notion]) for notion in AUDITED_NOTIONS),
        )
        for client in contributions
    )
    columns = ("left out", *(NAMES[notion] for notion in AUDITED_NOTIONS))
    caption = "The disparity of all without a client, and what the client adds to it"
    if len(contributions) > MOST_CLIENTS:
        changes = [
            [client.notions[notion].change for client in contributions]
            for notion in AUDITED_NOTIONS
        ]
        names = [client.name for client in contributions]
        some = summarise_many(
            names, [ManyValues(part, words.signed) for part in changes], changes[0]
        )
        note = note_on_many(len(names), f"what they add to {NAMES[AUDITED_NOTIONS[0]]}")
        return Table(caption, columns, some, note)
    return Table(caption, columns, rows, LEFT_OUT)


def _write_change(change: LeftOutGroup) -> str:
    if change.without is None:
        return "-"
    return f"{number(change.without)} ({words.signed(change.change)})"


def _tabulate_disparities(client: AuditedClient) -> Table:
    rows = tuple(
        (NAMES[notion], words.with_ends(disparity, "not estimable"))
        for notion, disparity in client.notions.of_groups.items()
    )
    return Table(f"Disparities of {client.name}", ("notion", "value"), rows)


BY_CHANCE = (
    "Chance: what a classifier that favours as many rows, but does not see groups, would show at "
    "these sizes (for clients: if all had the same mean loss). As large: how often it would be as "
    "large as what was found."
)
HIDING = (
    "A cell is the rows of a rate: a group, a group's rows with one label, or either at a client. "
    "A cell with fewer rows than the minimum is shown nowhere, neither its number of rows nor its "
    "rate, and its rows are in no total that would reveal it. In the clients' tables further cells "
    "are hidden where a small one would follow from totals."
)


def audit_page(audit: Audit) -> Page:
    """Return the page of an audit."""
    sections = [
        _make_disparity_section(audit),
        _make_group_section(audit),
        *client_section(audit),
        *_make_left_out_section(audit),
        *_make_calibration_section(audit),
        *_make_baseline_section(audit),
        _make_hidden_section(audit),
        _make_card_section(audit),
    ]
    return Page(
        title=f"Audit of {audit.name}",
        kind=f"{audit.decided_by}; {audit.rows}",
        headline=words.headline(audit),
        figures=_list_figures(audit),
        sections=tuple(sections),
        footer=f"Made by fedfb audit from tables of counts of {len(audit.client_names)} clients.",
    )


def _list_figures(audit: Audit) -> tuple[Figure, ...]:
    notion, overall = words.aim(audit), audit.overall
    disparity, ratio = audit.notions.by_name[notion], audit.four_fifths
    figures = [Figure(NAMES[notion], *_write_value(disparity))]
    if ratio:
        figures.append(Figure("four-fifths ratio", *_write_value(ratio)))
    if overall.accuracy:
        figures.append(Figure("accuracy", *_write_value(overall.accuracy)))
    groups = len(audit.groups) - len(audit.hidden.groups)
    figures.append(
        Figure("rows", words.count(overall.n, "-"), f"{groups} groups, "
               f"{len(audit.client_names)} clients")
    )  # fmt: skip
    return tuple(figures)


def _write_value(value: Value) -> tuple[str, str]:
    if value.interval is None:
        return "-", "not estimable"
    low, high = value.interval
    cell = number(value.value) if isinstance(value, Measure) else words.value(value)
    return cell, f"95% interval {number(low)} to {number(high)}"


def _make_disparity_section(audit: Audit) -> Section:
    rows = []
    for notion, disparity in audit.notions.by_name.items():
        chance = audit.chance[notion]
        if disparity.interval is None or chance is None:
            rows.append((NAMES[notion], "-", "not estimable", "-", "-", "-", "-"))
            continue
        rows.append(
            (
                NAMES[notion],
                words.value(disparity),
                " to ".join(map(number, disparity.interval)),
                number(disparity.between_groups if isinstance(disparity, Disparity) else None),
                number(chance.mean),
                number(chance.quantile_95),
                _write_share(chance.share_as_large),
            )
        )
    columns = (
        "notion", "value", "95% interval", "largest less least",
        "chance: mean", "its 95% quantile", "as large",
    )  # fmt: skip
    means = tuple(
        (NAMES[name], f"{text[0].upper()}{text[1:]}.") for name, text in NOTION_MEANINGS.items()
    )
    return Section(
        "disparities",
        "Disparities",
        (words.four_fifths_sentence(audit),),
        tables=(Table("Four notions", columns, tuple(rows), BY_CHANCE),),
        folds=(
            Fold("What each notion measures", (Table("Notions", ("notion", "value"), means),)),
            Fold("Every signed gap", tuple(_tabulate_gaps(audit.notions.of_groups))),
        ),
    )


def _write_share(share: float) -> str:
    return "< .001" if share < 0.001 else number(share)


def _tabulate_gaps(notions: Mapping[str, Disparity]) -> Iterator[Table]:
    for notion, disparity in notions.items():
        if not disparity.gaps:
            continue
        rows = tuple(
            (
                gap.group,
                "all" if gap.label is None else ("unfavourable", "favourable")[gap.label],
                words.signed(gap.gap),
                " to ".join(map(words.signed, gap.interval)),
            )
            for gap in disparity.gaps
        )
        columns = ("group", "rows with label", "its rate less that of all", "95% interval")
        yield Table(f"Gaps, {NAMES[notion]}", columns, rows, "Each interval is of its gap alone.")


def _make_group_section(audit: Audit) -> Section:
    picture = rates_picture(audit)
    tables = [words.rates_table("Groups", [*audit.groups, audit.overall])]
    tables += [
        words.rates_table(f"By {part.attribute}", part.groups) for part in audit.by_attribute
    ]
    tables += shrinkage_tables(audit)
    sentences = tuple(
        f"By {part.attribute} alone: {NAMES['demographic_parity']} "
        f"{words.with_ends(part.notions.demographic_parity, 'not estimable')}."
        for part in audit.by_attribute
    )
    pictures = (picture,) if picture else ()
    return Section("groups", "Groups", sentences, pictures, tuple(tables))


def _make_left_out_section(audit: Audit) -> Iterator[Section]:
    if audit.left_out:
        table = words.left_out_table(audit)
        yield Section("left-out", "Clients that nobody trained on", tables=(table,))


def _make_calibration_section(audit: Audit) -> Iterator[Section]:
    groups = audit.calibration
    if not groups:
        return
    rows = tuple(
        (
            group.name,
            number(group.mean_score),
            number(group.base_rate),
            words.signed(group.mean_score - group.base_rate),
            number(group.error),
        )
        for group in groups
    )
    columns = ("group", "mean score", "favourable labels", "difference", "calibration error")
    note = (
        "The error is the mean distance, over rows, of a bin's mean score from its share of "
        "favourable labels."
    )
    bins = tuple(_tabulate_bins(group) for group in groups)
    yield Section(
        "calibration",
        "Calibration",
        pictures=(calibration_picture(groups),),
        tables=(Table("Does a score mean the same in every group?", columns, rows, note),),
        folds=(Fold("Bin by bin", bins),),
    )


def _tabulate_bins(group: Calibration) -> Table:
    rows = tuple(
        (
            f"{number(bin.low, 1)} to {number(bin.high, 1)}",
            f"{bin.n:,}",
            number(bin.score),
            words.with_ends(bin.observed),
        )
        for bin in group.bins
    )
    note = "Neighbouring bins are joined until each has enough rows."
    return Table(group.name, ("scores", "rows", "mean score", "favourable labels"), rows, note)


def _make_baseline_section(audit: Audit) -> Iterator[Section]:
    if audit.comparison is None:
        return
    changes = tuple(
        (change.group, number(change.to_favourable), number(change.to_unfavourable))
        for change in audit.comparison.changed
    )
    yield Section(
        "baseline",
        f"Beside {audit.baseline}",
        tables=(
            Table(
                f"Less {audit.baseline}, on the same rows",
                ("", "difference", "95% interval"),
                tuple(words.difference_rows(audit)),
                "Intervals are paired: they come from the joint tables of both decisions.",
            ),
            Table(
                "Whose decisions differ",
                ("group", "favourable here only", "favourable there only"),
                changes,
                "Shares of the group's rows.",
            ),
        ),
    )


def _make_hidden_section(audit: Audit) -> Section:
    sentences = [f"Minimum: {audit.minimum} rows.", HIDING, *words.hidden_sentences(audit)]
    sentences += [f"{note[0].upper()}{note[1:]}." for note in audit.notes]
    return Section("hidden", "What is not shown", tuple(sentences))


def _make_card_section(audit: Audit) -> Section:
    rows = tuple(
        (title if place == 0 else "", line)
        for title, lines in (audit.card or {}).items()
        for place, line in enumerate(lines)
    )
    table = Table("Also in model-card.md", ("topic", "statement"), rows)
    return Section("card", "Model card", tables=(table,))
