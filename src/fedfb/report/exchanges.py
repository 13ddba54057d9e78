"""What methods exchange, as tables for a terminal.

Two things are never mixed: what a method *needs* of the uploads (their sum, or each value), and
what the server *receives* in a run (only the sum, or each client's upload).
"""

from collections.abc import Sequence
from typing import Any

from fedfb.algorithms import Method
from fedfb.experiments.explain import Exchange, Explained
from fedfb.report.ledger import IN_FRONT, NEEDS, RECEIVES, in_words
from fedfb.report.tables import make_console, make_table

SHORT = {
    "demographic_parity": "dp",
    "equal_opportunity": "eo",
    "equalized_odds": "eod",
    "client_parity": "cp",
}

COLUMNS = ("when", "question", "each client sends", "numbers", "bytes", "server needs")

WITHOUT_MASKS = "Without --secure the server receives each client's upload, with it only sums."


def print_explained(name: str, explained: Explained) -> None:
    """Print the exchanges of one method: questions, what is sent, what the method needs of it."""
    console = make_console()
    table = make_table(
        f"{name}: a model of {explained.parameters} parameters", *COLUMNS, wrap="each client sends"
    )
    for one in explained.exchanges:
        table.add_row(*exchange_cells(one))
    console.print(table)
    console.print("\n" + sentence(explained))


def exchange_cells(one: Exchange) -> tuple[str, ...]:
    """Return an exchange as the cells of a row: when, question, uploads, sizes, what is needed."""
    least, most = one.times
    often = "" if most == 1 else f" x{most}" if least == most else f" x{least}-{most}"
    when = IN_FRONT.get(one.phase, "") + one.when
    sizes = (str(one.numbers), str(one.bytes))
    return when, one.question + often, in_words(one.parts), *sizes, NEEDS[one.seen]


def sentence(explained: Explained) -> str:
    """Say how much a round exchanges, what the method needs of it, and what the server receives."""
    number, beyond = explained.exchanges_a_round, explained.beyond_the_model
    many = explained.settings
    beside = "" if many == 1 else f", for {many} settings trained side by side"
    return (
        f"{number} exchange{'s' if number != 1 else ''} a round{beside}; beyond models and their "
        f"weights a client sends {beyond} number{'s' if beyond != 1 else ''} in it. "
        + needs_and_receives(explained)
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


def as_record(explained: Explained) -> dict[str, Any]:
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
                "phase": one.phase,
                "when": one.when,
                "question": one.question,
                "times": list(one.times),
                "needs": NEEDS[one.seen],
                "server_receives": RECEIVES[one.seen],
                "numbers": one.numbers,
                "bytes": one.bytes,
                "sends": {name: list(shape) for name, shape in one.parts},
            }
            for one in explained.exchanges
        ],
    }


def needs(explained: Explained) -> str:
    """Say in a word what a method needs: sums, single values, or all rows in one place."""
    if explained.pooled:
        return "all rows"
    return "sums" if explained.needs_only_sums else "single values"


def print_methods(methods: Sequence[tuple[Method, Explained]]) -> None:
    """Print every method with its notions, limits, exchanges, what it needs, and its paper."""
    table = make_table(
        "Algorithms",
        *("", "notions", "groups", "asks", "beyond", "server needs", "paper"),
        wrap="paper",
    )
    for method, explained in methods:
        table.add_row(*_cells(method, explained))
    console = make_console()
    console.print(table)
    console.print(
        "\nasks: exchanges a round; beyond: numbers a client sends a round beside models and "
        "their weights, for two groups, the free model and the look at each round included; after "
        f"...: a reconstruction. {WITHOUT_MASKS} See fedfb explain ALGORITHM."
    )


def _cells(method: Method, explained: Explained) -> Sequence[str]:
    notions = " ".join(SHORT[name] for name in method.notions) if method.fair else "-"
    groups = "any" if method.most_groups is None else f"<= {method.most_groups}"
    paper = f"after {method.paper}" if method.reconstruction else method.paper
    asks, beyond = str(explained.exchanges_a_round), str(explained.beyond_the_model)
    return method.name, notions, groups, asks, beyond, needs(explained), paper
