"""A run's ledger as tables: what left the clients, question by question, and client by client."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fedfb.report.privacy import of_accounts, print_privacy
from fedfb.report.tables import make_console, make_table
from fedfb.runtime.ledger import (
    NEEDED,
    NEEDS_SUM,
    RECEIVED,
    RECEIVED_SUM,
    Account,
    Entry,
    Seen,
    Way,
    as_ranges,
)

NEEDS: dict[Seen, str] = {
    seen: "the sum" if only_sum else "each value" for seen, only_sum in NEEDS_SUM.items()
}
"""What the method needs of messages."""

RECEIVES: dict[Seen, str] = {
    seen: "only the sum" if only_sum else "each upload" for seen, only_sum in RECEIVED_SUM.items()
} | {"no values": "nothing", "public": "-"}
"""What the server receives of them."""

SET_UP = {"data": "columns"}
"""What is asked before the first round, by phase; else it is the set-up."""

IN_FRONT = {"tune": "tuning ", "achievable": "FedAvg "}
"""What is said of phases other than the run itself."""

PUBLISHED = "Columns were scaled before rows were dealt to clients: built-in data are one table."

MOST_CLIENTS = 20
"""Of more clients only so many are printed; JSON has all."""


class Kind(NamedTuple):
    """What makes messages the same in a summary: they differ in round, client and size only."""

    phase: str
    when: str
    task: str
    seen: Seen
    parts: tuple[tuple[str, tuple[int, ...]], ...]


class Sum(NamedTuple):
    """How many messages there were, and their bytes."""

    messages: int = 0
    bytes: int = 0

    def more(self, entry: Entry, clients: int) -> "Sum":
        """Add an entry's messages of so many clients."""
        number = len(entry.messages) * clients
        return Sum(self.messages + number, self.bytes + entry.bytes * clients)


def by_kind(accounts: Sequence[Account], way: Way) -> dict[Kind, Sum]:
    """Sum up the messages of one direction over rounds, seeds and clients."""
    found: dict[Kind, Sum] = {}
    for account, entry in _entries(accounts):
        if entry.way == way:
            shapes = tuple((name, tuple(shape)) for name, shape in entry.parts.items())
            when = "rounds" if entry.round else SET_UP.get(account.phase, "set-up")
            kind = Kind(account.phase, when, entry.task, entry.seen, shapes)
            found[kind] = found.get(kind, Sum()).more(entry, len(entry.clients))
    return found


def by_client(accounts: Sequence[Account]) -> dict[str, dict[Seen, Sum]]:
    """Sum up every client's messages over rounds, seeds and questions."""
    found: dict[str, dict[Seen, Sum]] = {name: {} for one in accounts for name in one.clients}
    for account, entry in _entries(accounts):
        for client in entry.clients:
            of = found[account.clients[client]]
            of[entry.seen] = of.get(entry.seen, Sum()).more(entry, 1)
    return found


def _entries(accounts: Sequence[Account]) -> Iterator[tuple[Account, Entry]]:
    return ((account, entry) for account in accounts for entry in account.entries)


def print_ledger(accounts: Sequence[Account], published: bool) -> None:
    """Print what left the clients, what was sent to them, and each client's total.

    The columns of ``published`` data are prepared before rows are dealt to clients.
    """
    console = make_console()
    console.print(_kinds_table("What left the clients", accounts, "up"))
    console.print()
    console.print(_kinds_table("What was sent to them", accounts, "down"))
    console.print()
    clients = by_client(accounts)
    console.print(_clients_table(clients))
    if len(clients) > MOST_CLIENTS:
        console.print(f"... and {len(clients) - MOST_CLIENTS:,} more: --json has them all")
    console.print("\n" + sentence(accounts))
    privacy = of_accounts(accounts)
    if privacy is not None:
        print_privacy(privacy)
    if published:
        console.print(PUBLISHED)


def _kinds_table(title: str, accounts: Sequence[Account], way: Way) -> Any:
    upwards = way == "up"
    what = "each client sends" if upwards else "the server sends"
    columns = ("when", "question", what, "messages", "bytes")
    table = make_table(title, *columns, *(["server received"] if upwards else []), wrap=what)
    for row in kind_rows(accounts, way):
        table.add_row(*row)
    return table


def kind_rows(accounts: Sequence[Account], way: Way) -> Iterator[tuple[str, ...]]:
    """Yield the messages of one direction, one row a kind; upwards what the server received."""
    for kind, total in by_kind(accounts, way).items():
        none = "keys and shares only" if kind.seen == "no values" else "-"
        when = IN_FRONT.get(kind.phase, "") + kind.when
        row = (when, kind.task, in_words(kind.parts) or none, f"{total.messages:,}")
        yield (*row, f"{total.bytes:,}", *([RECEIVES[kind.seen]] if way == "up" else []))


def in_words(parts: Sequence[tuple[str, Sequence[int]]]) -> str:
    """Write the names and shapes of an upload's arrays.

    >>> in_words((("weighted", (2, 9)), ("rows", ())))
    'weighted 2x9, rows 1'
    """
    return ", ".join(f"{name} {_shape(shape)}" for name, shape in parts)


def _shape(shape: Sequence[int]) -> str:
    """Write a shape; one number has none.

    >>> _shape((1, 2, 2)), _shape(())
    ('1x2x2', '1')
    """
    return "x".join(map(str, shape)) or "1"


def _clients_table(clients: dict[str, dict[Seen, Sum]]) -> Any:
    columns = ("sent", "bytes", "of these masked", "received bytes")
    table = make_table("By client", "client", *columns)
    for name, seen in list(clients.items())[:MOST_CLIENTS]:
        sent = [total for kind, total in seen.items() if kind != "public"]
        masked, received = seen.get("masked", Sum()), seen.get("public", Sum())
        whole = Sum(sum(one.messages for one in sent), sum(one.bytes for one in sent))
        numbers = (whole.messages, whole.bytes, masked.bytes, received.bytes)
        table.add_row(name, *(f"{number:,}" for number in numbers))
    return table


def sentence(accounts: Sequence[Account]) -> str:
    """Say in one sentence what the method needed, and what the server received."""
    seen = {entry.seen for _, entry in _entries(accounts) if entry.way == "up"}
    only_sums, each = RECEIVED
    if "single" in seen:
        single = sorted({entry.task for _, entry in _entries(accounts) if entry.seen == "single"})
        rest = "; the rest was masked" if "masked" in seen else "; nothing was masked"
        return f"{_start(NEEDED[1])} ({', '.join(map(repr, single))}), and there {each}{rest}."
    if "unmasked" in seen:
        return f"{_start(NEEDED[0])}, but nothing was masked: {each}. --secure masks them."
    return f"{_start(NEEDED[0])}, and everything was masked: {only_sums}."


def _start(words: str) -> str:
    return words[0].upper() + words[1:]


def as_record(accounts: Sequence[Account], published: bool) -> dict[str, Any]:
    """Return the ledger as JSON-ready values: by question, by client, and every message.

    Messages name clients by their places in the list of clients, counted from 0.
    """
    return {
        "columns_scaled_before_dealing": published,
        "needs_only_sums": all(NEEDS_SUM[entry.seen] for _, entry in _entries(accounts)),
        "server_received_only_sums": all(
            RECEIVED_SUM[entry.seen] for _, entry in _entries(accounts)
        ),
        "privacy": [
            {"phase": account.phase, "seed": account.seed, **account.privacy}
            for account in accounts
            if account.privacy is not None
        ],
        "questions": [
            {"way": way, **kind._asdict(), "parts": dict(kind.parts), **total._asdict()}
            for way in ("up", "down")
            for kind, total in by_kind(accounts, way).items()
        ],
        "clients": [
            {"client": name, **{kind: total._asdict() for kind, total in seen.items()}}
            for name, seen in by_client(accounts).items()
        ],
        "messages": [
            {
                "phase": account.phase,
                "seed": account.seed,
                **entry._asdict(),
                "clients": as_ranges(entry.clients),
            }
            for account, entry in _entries(accounts)
        ],
    }
