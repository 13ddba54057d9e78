"""Make an audit: from the rows of clients to typed figures, through tables of counts alone."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import structs

from fedfb.audit.measures import (
    describe_all,
    describe_attributes,
    describe_groups,
    describe_rates,
    expect_by_chance,
    measure_contributions,
    measure_four_fifths,
    measure_notions,
    read_interval,
)
from fedfb.audit.optional import compare_with_baseline, measure_calibration
from fedfb.audit.result import (
    About,
    Audit,
    AuditedClient,
    AuditedClientParity,
    ClientGap,
    Compares,
    Hidden,
    Rates,
)
from fedfb.audit.rows import Subject, Tables, add_uploads, check_subject, make_uploads, read_tables
from fedfb.audit.suppress import PublishedClient, PublishedTable, publish, publish_clients
from fedfb.data.statistics import AddUp, add_in_clear
from fedfb.errors import ConfigError
from fedfb.notions.disparity import client_parity
from fedfb.notions.intervals import mean_variance
from fedfb.notions.values import MINIMUM_ROWS, Chance, enough, expect_losses_by_chance
from fedfb.shapes import Array, Float

UNKNOWN_UNDER_MASKS = (
    "under --secure only the sum of the clients' tables is known: no figures of single clients, no "
    "client parity, and no contributions of clients. These need the consent of each client to send "
    "its table unmasked: leave out --secure"
)
NO_SCORES = "there are decisions but no scores: no calibration and no client parity (loss)"
ONE_CLIENT = "there is one client: no client parity, and no contributions of clients"


def audit(
    subject: Subject,
    minimum: int = MINIMUM_ROWS,
    *,
    secure: bool = False,
    drawn_mix: bool = True,
    add: AddUp = add_in_clear,
) -> Audit:
    """Audit decisions on rows that stay with their clients.

    Every client uploads tables of counts, and ``add`` sums them up.

    Args:
        subject: rows with decisions by client, and what they are.
        minimum: fewest rows of a count that may be shown.
        secure: use nothing but the sum of the uploads.
        drawn_mix: whether the sizes of the groups were drawn too. If False, intervals take them as
            fixed.
        add: adds the uploads, masked or unmasked.

    Raises:
        DataError: there is one group only, or no row has the favourable label.

    >>> from fedfb.audit.rows import AuditedRows
    >>> y, group = np.tile([0, 1], 40), np.repeat([0, 1], 40)
    >>> rows = AuditedRows(y, group, np.where(group == 0, 1.0, y))
    >>> about = About(
    ...     kind="scores", name="x", notion=None, data="x.csv", label="y", positive="1",
    ...     rows="all rows", decided_by="column d", baseline=None, hashes={},
    ... )
    >>> result = audit(Subject({"north": rows}, ("F", "M"), ("sex",), about))
    >>> result.notions.demographic_parity.value, result.four_fifths.value
    (0.25, 0.5)
    """
    favourable = any(bool(rows.y.any()) for rows in subject.clients.values())
    check_subject(subject.groups, favourable, subject.about)
    _refuse_no_minimum(minimum)
    uploads = make_uploads(subject)
    total, names = add_uploads(uploads, add), subject.groups
    result = audit_of_sum(
        total, names, subject.attributes, subject.about, list(subject.clients), minimum,
        secure=secure, drawn_mix=drawn_mix,
    )  # fmt: skip
    if secure:
        return result
    published = publish(total, minimum)
    tables = {name: read_tables(upload) for name, upload in uploads.items()}
    parts = publish_clients(list(tables.values()), published, minimum)
    by_client = dict(zip(tables, parts, strict=True))
    losses = {
        name: sum_losses(tables[name], client.total, published)
        for name, client in by_client.items()
    }
    # A client's rows, accuracy and loss are those of groups that are published by label.
    compares: Compares = "all" if (published.split | published.none).all() else "shown"
    parity, chance = compare_losses(losses, compares)
    return structs.replace(
        result,
        clients=describe_clients(by_client, losses, names, minimum, drawn_mix, compares),
        contributions=None
        if len(by_client) < 2
        else measure_contributions(
            published, {name: client.groups for name, client in by_client.items()}, minimum
        ),
        notions=structs.replace(result.notions, client_parity=parity),
        chance={**result.chance, "client_parity": chance},
    )


def audit_of_sum(
    total: Tables,
    names: Sequence[str],
    attributes: Sequence[str],
    about: About,
    clients: Sequence[str],
    minimum: int = MINIMUM_ROWS,
    *,
    secure: bool = True,
    drawn_mix: bool = True,
) -> Audit:
    """Return an audit of the sum of all clients' tables, without any client's own figures.

    Args:
        total: sum of the tables.
        names: names of the groups.
        attributes: sensitive columns that form the groups.
        about: which decisions these are, on which rows.
        clients: names of the clients.
        minimum: fewest rows of a count that may be shown.
        secure: whether the tables were masked.
        drawn_mix: whether the sizes of the groups were drawn too.

    """
    check_subject(names, bool(total.confusion[1].any()), about)
    _refuse_no_minimum(minimum)
    published = publish(total, minimum)
    notions = measure_notions(published, names, minimum, drawn_mix)
    return Audit(
        **structs.asdict(about),
        minimum=minimum,
        secure=secure,
        mix="drawn" if drawn_mix else "given",
        attributes=tuple(attributes),
        client_names=tuple(clients),
        numbers_sent=sum(part.size for part in total if part is not None),
        overall=describe_all(published),
        groups=describe_groups(published, names),
        four_fifths=measure_four_fifths(published),
        by_attribute=describe_attributes(published, names, attributes, minimum, drawn_mix),
        calibration=measure_calibration(total, published, names, minimum),
        hidden=name_hidden(published, names),
        comparison=None
        if total.joint is None
        else compare_with_baseline(total.joint, published, names, minimum),
        clients=None,
        contributions=None,
        notes=_list_notes(total.bins is not None, len(clients), secure),
        notions=notions,
        chance=expect_by_chance(published, notions.of_groups, minimum),
    )


def _refuse_no_minimum(minimum: int) -> None:
    if minimum < 1:
        raise ConfigError(f"the least number of rows is {minimum}, expected at least 1.")


def _list_notes(has_scores: bool, clients: int, secure: bool) -> tuple[str, ...]:
    notes = [UNKNOWN_UNDER_MASKS] * secure
    return (*notes, *[NO_SCORES] * (not has_scores), *[ONE_CLIENT] * (clients == 1))


def name_hidden(published: PublishedTable, names: Sequence[str]) -> Hidden:
    """Name the groups that are hidden, as a whole or by label."""
    no_labels = published.whole & ~published.split
    return Hidden(
        groups=tuple(names[g] for g in np.flatnonzero(~published.whole).tolist()),
        by_label=tuple(names[g] for g in np.flatnonzero(no_labels).tolist()),
    )


def describe_clients(
    clients: Mapping[str, PublishedClient],
    losses: Mapping[str, Float[Array, " 3"] | None],
    names: Sequence[str],
    minimum: int,
    drawn_mix: bool,
    compares: Compares,
) -> tuple[AuditedClient, ...]:
    """Return the published figures of every client.

    Args:
        clients: what is published of each client, by name.
        losses: rows, losses and squared losses of each client, None where hidden.
        names: names of the groups.
        minimum: fewest rows of a group that is compared.
        drawn_mix: whether the sizes of the groups were drawn too.
        compares: whether the clients' totals contain all groups.

    """
    descriptions = []
    for name, (groups, total) in clients.items():
        # A group without rows here is not a hidden one.
        certain = groups._replace(
            whole=groups.whole | groups.none, split=groups.split | groups.none
        )
        descriptions.append(
            AuditedClient(
                **_take_rates(name, total),
                groups=describe_groups(groups, names),
                notions=measure_notions(groups, names, minimum, drawn_mix, hidden=~certain.whole),
                four_fifths=measure_four_fifths(groups),
                hidden=name_hidden(certain, names),
                loss=_mean_loss(losses[name]),
                compares=compares,
            )
        )
    return tuple(descriptions)


def _take_rates(name: str, total: PublishedTable) -> dict[str, Any]:
    """Return the fields of the base class ``Rates``, as keyword arguments."""
    rates = describe_rates(name, total, np.array([0]))
    return {key: getattr(rates, key) for key in Rates.__struct_fields__}


def sum_losses(
    table: Tables, total: PublishedTable, published: PublishedTable
) -> Float[Array, " 3"] | None:
    """Return a client's rows, losses and squared losses over groups that are published by label.

    Args:
        table: the client's table.
        total: what is published of the client's groups together.
        published: what is published of all clients together.

    Returns None without scores, or where the client's total is hidden.
    """
    if table.losses is None or not total.whole[0]:
        return None
    return np.array([total.rows[0], *table.losses[:, published.split].sum(axis=1)])


def _mean_loss(sums: Float[Array, " 3"] | None) -> float | None:
    """Return a client's mean loss."""
    return None if sums is None or sums[0] < 1 else float(sums[1] / sums[0])


def compare_losses(
    losses: Mapping[str, Float[Array, " 3"] | None], compares: Compares
) -> tuple[AuditedClientParity, Chance | None]:
    """Return client parity, the range of the clients' mean losses, and what chance would show.

    Args:
        losses: rows, losses and squared losses of each client, None where hidden.
        compares: whether the clients' totals contain all groups.

    """
    # A single loss has no variance, so a client needs two rows.
    large = {name: s for name, s in losses.items() if s is not None and enough(s[:1], 2).all()}
    left_out = tuple(name for name in losses if name not in large)
    nothing = AuditedClientParity(None, None, left_out, (), "shown" if left_out else compares)
    if len(large) < 2:
        return nothing, None
    sums = np.stack(list(large.values()), axis=1)
    [estimate] = client_parity(sums[None], 2)
    if estimate.value is None:
        return nothing, None
    gaps = tuple(ClientGap(name, gap) for name, gap in zip(large, estimate.gaps, strict=True))
    chance = expect_losses_by_chance(mean_variance(*sums), estimate.value)
    parity = structs.replace(
        nothing, value=estimate.value, interval=read_interval(estimate), gaps=gaps
    )
    return parity, chance
