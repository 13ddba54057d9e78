"""Addresses of databases, as ``postgresql://user@host/db?table=loans``. Secrets are kept apart.

A password never stands in an experiment, a result, a ledger or a message: :func:`hide` takes it out
where an address enters, and keeps it in the memory of this process for the connection alone.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from glob import glob
from pathlib import Path
from urllib.parse import quote, unquote

from fedfb.errors import ConfigError, DataError

SERVER, SQLITE, DUCKDB = "postgresql", "sqlite", "duckdb"
_KINDS = {"postgres": SERVER, SERVER: SERVER, SQLITE: SQLITE, DUCKDB: DUCKDB}
SUFFIXES = {".sqlite": SQLITE, ".sqlite3": SQLITE, ".db": SQLITE, ".duckdb": DUCKDB}
"""Suffixes of database files."""

_MAGIC = {SQLITE: (0, b"SQLite format 3\0"), DUCKDB: (8, b"DUCK")}

_PUBLIC = frozenset(
    (
        *("table", "query", "host", "hostaddr", "port", "user", "dbname", "service", "options"),
        *("sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "passfile", "connect_timeout"),
        *("application_name", "client_encoding", "target_session_attrs", "channel_binding"),
        *("gssencmode", "krbsrvname", "keepalives", "keepalives_idle", "load_balance_hosts"),
    )
)
"""Parameters of an address that are shown. Every other one may be a secret."""

_START = re.compile(r"(^|[=,\s'\"(\[])([A-Za-z][A-Za-z0-9+.-]*)://")
_QUOTED = {
    "'": re.compile(r"""'((?:[^']|'"'"')*)'(?![^\s,;:.)\]}])"""),
    '"': re.compile(r""""((?:[^"\\]|\\.)*)"(?![^\s,;:.)\]}])"""),
}
"""Quoted text as a shell reads it, with the quotes that shlex writes within it."""
_HOSTS = re.compile(r"(?:\[[^\]]*\]|[^:/\s]*)(?::\d*)?(?:,|/|$)")
_PARAMETERS = re.compile(r"\?(?=\w+=)")
_CONNINFO = re.compile(r"(?i)\b((?:ssl)?password\s*=\s*)('(?:[^'\\]|\\.)*'|\S+)")
_SQL = re.compile(r"(?i)\s*(?:--query=)?\s*(?:select|with|values|from)\b")
"""How a query begins. A comparison with a column named password is no secret."""
_SECRET_USER = 20

# The only state of a module in the library: an address must lose its secrets where it enters, and
# gets them back where the connection is made; what lies between writes it to files and messages.
_secrets: dict[str, dict[str, str]] = {}


@dataclass(frozen=True)
class Address:
    """A database and what is read of it: tables by name, or a query; neither: its only table."""

    kind: str
    location: str
    parameters: tuple[tuple[str, str], ...] = ()

    @property
    def tables(self) -> list[str]:
        """The tables that the address names."""
        return [value for name, value in self.parameters if name == "table"]

    @property
    def query(self) -> str | None:
        """The query that the address holds."""
        return dict(self.parameters).get("query")

    @property
    def base(self) -> "Address":
        """The database alone."""
        rest = tuple(pair for pair in self.parameters if pair[0] not in ("table", "query"))
        return Address(self.kind, self.location, rest)

    @property
    def secrets(self) -> Mapping[str, str]:
        """User, password and other parameters that are not shown."""
        return _secrets.get(str(self.base), {})

    def __str__(self) -> str:
        """Return the address without secrets."""
        place = self.location if self.kind == SERVER else f"/{quote(self.location, safe='/*[]')}"
        pairs = "&".join(f"{name}={quote(value, safe='/,')}" for name, value in self.parameters)
        return f"{self.kind}://{place}" + (f"?{pairs}" if pairs else "")

    def redact(self, message: str) -> str:
        """Return a message of a driver without the secrets of this address."""
        values = {form for v in self.secrets.values() if v for form in (v, quote(v), quote(v, ""))}
        for value in sorted(values, key=len, reverse=True):
            message = message.replace(value, "***")
        return hide(message, remember=False)


def hide(text: str, remember: bool = True) -> str:
    """Return text without the secrets of the addresses in it, which this process remembers.

    An address ends with its quotes, if it stands in some, as in several values of one text.

    >>> hide("--data=postgresql://ann:p%40ss@host/bank?table=loans&sslpassword=x")
    '--data=postgresql://ann@host/bank?table=loans'
    >>> hide("clients/*.csv")
    'clients/*.csv'
    """
    starts = list(_START.finditer(text))
    if not starts:
        return text if _SQL.match(text) else _CONNINFO.sub(r"\1***", text)
    limits = [match.start() for match in starts[1:]] + [len(text)]
    parts, end = [], 0
    for match, limit in zip(starts, limits, strict=True):
        if match.start() < end:  # in the quotes of the one before
            continue
        quoted = _QUOTED[match[1]].match(text, match.start()) if match[1] in _QUOTED else None
        parts.append(text[end : match.start()])
        if quoted is None:
            size = _measure(text[match.end() : limit])
            end = match.end() + size
            parts.append(match[1] + _hide_one(match[2], text[match.end() : end], remember))
        else:
            end = quoted.end()
            is_plain = match[1] == "'"
            word = quoted[1].replace("'\"'\"'", "'") if is_plain else _ESCAPE.sub(r"\1", quoted[1])
            shown = _hide_one(match[2], word[len(match[2]) + 3 :], remember)
            shown = shown.replace("'", "'\"'\"'") if is_plain else _MARKS.sub(r"\\\g<0>", shown)
            parts.append(match[1] + shown + match[1])
    return "".join(parts) + text[end:]


_ESCAPE, _MARKS = re.compile(r'\\([\\"$`])'), re.compile(r'[\\"$`]')
"""Characters with a backslash in double quotes, and those that need one."""


def _measure(text: str) -> int:
    """Return where an address without quotes ends. Spaces before its last @ are of its password."""
    if _PARAMETERS.search(text):
        return len(text.rstrip())
    space = re.search(r"\s", text[text.rfind("@") + 1 :])
    return len(text) if space is None else text.rfind("@") + 1 + space.start()


def _hide_one(scheme: str, rest: str, remember: bool) -> str:
    kind = _KINDS.get(scheme.lower().partition("+")[0])
    if kind is None:
        # Not an address of ours, but a password in it is one all the same.
        return f"{scheme}://" + re.sub(r"^([^/@:]*):[^/]*@", r"\1@", rest)
    if kind != SERVER:
        return f"{scheme}://{rest}"
    address, secrets = _take_apart(rest)
    if secrets and remember:
        _secrets[str(address.base)] = secrets
    return str(address)


def _take_apart(rest: str) -> tuple[Address, dict[str, str]]:
    """Return an address of a server, and its secrets. A password may hold any character."""
    split = _PARAMETERS.search(rest)
    head, tail = (rest, "") if split is None else (rest[: split.start()], rest[split.end() :])
    if "@" in tail and "@" not in head and not _HOSTS.match(head):
        head, tail = rest, ""
    login, _, location = head.rpartition("@")
    user, _, password = (unquote(part) for part in login.partition(":"))
    pairs = [("user", user), ("password", password), *_read_pairs(tail)]
    public = [pair for pair in pairs if not _is_secret(*pair)]
    shown_user = next((value for name, value in public if name == "user" and value), "")
    secrets = {name: value for name, value in pairs if value and (name, value) not in public}
    location = re.sub(r"[\s'\"]", lambda mark: quote(mark[0]), location)
    location = f"{quote(shown_user, '')}@{location}" if shown_user else location
    return Address(SERVER, location, tuple(p for p in public if p[0] != "user")), secrets


def _read_pairs(text: str) -> Iterator[tuple[str, str]]:
    for part in filter(None, text.split("&")):
        name, _, value = part.partition("=")
        yield unquote(name), unquote(value)


def _is_secret(name: str, value: str) -> bool:
    if name != "user":
        return name not in _PUBLIC
    # A token in place of a user: long, of letters and digits.
    mixed = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    return len(value) >= _SECRET_USER and mixed


def keep_secrets(secrets: Mapping[str, dict[str, str]]) -> None:
    """Remember what :func:`hide` took out in the process that started this one."""
    _secrets.update(secrets)


def copy_secrets() -> dict[str, dict[str, str]]:
    """Return what :func:`hide` took out, for a process that this one starts."""
    return dict(_secrets)


def is_address(text: object) -> bool:
    """Return whether a text names a database by a URL of any kind.

    >>> is_address("postgresql://host/db"), is_address("clients/*.csv")
    (True, False)
    """
    match = _START.match(text) if isinstance(text, str) else None
    return match is not None and not match[1]


def is_one_address(text: str) -> bool:
    """Return whether a text is one address, not words of which the first one is an address."""
    if not is_address(text) or len(_START.findall(text)) > 1:
        return False
    if not re.search(r"\s", text):
        return True
    scheme, _, rest = text.partition("://")
    path = unquote(rest.partition("?")[0][1:])
    is_file = _KINDS.get(scheme.lower()) in (SQLITE, DUCKDB)
    return is_file and (Path(path).exists() or bool(glob(path, recursive=True)))


def read_address(text: str) -> Address:
    """Read the address of a database.

    >>> read_address("sqlite:///bank/loans.db?table=loans")
    Address(kind='sqlite', location='bank/loans.db', parameters=(('table', 'loans'),))
    """
    scheme, _, rest = hide(text).partition("://")
    kind = _KINDS.get(scheme.lower().partition("+")[0])
    if kind is None:
        raise ConfigError(
            f"{scheme}:// is not read. Expected postgresql://host/database?table=NAME, "
            "sqlite:///FILE or duckdb:///FILE; of another database write the rows into a CSV or "
            "Parquet file."
        )
    if kind == SERVER:
        return _take_apart(rest)[0]
    location, _, tail = rest.partition("?")
    if not location.startswith("/"):
        raise ConfigError(
            f"{scheme}://{location}: three slashes precede the path of a file ({kind}:///loans.db) "
            f"and four an absolute one ({kind}:////data/loans.db)."
        )
    pairs = tuple(_read_pairs(tail))
    for name, _ in pairs:
        if name not in ("table", "query"):
            raise ConfigError(f"a {kind} file has no parameter {name!r}. Expected table or query.")
    return Address(kind, unquote(location[1:]), pairs)


def kind_of_file(path: str | Path) -> str | None:
    """Return which database a file is, by its first bytes or else its suffix; None: neither."""
    path = Path(path)
    if not path.is_file():  # a pipe is not a database, and reading it would take its bytes
        return None
    return kind_by_magic(path) or SUFFIXES.get(path.suffix.lower())


def kind_by_magic(path: Path) -> str | None:
    """Return which database a file is by its first bytes; None: neither, or it is unreadable."""
    try:
        with path.open("rb") as file:
            head = file.read(16)
    except OSError:
        return None
    for kind, (place, magic) in _MAGIC.items():
        if head[place : place + len(magic)] == magic:
            return kind
    return None


@dataclass(frozen=True)
class Database:
    """A source of rows in a database: one table, one query, or the only table that there is."""

    address: Address
    stem: str = field(compare=False)

    @property
    def name(self) -> str:
        """The name of the source in a report."""
        return self.stem

    def resolve(self) -> "Database":
        """Return the source with the absolute path of its file: equal sources have equal rows."""
        if self.address.kind == SERVER:
            return self
        location = str(Path(self.address.location).resolve())
        return replace(self, address=replace(self.address, location=location))

    def __str__(self) -> str:
        """Return what messages call the source."""
        is_server = self.address.kind == SERVER
        place = str(self.address.base) if is_server else self.address.location
        names = ", ".join(self.address.tables)
        return place + (f", table {names}" if names else ", query" if self.address.query else "")


def databases_of(text: str) -> list[Database]:
    """Return the sources of an address: each of its tables is a client's, or each of its files.

    >>> [source.stem for source in databases_of("postgresql://host/bank?table=north&table=south")]
    ['north', 'south']
    """
    address = read_address(text)
    if address.tables and address.query:
        raise ConfigError("an address holds a table or a query, not both. Leave one of them out.")
    if address.kind == SERVER:
        stem = re.sub(r".*/", "", address.location) or "database"
        return [_name_source(address, table, stem) for table in address.tables or (None,)]
    place = address.location
    files = [place] if Path(place).exists() else sorted(glob(place, recursive=True))
    if not files:
        raise DataError(f"there is no file {place!r}, as seen from {str(Path.cwd())!r}.")
    return [
        _name_source(replace(address, location=file), table, Path(file).stem)
        for file in files
        for table in address.tables or (None,)
    ]


def _name_source(address: Address, table: str | None, stem: str) -> Database:
    several = len(address.tables) > 1 or address.kind == SERVER
    if table is not None:
        rest = tuple(pair for pair in address.parameters if pair[0] != "table")
        address = replace(address, parameters=(*rest, ("table", table)))
    return Database(address, table if table is not None and several else stem)


def find_source(source: str | Path | Database) -> Path | Database:
    """Return the file of rows, or the table of a database, that a path or an address names."""
    if isinstance(source, Database):
        return source
    if is_address(source):
        sources = databases_of(str(source))
        if len(sources) != 1:
            raise ConfigError(f"{source} names {len(sources)} tables, expected one.")
        return sources[0]
    kind = kind_of_file(source)
    path = Path(source)
    return path if kind is None else Database(Address(kind, str(path)), path.stem)
