"""No cell below the minimum is shown, or follows from what is shown."""

import re
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from audited import federation, pooled
from fedfb.audit.card import card_as_markdown, make_card
from fedfb.audit.measures import describe_groups, describe_rates
from fedfb.audit.page import audit_page
from fedfb.audit.record import audit, name_hidden
from fedfb.audit.result import Hidden, encode_audit
from fedfb.audit.rows import add_uploads, make_uploads, read_tables
from fedfb.audit.suppress import hide_small_cells, publish, publish_clients
from fedfb.data.statistics import add_in_clear
from fedfb.report.html import render

MINIMUM = 10


def equations(record, clients, groups):
    """All sums of cells (label, client, group) that a record tells, as rows of a matrix.

    Written from the record alone: whatever a reader knows of numbers of rows, and that a client
    with "none" of a group has none.
    """
    shape = (2, len(clients), len(groups))
    known = []

    def tell(labels=slice(None), client=slice(None), group=slice(None)):
        cells = np.zeros(shape)
        cells[labels, client, group] = 1
        known.append(cells.ravel())

    def tell_of(part, **where):
        if part.n is not None:
            tell(**where)
        if part.n_by_label is not None:
            tell(labels=0, **where)
            tell(labels=1, **where)

    for a, group in enumerate(record.groups):
        tell_of(group, group=a)
    hidden = set(record.hidden.groups) | set(record.hidden.by_label)
    by_label = [a for a, name in enumerate(groups) if name not in hidden]
    for i, client in enumerate(record.clients):
        tell_of(client, client=i, group=by_label)
        for a, group in enumerate(client.groups):
            tell_of(group, client=i, group=a)
            if group.none:
                tell(labels=0, client=i, group=a)
                tell(labels=1, client=i, group=a)
    return np.array(known) if known else np.zeros((1, np.prod(shape)))


class Shown(NamedTuple):
    """The part of an audit that holds numbers of rows."""

    groups: tuple
    hidden: Hidden
    clients: list


class ShownClient(NamedTuple):
    n: int | None
    n_by_label: tuple[int, int] | None
    groups: tuple


def shown_of(subject):
    uploads = make_uploads(subject)
    total = publish(add_uploads(uploads, add_in_clear), MINIMUM)
    clients = publish_clients([read_tables(part) for part in uploads.values()], total, MINIMUM)
    rates = [describe_rates("", client.total, np.array([0])) for client in clients]
    return Shown(
        groups=describe_groups(total, subject.groups),
        hidden=name_hidden(total, subject.groups),
        clients=[
            ShownClient(rate.n, rate.n_by_label, describe_groups(client.groups, subject.groups))
            for rate, client in zip(rates, clients, strict=True)
        ],
    )


def test_what_is_shown_here_is_what_an_audit_tells():
    subject = federation([[60, 20, 9, 40], [12, 30, 30, 25], [15, 50, 22, 3]])
    record, shown = audit(subject, MINIMUM), shown_of(subject)
    assert (record.groups, record.hidden) == (shown.groups, shown.hidden)
    for client, other in zip(record.clients, shown.clients, strict=True):
        assert ShownClient(client.n, client.n_by_label, client.groups) == other


def follows(known, wanted):
    """Whether a sum of cells is determined by known sums."""
    found, *_ = np.linalg.lstsq(known.T, wanted, rcond=None)
    return np.abs(known.T @ found - wanted).max() < 1e-7


def small_cells(subject):
    """Yield the cells below the minimum, by label, client and group; a client may have none."""
    for i, rows in enumerate(subject.clients.values()):
        for a in range(len(subject.groups)):
            n = int((rows.group == a).sum())
            if 0 < n < MINIMUM:
                yield slice(None), i, a
            for label in (0, 1):
                if n and int(((rows.group == a) & (rows.y == label)).sum()) < MINIMUM:
                    yield label, i, a


sizes = st.integers(0, 60) | st.integers(0, 12)


@given(st.data(), st.integers(2, 5), st.integers(2, 4), st.integers(0, 1000))
@settings(derandomize=True)
def test_no_small_cell_follows_from_what_is_shown(data, clients, groups, seed):
    table = data.draw(
        st.lists(
            st.lists(sizes, min_size=groups, max_size=groups), min_size=clients, max_size=clients
        )
    )
    table[0][0], table[0][1] = max(table[0][0], 15), max(table[0][1], 15)
    names = [f"g{place}" for place in range(groups)]
    subject = federation(table, seed, names=names)
    subject = subject._replace(clients={k: v for k, v in subject.clients.items() if len(v.y)})
    record = shown_of(subject)
    known = equations(record, list(subject.clients), names)
    for labels, client, group in small_cells(subject):
        wanted = np.zeros((2, len(subject.clients), groups))
        wanted[labels, client, group] = 1
        assert not follows(known, wanted.ravel()), (table, labels, client, group)
    total = pooled(subject)
    for group in range(groups):
        for label in (0, 1):
            n = int(((total.group == group) & (total.y == label)).sum())
            if n < MINIMUM and (total.group == group).any():
                wanted = np.zeros((2, len(subject.clients), groups))
                wanted[label, :, group] = 1
                assert not follows(known, wanted.ravel())


def test_a_cell_that_only_all_totals_together_tell_is_found():
    # Every client and group hides two cells at least, yet the cell (1, 2) follows: the hidden cells
    # of clients 0 and 1 less those of groups 0 and 1.
    small = np.zeros((4, 4), bool)
    small[:2, :2] = small[2:, 2:] = small[1, 2] = True
    counts = np.where(small, 6.0, 50.0)[None]
    every = np.ones(4, bool)
    shown, totals = hide_small_cells(counts, every, every, MINIMUM)
    assert not shown[small].any()
    known = [np.eye(16)[np.ravel_multi_index(cell, (4, 4))] for cell in np.argwhere(shown)]
    known += [np.repeat(np.eye(4)[client], 4) for client in np.flatnonzero(totals)]
    known += [np.tile(np.eye(4)[group], 4) for group in range(4)]
    for cell in np.argwhere(small):
        wanted = np.eye(16)[np.ravel_multi_index(cell, (4, 4))]
        assert not follows(np.array(known), wanted), cell


def test_cells_that_hide_each_other_are_as_many_as_the_minimum_together():
    counts = np.array([[[4.0, 90.0], [3.0, 80.0], [70.0, 60.0], [50.0, 40.0]]])
    shown, _ = hide_small_cells(counts, np.ones(2, bool), np.ones(2, bool), MINIMUM)
    assert counts[0, ~shown[:, 0], 0].sum() >= MINIMUM


def texts(subject, **options):
    """All that an audit writes: JSON, page and card."""
    record = audit(subject, MINIMUM, **options)
    record = structs.replace(record, card=make_card(record, None, None))
    card = card_as_markdown("x", record.card)
    return record, encode_audit(record), render(audit_page(record)), card


def numbers_in(text):
    """Every number that a text holds, also the words in pictures, but not their coordinates."""
    plain = re.sub(r"<(style|script).*?</\1>", " ", text, flags=re.DOTALL)
    plain = re.sub(r"<[^>]*>", " ", plain).replace(",", "")
    return {float(found) for found in re.findall(r"\d*\.?\d+(?:e-?\d+)?", plain)}


@pytest.mark.parametrize("secure", [False, True])
def test_the_counts_and_rates_of_a_hidden_group_are_nowhere(secure):
    # 7 rows of one group: neither 7 nor any total with or without it may be found anywhere.
    sizes = [[301, 211, 3, 407], [173, 307, 2, 149], [233, 127, 2, 191]]
    subject = federation(sizes, seed=5)
    record, *written = texts(subject, secure=secure)
    assert record.hidden.groups == ("sex=M, race=B",)
    small = [7, sum(map(sum, sizes)), *(sum(row) for row in sizes)]
    rows = pooled(subject)
    own = rows.group == 2
    rates = [float(rows.decision[own].mean()), float(rows.score[own].mean())]
    everyone = [float(rows.decision.mean()), float(rows.y.mean())]
    for text in written:
        found = numbers_in(text)
        for number in small:
            assert number not in found, number
        for rate in rates + everyone:
            assert all(abs(rate - one) > 1e-9 for one in found)
    assert all("sex=M, race=B" in text for text in written)  # it is named, as hidden


def test_a_small_cell_of_a_client_is_nowhere_and_so_is_the_difference_to_the_total():
    sizes = [[301, 211, 97, 407], [173, 307, 89, 149], [233, 127, 7, 191]]
    record, *written = texts(federation(sizes, seed=6))
    assert record.groups[2].n == 193
    client = record.clients[2].groups[2]
    assert client.n is None
    assert client.selection_rate is None
    for text in written:
        assert 7.0 not in numbers_in(text)
        assert 193.0 - 7.0 not in numbers_in(text)
    shown = [one.groups[2].n for one in record.clients]
    assert shown == [97, None, None]  # the small one and one that hides it
    cells = [group.n for one in record.clients for group in one.groups]
    assert cells.count(None) == 4  # and two that hide these from the clients' totals


def test_clients_with_enough_rows_are_all_shown():
    record = audit(federation([[100, 100, 100, 100]] * 3), MINIMUM)
    for client in record.clients:
        assert client.n == 400
        assert client.hidden == Hidden((), ())


def test_a_client_without_a_group_says_none_and_hides_nothing():
    record = audit(federation([[100, 100, 0, 100], [100, 100, 90, 100], [80, 80, 90, 80]]))
    assert record.clients[0].groups[2].none
    assert [client.groups[2].n for client in record.clients] == [None, 90, 90]


def test_bins_of_scores_have_enough_rows():
    record = audit(federation([[40, 40, 40, 40], [30, 30, 30, 30]]), MINIMUM)
    counts = [one.n for group in record.calibration for one in group.bins]
    assert min(counts) >= MINIMUM
