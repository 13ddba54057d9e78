"""Earlier studies of a client on the same rows, which the client's machine remembers.

The totals of two studies on the same rows whose clients differ show what the differing clients
sent, although each total alone shows no single client. The file holds no row: of each study a
sketch, the smallest of keyed hashes of the rows.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from fedfb.core import MINIMUM_ROWS
from fedfb.data.repeats import mix_columns
from fedfb.errors import ConfigError
from fedfb.files import interpreting, make_folder, read_text, write_whole
from fedfb.study.study import Study
from fedfb.tables.table import Table

SKETCH = 256
"""So many hashes are kept of the rows of a study."""

ALIKE = 0.3
"""Rows count as the same if this share of the kept hashes is common."""

_EXPECTED = "the list of this machine's studies as fedfb study join writes it"


class PastStudy(msgspec.Struct, frozen=True):
    """A study that this machine took part in: its seal, its clients and its rows."""

    seal: str
    name: str
    clients: tuple[str, ...]
    source: str
    hashes: tuple[Annotated[int, Meta(ge=0)], ...]


class _Past(msgspec.Struct, frozen=True):
    key: int
    studies: tuple[PastStudy, ...] = ()


def locate_past() -> Path:
    """Return the file that remembers: in FEDFB_STATE, or in the user's folder for states."""
    usual = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(os.environ.get("FEDFB_STATE") or Path(usual) / "fedfb") / "studies.json"


def read_past(path: Path) -> _Past:
    """Read the studies that a machine remembers; none if there is no file."""
    if not path.exists():
        return _Past(int.from_bytes(os.urandom(7), "big"))
    text = read_text(path, _EXPECTED, sealed=False)
    with interpreting(path, f"{_EXPECTED}. Restore it; without it nothing is remembered"):
        return msgspec.json.decode(text, type=_Past)


def describe_study(study: Study, table: Table, source: str, key: int) -> PastStudy:
    """Return what is remembered of a study: a sketch of the rows, and who took part.

    Args:
        study: the study.
        table: the client's rows.
        source: where the rows come from.
        key: the secret number of this machine, part of every hash.
    """
    columns = [np.full(len(table), key, np.uint64)]
    for column in study.schema.used:
        if column.name in table.columns and column.is_number:
            # Equal numbers in equal bits: -0.0 equals 0.0.
            columns.append((table.numbers(column.name) + 0.0).view(np.uint64))
        elif column.name in table.columns:
            words = table.text(column.name)
            hashes = [int.from_bytes(_hash(word), "big") for word in words.values]
            columns.append(words.look_up(hashes, np.uint64))
    smallest = np.unique(mix_columns(columns, len(table)))[:SKETCH]
    # A client's identity may be new in every study; its owner's name for it is what people compare.
    return PastStudy(study.seal, study.name, study.names, source, tuple(smallest.tolist()))


def _hash(word: str) -> bytes:
    from hashlib import sha256

    return sha256(word.encode()).digest()[:8]


def compare_past(now: PastStudy, past: Sequence[PastStudy]) -> Iterator[str]:
    """Yield a sentence for each earlier study on the same rows with other clients."""
    for study in past:
        if study.seal == now.seal or not _same_rows(study, now):
            continue
        others = set(study.clients) ^ set(now.clients)
        if others:
            yield (
                f"these rows took part in the study {study.name!r} (seal {study.seal[:16]}), whose "
                f"clients differ by {', '.join(sorted(others))}: both results together show what "
                f"{'this client' if len(others) == 1 else 'these clients'} sent"
            )


def _same_rows(one: PastStudy, other: PastStudy) -> bool:
    if one.source == other.source:
        return True
    # The smallest hashes of the union are a sample of it: the share of common ones estimates how
    # much the rows overlap (Broder 1997).
    union = sorted({*one.hashes, *other.hashes})[:SKETCH]
    common = len(set(one.hashes) & set(other.hashes) & set(union))
    return common >= ALIKE * len(union) and len(union) >= MINIMUM_ROWS


def check_past(study: Study, table: Table, source: str, again: bool) -> None:
    """Refuse a study on the rows of an earlier one with other clients, and remember this one.

    Args:
        study: the study.
        table: the client's rows.
        source: where the rows come from.
        again: the owner knows what both studies show together.
    """
    path = locate_past()
    past = read_past(path)
    now = describe_study(study, table, source, past.key)
    problems = list(compare_past(now, past.studies))
    if problems and not again:
        raise ConfigError(
            f"{'; '.join(problems)}. If its owners accept that, join with --again ({path} "
            "remembers the studies of this machine)."
        )
    if all(one.seal != now.seal for one in past.studies):
        make_folder(path.parent, 0o700)
        kept = msgspec.structs.replace(past, studies=(*past.studies, now))
        write_whole(path, msgspec.json.encode(kept), 0o600)
