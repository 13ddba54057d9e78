"""The ledger: every message that crossed the boundary, as one line of JSON for all who are alike.

A line says when, what, how large and how far the server can see into it; a line that begins a run
names the clients. Lines are only ever appended, so that a kill loses none: a run that goes on from
a checkpoint says after which round it does, and what stood there of later rounds is void, as they
are repeated. :func:`settle` writes the file anew without what is void.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from fedfb.errors import DataError
from fedfb.files import CHANGED, read_text, write_whole, writing

if TYPE_CHECKING:  # pathlib takes longer to import than the rest of this file
    from pathlib import Path

Way = Literal["up", "down"]

Seen = Literal["masked", "unmasked", "single", "no values", "public"]
"""What becomes of a message: what the method needs of it, and what the server receives.

``masked``: only the sum over clients comes out. ``unmasked``: a sum is all the method needs, but
the server receives each client's upload. ``single``: the method needs every client's value. ``no
values``: keys and shares of a client that fell silent before it uploaded. ``public``: what the
server itself sends.
"""

NEEDS_SUM: Mapping[Seen, bool] = MappingProxyType(
    {"masked": True, "unmasked": True, "single": False, "no values": True, "public": True}
)
"""Whether the sum of such messages is all that the method needs: a property of the method."""

RECEIVED_SUM: Mapping[Seen, bool] = MappingProxyType(
    {"masked": True, "unmasked": False, "single": False, "no values": True, "public": True}
)
"""Whether their sum is all that the server received: a property of the run. Without ``--secure``
the server receives each client's upload, whatever the method needs."""

NEEDED = ("the method needs only sums", "the method needs single values")
RECEIVED = ("the server received only sums", "the server received each client's upload")
"""The words for both, wherever they are said: what holds, and what does not."""

PHASES = ("data", "tune", "run", "achievable")
"""What a seed's messages belong to, in their order.

Preparing columns, tuning, the run itself, and in a study what fairness could be reached.
"""

EXPECTED = "lines of JSON as fedfb run --out writes them"
"""How a sentence about a ledger that cannot be read ends."""

NOTHING_DONE = -1
"""The round after which a run begins that has not even been set up; the set-up is round 0."""


class Entry(NamedTuple):
    """What some clients, alike in this, sent or were sent in one question.

    ``parts`` are the shapes of the arrays by name, ``messages`` the bytes of each message of one
    client by its kind.
    """

    round: int
    question: int
    task: str
    way: Way
    seen: Seen
    parts: Mapping[str, Sequence[int]]
    messages: Mapping[str, int]
    clients: Sequence[int]

    @property
    def bytes(self) -> int:
        """The bytes of one client."""
        return sum(self.messages.values())


Record = Callable[[Sequence[Entry]], None]
"""Write entries down."""


class Account(NamedTuple):
    """All messages of one seed in one phase, and the clients' names.

    The seed of the phase ``data`` is that of the split. ``privacy`` is what single rows were hidden
    by, and the epsilon of every silo.
    """

    phase: str
    seed: int
    clients: tuple[str, ...]
    entries: tuple[Entry, ...]
    privacy: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Ledger:
    """The file in which one seed of one phase writes down its messages, beside others."""

    path: "Path"
    phase: str
    seed: int
    clients: tuple[str, ...]
    privacy: Mapping[str, Any] | None = None

    def begin(self, after: int) -> None:
        """Say who the clients are, and that what follows comes after this round."""
        _append(self.path, [_beginning(self.phase, self.seed, after, self.clients, self.privacy)])

    def write(self, entries: Sequence[Entry]) -> None:
        """Append entries."""
        _append(self.path, [_line(self.phase, self.seed, entry) for entry in entries])


def _beginning(
    phase: str,
    seed: int,
    after: int,
    clients: Sequence[str],
    privacy: Mapping[str, Any] | None,
) -> dict[str, Any]:
    began = {"phase": phase, "seed": seed, "after": after, "clients": list(clients)}
    return began if privacy is None else {**began, "privacy": privacy}


def _line(phase: str, seed: int, entry: Entry) -> dict[str, Any]:
    return {"phase": phase, "seed": seed, **entry._asdict(), "clients": as_ranges(entry.clients)}


def _append(path: "Path", records: Iterable[Mapping[str, Any]]) -> None:
    # The line break comes first, so that a line which a kill cut short ends before the next one;
    # with a buffer for all of it, so that seeds on several threads do not write into each other's
    # lines, and what a disk without room cuts short is an error.
    content = "".join("\n" + _as_json(record) for record in records).encode()
    with writing(path), path.open("ab", buffering=len(content) + 1) as file:
        file.write(content)


def _as_json(record: Mapping[str, Any]) -> str:
    return json.dumps(record, separators=(",", ":"))


def as_ranges(numbers: Sequence[int]) -> str:
    """Write numbers as ranges.

    >>> as_ranges([0, 1, 2, 7, 9, 10])
    '0-2,7,9-10'
    """
    runs = groupby(enumerate(sorted(numbers)), key=lambda pair: pair[1] - pair[0])
    found = [[number for _, number in run] for _, run in runs]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in found)


def from_ranges(text: str, below: int) -> tuple[int, ...]:
    """Read numbers that :func:`as_ranges` wrote, all of them below a limit.

    >>> from_ranges("0-2,7", below=8)
    (0, 1, 2, 7)
    """
    ends = [part.partition("-") for part in text.split(",") if part]
    ranges = [range(int(first), int(last or first) + 1) for first, _, last in ends]
    if any(numbers.stop > below for numbers in ranges):
        raise ValueError(f"{text!r} goes beyond {below - 1}")
    return tuple(number for numbers in ranges for number in numbers)


def read_ledger(path: "Path") -> list[Account]:
    """Read a ledger, phase by phase and seed by seed, without rounds that were repeated later."""
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
        in_order = sorted(clients, key=lambda of: (PHASES.index(of[0]), of[1]))
    except CHANGED as error:
        raise DataError(
            f"the ledger {path} cannot be read ({error!r}). Expected {EXPECTED}."
        ) from error
    return [Account(*of, clients[of], tuple(entries[of]), privacy[of]) for of in in_order]


def _names(names: Any) -> tuple[str, ...]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"clients are {names!r}")
    return tuple(names)


def _entry(record: Mapping[str, Any], clients: int) -> Entry:
    """Return an entry, refusing values that no run writes; ``clients`` is how many there are."""
    entry = Entry(**{**record, "clients": from_ranges(record["clients"], clients)})
    numbers = [entry.round, entry.question, *entry.messages.values()]
    shapes = [list(shape) for shape in entry.parts.values()]
    if not all(type(number) is int for number in [*numbers, *(n for s in shapes for n in s)]):
        raise TypeError(f"a number is not whole in {record}")
    if entry.way not in get_args(Way) or entry.seen not in get_args(Seen):
        raise ValueError(f"unknown way {entry.way!r} or {entry.seen!r}")
    if not isinstance(entry.task, str):
        raise TypeError(f"a task is {entry.task!r}")
    return entry


def _records(path: "Path") -> Iterator[dict[str, Any]]:
    """Yield the records; a line that a kill cut short is the last, or a new beginning follows."""
    lines = [line for line in read_text(path, EXPECTED).split("\n") if line]
    for line, following in zip(lines, [*lines[1:], None], strict=True):
        try:
            yield json.loads(line)
        except ValueError:
            if following is not None and "after" not in json.loads(following):
                raise


def settle(path: "Path") -> None:
    """Write a ledger anew, in order and without what is void: whole, or as it was."""
    lines = [
        _as_json(record)
        for phase, seed, clients, entries, privacy in read_ledger(path)
        for record in (
            _beginning(phase, seed, NOTHING_DONE, clients, privacy),
            *(_line(phase, seed, entry) for entry in entries),
        )
    ]
    write_whole(path, "".join(line + "\n" for line in lines))
