"""Earlier studies of a client on the same rows, which the client's machine remembers.

The totals of two studies on the same rows whose clients differ show what the differing clients
sent, although each total alone shows no single client. The file holds no row: of each study a
sketch, the smallest of keyed hashes of the rows.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from fedfb.core import MINIMUM_ROWS
from fedfb.data.repeats import mix_columns
from fedfb.errors import ConfigError
from fedfb.files import interpreting, make_folder, read_text, write_whole, writing
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


def locate_past() -> Path:
    """Return the folder that remembers: in FEDFB_STATE, or in the user's folder for states."""
    usual = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(os.environ.get("FEDFB_STATE") or Path(usual) / "fedfb") / "studies"


KEY_FILE = "key"
"""The file of the secret number that is part of every hash."""


def read_key(folder: Path) -> int:
    """Return the secret number of a machine; draw it if there is none."""
    make_folder(folder, 0o700)
    if not (folder / KEY_FILE).exists():
        # Several clients may join at once: the file is complete from its first moment, and the
        # first one stays.
        with writing(folder), NamedTemporaryFile("w", dir=folder) as draft:
            draft.write(str(int.from_bytes(os.urandom(7), "big")))
            draft.flush()
            with suppress(FileExistsError):
                os.link(draft.name, folder / KEY_FILE)
    text = read_text(folder / KEY_FILE, _EXPECTED, sealed=False)
    with interpreting(folder / KEY_FILE, _EXPECTED):
        return int(text)


def read_past(folder: Path) -> list[PastStudy]:
    """Read the studies that a machine remembers, a file each: several clients may join at once."""
    studies = []
    for path in sorted(folder.glob("*.json")):
        text = read_text(path, _EXPECTED, sealed=False)
        with interpreting(path, f"{_EXPECTED}. Restore it; without it nothing is remembered"):
            studies.append(msgspec.json.decode(text, type=PastStudy))
    return studies


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
    folder = locate_past()
    now = describe_study(study, table, source, read_key(folder))
    problems = list(compare_past(now, read_past(folder)))
    if problems and not again:
        raise ConfigError(
            f"{'; '.join(problems)}. If its owners accept that, join with --again ({folder} "
            "remembers the studies of this machine)."
        )
    name = f"{study.seal[:32]}-{sha256(source.encode()).hexdigest()[:16]}.json"
    write_whole(folder / name, msgspec.json.encode(now), 0o600)
