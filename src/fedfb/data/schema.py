"""A schema: role, type and treatment of each column. It is public: all clients agree on it."""

from dataclasses import dataclass
from itertools import pairwise, product
from typing import Literal

from fedfb.data.dates import Dates, check_quantity, read_format
from fedfb.data.derive import Bins, Blank, Derived, Merge
from fedfb.data.groups import group_name, place_value
from fedfb.errors import ConfigError
from fedfb.tables.dialect import Dialect
from fedfb.tables.table import number_as_text

Role = Literal["label", "sensitive", "client", "feature", "ignored"]
Kind = Literal["number", "category", "yes-no", "date"]
Missing = Literal["mean", "category", "refuse", "drop"]
Scale = Literal["standard", "robust", "clip"]


@dataclass(frozen=True)
class ColumnSchema:
    """One column: its role, its type and its treatment.

    ``kind`` is the ``type`` of the schema file. ``categories`` are the values that may occur.
    ``missing`` is the treatment of an empty cell; 'drop' leaves the row out. ``scale`` and
    ``range`` belong to numeric features; a declared range replaces what is learnt from rows.
    ``bins`` (the upper ends of ranges) belong to sensitive columns. ``merge`` (a new name and the
    values that it replaces) belongs to all but numbers that are features. ``blank`` are cells that
    count as missing. ``why`` is the reason why a column is ignored. ``quantity`` and ``format``
    belong to dates: the number that is derived from a date (the key ``as``), and the last day of
    2024 as the files write it.
    """

    name: str
    role: Role
    kind: Kind
    categories: tuple[str, ...] = ()
    missing: Missing = "refuse"
    scale: Scale = "standard"
    range: tuple[float, ...] = ()
    bins: tuple[float, ...] = ()
    merge: tuple[tuple[str, tuple[str, ...]], ...] = ()
    positive: str = ""
    why: str = ""
    quantity: str = ""
    format: str = ""
    blank: tuple[str, ...] = ()

    @property
    def is_number(self) -> bool:
        """Whether the column is a number once dates are derived."""
        return self.kind in ("number", "date")

    @property
    def derived(self) -> tuple[Derived, ...]:
        """The rules for the column's values: dates become numbers, then bins, then merging."""
        dates = Dates(self.name, self.name, self.quantity, self.format)
        binned = Bins(self.name, self.name, self.bins, bin_names(self.bins))
        pairs = [(value, new) for new, values in self.merge for value in values]
        merged = Merge(self.name, self.name, *(tuple(part) for part in zip(*pairs, strict=True)))
        first: list[Derived] = [dates] if self.kind == "date" else []
        if self.blank:
            first.insert(0, Blank(self.name, self.name, self.blank))
        return (*first, *([binned] if self.bins else []), *([merged] if pairs else []))

    @property
    def group_values(self) -> tuple[str, ...]:
        """The values after the rules: numbers and ranges from low to high, new names of merged."""
        new_names = {value: new for new, values in self.merge for value in values}
        raw = bin_names(self.bins) or sorted(self.categories, key=place_value)
        return tuple(dict.fromkeys(new_names.get(value, value) for value in raw))


@dataclass(frozen=True)
class Schema:
    """All columns, in the order in which features reach the model.

    ``crossed`` are the sensitive columns, in the order of group names. ``client`` is the column
    that names the client; it may be a sensitive column too. ``source`` is the name in messages.
    ``files`` are the declared dialects of files, by name or pattern. ``steps`` says whether numbers
    get steps at their quantiles (``--features``); a schema file does not say it.
    """

    columns: tuple[ColumnSchema, ...]
    crossed: tuple[str, ...]
    client: str | None = None
    source: str = "the schema"
    files: tuple[tuple[str, Dialect], ...] = ()
    steps: bool = False

    def of(self, role: Role) -> tuple[ColumnSchema, ...]:
        """Return the columns of one role."""
        return tuple(column for column in self.columns if column.role == role)

    @property
    def used(self) -> tuple[ColumnSchema, ...]:
        """All columns but the ignored ones."""
        return tuple(column for column in self.columns if column.role != "ignored")

    @property
    def label(self) -> ColumnSchema:
        """The column to predict."""
        return self.of("label")[0]

    @property
    def derived(self) -> tuple[Derived, ...]:
        """The rules that derive groups, label and dates from the cells of files."""
        columns = (*self.of("sensitive"), *self.of("label"), *self.of("feature"))
        return tuple(rule for column in columns for rule in column.derived)

    @property
    def group_names(self) -> tuple[str, ...]:
        """All groups that may occur, in declared order; empty if some are undeclared."""
        values = [self.named[name].group_values for name in self.crossed]
        return tuple(group_name(self.crossed, cells) for cells in product(*values))

    @property
    def named(self) -> dict[str, ColumnSchema]:
        """The columns by name."""
        return {column.name: column for column in self.columns}


def bin_names(edges: tuple[float, ...]) -> tuple[str, ...]:
    """Return the names of the ranges with these upper ends.

    >>> bin_names((25.0, 40.0))
    ('up to 25', 'over 25 to 40', 'over 40')
    """
    ends = [number_as_text(edge) for edge in edges]
    if not ends:
        return ()
    between = [f"over {low} to {high}" for low, high in pairwise(ends)]
    return (f"up to {ends[0]}", *between, f"over {ends[-1]}")


def check_declarations(schema: Schema) -> None:
    """Refuse a schema with parts that contradict each other."""
    roles: tuple[Role, ...] = ("label", "client")
    for role in roles:
        if len(schema.of(role)) > 1:
            names = ", ".join(column.name for column in schema.of(role))
            raise ConfigError(f"only one column can be the {role}, got {names}.")
    if not schema.of("label"):
        raise ConfigError('no column is the label: give one the role "label".')
    if not schema.of("sensitive"):
        raise ConfigError('no column is sensitive: give at least one the role "sensitive".')
    if sorted(schema.crossed) != sorted(column.name for column in schema.of("sensitive")):
        raise ConfigError(
            f"crossed is {list(schema.crossed)}, expected the sensitive columns, in any order."
        )
    if not schema.label.positive:
        raise ConfigError(f"the label {schema.label.name!r} needs its favourable value: positive.")
    for column in schema.columns:
        check_column(column)


def check_column(column: ColumnSchema) -> None:
    """Refuse a column whose declarations contradict each other."""
    merges = () if column.is_number else ("merge",)
    allowed = {"sensitive": ("bins", "merge"), "label": ("merge",), "feature": merges}.get(
        column.role, ()
    )
    for rule in ("bins", "merge"):
        if getattr(column, rule) and rule not in allowed:
            raise ConfigError(
                f"column {column.name!r} is {column.role} ({column.kind}): bins make groups of "
                "sensitive columns, and merge is for these, the label and categories."
            )
    _check_date(column)
    if column.scale != "standard" and (column.role, column.is_number) != ("feature", True):
        raise ConfigError(
            f"column {column.name!r}: scale belongs to features of the types number and date only."
        )
    if column.range:
        _check_range(column)
    usual = "mean" if column.is_number else "category"
    allowed_missing = ("refuse", usual if column.role == "feature" else "drop")
    if column.missing not in allowed_missing:
        raise ConfigError(
            f"column {column.name!r}: missing = {column.missing!r} does not fit the role "
            f"{column.role} and the type {column.kind}. Numbers take 'mean', categories "
            "'category', everything 'refuse'; label, sensitive and client take 'drop' too."
        )
    if column.is_number and column.categories:
        raise ConfigError(f"column {column.name!r}: numbers have no categories. Leave them out.")
    if column.is_number and column.role in ("label", "client"):
        raise ConfigError(f"column {column.name!r}: a {column.role} is of the type category.")
    if column.is_number and column.role == "sensitive" and not column.bins:
        raise ConfigError(
            f"column {column.name!r} is sensitive and of the type {column.kind}: its ranges "
            "make the groups, and have to be declared: bins = [25, 40, 65], say."
        )
    if not column.is_number and column.bins:
        raise ConfigError(f"column {column.name!r}: bins need the type number or date.")
    if list(column.bins) != sorted(set(column.bins)):
        raise ConfigError(
            f"column {column.name!r}: the bins are {list(column.bins)}, expected numbers that rise."
        )
    _check_merge(column)


def _check_date(column: ColumnSchema) -> None:
    if column.kind != "date":
        if column.quantity or column.format:
            raise ConfigError(f"column {column.name!r}: as and format belong to the type date.")
        return
    try:
        check_quantity(column.quantity)
        read_format(column.format)
    except ConfigError as error:
        raise ConfigError(f"column {column.name!r} is a date, and {error}") from None


def _check_range(column: ColumnSchema) -> None:
    if (column.role, column.is_number, column.scale) != ("feature", True, "standard"):
        raise ConfigError(
            f"column {column.name!r}: a range belongs to features of the type number, and takes "
            'the place of what scale = "robust" or "clip" would learn.'
        )
    if len(column.range) != 2 or not column.range[0] < column.range[1]:
        raise ConfigError(
            f"column {column.name!r}: the range is {list(column.range)}, expected its two ends, "
            "such as [17, 90]."
        )


def _check_merge(column: ColumnSchema) -> None:
    merged = [value for _, values in column.merge for value in values]
    values_in_use = bin_names(column.bins) or column.categories
    for value in merged:
        if merged.count(value) > 1:
            raise ConfigError(f"column {column.name!r}: {value!r} is merged twice.")
        if values_in_use and value not in values_in_use:
            raise ConfigError(
                f"column {column.name!r}: {value!r} is to be merged and does not occur. The "
                f"values are {', '.join(values_in_use)}."
            )
