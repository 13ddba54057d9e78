"""Find published files: in a folder that the user names, or downloaded, checked and cached."""

import hashlib
import io
import os
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from fedfb.errors import DataError, unknown_name
from fedfb.files import write_whole

_UCI = "https://archive.ics.uci.edu/static/public"
_PROPUBLICA = (
    "https://raw.githubusercontent.com/propublica/compas-analysis/"
    "bafff5da3f2e45eca6c2d5055faad269defd135a"
)


@dataclass(frozen=True)
class Published:
    """A published file. ``members`` are the names to unpack, from the outer zip file inwards."""

    url: str
    sha256: str
    members: tuple[str, ...] = ()


FILES = {
    "adult.data": Published(
        f"{_UCI}/2/adult.zip",
        "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
        ("adult.data",),
    ),
    "adult.test": Published(
        f"{_UCI}/2/adult.zip",
        "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
        ("adult.test",),
    ),
    "bank-full.csv": Published(
        f"{_UCI}/222/bank+marketing.zip",
        "d1513ec63b385506f7cfce9f2c5caa9fe99e7ba4e8c3fa264b3aaf0f849ed32d",
        ("bank.zip", "bank-full.csv"),
    ),
    "compas-scores-two-years.csv": Published(
        f"{_PROPUBLICA}/compas-scores-two-years.csv",
        "c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d",
    ),
}


FILES_OF = {
    "adult": ("adult.data", "adult.test"),
    "bank": ("bank-full.csv",),
    "compas": ("compas-scores-two-years.csv",),
}
"""The files of each published data set."""


def refuse_missing(data_sets: Iterable[str]) -> None:
    """Refuse published data sets that are not available, all in one message."""
    missing: dict[str, dict[str, str]] = {}
    for name in data_sets:
        for filename in FILES_OF[name]:
            try:
                path_of(filename)
            except DataError as error:
                missing.setdefault(name, {})[filename] = str(error)
    if missing:
        reasons = [f"  {name}: {why}" for files in missing.values() for name, why in files.items()]
        raise DataError(
            f"nothing was trained: data are missing of {', '.join(missing)}.\n" + "\n".join(reasons)
        )


def path_of(filename: str) -> Path:
    """Return the path of a published file, in the folder FEDFB_DATA or else in the cache."""
    if filename not in FILES:
        raise DataError(unknown_name("published file", filename, FILES))
    folder = os.environ.get("FEDFB_DATA")
    if not folder:
        return _download(filename, FILES[filename])
    path = Path(folder) / filename
    if not path.is_file():
        raise DataError(
            f"FEDFB_DATA is {folder!r}, and there is no {filename} in it. Put the file there "
            f"(from {FILES[filename].url}), or unset FEDFB_DATA to download it."
        )
    _check(path, FILES[filename])
    return path


def _download(filename: str, published: Published) -> Path:
    import pooch  # imported here: most runs download nothing

    cache = Path(pooch.os_cache("fedfb"))
    path = cache / filename
    if path.is_file() and _hash_file(path) == published.sha256:
        return path
    known_hash = None if published.members else f"sha256:{published.sha256}"
    name = filename if known_hash else published.url.rsplit("/", 1)[1]
    try:
        archive = Path(pooch.retrieve(published.url, known_hash, fname=name, path=cache))
        if published.members:
            write_whole(path, _extract(archive.read_bytes(), published.members))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{filename} could not be downloaded from {published.url} ({error}). Download it by "
            "hand into a folder and set the environment variable FEDFB_DATA to that folder."
        ) from error
    _check(path, published)
    return path


def _extract(content: bytes, members: tuple[str, ...]) -> bytes:
    for member in members:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            content = archive.read(member)
    return content


def _check(path: Path, published: Published) -> None:
    sha256 = _hash_file(path)
    if sha256 != published.sha256:
        raise DataError(
            f"{path} is not the published file: its sha256 is {sha256}, expected "
            f"{published.sha256}. Download it again, unchanged, from {published.url}."
        )


def _hash_file(path: Path) -> str:
    status = path.stat()
    return _hash_version(path, status.st_mtime_ns, status.st_size)


@lru_cache
def _hash_version(path: Path, mtime_ns: int, size: int) -> str:
    # mtime and size are part of the key: a file that changed is read again.
    return hashlib.sha256(path.read_bytes()).hexdigest()
