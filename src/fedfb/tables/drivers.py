"""One way to talk to PostgreSQL (ADBC), SQLite (Python's own) and DuckDB, for reading only."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from fedfb.errors import DataError
from fedfb.extras import refuse_without
from fedfb.tables.address import DUCKDB, SQLITE, Address
from fedfb.tables.cells import as_text

_BATCH = 10_000
_CONNECT_SECONDS = "15"


@dataclass(frozen=True)
class Relation:
    """A table or view: its name, as SQL quotes it, and the expressions that order its rows."""

    schema: str
    table: str
    is_visible: bool
    order: tuple[str, ...] = ()
    is_settled: bool = False

    @property
    def full_name(self) -> str:
        """Schema and table."""
        return f"{self.schema}.{self.table}" if self.schema else self.table

    @property
    def name(self) -> str:
        """The shortest name that finds the table."""
        return self.table if self.is_visible else self.full_name

    @property
    def names(self) -> tuple[str, ...]:
        """The names that find the table."""
        return (self.table, self.full_name) if self.is_visible else (self.full_name,)

    @property
    def quoted(self) -> str:
        """The name in SQL."""
        return ".".join(_quote(part) for part in (self.schema, self.table) if part)


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class Driver(Protocol):
    """A connection that only reads."""

    def list_relations(self) -> list[Relation]:
        """Return all tables and views that the user may see, by name."""
        ...

    def reading(self, statement: str) -> AbstractContextManager[Any]:
        """Give a reader of Arrow, which yields the rows of a statement in batches."""
        ...


@contextmanager
def connect(address: Address, source: str) -> Iterator[Driver]:
    """Connect to a database, and turn its errors into sentences without secrets.

    Args:
        address: the database.
        source: what messages call what is read.

    """
    make = {SQLITE: _connect_sqlite, DUCKDB: _connect_duckdb}.get(address.kind, _connect_server)
    with make(address, source) as driver:
        yield driver


def _refuse_absent(address: Address) -> None:
    if not Path(address.location).is_file():
        raise DataError(f"there is no file {address.location!r}, as seen from {str(Path.cwd())!r}.")


@dataclass(frozen=True)
class _Server:
    """PostgreSQL, in one transaction that only reads and sees one state of the database."""

    connection: Any

    def _rows(self, statement: str) -> list[dict[str, Any]]:
        with self.reading(statement) as reader:
            rows: list[dict[str, Any]] = reader.read_all().to_pylist()
        return rows

    def list_relations(self) -> list[Relation]:
        keys: dict[int, list[str]] = {}
        for row in self._rows(_KEYS):
            # A key of text is ordered by bytes, so that the order is that of every other database.
            name = _quote(row["name"]) + (' collate "C"' if row["is_text"] else "")
            keys.setdefault(row["id"], []).append(name)
        return [
            Relation(
                row["schema"],
                row["name"],
                row["is_visible"],
                tuple(keys.get(row["id"], ())),
                row["id"] in keys,
            )
            for row in self._rows(_RELATIONS)
        ]

    @contextmanager
    def reading(self, statement: str) -> Iterator[Any]:
        with closing(self.connection.cursor()) as cursor:
            cursor.execute(statement)
            yield cursor.fetch_record_batch()


_RELATIONS = """
select c.oid::bigint as id, n.nspname::text as schema, c.relname::text as name,
       pg_table_is_visible(c.oid) as is_visible
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p', 'v', 'm', 'f') and not c.relispartition
  and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
order by 2, 3"""

_KEYS = """
select i.indrelid::bigint as id, a.attname::text as name, a.attcollation <> 0 as is_text
from pg_index i cross join lateral unnest(i.indkey) with ordinality as k(number, place)
join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number
where i.indisprimary order by i.indrelid, k.place"""

_SESSION = (
    "set transaction isolation level repeatable read, read only",
    # Rows without an order come as they are stored, and sums of a query are added in one order.
    "set local synchronize_seqscans = off",
    "set local max_parallel_workers_per_gather = 0",
)


@contextmanager
def _connect_server(address: Address, source: str) -> Iterator[Driver]:
    refuse_without("sql", "reading PostgreSQL", "adbc_driver_manager", "adbc_driver_postgresql")
    import pyarrow
    from adbc_driver_manager import Error
    from adbc_driver_postgresql import dbapi

    hidden = dict(address.secrets)
    defaults = {"client_encoding": "UTF8"}
    if "PGCONNECT_TIMEOUT" not in os.environ:
        defaults["connect_timeout"] = _CONNECT_SECONDS
    pairs = {**defaults, **dict(address.base.parameters), **hidden}
    location = f"postgresql://{address.location}"
    uri = location + "?" + "&".join(f"{name}={quote(v, '')}" for name, v in pairs.items())
    try:
        connection = dbapi.connect(uri)
    except (Error, OSError) as error:
        raise DataError(
            f"{address.base} cannot be reached: {address.redact(_reason(error))}. Check host, "
            "port, database and user; the password comes from PGPASSWORD or ~/.pgpass."
        ) from None
    try:
        with closing(connection.cursor()) as cursor:
            for statement in _SESSION:
                cursor.execute(statement)
        yield _Server(connection)
    except (Error, OSError, pyarrow.ArrowException) as error:
        state = getattr(error, "sqlstate", None) or ""
        raise DataError(f"{source}: {address.redact(_reason(error))}. {_advise(state)}") from None
    finally:
        with suppress(Error, OSError):  # it was cut
            connection.close()


def _reason(error: BaseException) -> str:
    """Return what a driver says, without the statement, which may be long."""
    details = dict(getattr(error, "details", None) or ())
    primary = details.get(b"PG_DIAG_MESSAGE_PRIMARY") or details.get("PG_DIAG_MESSAGE_PRIMARY")
    text = primary.decode(errors="replace") if isinstance(primary, bytes) else str(error)
    text = text.partition("\n\nQuery was:")[0].rpartition("[libpq] ")[2]
    line = text.removeprefix("Failed to connect: ").strip().partition("\n")[0]
    return line.partition(". SQLSTATE")[0].strip().rstrip(".") or type(error).__name__


_ADVICE = {
    "42601": "Correct the query.",
    "42501": "Ask for the right to read it, or name another user.",
    "25006": "A query only reads: nothing was changed.",
    "42P01": "Check the names of tables in the query.",
    "42703": "Check the names of columns in the query.",
}


def _advise(state: str) -> str:
    """Return what to do about an error of PostgreSQL."""
    if state[:2] in ("", "08", "57"):
        return "The connection ended before all rows were read: run the command again."
    return _ADVICE.get(state, "Correct the query or the table.")


@dataclass(frozen=True)
class _SQLite:
    connection: sqlite3.Connection

    def list_relations(self) -> list[Relation]:
        rows = self.connection.execute(
            "select name, type from sqlite_master where type in ('table', 'view') "
            "and name not like 'sqlite\\_%' escape '\\' order by name"
        ).fetchall()
        return [Relation("", name, True, *self._find_order(name, kind)) for name, kind in rows]

    def _find_order(self, name: str, kind: str) -> tuple[tuple[str, ...], bool]:
        columns = self.connection.execute(f"pragma table_info({_quote(name)})").fetchall()
        key = sorted((place, title) for _, title, *_, place in columns if place)
        if key:
            return tuple(f"{_quote(title)} collate binary" for _, title in key), True
        if kind == "view":
            return (), False
        titles = {title.casefold() for _, title, *_ in columns}
        # A table without a primary key has a number for each row, in the order of their insertion.
        row = next((name for name in ("rowid", "oid", "_rowid_") if name not in titles), None)
        return ((row,), True) if row else ((), False)

    @contextmanager
    def reading(self, statement: str) -> Iterator[Any]:
        import pyarrow

        cursor = self.connection.execute(statement)
        names = [item[0] for item in cursor.description or ()]
        schema = pyarrow.schema([*zip(names, self._list_types(statement, len(names)), strict=True)])
        yield pyarrow.RecordBatchReader.from_batches(schema, _batches(cursor, schema))

    def _list_types(self, statement: str, width: int) -> list[Any]:
        """Return the type in Arrow of each column, whose cells may be of any type in SQLite."""
        import pyarrow

        # By number, as names of a query may be equal. All cells, as the last may be of other types.
        columns = [f"c{place}" for place in range(width)]
        kinds = ", ".join(_KINDS.format(c) for c in columns)
        # Within the statement this name hides a table of the same name, hence an unlikely one.
        name = '"the rows that fedfb reads"'
        query = f"with {name}({', '.join(columns)}) as ({statement}) select {kinds} from {name}"
        [row] = self.connection.execute(query).fetchall()
        types = {
            0: pyarrow.null(),
            11: pyarrow.int64(),
            12: pyarrow.int64(),
            20: pyarrow.float64(),
            21: pyarrow.float64(),
        }
        return [types.get(k, pyarrow.string() if k < 40 else pyarrow.binary()) for k in row]


_KINDS = (
    "10 * coalesce(max(case typeof({0}) when 'integer' then 1 when 'real' then 2 when 'text' "
    "then 3 when 'blob' then 4 end), 0) + coalesce(max(case typeof({0}) when 'integer' then 1 + "
    "({0} not between -9007199254740992 and 9007199254740992) end), 0)"
)
"""The widest type of a column, and whether there are whole numbers (1) that are no floats (2)."""


def _batches(cursor: sqlite3.Cursor, schema: Any) -> Iterator[Any]:
    import pyarrow
    from pyarrow import types

    while rows := cursor.fetchmany(_BATCH):
        arrays = []
        for field, values in zip(schema, zip(*rows, strict=True), strict=True):
            if types.is_binary(field.type):  # refused by its type
                values = (None,) * len(values)
            elif types.is_string(field.type):
                values = tuple(v if v is None or isinstance(v, str) else as_text(v) for v in values)
            arrays.append(pyarrow.array(values, field.type))
        yield pyarrow.record_batch(arrays, schema=schema)


@contextmanager
def _connect_sqlite(address: Address, source: str) -> Iterator[Driver]:
    _refuse_absent(address)
    import pyarrow

    try:
        with closing(_open_sqlite(Path(address.location).resolve())) as connection:
            yield _SQLite(connection)
    # pyarrow's: the query gives other values when it is asked again.
    except (sqlite3.Error, sqlite3.Warning, pyarrow.ArrowException) as error:
        raise DataError(f"{source}: {_reason(error)}. {_advise_file(error, 'SQLite')}") from None


def _open_sqlite(path: Path) -> sqlite3.Connection:
    """Open a file for reading. In WAL mode SQLite makes a file beside it, where it may."""
    try:
        return _begin(f"{path.as_uri()}?mode=ro")
    except sqlite3.OperationalError as error:
        if not error.sqlite_errorname.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY")):
            raise
    log = Path(f"{path}-wal")
    if log.exists() and log.stat().st_size:
        raise DataError(
            f"{path}: its last rows are in {log.name}, which SQLite reads only in a folder where "
            "it may make files. Copy both files into such a folder."
        )
    # Without that log the file is whole, and nobody is writing into it.
    return _begin(f"{path.as_uri()}?mode=ro&immutable=1")


def _begin(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, timeout=float(_CONNECT_SECONDS))
    try:
        connection.execute("pragma query_only = on")
        connection.execute("begin")  # all statements see one state
        connection.execute("select count(*) from sqlite_master")  # which is settled now
    except BaseException:
        connection.close()
        raise
    return connection


def _advise_file(error: BaseException, form: str) -> str:
    text = str(error).lower()
    if "readonly" in text or "read-only" in text:
        return "A query only reads: nothing was changed."
    if "not a database" in text or "corrupt" in text or "image is malformed" in text:
        return f"Expected a {form} file. Write it again."
    if "lock" in text:
        return "Another program is writing into the file: wait for it."
    return "Check the names of tables and columns, and the query."


@dataclass(frozen=True)
class _DuckDB:
    connection: Any

    def list_relations(self) -> list[Relation]:
        rows = self.connection.execute(_DUCKDB_RELATIONS).fetchall()
        return [
            Relation(
                schema,
                name,
                schema == "main",
                tuple(map(_quote, key)) if key else () if is_view else ("rowid",),
                not is_view,
            )
            for schema, name, is_view, key in rows
        ]

    @contextmanager
    def reading(self, statement: str) -> Iterator[Any]:
        rows = self.connection.sql(statement)
        # The second is what DuckDB before 1.4 has, and warns of afterwards.
        make = getattr(rows, "to_arrow_reader", None) or rows.fetch_arrow_reader
        yield make(_BATCH)


_DUCKDB_RELATIONS = """
select t.schema_name, t.table_name, false, c.constraint_column_names
from duckdb_tables() t left join duckdb_constraints() c
  on c.table_oid = t.table_oid and c.schema_oid = t.schema_oid
  and c.database_oid = t.database_oid and c.constraint_type = 'PRIMARY KEY'
where not t.internal
union all select schema_name, view_name, true, null from duckdb_views() where not internal
order by 1, 2"""


@contextmanager
def _connect_duckdb(address: Address, source: str) -> Iterator[Driver]:
    refuse_without("sql", "reading a DuckDB file", "duckdb")
    _refuse_absent(address)
    import duckdb
    import pyarrow

    # A query reads this file and no other one, and nothing is fetched from the network.
    config: dict[str, Any] = {
        "enable_external_access": "false",
        "autoinstall_known_extensions": "false",
    }
    try:
        with closing(duckdb.connect(address.location, read_only=True, config=config)) as connection:
            yield _DuckDB(connection)
    except (duckdb.Error, pyarrow.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0].rstrip(".!")
        raise DataError(f"{source}: {reason}. {_advise_file(error, 'DuckDB')}") from None
