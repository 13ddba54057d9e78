"""The ledger: every message between clients and server, as lines of JSON.

Clients with equal messages share a line. A line states when a message was sent, what it holds, its
size, and what the server can see of it. The first line of a run names the clients. Lines are only
appended, so a kill loses none. A run that continues from a checkpoint states after which round it
continues. Earlier lines of later rounds are then void, because these rounds are repeated.
:func:`settle_ledger` writes the file again without void lines.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from fedfb.errors import DataError
from fedfb.files import CHANGED, read_text, write_whole, writing

if TYPE_CHECKING:  # pathlib takes longer to import than the rest of this file
    from pathlib import Path

Way = Literal["up", "down"]

Visibility = Literal["masked", "unmasked", "single", "no values", "public"]
"""What the method needs of a message, and what the server receives.

``masked``: the server receives only the sum over clients. ``unmasked``: the method needs only a
sum, but the server receives each client's upload. ``single``: the method needs every client's
value. ``no values``: keys and shares of a client that dropped out before its upload. ``public``:
the server's own broadcast.
"""

NEEDS_SUM: Mapping[Visibility, bool] = MappingProxyType(
    {"masked": True, "unmasked": True, "single": False, "no values": True, "public": True}
)
"""Whether the method needs only the sum of such messages: a property of the method."""

RECEIVED_SUM: Mapping[Visibility, bool] = MappingProxyType(
    {"masked": True, "unmasked": False, "single": False, "no values": True, "public": True}
)
"""Whether the server received only the sum of such messages: a property of the run. Without
``--secure`` the server receives each client's upload, whatever the method needs."""

NEEDED = ("the method needs only sums", "the method needs single values")
RECEIVED = ("the server received only sums", "the server received each client's upload")
"""The words for both properties in reports: if the property holds, and if it does not."""

PHASES = ("data", "features", "tune", "run", "leave-out", "achievable")
"""The phases of a seed's messages, in their order.

They are the preparation of columns, the choice of features (two trainings), tuning, the run, the
trainings without some clients (their number follows the name), and in a study the achievable
fairness.
"""


def phase_kind(phase: str) -> str:
    """Return the phase without the number of its training.

    >>> phase_kind("leave-out-12"), phase_kind("run")
    ('leave-out', 'run')
    """
    return phase.rstrip("0123456789").removesuffix("-")


def _place(phase: str) -> tuple[int, int]:
    """Return the place of a phase; of trainings without clients, by their numbers."""
    kind = phase_kind(phase)
    return PHASES.index(kind), int(phase[len(kind) + 1 :] or 0)


EXPECTED_LEDGER = "lines of JSON as fedfb run --out writes them"
"""The end of the message about a ledger that cannot be read."""

NOTHING_DONE = -1
"""The last completed round of a run before its set-up; the set-up is round 0."""


class Entry(NamedTuple):
    """The equal messages of some clients in one exchange.

    ``question`` is the number of the exchange in the round. ``parts`` are the shapes of the arrays
    by name. ``messages`` are the bytes of each message of one client, by kind of message.
    """

    round: int
    question: int
    task: str
    way: Way
    seen: Visibility
    parts: Mapping[str, Sequence[int]]
    messages: Mapping[str, int]
    clients: Sequence[int]

    @property
    def bytes(self) -> int:
        """The bytes of one client."""
        return sum(self.messages.values())


Record = Callable[[Sequence[Entry]], None]
"""Write entries to a ledger."""


class Account(NamedTuple):
    """All messages of one seed in one phase, and the clients' names.

    The seed of the phase ``data`` is that of the split. ``privacy`` describes the noise that hides
    single rows, and the epsilon of every client.
    """

    phase: str
    seed: int
    clients: tuple[str, ...]
    entries: tuple[Entry, ...]
    privacy: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Ledger:
    """A ledger file, with the phase and the seed whose messages are written."""

    path: "Path"
    phase: str
    seed: int
    clients: tuple[str, ...]
    privacy: Mapping[str, Any] | None = None

    def begin(self, after: int) -> None:
        """Write the first line: the names of the clients, and the last completed round."""
        _append(self.path, [_beginning(self.phase, self.seed, after, self.clients, self.privacy)])

    def write(self, entries: Sequence[Entry]) -> None:
        """Append entries."""
        _append(self.path, [_line(self.phase, self.seed, entry) for entry in entries])


def format_lines(
    phase: str, seed: int, entries: Iterable[Entry], clients: Sequence[str] | None = None
) -> str:
    """Return entries as the lines of a ledger.

    Args:
        phase: the phase of the entries.
        seed: its seed.
        entries: the entries.
        clients: the names of the clients, where the entries are the first of their phase.
    """
    first = [] if clients is None else [_beginning(phase, seed, NOTHING_DONE, clients, None)]
    lines = [*first, *(_line(phase, seed, entry) for entry in entries)]
    return "".join(_as_json(line) + "\n" for line in lines)


def _beginning(
    phase: str,
    seed: int,
    after: int,
    clients: Sequence[str],
    privacy: Mapping[str, Any] | None,
) -> dict[str, Any]:
    line = {"phase": phase, "seed": seed, "after": after, "clients": list(clients)}
    return line if privacy is None else {**line, "privacy": privacy}


def _line(phase: str, seed: int, entry: Entry) -> dict[str, Any]:
    return {"phase": phase, "seed": seed, **entry._asdict(), "clients": as_ranges(entry.clients)}


def _append(path: "Path", records: Iterable[Mapping[str, Any]]) -> None:
    # The line break comes first: a line that a kill cut short then ends before the next line. The
    # buffer holds all lines: seeds on several threads do not mix their lines, and a full disk is
    # an error instead of a half-written line.
    content = "".join("\n" + _as_json(record) for record in records).encode()
    with writing(path), path.open("ab", buffering=len(content) + 1) as file:
        file.write(content)


def _as_json(record: Mapping[str, Any]) -> str:
    return json.dumps(record, separators=(",", ":"))


def as_ranges(numbers: Sequence[int]) -> str:
    """Return numbers as a text of ranges.

    >>> as_ranges([0, 1, 2, 7, 9, 10])
    '0-2,7,9-10'
    """
    runs = groupby(enumerate(sorted(numbers)), key=lambda pair: pair[1] - pair[0])
    blocks = [[number for _, number in run] for _, run in runs]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in blocks)


def from_ranges(text: str, below: int) -> tuple[int, ...]:
    """Return the numbers of a text of ranges; the inverse of :func:`as_ranges`.

    Args:
        text: the ranges.
        below: all numbers must be smaller; otherwise ValueError.

    >>> from_ranges("0-2,7", below=8)
    (0, 1, 2, 7)
    """
    ends = [part.partition("-") for part in text.split(",") if part]
    ranges = [range(int(first), int(last or first) + 1) for first, _, last in ends]
    if any(numbers.stop > below for numbers in ranges):
        raise ValueError(f"{text!r} goes beyond {below - 1}")
    return tuple(number for numbers in ranges for number in numbers)


def read_ledger(path: "Path") -> list[Account]:
    """Return the accounts of a ledger by phase and seed, without void lines."""
    clients: dict[tuple[str, int], tuple[str, ...]] = {}
    privacy: dict[tuple[str, int], Mapping[str, Any] | None] = {}
    entries: dict[tuple[str, int], list[Entry]] = {}
    try:
        for record in _records(path):
            of = record.pop("phase"), record.pop("seed")
            if "after" in record:
                clients[of], privacy[of] = _names(record["clients"]), record.get("privacy")
                entries[of] = [e for e in entries.get(of, []) if e.round <= record["after"]]
            else:
                entries[of].append(_entry(record, len(clients[of])))
        in_order = sorted(clients, key=lambda of: (*_place(of[0]), of[1]))
    except CHANGED as error:
        raise DataError(
            f"the ledger {path} cannot be read ({error!r}). Expected {EXPECTED_LEDGER}."
        ) from error
    return [Account(*of, clients[of], tuple(entries[of]), privacy[of]) for of in in_order]


def _names(names: Any) -> tuple[str, ...]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"clients are {names!r}")
    return tuple(names)


def _entry(record: Mapping[str, Any], clients: int) -> Entry:
    """Return an entry; refuse values that no run writes. ``clients`` is the number of clients."""
    entry = Entry(**{**record, "clients": from_ranges(record["clients"], clients)})
    numbers = [entry.round, entry.question, *entry.messages.values()]
    shapes = [list(shape) for shape in entry.parts.values()]
    if not all(type(number) is int for number in [*numbers, *(n for s in shapes for n in s)]):
        raise TypeError(f"a number is not whole in {record}")
    if entry.way not in get_args(Way) or entry.seen not in get_args(Visibility):
        raise ValueError(f"unknown way {entry.way!r} or {entry.seen!r}")
    if not isinstance(entry.task, str):
        raise TypeError(f"a task is {entry.task!r}")
    return entry


def _records(path: "Path") -> Iterator[dict[str, Any]]:
    """Yield the records. A line that a kill cut short is the last, or a new first line follows."""
    lines = [line for line in read_text(path, EXPECTED_LEDGER).split("\n") if line]
    for line, following in zip_longest(lines, lines[1:]):
        try:
            yield json.loads(line)
        except ValueError:
            if following is not None and "after" not in json.loads(following):
                raise


def settle_ledger(path: "Path") -> None:
    """Write a ledger again, in order and without void lines: completely, or not at all."""
    lines = [
        _as_json(record)
        for phase, seed, clients, entries, privacy in read_ledger(path)
        for record in (
            _beginning(phase, seed, NOTHING_DONE, clients, privacy),
            *(_line(phase, seed, entry) for entry in entries),
        )
    ]
    write_whole(path, "".join(line + "\n" for line in lines))
