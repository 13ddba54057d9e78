"""The dialect of a text file: encoding, separator, and how numbers are written.

What is not declared is detected. Detection never guesses: where the cells allow two readings with
different values, the column stays undecided, and the reason names the flag that settles it.
"""

import codecs
import csv
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

from fedfb.errors import ConfigError, DataError, unknown_name

SEPARATORS = (",", ";", "\t", "|")
"""Separators that are detected."""

_WORDS = {
    "tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";", "bar": "|",
    "point": ".", "apostrophe": "'", "none": "", "\u2019": "'",
    "\xa0": " ", "\u2007": " ", "\u2009": " ", "\u202f": " ",
}  # fmt: skip
MARK_NAMES = {" ": "space", ",": "comma", ".": "point", "'": "apostrophe"}
"""What the marks in numbers are called."""


def _is_encoding(name: str) -> bool:
    try:
        return bool(codecs.lookup(name)._is_text_encoding)
    except (LookupError, ValueError):
        return False


@dataclass(frozen=True)
class Dialect:
    r"""How a text file writes rows and numbers; None: detected.

    ``thousands`` stands between groups of digits; a space is any space, '' is none. The values may
    be words, such as ``tab`` or ``space``. ``columns`` are names of columns in the file, each with
    the name that it has in other files.

    >>> Dialect(separator="tab", thousands="space")
    Dialect(separator='\t', decimal=None, thousands=' ', encoding=None, columns=None)
    """

    separator: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    columns: tuple[tuple[str, str], ...] | None = None

    def __post_init__(self) -> None:
        for name in ("separator", "decimal", "thousands"):
            value = getattr(self, name)
            object.__setattr__(self, name, _WORDS.get(value, value))
        separator = self.separator
        if separator is not None and (len(separator) != 1 or separator in '"\r\n'):
            raise ConfigError(
                f"--separator is {separator!r}, expected one character, such as ';', or tab."
            )
        if self.decimal not in (None, ".", ","):
            raise ConfigError(f"--decimal is {self.decimal!r}, expected '.' or ','.")
        if self.thousands not in (None, "", ".", ",", " ", "'"):
            raise ConfigError(
                f"--thousands is {self.thousands!r}, expected '.', ',', space, apostrophe or none."
            )
        if self.decimal is not None and self.decimal == self.thousands:
            raise ConfigError(
                f"--decimal and --thousands are both {self.decimal!r}. Give different marks."
            )
        if self.encoding is not None and not _is_encoding(self.encoding):
            raise ConfigError(
                f"--encoding: {self.encoding!r} is no encoding of text that Python knows. Expected "
                "a name such as utf-8, utf-16, cp1252, latin-1 or mac-roman."
            )

    def merge(self, other: "Dialect", source: str, place: str) -> "Dialect":
        """Return both declarations as one. Two that contradict each other are refused.

        Args:
            other: other declarations.
            source: the file that they are about.
            place: where the others stand, for the message.

        """
        merged = {}
        for name in _KEYS:
            mine, others = getattr(self, name), getattr(other, name)
            if mine is not None and others is not None and mine != others:
                raise ConfigError(
                    f"{source}: --{name} says {mine!r} and {place} says {others!r}. Leave the flag "
                    "out, or change the schema."
                )
            merged[name] = others if mine is None else mine
        return Dialect(**merged)


_KEYS = tuple(field.name for field in fields(Dialect))
FLAGS = _KEYS[:4]
"""What flags declare of all files, by name."""

DETECT = Dialect()
"""Nothing is declared."""

PLAIN = Dialect(",", ".", "", "utf-8")
"""The dialect of CSV files as programs write them. Nothing is detected."""


class Dialects(NamedTuple):
    """Declared dialects: of all files, and of files by name or pattern."""

    every: Dialect = DETECT
    files: tuple[tuple[str, Dialect], ...] = ()

    def of(self, source: object) -> Dialect:
        """Return the declarations about a file, or a table. Of several patterns the first decides.

        Args:
            source: its path, or what else names it in messages.

        """
        path = Path(str(source))
        for pattern, dialect in self.files:
            if path.name == pattern or fnmatch(path.name, pattern) or fnmatch(str(path), pattern):
                return self.every.merge(dialect, str(path), f'[files."{pattern}"] of the schema')
        return self.every


DETECT_ALL = Dialects()


def read_dialect(values: Mapping[str, Any]) -> Dialect:
    """Return the dialect of TOML values."""
    for key, value in values.items():
        if key not in _KEYS:
            raise ConfigError(unknown_name("key", key, _KEYS))
        if key != "columns" and not isinstance(value, str):
            raise ConfigError(f"{key} is {value!r}, expected text in quotes.")
    columns = values.get("columns", {})
    if not isinstance(columns, dict) or not all(isinstance(n, str) for n in columns.values()):
        raise ConfigError('columns is of the form { Income = "income" }.')
    return Dialect(**{**values, "columns": tuple(columns.items()) or None})


class Decoded(NamedTuple):
    """A file as UTF-8 without a byte order mark, its encoding, and a note if it was detected."""

    content: bytes
    encoding: str
    note: str = ""


_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def decode(source: str, content: bytes, encoding: str | None = None) -> Decoded:
    """Return a file as UTF-8. See :func:`detect_encoding`."""
    name, note = detect_encoding(source, content, encoding)
    if name == "utf-8" and encoding is None and not content.startswith(codecs.BOM_UTF8):
        return Decoded(content, name)  # detected by a look at all bytes
    return Decoded(_transcode(source, content, name), name, note)


class Encoding(NamedTuple):
    """The encoding of a text, and a note if it was detected."""

    name: str
    note: str = ""


def detect_encoding(source: str, content: bytes, encoding: str | None = None) -> Encoding:
    """Return the encoding of a file.

    Bytes that are not UTF-8 are read as cp1252 only if each of them is then a Western letter beside
    other letters, or a common sign in its place; the note shows a word.

    Args:
        source: name of the file, for messages.
        content: all bytes of the file, or those of its first lines.
        encoding: declared encoding; None: detected.

    """
    name = None if encoding is None else codecs.lookup(encoding).name
    for mark, marked in _MARKS:
        if content.startswith(mark) and name in (None, marked, marked[:6], f"{marked}-sig"):
            return Encoding(marked)
    if name is not None:
        return Encoding(name)
    wide = _detect_wide(content)
    if wide is not None:
        return Encoding(wide, f"{source}: encoding {wide}, detected (--encoding {wide})")
    place = find_no_utf8(content)
    if place is None:
        return Encoding("utf-8")
    line = content.count(b"\n", 0, place) + 1
    if not is_western(content):
        raise DataError(
            f"{source}, line {line}: not UTF-8. Save the file as UTF-8, or name its encoding. A "
            f"word there reads {_show_readings(content, place)}."
        )
    word = _word_around(content, place).decode("cp1252")
    note = (
        f"{source}, line {line}: not UTF-8, read as cp1252 (Windows), where a word reads {word!r}. "
        "If this is wrong, name the encoding: --encoding"
    )
    return Encoding("cp1252", note)


def _transcode(source: str, content: bytes, encoding: str) -> bytes:
    if encoding == "utf-8":
        content = content.removeprefix(codecs.BOM_UTF8)
        place = find_no_utf8(content)
        if place is not None:
            line = content.count(b"\n", 0, place) + 1
            raise DataError(f"{source}, line {line}: not UTF-8, as declared. {OTHER_ENCODING}")
        return content
    try:
        return content.decode(encoding).removeprefix("\ufeff").encode()
    except UnicodeError as error:
        start = getattr(error, "start", 0)
        line = content[:start].decode(encoding, "replace").count("\n") + 1
        raise DataError(f"{source}, line {line}: not {encoding}. {OTHER_ENCODING}") from None


OTHER_ENCODING = "Name the encoding of the file (--encoding, such as cp1252), or save it as UTF-8."


def _detect_wide(content: bytes) -> str | None:
    """Return UTF-16 or UTF-32 if NUL bytes are where these have them in most Western text."""
    head = content[:4096]
    if b"\0" not in head or len(content) % 2:
        return None
    empty = [head[place::4].count(0) * 4 / len(head) for place in range(4)]
    patterns = {"utf-32-le": "0111", "utf-32-be": "1110", "utf-16-le": "0101", "utf-16-be": "1010"}
    for name, pattern in patterns.items():
        expected = [(share > 0.7) if mark == "1" else (share < 0.05) for share, mark in
                    zip(empty, pattern, strict=True)]  # fmt: skip
        if all(expected):
            return name
    return None


def find_no_utf8(content: bytes) -> int | None:
    """Return the place of the first byte that is not UTF-8. Arrow checks without a copy."""
    import numpy as np
    import pyarrow

    ends = pyarrow.py_buffer(np.array([0, len(content)], np.int64))
    text = [None, ends, pyarrow.py_buffer(content)]
    try:
        pyarrow.Array.from_buffers(pyarrow.large_string(), 1, text).validate(full=True)
    except pyarrow.ArrowInvalid:
        try:
            content.decode()
        except UnicodeDecodeError as error:
            return error.start
    return None


_WESTERN = (
    rb"(?:[\x00-\x7f]"
    # Letters beside others, without those that are other letters in Turkish or Central Europe.
    rb"|(?:(?<=[A-Za-z])[L]|[L](?=[A-Za-z]))"
    rb"|(?<![A-Za-z])\x80(?![A-Za-z])"  # the euro sign
    rb"|(?<=[0-9 ])\xa0|(?<= )\x96(?= )|(?<=[A-Za-z])\x92(?=[a-z])|(?<=[A-Za-z])[\xb2\xb3])*+"
).replace(b"L", rb"\xc0-\xcf\xd1-\xd6\xd8-\xdc\xdf-\xef\xf1-\xf6\xf8-\xfc\xff")


def is_western(content: bytes) -> bool:
    r"""Return whether all bytes above ASCII are what Western European text has in cp1252.

    In mac-roman and the code pages of DOS accented letters are between 0x80 and 0x9f.

    >>> is_western("Näher".encode("cp1252")), is_western("Näher".encode("mac-roman"))
    (True, False)
    """
    return re.fullmatch(_WESTERN, content) is not None


def _word_around(content: bytes, place: int) -> bytes:
    begin = re.search(rb"[^\x00-\x2f\x3a-\x40]*\Z", content[max(place - 20, 0) : place])
    end = re.match(rb"[^\x00-\x2f\x3a-\x40]*", content[place : place + 20])
    return (begin[0] if begin else b"") + (end[0] if end else b"")


def _show_readings(content: bytes, place: int) -> str:
    word = _word_around(content, place)
    readings: dict[str, str] = {}
    for name in ("cp1252", "mac-roman", "cp850", "cp1250", "cp1251", "shift_jis", "gb18030"):
        try:
            text = word.decode(name)
        except UnicodeDecodeError:
            continue
        if all(unicodedata.category(character)[0] in "LMN" for character in text):
            readings.setdefault(text, name)
    shown = [f"{text!r} with --encoding {name}" for text, name in readings.items()]
    return ", ".join(shown) or f"{word!r} in bytes"


def detect_separator(lines: Sequence[str]) -> str:
    """Return the separator of the first lines of a file; quotes and all lines are considered.

    The one that makes most cells of the header decides, if other lines have as many cells. Else
    it is the one with the same number of cells, more than one, in most lines.
    """
    counts = {mark: [len(row) for _, row in split_lines(lines, mark)] or [0] for mark in SEPARATORS}
    by_header = max(SEPARATORS, key=lambda mark: counts[mark][0])
    agreement = {m: sum(n == c[0] for n in c[1:]) if c[0] > 1 else -1 for m, c in counts.items()}
    if agreement[by_header] * 2 >= len(counts[by_header]) - 1:
        return by_header
    if counts[by_header][0] == 1:  # a title: the rows below it decide
        agreement = {m: max(map(c[1:].count, {*c[1:]} - {1}), default=0) for m, c in counts.items()}
    best = max(SEPARATORS, key=lambda mark: (agreement[mark], counts[mark][0]))
    return best if agreement[best] > max(agreement[by_header], 0) else by_header


def split_lines(lines: Sequence[str], separator: str) -> list[tuple[int, list[str]]]:
    """Return the rows of some lines, each with the number of its last line; none if they fail."""
    try:
        reader = csv.reader(lines, delimiter=separator, skipinitialspace=True)
        return [(reader.line_num, row) for row in reader if row]
    except csv.Error:
        return []


def refuse_remark(source: str, rows: Sequence[tuple[int, Sequence[str]]]) -> None:
    """Refuse a title or a remark above the header: it has fewer cells than the rows below it.

    Args:
        source: name of the file.
        rows: first rows, each with its line.

    """
    if len(rows) <= _FEWEST_ROWS:
        return
    (line, head), *below = rows
    [(size, times)] = Counter(len(row) for _, row in below).most_common(1)
    whole = [place for place, row in below if len(row) == size and all(map(str.strip, row))]
    filled = [cell for cell in head if cell.strip()]
    is_short = len(head) < size and 5 * times >= 4 * len(below)
    is_alone = size > 2 and len(filled) == 1 and filled[0] == head[0] and bool(whole)
    if is_short or is_alone:
        header = f" (line {whole[0]}, it seems)" if whole and len(filled) < 2 else ""
        raise DataError(
            f"{source}, line {line}: {len(filled)} cells, expected {size} as in the rows below it. "
            f"Remove what stands above the header{header}, or complete the header."
        )


_FEWEST_ROWS = 3
"""Fewest rows below a header that show what it lacks."""
