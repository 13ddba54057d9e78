"""What methods exchange, as tables for a terminal."""

from collections.abc import Sequence
from typing import Any

from fedfb.algorithms import Method
from fedfb.experiments.explain import Exchange, Explained
from fedfb.report.tables import make_console, make_table

SHORT = {
    "demographic_parity": "dp",
    "equal_opportunity": "eo",
    "equalized_odds": "eod",
    "client_parity": "cp",
}


def print_explained(name: str, explained: Explained) -> None:
    """Print the exchanges of one method: questions, what is sent, what the server sees."""
    console = make_console()
    table = make_table(
        f"{name}: a model of {explained.parameters} parameters",
        *("when", "question", "each client sends", "numbers", "bytes", "server sees"),
        wrap="each client sends",
    )
    for one in explained.exchanges:
        table.add_row(*exchange_cells(one))
    console.print(table)
    console.print("\n" + sentence(explained))


def exchange_cells(one: Exchange) -> tuple[str, ...]:
    """Return an exchange as the cells of a row: when, question, uploads, sizes, what is seen."""
    sent = ", ".join(f"{sent.name} {sent.numbers}{_in_bits(sent)}" for sent in one.sent)
    return one.when, one.question, sent, str(one.numbers), str(one.bytes), _seen(one)


def sentence(explained: Explained) -> str:
    """Say in one sentence what a round exchanges."""
    number = len(explained.in_a_round)
    seen = "sums only" if explained.sums_only else "single values are revealed"
    return (
        f"{number} exchange{'s' if number != 1 else ''} a round; beyond model and weight a client "
        f"sends {explained.beyond_the_model} numbers; the server sees: {seen}."
    )


def _in_bits(sent: Any) -> str:
    bits = sent.bits // max(sent.numbers, 1)
    return f" ({bits} bits each)" if bits < 64 else ""


def _seen(one: Exchange) -> str:
    return "the sum" if one.reduce == "sum" else "each client's"


def as_record(explained: Explained) -> dict[str, Any]:
    """Return the exchanges as JSON-ready values."""
    return {
        "parameters": explained.parameters,
        "exchanges_per_round": len(explained.in_a_round),
        "beyond_the_model": explained.beyond_the_model,
        "sums_only": explained.sums_only,
        "exchanges": [
            {
                "when": one.when,
                "question": one.question,
                "reveals": one.reduce,
                "numbers": one.numbers,
                "bytes": one.bytes,
                "sends": [sent._asdict() for sent in one.sent],
            }
            for one in explained.exchanges
        ],
    }


def print_methods(methods: Sequence[tuple[Method, Explained]]) -> None:
    """Print every method with its notions, limits, exchanges, what it reveals, and its paper."""
    table = make_table(
        "Algorithms",
        *("", "notions", "groups", "asks", "beyond", "server sees", "paper"),
        wrap="paper",
    )
    for method, explained in methods:
        table.add_row(*_cells(method, explained))
    console = make_console()
    console.print(table)
    console.print(
        "\nasks: questions a round; beyond: numbers a client sends a round beside model and "
        "weight,\nfor two groups; after ...: a reconstruction. See fedfb explain ALGORITHM."
    )


def _cells(method: Method, explained: Explained) -> Sequence[str]:
    notions = " ".join(SHORT[name] for name in method.notions) if method.fair else "-"
    groups = "any" if method.most_groups is None else f"<= {method.most_groups}"
    paper = f"after {method.paper}" if method.reconstruction else method.paper
    seen = "sums" if explained.sums_only else "single"
    if method.is_pooled(method.variants[0]):
        seen = "all rows"
    rounds = str(len(explained.in_a_round))
    return method.name, notions, groups, rounds, str(explained.beyond_the_model), seen, paper
