"""Tables of exchanges: what left the clients in a run, and what a method exchanges.

Two things are never mixed: what a method *needs* of the uploads (their sum, or each value), and
what the server *receives* in a run (only the sum, or each client's upload).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fedfb.algorithms import Method
from fedfb.experiments.explain import Explained, ExplainedExchange
from fedfb.experiments.leave_out import MOST_TRAININGS
from fedfb.report.numbers import shown_name
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
from fedfb.report.text import of_accounts, print_privacy
from fedfb.runtime.ledger import (
    NEEDED,
    NEEDS_SUM,
    RECEIVED,
    RECEIVED_SUM,
    Account,
    Entry,
    Visibility,
    Way,
    as_ranges,
    phase_kind,
)

NEEDS: dict[Visibility, str] = {
    visibility: "the sum" if only_sum else "each value"
    for visibility, only_sum in NEEDS_SUM.items()
}
"""What the method needs of messages."""

RECEIVES: dict[Visibility, str] = {
    visibility: "only the sum" if only_sum else "each upload"
    for visibility, only_sum in RECEIVED_SUM.items()
} | {"no values": "nothing", "public": "-"}
"""What the server receives of them."""

SET_UP = {"data": "columns"}
"""What is asked before the first round, by phase; else it is the set-up."""

IN_FRONT = {"tune": "tuning ", "leave-out": "left out: ", "achievable": "FedAvg "}
"""What is said of phases other than the run itself."""

_PUBLISHED = "Columns were scaled before rows were dealt to clients: built-in data are one table."


class _Kind(NamedTuple):
    """What makes messages the same in a summary: they differ in round, client and size only."""

    phase: str
    when: str
    task: str
    seen: Visibility
    parts: tuple[tuple[str, tuple[int, ...]], ...]


class Sum(NamedTuple):
    """How many messages there were, and their bytes."""

    messages: int = 0
    bytes: int = 0

    def more(self, entry: Entry, clients: int) -> "Sum":
        """Return the sum with the messages of one more entry.

        Args:
            entry: of the ledger.
            clients: how many clients the entry counts for.
        """
        number = len(entry.messages) * clients
        return Sum(self.messages + number, self.bytes + entry.bytes * clients)


def by_kind(accounts: Sequence[Account], way: Way) -> dict[_Kind, Sum]:
    """Sum up the messages of one direction over rounds, seeds and clients.

    Args:
        accounts: ledgers of the phases and seeds of a run.
        way: ``up`` to the server, ``down`` to the clients.
    """
    sums: dict[_Kind, Sum] = {}
    for account, entry in _entries(accounts):
        if entry.way == way:
            shapes = tuple((name, tuple(shape)) for name, shape in entry.parts.items())
            when = "rounds" if entry.round else SET_UP.get(account.phase, "set-up")
            kind = _Kind(phase_kind(account.phase), when, entry.task, entry.seen, shapes)
            sums[kind] = sums.get(kind, Sum()).more(entry, len(entry.clients))
    return sums


def by_client(accounts: Sequence[Account]) -> dict[str, dict[Visibility, Sum]]:
    """Sum up every client's messages over rounds, seeds and tasks."""
    sums: dict[str, dict[Visibility, Sum]] = {
        name: {} for account in accounts for name in account.clients
    }
    for account, entry in _entries(accounts):
        for client in entry.clients:
            of = sums[account.clients[client]]
            of[entry.seen] = of.get(entry.seen, Sum()).more(entry, 1)
    return sums


def _entries(accounts: Sequence[Account]) -> Iterator[tuple[Account, Entry]]:
    return ((account, entry) for account in accounts for entry in account.entries)


def print_ledger(accounts: Sequence[Account], published: bool) -> None:
    """Print what left the clients, what was sent to them, and each client's total.

    Args:
        accounts: ledgers of the phases and seeds of a run.
        published: whether the data are published. Their columns are prepared before rows are
            dealt to clients.
    """
    console = make_console()
    print_table(ledger_table(accounts, "What left the clients"), console)
    console.print()
    print_table(ledger_table(accounts, "What was sent to them", "down"), console)
    console.print()
    clients = by_client(accounts)
    print_table(_clients_table(clients), console)
    console.print("\n" + sentence(accounts))
    privacy = of_accounts(accounts)
    if privacy is not None:
        print_privacy(privacy)
    if published:
        console.print(_PUBLISHED)


def ledger_table(
    accounts: Sequence[Account], caption: str = "What left the clients in this run", way: Way = "up"
) -> Table:
    """Return one row for each kind of message, as the ledger of a run has it.

    Args:
        accounts: ledgers of the phases and seeds of a run.
        caption: of the table.
        way: ``up`` to the server, ``down`` to the clients.
    """
    upwards = way == "up"
    what = "each client sends" if upwards else "the server sends"
    columns = ("when", "question", what, "messages", "bytes")
    received = ("server received",) if upwards else ()
    return Table(caption, (*columns, *received), tuple(kind_rows(accounts, way)), wrap=what)


def kind_rows(accounts: Sequence[Account], way: Way) -> Iterator[tuple[str, ...]]:
    """Yield one row for each kind of message; a row of uploads says what the server received.

    Args:
        accounts: ledgers of the phases and seeds of a run.
        way: ``up`` to the server, ``down`` to the clients.
    """
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


def _clients_table(clients: dict[str, dict[Visibility, Sum]]) -> Table:
    numbers = []
    for sums in clients.values():
        sent = [total for kind, total in sums.items() if kind != "public"]
        masked, received = sums.get("masked", Sum()), sums.get("public", Sum())
        whole = Sum(sum(total.messages for total in sent), sum(total.bytes for total in sent))
        numbers.append((whole.messages, whole.bytes, masked.bytes, received.bytes))
    columns = ("client", "sent", "bytes", "of these masked", "received bytes")
    if len(clients) > MOST_CLIENTS:
        values = [ManyValues(part, write_count) for part in zip(*numbers, strict=True)]
        rows = summarise_many([*clients], values, [part[1] - part[2] for part in numbers])
        note = note_on_many(len(clients), "bytes that were not masked")
        return Table("By client", columns, rows, note)
    named = zip(clients, numbers, strict=True)
    return Table("By client", columns, tuple((n, *map("{:,}".format, part)) for n, part in named))


def sentence(accounts: Sequence[Account]) -> str:
    """Say in one sentence what the method needed, and what the server received."""
    visibilities = {entry.seen for _, entry in _entries(accounts) if entry.way == "up"}
    only_sums, each = RECEIVED
    if "single" in visibilities:
        single = sorted({entry.task for _, entry in _entries(accounts) if entry.seen == "single"})
        rest = "; the rest was masked" if "masked" in visibilities else "; nothing was masked"
        return f"{_start(NEEDED[1])} ({', '.join(map(repr, single))}), and there {each}{rest}."
    if "unmasked" in visibilities:
        return f"{_start(NEEDED[0])}, but nothing was masked: {each}. --secure masks them."
    return f"{_start(NEEDED[0])}, and everything was masked: {only_sums}."


def _start(words: str) -> str:
    return words[0].upper() + words[1:]


def as_record(accounts: Sequence[Account], published: bool) -> dict[str, Any]:
    """Return the ledger as JSON-ready values: by task, by client, and every message.

    Messages name clients by their places in the list of clients, counted from 0.

    Args:
        accounts: ledgers of the phases and seeds of a run.
        published: as in :func:`print_ledger`.
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
            {"client": name, **{kind: total._asdict() for kind, total in sums.items()}}
            for name, sums in by_client(accounts).items()
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


SHORT = {
    "demographic_parity": "dp",
    "equal_opportunity": "eo",
    "equalized_odds": "eod",
    "client_parity": "cp",
}

LEDGER_COLUMNS = ("when", "question", "each client sends", "numbers", "bytes", "server needs")

WITHOUT_MASKS = "Without --secure the server receives each client's upload, with it only sums."


def print_explained(name: str, explained: Explained) -> None:
    """Print the exchanges of one method: tasks, what is sent, what the method needs of it."""
    console = make_console()
    print_table(exchange_table(name, explained), console)
    console.print("\n" + exchanges_sentence(explained))


def exchange_table(name: str, explained: Explained) -> Table:
    """Return what one method exchanges, one row for each task."""
    rows = tuple(exchange_cells(exchange) for exchange in explained.exchanges)
    return Table(
        f"{name}: a model of {explained.parameters} parameters",
        LEDGER_COLUMNS,
        rows,
        wrap=LEDGER_COLUMNS[2],
    )


def method_table(explained: Mapping[str, Explained]) -> Table:
    """Return what methods exchange, side by side."""
    rows = [
        (
            shown_name(name),
            str(of_method.exchanges_a_round),
            str(of_method.beyond_the_model),
            needs(of_method),
        )
        for name, of_method in explained.items()
    ]
    columns = ("", "exchanges a round", "numbers beside models and weights", "server needs")
    return Table("What methods exchange", columns, tuple(rows))


def exchange_cells(exchange: ExplainedExchange) -> tuple[str, ...]:
    """Return an exchange as the cells of a row: when, task, uploads, sizes, what is needed."""
    least, most = exchange.times
    often = "" if most == 1 else f" x{most}" if least == most else f" x{least}-{most}"
    when = IN_FRONT.get(exchange.phase, "") + exchange.when
    sizes = (str(exchange.numbers), str(exchange.bytes))
    return when, exchange.question + often, in_words(exchange.parts), *sizes, NEEDS[exchange.seen]


def exchanges_sentence(explained: Explained) -> str:
    """Say how much a round exchanges, what the method needs of it, and what the server receives."""
    number, beyond = explained.exchanges_a_round, explained.beyond_the_model
    many = explained.settings
    beside = "" if many == 1 else f", for {many} settings trained side by side"
    return (
        f"{number} exchange{'s' if number != 1 else ''} a round{beside}; beyond models, their "
        f"derivatives and weights a client sends {beyond} number{'s' if beyond != 1 else ''} in "
        f"it. {_how_often(explained)}" + needs_and_receives(explained)
    )


def _how_often(explained: Explained) -> str:
    """Say what is asked more often or less often than these random rows show; "" of other runs."""
    asked = {exchange.question for exchange in explained.exchanges}
    leaves_out = any(exchange.phase == "leave-out" for exchange in explained.exchanges)
    return (
        "An exact fit asks 'newton' 1 to about 9 times in a round; how often depends on the rows, "
        "and these are random. "
        * ("newton" in asked)
        + "A network's fit asks 'descend' some hundred times in the first round, some dozen times "
        "at most in later ones; these rows are random. "
        * ("descend" in asked)
        + "'Left out' is one training without some clients: there is one for each client, at most "
        f"{MOST_TRAININGS}. " * leaves_out
    )


def needs_and_receives(explained: Explained) -> str:
    """Say what the method needs, and what the server receives in such a run."""
    if explained.pooled:
        return "The method needs all rows in one place."
    if explained.server_receives_only_sums:
        return "The method needs only sums, and the server receives only sums (--secure)."
    if explained.needs_only_sums:
        return f"The method needs only sums. {WITHOUT_MASKS}"
    return "The method needs single values: the server receives each client's upload."


def exchanges_record(explained: Explained) -> dict[str, Any]:
    """Return the exchanges as JSON-ready values."""
    return {
        "parameters": explained.parameters,
        "settings": explained.settings,
        "exchanges_per_round": explained.exchanges_a_round,
        "beyond_the_model": explained.beyond_the_model,
        "needs_all_rows": explained.pooled,
        "needs_only_sums": explained.needs_only_sums,
        "server_receives_only_sums": explained.server_receives_only_sums,
        "exchanges": [
            {
                "phase": exchange.phase,
                "when": exchange.when,
                "question": exchange.question,
                "times": list(exchange.times),
                "needs": NEEDS[exchange.seen],
                "server_receives": RECEIVES[exchange.seen],
                "numbers": exchange.numbers,
                "bytes": exchange.bytes,
                "sends": {name: list(shape) for name, shape in exchange.parts},
            }
            for exchange in explained.exchanges
        ],
    }


def needs(explained: Explained) -> str:
    """Say in a word what a method needs: sums, single values, or all rows in one place."""
    if explained.pooled:
        return "all rows"
    return "sums" if explained.needs_only_sums else "single values"


def print_methods(methods: Sequence[tuple[Method, Explained]]) -> None:
    """Print every method with its notions, limits, exchanges, what it needs, and its paper."""
    rows = tuple(_cells(method, explained) for method, explained in methods)
    columns = ("", "notions", "groups", "asks", "beyond", "server needs", "paper")
    console = make_console()
    print_table(Table("Algorithms", columns, rows, wrap="paper"), console)
    console.print(
        "\nasks: exchanges a round; beyond: numbers a client sends a round beside models, "
        "their derivatives and weights, for two groups, the free model and the look at each round "
        f"included; after ...: a reconstruction. {WITHOUT_MASKS} See fedfb explain ALGORITHM."
    )


def _cells(method: Method, explained: Explained) -> tuple[str, ...]:
    notions = " ".join(SHORT[name] for name in method.notions) if method.fair else "-"
    groups = "any" if method.most_groups is None else f"<= {method.most_groups}"
    paper = f"after {method.paper}" if method.reconstruction else method.paper
    asks, beyond = str(explained.exchanges_a_round), str(explained.beyond_the_model)
    return method.name, notions, groups, asks, beyond, needs(explained), paper
