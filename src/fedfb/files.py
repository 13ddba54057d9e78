"""Files: written completely or not at all, and read with a clear message for every fault.

fedfb writes every file with :func:`write_whole`. It reads its own files with :func:`read_json`,
:func:`read_toml`, :func:`read_text` or :func:`read_arrays`. A folder of results lists the digests
of its files in ``fedfb.sha256`` (:func:`seal`), and a file that has changed is refused.
``sha256sum -c fedfb.sha256`` makes the same check.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO

from fedfb.errors import DataError, WriteError, escape_controls

if TYPE_CHECKING:  # pathlib and numpy take longer to import than the rest of this file
    from pathlib import Path

    from fedfb.shapes import Array

SUMS = "fedfb.sha256"
"""The file in a folder of results that lists the digests of the other files."""

CHANGED = (
    *(KeyError, IndexError),  # a key or an item is missing
    *(TypeError, AttributeError),  # a value has another type
    *(ValueError, OverflowError),  # a value is out of range
    RecursionError,  # values are nested too deeply
)
"""What code raises on JSON or TOML that is well formed but not as fedfb wrote it."""


def say(sentence: str) -> None:
    """Write a sentence for the user to standard error; ignore a closed standard error."""
    import sys

    with suppress(OSError):
        sys.stderr.write(escape_controls(sentence) + "\n")


@contextmanager
def writing(path: "Path") -> Iterator[None]:
    """Turn a failure to write into an error that names the path."""
    try:
        yield
    except OSError as error:
        raise WriteError(
            f"cannot write to {path}: {error.strerror}. Make room there, or give a place that you "
            "may write to."
        ) from error


def make_folder(folder: "Path", mode: int = 0o777) -> None:
    """Create a folder, and raise an error now, before any training, if it cannot be written to."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True, mode=mode)
        probe = folder / ".partial"
        probe.touch()
        probe.unlink(missing_ok=True)  # another process may probe at the same time


def write_whole(path: "Path", content: str | bytes, mode: int = 0o666) -> None:
    """Write a temporary file, flush it to the disk and rename it to its path.

    A kill, a power failure or a full disk leaves the old file or the new file, and no other file.

    Args:
        path: path of the file; an existing file is replaced.
        content: the whole content; text is written as UTF-8.
        mode: permissions of the file; 0o600 lets only its owner read it.
    """
    with replacing(path, mode) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def replacing(path: "Path", mode: int = 0o666) -> "Iterator[BinaryIO]":
    """Open a temporary file; at the end flush it to the disk and rename it to its path.

    After an error the temporary file is gone, and an old file is as it was.

    Args:
        path: path of the file; an existing file is replaced.
        mode: permissions of the file.
    """
    aside = path.with_name(path.name + ".partial")
    with writing(path):
        try:
            aside.unlink(missing_ok=True)
            descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
        except BaseException:
            with suppress(OSError):  # the first error says more
                aside.unlink(missing_ok=True)
            raise
        # The rename itself is on the disk only when the folder is.
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_new(path: "Path", content: str | bytes, mode: int = 0o666) -> None:
    """Write a new file completely; raise FileExistsError if the file exists.

    The arguments are those of :func:`write_whole`.
    """
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
    except FileExistsError:
        raise
    except OSError:
        with writing(path):
            raise
    try:
        write_whole(path, content, mode)
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise


def write_json(path: "Path", content: Any) -> None:
    """Write JSON values into a folder of results, and list the digest of the file there."""
    import json

    text = json.dumps(content, indent=1, allow_nan=False)
    # The old digest goes first: after a kill the file is unlisted, not refused.
    _forget(path.parent, path.name)
    write_whole(path, text)
    seal(path.parent, [path.name])


def seal(folder: "Path", names: Iterable[str]) -> None:
    """Add the digests of files to the list in their folder.

    Args:
        folder: the folder of results.
        names: names of files in the folder.
    """
    digests = {name: _digest((folder / name).read_bytes()) for name in names}
    _write_sums(folder, {**_readable_sums(folder), **digests})


def unseal(folder: "Path") -> None:
    """Remove the list of digests of a folder whose files are about to change."""
    with writing(folder):
        (folder / SUMS).unlink(missing_ok=True)


def _forget(folder: "Path", name: str) -> None:
    sums = _readable_sums(folder)
    if sums.pop(name, None) is not None:
        _write_sums(folder, sums)


def _readable_sums(folder: "Path") -> dict[str, str]:
    """Return the digests of a folder; an unreadable list counts as empty."""
    try:
        return _sums(folder)
    except DataError:
        return {}


def _write_sums(folder: "Path", sums: Mapping[str, str]) -> None:
    write_whole(folder / SUMS, "".join(f"{digest}  {name}\n" for name, digest in sums.items()))


def _digest(content: bytes) -> str:
    from hashlib import sha256

    return sha256(content).hexdigest()


def _sums(folder: "Path") -> dict[str, str]:
    """Return the digests that a folder lists, by file name."""
    path = folder / SUMS
    try:
        text = path.read_bytes().decode()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read ({error}). {_REMEDY}") from error
    lines = [line.partition("  ") for line in text.splitlines()]
    if any(len(digest) != 64 or not name for digest, _, name in lines):
        raise DataError(f"{path} cannot be read: expected lines as sha256sum writes. {_REMEDY}")
    return {name: digest for digest, _, name in lines}


_REMEDY = "Restore it from a copy, or remove it: then nothing in its folder is compared."


_LARGEST = 1 << 40
"""Bytes of the largest file that is read as a whole, where no smaller number is given."""


def read_bytes(path: "Path", expected: str, sealed: bool = True, most: int = _LARGEST) -> bytes:
    """Return the content of a file; raise an error if its digest is not the listed one.

    Args:
        path: the file.
        expected: what the file should be and what the user can do; it ends the error message.
        sealed: whether the digest is checked. False for a file that users may change.
        most: bytes of the largest such file.
    """
    from stat import S_ISDIR, S_ISREG

    try:
        # A folder from a stranger may hold a pipe, at which reading waits for ever, or a device.
        # A pipe of the shell, such as /dev/fd/63, is named by the user.
        named = path.parts[1:2] in (("dev",), ("proc",))
        mode = (about := path.stat()).st_mode
        if not (S_ISREG(mode) or S_ISDIR(mode) or named):
            raise DataError(f"cannot read {path}: it is no ordinary file. Expected {expected}.")
        if about.st_size > most:
            raise DataError(
                f"cannot read {path}: it has {about.st_size} bytes, at most {most} are read. "
                f"Expected {expected}."
            )
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}. Expected {expected}.") from error
    digest = _sums(path.parent).get(path.name) if sealed else None
    if digest is not None and digest != _digest(content):
        raise DataError(
            f"{path} cannot be read: it has changed since fedfb wrote it (its SHA-256 is not the "
            f"one in {path.parent / SUMS}). Restore it from a copy or make it again; if the change "
            f"is intended, remove its line from {SUMS}."
        )
    return content


def read_text(path: "Path", expected: str, sealed: bool = True, most: int = _LARGEST) -> str:
    """Return the text of a file. The arguments are those of :func:`read_bytes`."""
    try:
        return read_bytes(path, expected, sealed, most).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(_malformed(path, "UTF-8 text", error, expected)) from error


def read_json(path: "Path", expected: str) -> Any:
    """Return the values of a JSON file. The arguments are those of :func:`read_bytes`."""
    import json

    text = read_text(path, expected)
    try:
        return json.loads(text)
    # ValueError: no JSON, or a number of too many digits. RecursionError: nested too deeply.
    except (ValueError, RecursionError) as error:
        raise DataError(_malformed(path, "JSON", error, expected)) from error


def read_toml(path: "Path", expected: str, sealed: bool = True) -> dict[str, Any]:
    """Return the values of a TOML file. The arguments are those of :func:`read_bytes`."""
    return toml_values(read_text(path, expected, sealed), path, expected)


def toml_values(text: str, where: "str | Path", expected: str) -> dict[str, Any]:
    """Return the values of a TOML text.

    Args:
        text: the TOML text.
        where: where the text comes from, for the error message.
        expected: what the text should be; it ends the error message.
    """
    import tomllib

    try:
        return tomllib.loads(text)
    # ValueError: no TOML, or a number of too many digits. RecursionError: nested too deeply.
    except (ValueError, RecursionError) as error:
        raise DataError(_malformed(where, "TOML", error, expected)) from error


def _malformed(where: "str | Path", form: str, error: BaseException, expected: str) -> str:
    return f"{where} cannot be read: it is not valid {form}: {error}. Expected {expected}."


@contextmanager
def interpreting(where: "str | Path", expected: str) -> Iterator[None]:
    """Turn an exception of code that reads changed values (CHANGED) into a clear error.

    Args:
        where: where the values come from, for the error message.
        expected: what the values should be; it ends the error message.
    """
    try:
        yield
    except CHANGED as error:
        raise DataError(
            f"{where} cannot be read: it is not as fedfb writes it ({error!r}). Expected "
            f"{expected}."
        ) from error


def pack_arrays(arrays: "Mapping[str, Array]") -> bytes:
    """Return named arrays as the bytes of an npz file.

    >>> import numpy as np
    >>> unpack_arrays(pack_arrays({"lam": np.array([0.5])}), "here", "arrays")
    {'lam': array([0.5])}
    """
    import io

    import numpy as np

    file = io.BytesIO()
    # Any: savez also takes a switch by keyword, so the type of ``**named`` cannot be narrower.
    named: dict[str, Any] = dict(arrays)
    np.savez(file, **named)
    return file.getvalue()


def read_arrays(path: "Path", expected: str) -> "dict[str, Array]":
    """Return the arrays of an npz file. The arguments are those of :func:`read_bytes`."""
    return unpack_arrays(read_bytes(path, expected), path, expected)


def unpack_arrays(content: bytes, where: "str | Path", expected: str) -> "dict[str, Array]":
    """Return the arrays in the bytes of an npz file, exactly as they were written, or raise.

    Each array is read completely and compared with its checksum before its header is used. A
    damaged header could otherwise make numpy stop before it reaches the checksum.

    Args:
        content: the bytes of the file.
        where: where the bytes come from, for the error message.
        expected: what the file should be; it ends the error message.
    """
    import io
    from tokenize import TokenError
    from zipfile import ZIP_STORED, BadZipFile, ZipFile

    try:
        with ZipFile(io.BytesIO(content)) as archive:
            parts = archive.infolist()
            if any(p.compress_type != ZIP_STORED or p.flag_bits & 1 for p in parts):
                raise ValueError("a part of it is compressed or encrypted")
            # Checked before reading: a false length may ask for more memory than exists.
            if any(p.file_size != p.compress_size for p in parts):
                raise ValueError("a part of it has two lengths")
            if sum(p.file_size for p in parts) > len(content):
                raise ValueError("its parts are longer than the file")
            raw = {p.filename.removesuffix(".npy"): archive.read(p) for p in parts}
        return {name: _array(d) for name, d in raw.items()}
    except (
        BadZipFile,  # not an archive, or a wrong checksum
        ValueError,  # no npy header, a wrong length, or Python objects, which are never read
        TypeError,  # a header with other values
        KeyError,  # a header without shape or type
        EOFError,  # a part that ends early
        OSError,  # an offset outside the file
        OverflowError,  # an impossible length
        RuntimeError,  # encrypted; nested too deeply; NotImplementedError: another version
        SyntaxError,  # a header that is not a Python literal
        TokenError,  # the same
        MemoryError,  # a shape larger than memory: only a false header has one
    ) as error:
        raise DataError(
            f"{where} cannot be read: it is not a whole npz file ({error}). Expected {expected}."
        ) from error


def _array(content: bytes) -> "Array":
    import io
    from math import prod

    from numpy.lib import format as npy

    file = io.BytesIO(content)
    read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    shape, _, dtype = read_header[npy.read_magic(file)](file)
    # numpy makes room for the declared shape before it reads: believe only the length of the rest.
    # An array without bytes may have any shape.
    elements = prod(shape)
    if elements * dtype.itemsize != len(content) - file.tell() or (elements and not dtype.itemsize):
        raise ValueError("an array is not as long as it declares")
    file.seek(0)
    return npy.read_array(file, allow_pickle=False)
