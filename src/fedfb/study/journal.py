"""The journal of a study on disk, of the server and of each client: an SQLite file.

Totals of earlier exchanges, and the messages of the exchange in progress. A message is on the disk
before its answer leaves. A side that is killed and started again therefore goes on in the same turn
of the same sum: the program runs again on the totals, and the turns of the sum on the messages. No
exchange is answered twice in different ways. After a sum its messages, and the secrets behind them,
are deleted.

Also the log of events (one line of JSON each), and the folders of a study.
"""

import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from fedfb.core import Arrays
from fedfb.errors import ConfigError, DataError, WriteError
from fedfb.files import pack_arrays, read_text, unpack_arrays, writing
from fedfb.secure.encoding import pack

JOURNAL = "journal.sqlite"
"""The name of the journal in its folder."""

RESUME_HINT = "Then run the same command again: it continues where it stopped."
"""The end of an error about a folder that cannot be written to."""

_TABLES = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS totals (number INTEGER PRIMARY KEY, context BLOB NOT NULL,
  roster BLOB NOT NULL, survivors BLOB NOT NULL, content BLOB NOT NULL, ledger TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS messages (attempt INTEGER, turn INTEGER, sender INTEGER,
  content BLOB NOT NULL, answer BLOB NOT NULL, PRIMARY KEY (attempt, turn, sender));
CREATE TABLE IF NOT EXISTS memories (phase TEXT PRIMARY KEY, content BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS attestations (number INTEGER, client INTEGER, signature BLOB NOT NULL,
  PRIMARY KEY (number, client));
"""

DIGEST_BYTES = 32

EVIDENCE = "evidence"
"""The name of what shows the last total to clients."""

CLOSED = -1
"""The sender of the record that says that the server has closed a turn."""


class TotalRecord(NamedTuple):
    """The total of one exchange, as all sides know it.

    ``context`` is a hash of what was asked. ``roster`` and ``survivors`` are ids: who was invited,
    and who is in the total. ``content`` are the words of the sum, or the single uploads one after
    the other.
    """

    context: bytes
    roster: tuple[int, ...]
    survivors: tuple[int, ...]
    content: bytes


class Message(NamedTuple):
    """A message of the exchange in progress, and the answer to it."""

    turn: int
    sender: int
    content: bytes
    answer: bytes


class Journal:
    """The journal of one side. Threads may share it."""

    def __init__(self, folder: Path, seal: str) -> None:
        """Open the journal of a study, or make it.

        Args:
            folder: the folder of this side, which exists.
            seal: the study; the journal of another study is refused.
        """
        self.path, self._lock = folder / JOURNAL, threading.Lock()
        with self._errors():
            self._database = sqlite3.connect(self.path, check_same_thread=False)
            self.path.chmod(0o600)
            # A kill loses no commit. A power failure may lose the last ones, but none before a
            # commit that was made with ``flush``.
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = NORMAL")
            # Deleted secrets are overwritten.
            self._database.execute("PRAGMA secure_delete = ON")
            self._database.executescript(_TABLES)
        owner = self.fact("seal")
        if owner is None:
            self.state_fact("seal", seal.encode())
        elif owner != seal.encode():
            raise ConfigError(
                f"{folder} belongs to another study (seal {owner[:16]!r}, this one is "
                f"{seal[:16]}). Give another folder (--state), or move this one away."
            )

    def close(self) -> None:
        """Close the file; deleted secrets are overwritten now at the latest."""
        with self._lock, self._errors():
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._database.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise WriteError(
                f"cannot write to {self.path}: {error}. Make room there, or give a place that you "
                f"may write to. {RESUME_HINT}"
            ) from error
        except (sqlite3.Error, OSError, UnicodeDecodeError, OverflowError) as error:
            raise DataError(
                f"{self.path} cannot be read ({error}). Restore the folder from a copy. Without it "
                "this side cannot go on: make a new study."
            ) from error

    def _write(self, *statements: tuple[str, tuple[Any, ...]], flush: bool = False) -> None:
        """Carry out statements together, or none of them; ``flush``: wait for the disk."""
        with self._lock, self._errors():
            if flush:
                self._database.execute("PRAGMA synchronous = FULL")
            with self._database:
                for text, values in statements:
                    self._database.execute(text, values)
            if flush:
                self._database.execute("PRAGMA synchronous = NORMAL")

    def _read(self, text: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock, self._errors():
            return self._database.execute(text, values).fetchall()

    def _open(self, content: bytes, *beside: bytes) -> bytes:
        """Return what ``_guard`` guarded; refuse what has changed on the disk since."""
        digest, rest = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
        if _guard(rest, *beside)[:DIGEST_BYTES] != digest:
            raise DataError(
                f"{self.path} cannot be read: a record has changed since fedfb wrote it. Restore "
                "the folder from a copy. Without it this side cannot go on: make a new study."
            )
        return rest

    def fact(self, name: str) -> bytes | None:
        """Return a named value; None if it was not stated."""
        rows = self._read("SELECT value FROM facts WHERE name = ?", name)
        return rows[0][0] if rows else None

    def state_fact(self, name: str, value: bytes) -> None:
        """State a named value."""
        self._write(("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value)))

    def find_total(self, number: int) -> TotalRecord | None:
        """Return the total of an exchange; None if it has none yet."""
        rows = self._read(
            "SELECT context, roster, survivors, content FROM totals WHERE number = ?", number
        )
        if not rows:
            return None
        context, roster, survivors, content = rows[0]
        ids = read_ids(roster), read_ids(survivors)
        return TotalRecord(context, *ids, self._open(content, context, roster, survivors))

    def count_totals(self) -> int:
        """Return the number of exchanges that have a total."""
        return int(self._read("SELECT count(*) FROM totals")[0][0])

    def write_total(
        self,
        number: int,
        total: TotalRecord,
        ledger: str,
        memory: tuple[str, Arrays] | None = None,
        evidence: bytes = b"",
    ) -> None:
        """Write the total of the exchange in progress, and delete its messages.

        Args:
            number: the number of the exchange.
            total: the total.
            ledger: lines of the ledger about the exchange.
            memory: the phase, and what a client keeps for itself; None: nothing changed.
            evidence: of the server: what shows the total to clients; that of the last one is kept.
        """
        roster, survivors = (_as_bytes(ids) for ids in (total.roster, total.survivors))
        content = _guard(total.content, total.context, roster, survivors)
        values = (number, total.context, roster, survivors, content, ledger)
        statements: list[tuple[str, tuple[Any, ...]]] = [
            ("INSERT INTO totals VALUES (?, ?, ?, ?, ?, ?)", values),
            ("INSERT OR REPLACE INTO facts VALUES (?, ?)", (EVIDENCE, evidence)),
            ("DELETE FROM messages", ()),
            ("DELETE FROM facts WHERE name IN ('randomness', 'broadcast')", ()),
        ]
        if memory is not None:
            phase, arrays = memory
            content = _guard(pack_arrays(arrays))
            statements.append(("INSERT OR REPLACE INTO memories VALUES (?, ?)", (phase, content)))
        self._write(*statements)

    def ledger_lines(self) -> str:
        """Return the lines of the ledger of all exchanges with a total."""
        return "".join(row[0] for row in self._read("SELECT ledger FROM totals ORDER BY number"))

    def find_memory(self, phase: str) -> Arrays | None:
        """Return what a client kept for itself in a phase; None before its first total."""
        rows = self._read("SELECT content FROM memories WHERE phase = ?", phase)
        if not rows:
            return None
        return unpack_arrays(self._open(rows[0][0]), self.path, "a memory as fedfb keeps it")

    def messages(self, attempt: int) -> list[Message]:
        """Return the messages of an attempt in their order."""
        rows = self._read(
            "SELECT turn, sender, content, answer FROM messages WHERE attempt = ? "
            "ORDER BY turn, rowid",
            attempt,
        )
        return [Message(row[0], row[1], self._open(row[2]), row[3]) for row in rows]

    def last_attempt(self) -> int:
        """Return the number of the last attempt at the exchange in progress, from 1; 0: none."""
        return int(self._read("SELECT coalesce(max(attempt), 0) FROM messages")[0][0])

    def write_message(self, attempt: int, message: Message, flush: bool = False) -> None:
        """Write a message of the exchange in progress with its answer, before the answer leaves.

        Args:
            attempt: the number of the attempt.
            message: the message.
            flush: whether a power failure, too, must not lose it: from then on there is no way
                back for the sum.
        """
        turn, sender, content, answer = message
        values = (attempt, turn, sender, _guard(content), answer)
        self._write(("INSERT INTO messages VALUES (?, ?, ?, ?, ?)", values), flush=flush)

    def write_attestation(self, number: int, client: int, signature: bytes) -> None:
        """Write the signature of a client on all totals before an exchange."""
        values = (number, client, signature)
        self._write(("INSERT OR IGNORE INTO attestations VALUES (?, ?, ?)", values))

    def attestations(self, number: int) -> dict[int, bytes]:
        """Return the signatures on all totals before an exchange, by client."""
        text = "SELECT client, signature FROM attestations WHERE number = ?"
        return dict(self._read(text, number))


def _guard(content: bytes, *beside: bytes) -> bytes:
    """Return content after a digest of it, and of what is stored beside it."""
    return sha256(pack(content, *beside)).digest() + content


def _as_bytes(ids: tuple[int, ...]) -> bytes:
    return b"".join(id.to_bytes(4, "big") for id in ids)


def read_ids(content: bytes) -> tuple[int, ...]:
    """Return the numbers of clients, four bytes each."""
    return tuple(
        int.from_bytes(content[place : place + 4], "big") for place in range(0, len(content), 4)
    )


EVENTS = "events.jsonl"

COMMON = ("time", "event", "text")
"""The fields that every event has."""


@dataclass(frozen=True)
class Log:
    """The log of a study. Events go to ``path``, and their texts also to ``notify``."""

    path: Path
    notify: Callable[[str], None]

    def write(self, event: str, text: str, **values: Any) -> None:
        """Write an event.

        Args:
            event: the name of the event.
            text: a sentence for people.
            values: more fields of the event, for programs.
        """
        record = {"time": datetime.now(UTC).isoformat(), "event": event, "text": text, **values}
        # The line break comes first: it ends a line that a full disk has cut short.
        with writing(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write("\n" + json.dumps(record))
        self.notify(text)


def read_events(path: Path) -> list[dict[str, Any]]:
    """Read a log; a line that was cut short by a kill or a full disk is skipped."""
    if not path.exists():
        raise ConfigError(
            f"there is no log {path}: this study has not been served here. Start it: "
            "fedfb study serve study.toml."
        )
    events = []
    for line in read_text(path, "the log of a study as fedfb study serve writes it").splitlines():
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and all(isinstance(event.get(key), str) for key in COMMON):
            events.append(event)
    return events


def name_clients(names: tuple[str, ...], ids: Iterable[int]) -> str:
    """Return the names of clients for a sentence."""
    return ", ".join(names[id] for id in sorted(ids)) or "nobody"


RUN_FOLDER = "run"
"""The folder beside a study's file that holds the server's journal, log and result."""
