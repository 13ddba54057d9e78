"""Reading Parquet files, with pyarrow where it is installed."""

from pathlib import Path

from fedfb.data.read import Cells, refuse_many_columns
from fedfb.data.values import cells_of
from fedfb.errors import DataError
from fedfb.extras import refuse_without
from fedfb.files import CHANGED

SUFFIXES = (".parquet", ".pq")


def read_parquet(path: str | Path) -> Cells:
    """Read a Parquet file as the text that a CSV file of the same values would hold."""
    refuse_without("parquet", f"the Parquet file {path}")
    import pyarrow
    from pyarrow import parquet

    try:
        names = parquet.read_schema(path).names
        refuse_many_columns(str(path), len(names))
        # As one file: the folders above it may look like a partitioned data set.
        table = parquet.ParquetFile(path).read()
        columns = [column.to_pylist() for column in table.columns]
    except FileNotFoundError:
        raise DataError(
            f"there is no file {str(path)!r}. Check the path, as seen from {str(Path.cwd())!r}."
        ) from None
    # ArrowException is what pyarrow finds wrong itself; values that are no text, dates or numbers
    # raise the others, and a length that nobody has a MemoryError.
    except (OSError, pyarrow.ArrowException, MemoryError, *CHANGED) as error:
        said = str(error).partition("\n")[0].rstrip(".")
        raise DataError(f"{path} cannot be read as Parquet: {said}. Write it anew.") from None
    return cells_of(str(path), names, columns)
