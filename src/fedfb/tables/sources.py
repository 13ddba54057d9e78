"""Find the files of a --data value, and load their bytes: patterns, folders, databases, pipes."""

import glob
import os
import shlex
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from fedfb.errors import ConfigError, DataError
from fedfb.tables.address import (
    SUFFIXES,
    Address,
    Database,
    databases_of,
    hide,
    is_address,
    is_one_address,
    kind_by_magic,
    kind_of_file,
    read_address,
)

STDIN = "-"
PARQUET, ARROW, EXCEL = (".parquet", ".pq"), (".arrow", ".feather", ".ipc"), (".xlsx", ".xlsm")
_TEXT = (".csv", ".tsv", ".tab", ".txt", ".psv")
_COMPRESSED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}

_MAGIC = {
    b"PAR1": "Parquet",
    b"ARROW1": "Arrow",
    b"FEA1": "Arrow",
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bz2",
}
"""The first bytes of the forms that are read, whatever the name of the file is."""

_FOREIGN = {
    b"PK\x03\x04": "an Excel workbook or another zip file",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook (.xls)",
    b"%PDF": "a PDF file",
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF8": "a GIF picture",
    b"\xfd7zXZ": "an xz file",
    b"7z\xbc\xaf": "a 7z file",
    b"\x89HDF": "an HDF5 file",
    b"\x93NUMPY": "a file of numpy",
    b"\x7fELF": "a program",
    **dict.fromkeys((b"<html", b"<HTML", b"<!DOCTYPE", b"<!doctype"), "an HTML page"),
    b"<?xml": "an XML file",
    **dict.fromkeys((b"[{", b'{"', b"{\n"), "a JSON file"),
}


class Files(NamedTuple):
    """Files and tables in the order of their clients, and notes about what was not read."""

    paths: list[Path | Database]
    notes: tuple[str, ...] = ()


def join_patterns(patterns: Iterable[str]) -> str:
    """Return several paths and patterns as one value; a single one stays as it is.

    >>> join_patterns(["a/*.csv"]), join_patterns(["a b.csv", "c.csv"])
    ('a/*.csv', "'a b.csv' c.csv")
    """
    parts = [hide(part) for part in patterns]
    return parts[0] if len(parts) == 1 else " ".join(map(_quote, parts))


def _quote(part: str) -> str:
    """Quote a word for a shell, and every address, whose end is then plain."""
    quoted = shlex.quote(part)
    return f"'{part}'" if quoted == part and is_address(part) else quoted


def split_patterns(data: str) -> list[str]:
    """Return the paths and patterns of a value: one that matches as a whole, or words.

    >>> split_patterns("'no folder/*.csv' b.csv")
    ['no folder/*.csv', 'b.csv']
    """
    is_whole = data == STDIN or os.path.lexists(data) or is_one_address(data)
    if is_whole or glob.glob(data, recursive=True):
        return [data]
    try:
        return shlex.split(data) or [data]
    except ValueError:  # an apostrophe in the name of a file
        return [data]


def with_query(data: str, query: str | None) -> str:
    """Return the address of a database with a query in it; without a query the same data.

    >>> with_query("bank.sqlite", "select * from loans")
    'sqlite:///bank.sqlite?query=select%20%2A%20from%20loans'
    """
    if query is None:
        return data
    parts = split_patterns(data)
    if len(parts) > 1:
        raise ConfigError(
            f"--query asks one database, and {len(parts)} sources are named. Name one of them, or "
            "leave --query out."
        )
    [data] = parts
    if is_address(data):
        address = read_address(data)
        if address.tables or address.query:
            raise ConfigError(
                "--query and a table in --data are both given. Leave one of them out."
            )
        more = (*address.parameters, ("query", query))
        return str(Address(address.kind, address.location, more))
    kind = kind_of_file(data) or SUFFIXES.get(Path(data).suffix.lower())
    if kind is None:
        raise ConfigError(
            f"--query asks a database, and {data!r} is none. Expected postgresql://host/database, "
            "or a file of SQLite or DuckDB."
        )
    return str(Address(kind, data, (("query", query),)))


def describe_data(data: str) -> str:
    """Return a value as results name it: many paths are counted.

    >>> describe_data("a.csv b.csv c.csv d.csv")
    'a.csv b.csv and 2 more'
    """
    parts = split_patterns(data)
    more = f" and {len(parts) - 2} more" if len(parts) > 3 else ""
    return join_patterns(parts[:2]) + more if more else data


def find_files(data: str, test: str | None = None) -> Files:
    """Return the files of paths, patterns and folders, sorted by name.

    Args:
        data: one or several paths, patterns, folders or addresses; '-' is standard input.
        test: a file, or a table of a database, that must not be among them.

    """
    paths: dict[Path | Database, Path | Database] = {}
    notes: list[str] = []
    for pattern in split_patterns(hide(data)):
        for path in _find(pattern, notes):
            first = paths.setdefault(path if str(path) == STDIN else path.resolve(), path)
            if first != path:
                notes.append(f"{path} is the same as {first}, and is read once")
    if test is not None and is_address(test):
        if any(database.resolve() in paths for database in databases_of(test)):
            raise ConfigError(
                "the test rows are also training rows: --test and --data name the same table. "
                "Name another table, or leave --test out."
            )
    elif test is not None and Path(test).resolve() in paths:
        raise ConfigError(
            f"the test file {test!r} is also a training file of {hide(data)!r}. Move it elsewhere."
        )
    return Files(sorted(paths.values(), key=lambda path: (path.stem, str(path))), tuple(notes))


def _find(pattern: str, notes: list[str]) -> list[Path] | list[Database]:
    if is_address(pattern):
        return databases_of(pattern)
    path = Path(pattern)
    if pattern == STDIN or is_stream(path):
        return [path]
    if path.is_dir():
        return _list_folder(path, notes)
    matches = [pattern] if os.path.lexists(pattern) else glob.glob(pattern, recursive=True)
    for match in matches:
        if os.path.islink(match) and not os.path.exists(match):
            raise DataError(
                f"{match} is a link to {os.readlink(match)!r}, which does not exist. Correct the "
                "link, or remove it."
            )
    paths = [Path(match) for match in matches if Path(match).is_file()]
    if not paths:
        raise DataError(
            f"no file matches {pattern!r}, as seen from {str(Path.cwd())!r}. Expected the path "
            "of a CSV or Parquet file, a folder, a database, or a pattern such as 'clients/*.csv'."
        )
    return paths


def _list_folder(folder: Path, notes: list[str]) -> list[Path]:
    """Return the tables of a folder. Hidden files are skipped, and other files are noted."""
    try:
        entries = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise DataError(f"{folder} cannot be read: {error.strerror}.") from None
    tables = [path for path in entries if _is_table(path)]
    others = [path.name for path in entries if path not in tables]
    if not tables:
        content = f": it has {', '.join(others[:5])}" if others else ""
        raise DataError(
            f"the folder {folder} has no tables{content}. Expected CSV or Parquet files."
        )
    if others:
        more = f" and {len(others) - 5} more" if len(others) > 5 else ""
        notes.append(f"{folder}: not read, since they are no tables: {', '.join(others[:5])}{more}")
    return tables


def _is_table(path: Path) -> bool:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    known = (*_TEXT, *PARQUET, *ARROW, *EXCEL)
    if not suffixes or path.is_dir():
        return False
    # A picture folder of Windows has a Thumbs.db, which is no database.
    return suffixes[-1] in known or (suffixes[-1] in SUFFIXES and kind_by_magic(path) is not None)


def names_of(paths: Sequence[Path | Database]) -> tuple[str, ...]:
    """Name files by their stems, or by their paths where two have the same stem."""
    stems = [path.name.split(".csv.")[0] if ".csv." in path.name else path.stem for path in paths]
    stems = ["stdin" if stem == STDIN else stem for stem in stems]
    return tuple(stems if len(set(stems)) == len(stems) else map(str, paths))


def is_stream(path: Path) -> bool:
    """Return whether a path is a pipe, which can be read once."""
    if str(path) == STDIN:
        return True
    try:
        return stat.S_ISFIFO(path.stat().st_mode)
    except OSError:
        return False


def name_source(path: Path) -> str:
    """Return what messages call a file."""
    return "standard input" if str(path) == STDIN else str(path)


def form_of(path: Path) -> str | None:
    """Return the form of a file by its first bytes: see :func:`recognise`."""
    if is_stream(path):
        return recognise(path, load_bytes(path)[:16])
    with reading_file(path), path.open("rb") as file:
        return recognise(path, file.read(16))


def recognise(path: Path, first: bytes) -> str | None:
    """Return the form that first bytes show: Parquet, Arrow, Excel, gzip ..; or None."""
    if first.startswith(b"PK") and path.suffix.lower() in EXCEL:
        return "Excel"
    for magic, foreign in _FOREIGN.items():
        if first.startswith(magic):
            raise DataError(
                f"{name_source(path)} is {foreign}, not a table in text. Export it as CSV (UTF-8) "
                "or Parquet, or give it its usual suffix."
            )
    return next((form for magic, form in _MAGIC.items() if first.startswith(magic)), None)


@contextmanager
def reading_file(path: Path) -> Iterator[None]:
    """Turn a failure to read a file into an error that names it."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(
            f"there is no file {str(path)!r}. Check the path, as seen from {str(Path.cwd())!r}."
        ) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}. Expected a CSV file.") from None


def _standard_input() -> Any:
    """Return standard input as bytes; one that nobody writes to is refused."""
    if sys.stdin is None or sys.stdin.isatty():
        state = "closed" if sys.stdin is None else "a terminal"
        raise ConfigError(f"'-' reads standard input, which is {state}. Pipe a file into it.")
    return sys.stdin.buffer


@contextmanager
def opening(path: Path) -> Iterator[Any]:
    """Open a file, a pipe or standard input, to be read once from its beginning."""
    if str(path) == STDIN:
        yield _standard_input()
        return
    with reading_file(path):
        file = path.open("rb")
    with file:
        yield file


def load_bytes(path: Path, file: Any = None) -> bytes:
    """Return the bytes of a file, a pipe or standard input.

    Args:
        path: the path.
        file: the pipe, where it is open already and nothing of it was read.

    """
    if not is_stream(path):
        with reading_file(path):
            return path.read_bytes()
    # A pipe is read once: several seeds, and messages that name lines, need the rows again. To open
    # a named pipe a second time would wait for another writer.
    with reading_file(path):
        is_stdin = str(path) == STDIN
        place = os.fstat(_standard_input().fileno()) if is_stdin else path.stat()
    key = (path, place.st_dev, place.st_ino)
    if key not in _PIPES:
        with nullcontext(file) if file else opening(path) as pipe, reading_file(path):
            _PIPES[key] = pipe.read()
    return _PIPES[key]


_PIPES: dict[tuple[Path, int, int], bytes] = {}


def compression_of(path: Path, form: str | None) -> str | None:
    """Return the compression of a file, by its form or its name."""
    return form if form in _COMPRESSED.values() else _COMPRESSED.get(path.suffix.lower())


def decompress(path: Path, content: bytes, form: str | None) -> bytes:
    """Return bytes without compression, by their first bytes or the name of the file."""
    kind = compression_of(path, form)
    if kind is None:
        return content
    import pyarrow

    try:
        with pyarrow.CompressedInputStream(pyarrow.BufferReader(content), kind) as stream:
            data: bytes = stream.read()
            return data
    except (OSError, pyarrow.ArrowException) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise DataError(
            f"{name_source(path)} cannot be read as {kind}: {reason}. Write the file again."
        ) from None
