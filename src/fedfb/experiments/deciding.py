"""Decide rows with a saved model, part by part, and write the decisions."""

import csv
import io
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from fedfb.core import Prediction
from fedfb.data.encode import Unknown, encode_cells, raw_columns
from fedfb.errors import ConfigError
from fedfb.experiments.run_folder import SavedModel
from fedfb.files import replacing
from fedfb.tables.address import Database
from fedfb.tables.dialect import DETECT, Dialect
from fedfb.tables.stream import read_parts

COLUMNS = ("score", "decision")
"""The columns of the output, after those that are copied."""

_PARQUET = (".parquet", ".pq")


class Decided(NamedTuple):
    """Decisions on some rows, the copied columns in Arrow, and what training did not have.

    ``notes`` are sentences about how the rows were read.
    """

    prediction: Prediction
    copies: dict[str, Any]
    unknown: Unknown
    notes: tuple[str, ...]


class Total(NamedTuple):
    """How many rows were decided, the rows with what training did not have, and notes."""

    rows: int
    unknown: dict[str, Counter[str]]
    notes: tuple[str, ...]


def decide_parts(
    model: SavedModel,
    path: str | Path | Database,
    copied: Sequence[str] = (),
    client: str | None = None,
    dialect: Dialect = DETECT,
) -> Iterator[Decided]:
    """Decide the rows of a file, part by part.

    Args:
        model: the model.
        path: a CSV or Parquet file, or a database; '-' is standard input.
        copied: columns to copy.
        client: the client whose model decides, where each client has a model.
        dialect: how a text file is written, where it is not detected.

    """
    for name in COLUMNS:
        if name in copied:
            raise ConfigError(
                f"--keep {name}: the output has a column {name!r} already. Rename the column of "
                "the file, or leave it out."
            )
    for part in read_parts(path, raw_columns(model.encoder), copied, dialect):
        rows = encode_cells(model.encoder, part.cells)
        yield Decided(model.predict(rows, client), part.copies, rows.unknown, rows.notes)


def write_decisions(parts: Iterator[Decided], out: Path | None) -> Total:
    """Write decisions as CSV or, by the suffix, as Parquet. After an error there is no file.

    Args:
        parts: the decisions.
        out: the file; None: standard output.

    """
    is_parquet = out is not None and out.suffix.lower() in _PARQUET
    rows, unknown, notes = 0, dict[str, Counter[str]](), dict[str, None]()
    writer: Any = None
    with nullcontext() if out is None else replacing(out) as file:
        for part in parts:
            score, decision = part.prediction.score[0], part.prediction.decision[0]
            if is_parquet:
                writer = _write_parquet(writer, file, part.copies, score, decision)
            else:
                lines = _write_csv(part.copies, score, decision, with_header=not rows)
                # A notebook's stdout takes text only.
                sys.stdout.write(lines.decode()) if file is None else file.write(lines)
            rows += len(score)
            for name, counts in part.unknown.items():
                unknown.setdefault(name, Counter()).update(counts)
            notes |= dict.fromkeys(part.notes)
        if writer is not None:
            writer.close()
    return Total(rows, unknown, tuple(notes))


def _write_parquet(
    writer: Any, file: Any, copies: dict[str, Any], score: Any, decision: Any
) -> Any:
    """Write rows, and return the writer, which is made with the first rows."""
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table({**copies, COLUMNS[0]: score, COLUMNS[1]: decision})
    if writer is None:
        writer = parquet.ParquetWriter(file, table.schema)
    writer.write_table(table.cast(writer.schema))
    return writer


def _write_csv(copies: dict[str, Any], score: Any, decision: Any, with_header: bool) -> bytes:
    from fedfb.tables.cells import as_text

    lines = io.StringIO(newline="")
    writer = csv.writer(lines, lineterminator="\n")
    if with_header:
        writer.writerow([*copies, *COLUMNS])
    columns = [[as_text(value) for value in column.to_pylist()] for column in copies.values()]
    scores = [f"{value:.6f}" for value in score.tolist()]
    decisions = [f"{value:g}" for value in decision.tolist()]
    writer.writerows(zip(*columns, scores, decisions, strict=True))
    return lines.getvalue().encode()


def describe_unknown(unknown: dict[str, Counter[str]], rest: str | None = None) -> Iterator[str]:
    """Yield a sentence for the groups, and for each column, that hold what training did not have.

    Args:
        unknown: rows of each value, by column; '' stands for the groups.
        rest: name of the group that unknown groups count as; None: there is none.

    >>> list(describe_unknown({"town": Counter(ham=2)}))
    ["2 rows have a value of 'town' that training did not have (ham): it counts as no category"]
    """
    rule = "decided without group, at the plain threshold"
    if rest is not None:
        rule = f"it counts as {rest!r}, which small groups were merged into"
    for name, counts in unknown.items():
        if not counts:
            continue
        rows, most = (
            counts.total(),
            ", ".join(value or "missing" for value, _ in counts.most_common(5)),
        )
        values = most + (f" and {len(counts) - 5} more" if len(counts) > 5 else "")
        has = f"{rows} row{'s have' if rows > 1 else ' has'}"
        yield (
            f"{has} a value of {name!r} that training did not have ({values}): it counts as no "
            "category"
            if name
            else f"{has} a group that training did not have ({values}): {rule}"
        )
