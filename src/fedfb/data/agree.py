"""The schema that a run goes by: the one declared in a file, or what the files themselves say."""

from collections.abc import Sequence

from fedfb.data.declare import Wanted
from fedfb.data.infer import Doubt, infer
from fedfb.data.read import Cells
from fedfb.data.schema import ColumnSchema, Schema
from fedfb.data.schema_file import read_schema
from fedfb.errors import ConfigError, DataError


def agreed_schema(
    files: Sequence[Cells], wanted: Wanted, declared: str | Schema | None = None
) -> Schema:
    """Return the schema declared (in a file), which flags must not contradict, or else infer it.

    What is doubtful in the files is an error: only a declaration settles it.
    """
    if declared is not None:
        schema = declared if isinstance(declared, Schema) else read_schema(declared)
        _refuse_contradictions(schema, wanted)
        return schema
    schema, doubts = infer(files, wanted)
    if doubts:
        raise DataError(f"{files[0].source}: {_in_words(doubts, schema)}")
    return schema


def _in_words(doubts: Sequence[Doubt], schema: Schema) -> str:
    """Tell all columns that are no features at once, or else the first of the others."""
    features = [doubt for doubt in doubts if schema.named[doubt.column].role == "ignored"]
    if not features:
        return str(doubts[0])
    told = "; ".join(f"column {doubt.column!r} {doubt.what}" for doubt in features)
    names = ",".join(doubt.column for doubt in features)
    return (
        f"{told}. Leave out what is no feature (--ignore '{names}'), or declare what it is in a "
        "schema (fedfb schema infer)."
    )


def _refuse_contradictions(schema: Schema, wanted: Wanted) -> None:
    for flag, given, declared in (
        ("label", wanted.label, schema.label.name),
        ("positive", wanted.positive, schema.label.positive),
        ("sensitive", wanted.sensitive, schema.crossed),
        ("client-column", wanted.client_column, schema.client),
    ):
        if given and given != declared:
            raise ConfigError(
                f"--{flag} says {_shown(given)} and the schema {schema.source} says "
                f"{_shown(declared)}. Leave the flag out, or change the schema."
            )
    for flag in ("ignore", "bins", "merge"):
        if getattr(wanted, flag):
            raise ConfigError(
                f"--{flag} and --schema both say what is done with columns. Write it into the "
                f"schema {schema.source}, and leave the flag out."
            )


def _shown(value: str | tuple[str, ...] | None) -> str:
    return ",".join(value) if isinstance(value, tuple) else repr(value)


def type_notes(schema: Schema) -> tuple[str, ...]:
    """Say in short how the columns were read."""
    numbers = [_with_scale(c) for c in schema.of("feature") if c.kind == "number"]
    others = [
        f"{c.name} ({len(c.categories)})" if c.categories else c.name
        for c in schema.of("feature")
        if c.kind != "number"
    ]
    ignored = [column.name for column in schema.of("ignored")]
    parts = (("numbers", numbers), ("categories", others), ("left out", ignored))
    return ("columns: " + "; ".join(f"{said} {_some(names)}" for said, names in parts if names),)


def _with_scale(column: ColumnSchema) -> str:
    said = "its range" if column.range else column.scale
    return column.name if said == "standard" else f"{column.name} ({said})"


def _some(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
