"""Which files a pattern names, and what reads them."""

import glob
from pathlib import Path

from fedfb.data.parquet import SUFFIXES, read_parquet
from fedfb.data.read import Cells, read_cells
from fedfb.errors import ConfigError, DataError


def read_rows(path: str | Path, separator: str | None = None) -> Cells:
    """Read a file as text: Parquet by its ending, everything else as CSV."""
    if Path(path).suffix.lower() in SUFFIXES:
        return read_parquet(path)
    return read_cells(path, separator)


def paths_of(pattern: str, test: str | None = None) -> list[Path]:
    """Find the files of a pattern, sorted by client name; the test file must not be among them."""
    if Path(pattern).is_dir():
        raise DataError(f"{pattern!r} is a folder. Write '{pattern.rstrip('/')}/*.csv'.")
    literal = [pattern] if Path(pattern).is_file() else glob.glob(pattern, recursive=True)
    paths = [Path(path) for path in literal if Path(path).is_file()]
    if not paths:
        raise DataError(
            f"no file matches {pattern!r}, as seen from {str(Path.cwd())!r}. Expected the path "
            "of a CSV or Parquet file, or a pattern such as 'silos/*.csv' in quotes."
        )
    if test is not None and Path(test).resolve() in [path.resolve() for path in paths]:
        raise ConfigError(
            f"the test file {test!r} is also a training file of {pattern!r}. Move it elsewhere."
        )
    return sorted(paths, key=lambda path: (path.stem, str(path)))


def names_of(paths: list[Path]) -> tuple[str, ...]:
    """Call files by their stems, or by their paths where two have the same stem."""
    stems = [path.stem for path in paths]
    return tuple(stems if len(set(stems)) == len(stems) else map(str, paths))
