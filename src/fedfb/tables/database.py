"""Read tables and queries of PostgreSQL, SQLite and DuckDB as columns. Nothing is written there."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import UUID

from fedfb.errors import ConfigError, DataError
from fedfb.tables.address import Database
from fedfb.tables.cells import Cells, clean_names
from fedfb.tables.drivers import Relation, connect
from fedfb.tables.values import cells_of

_MANY = 20

_NO_CODE = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\$(\w*)\$.*?\$\1\$", re.DOTALL
)
"""Comments and quoted text of SQL."""

_READS = ("select", "with", "values", "table", "from", "(")
"""How a statement begins that only reads. A transaction that only reads refuses the rest."""

_UNFIT = {"money": "numeric", "oid": "bigint", "json": "text", "jsonb": "text"}
"""Types of PostgreSQL that look like numbers or words in Arrow, and what to convert them to."""


def read_database(source: Database) -> Cells:
    """Read a table or a query. A table is read in the order of its primary key."""
    with open_database(source) as rows:
        table = rows.reader.read_all()
    return cells_of_table(str(source), table)._replace(notes=rows.notes)


class OpenRows(NamedTuple):
    """Rows of a database: a reader of Arrow, their columns, and notes about their order."""

    reader: Any
    columns: list[str]
    notes: tuple[str, ...]


@contextmanager
def open_database(source: Database) -> Iterator[OpenRows]:
    """Ask for the rows of a table or a query, and keep the connection while they are read."""
    with connect(source.address, str(source)) as driver:
        if source.address.query is None:
            relation = _choose(driver.list_relations(), source)
            statement, note = _select(relation)
            if note:
                note = f"{source}: {note}"
        else:
            statement = check_query(source.address.query)
            note = "" if _is_ordered(statement) else f"{source}: {_UNORDERED_QUERY}"
        with driver.reading(statement) as reader:
            names = clean_names(reader.schema.names)
            _refuse_equal(str(source), names)
            yield OpenRows(reader, names, (note,) if note else ())


_UNORDERED_QUERY = (
    "the query has no ORDER BY. The database may return the same rows in another order, which "
    "changes the test rows and the result"
)
_UNORDERED_TABLE = (
    "the table has no primary key. Its rows come in the order in which they are stored, which may "
    "change the test rows and the result after an update; a query with ORDER BY settles it"
)


def _choose(relations: Sequence[Relation], source: Database) -> Relation:
    """Return the table that is named, or the only one. No name reaches SQL that is not listed."""
    wanted = source.address.tables
    listed = ", ".join(relation.name for relation in relations[:_MANY])
    listed += f" and {len(relations) - _MANY} more" if len(relations) > _MANY else ""
    place = str(replace(source, address=source.address.base))
    if not wanted:
        if len(relations) == 1:
            return relations[0]
        if not relations:
            raise DataError(f"{place} has no tables that this user may see.")
        example = replace(
            source.address, parameters=(*source.address.parameters, ("table", relations[0].name))
        )
        raise ConfigError(
            f"{place} has {len(relations)} tables: {listed}. Name one: '{example}', or give a "
            "query: --query 'select ...'."
        )
    for same in (str, str.casefold):
        matches = [r for r in relations if same(wanted[0]) in map(same, r.names)]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise ConfigError(
                f"{place} has several tables {wanted[0]!r}: "
                f"{', '.join(r.full_name for r in matches)}. Name one in full."
            )
    raise ConfigError(f"{place} has no table {wanted[0]!r}. It has: {listed or 'none'}.")


def _select(relation: Relation) -> tuple[str, str]:
    """Return the statement that reads a table, and a note if its order is not settled."""
    order = f" order by {', '.join(relation.order)}" if relation.order else ""
    note = "" if relation.is_settled else _UNORDERED_TABLE
    return f"select * from {relation.quoted}{order}", note


def check_query(query: str) -> str:
    """Return a query without its last semicolon. What does not read rows is refused.

    >>> check_query("select 1; -- done")
    'select 1'
    """
    # Quoted text becomes x of the same length, comments become spaces, so that places stay.
    code = _NO_CODE.sub(lambda m: (" " if m[0][:2] in ("--", "/*") else "x") * len(m[0]), query)
    code = code.rstrip().rstrip(";").rstrip()
    if ";" in code:
        raise ConfigError("--query takes one statement, and this one holds several. Give one.")
    first = re.match(r"\s*(\(|\w*)", code)
    word = "" if first is None else first[1].lower()
    if word not in _READS:
        raise ConfigError(
            f"--query begins with {word or 'nothing'!r}. It reads rows and changes nothing: "
            "expected one SELECT."
        )
    return query[: len(code)].strip()


def _is_ordered(query: str) -> bool:
    """Return whether a query has ORDER BY, in more than its parentheses."""
    code = _NO_CODE.sub(" ", query)
    while (outer := re.sub(r"\([^()]*\)", " ", code)) != code:
        code = outer
    return re.search(r"(?i)\border\s+by\b", code) is not None


def _refuse_equal(source: str, names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(
            f"{source}: two columns are named {twice[0]!r}. Name one of them otherwise: "
            f"select ... as other_{twice[0]}."
        )


def cells_of_table(source: str, table: Any) -> Cells:
    """Return a table of Arrow as cells. Values that no cell of a file can hold are refused."""
    from pyarrow import types

    columns = [
        _plain_values(source, f, c) for f, c in zip(table.schema, table.columns, strict=True)
    ]
    cells = cells_of(source, table.column_names, columns)
    for name, column in cells.columns.items():
        if types.is_temporal(column.data.type):
            try:
                column.words  # noqa: B018 - a date that Python cannot hold
            except (OverflowError, ValueError):
                raise DataError(
                    f"{source}, column {name!r}: a date or time outside the years 1 to 9999, such "
                    "as infinity. Replace it in a query."
                ) from None
    return cells


def _plain_values(source: str, field: Any, column: Any) -> Any:
    """Return a column without the types that drivers add; refuse what is no single value."""
    import pyarrow
    from pyarrow import types

    title = (field.metadata or {}).get(b"POSTGRESQL:type", b"").decode()
    if isinstance(field.type, pyarrow.BaseExtensionType):
        storage = [chunk.storage for chunk in column.chunks]
        column = pyarrow.chunked_array(storage, field.type.storage_type)
    if title == "uuid":
        cells = [None if cell is None else str(UUID(bytes=cell)) for cell in column.to_pylist()]
        return pyarrow.chunked_array([pyarrow.array(cells, pyarrow.string())])
    data = column.type
    unfit = (types.is_nested, types.is_binary, types.is_large_binary, types.is_fixed_size_binary)
    if title in _UNFIT or types.is_interval(data) or any(is_type(data) for is_type in unfit):
        cast = f'cast("{field.name}" as {_UNFIT.get(title, "text")})'
        raise DataError(
            f"{source}, column {field.name!r}: values of type {title or data} are not single "
            f"numbers, words or dates. Leave the column out by a query, or convert it: {cast}."
        )
    return column
