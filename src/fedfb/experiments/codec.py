"""Results as JSON, and JSON as results: the one codec of all of them.

A field without a default is always written, as null where there is no value; a field with a default
is written only where it has another value.
"""

import json
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from fedfb.errors import DataError
from fedfb.experiments.result import Comparison, Frontier, Result
from fedfb.experiments.seed_result import Value

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = 2
"""The version of the JSON. It grows with every change that an older reader would not understand."""

WHAT_TO_DO = "Run it again with this version, or open it with the version that wrote it"


Document = TypeVar("Document", Result, Comparison, Frontier)


def to_json(value: Value) -> str:
    """Return a value as JSON. A number that is not finite raises ValueError."""
    # Not msgspec.json.encode: it writes null for NaN, and so would hide a fault.
    return json.dumps(msgspec.to_builtins(value), indent=1, allow_nan=False)


def to_builtins(value: Any) -> Any:
    """Return a value as dictionaries, lists, numbers and text: its JSON, for those without types.

    >>> from fedfb.experiments.seed_result import Estimate
    >>> to_builtins(Estimate(mean=0.5, interval=(0.4, 0.6)))
    {'mean': 0.5, 'interval': [0.4, 0.6]}
    """
    # There and back: msgspec alone would leave tuples, which are not equal to the lists of JSON.
    return json.loads(json.dumps(msgspec.to_builtins(value)))


def say_client(values: Any) -> Any:
    """Return JSON values of schema 1 in the words of schema 2, which calls a silo a client.

    >>> say_client({"schema": 1, "silo_names": ["a"], "silos": [{"silo": "a"}]})
    {'schema': 2, 'client_names': ['a'], 'clients': [{'client': 'a'}]}
    """
    if isinstance(values, list):
        return [say_client(value) for value in values]
    if not isinstance(values, dict):
        return values
    # A result of a study lists the names of its clients; all other lists hold more of a client.
    names = "client_names" if "study" in values else "clients"
    words = {"silo": "client", "silo_names": "client_names", "silos": names}
    upgraded = {words.get(name, name): say_client(value) for name, value in values.items()}
    if upgraded.get("schema") == 1:
        upgraded["schema"] = SCHEMA
    for name in ("level", "privacy_level"):
        if upgraded.get(name) == "silo":
            upgraded[name] = "client"
    return upgraded


class _Head(Value, frozen=True):
    schema: int = 0


def from_json(content: str | bytes, kind: type[Document], where: "str | Path") -> Document:
    """Return the value that JSON holds.

    Args:
        content: the JSON.
        kind: the type that is expected.
        where: the file, for the message.

    Raises:
        DataError: it is another version, or does not fit the type.

    >>> from_json('{"schema": 99}', Result, "result.json")
    Traceback (most recent call last):
    fedfb.errors.DataError: result.json has schema 99, and this version of fedfb reads schema 2. \
Run it again with this version, or open it with the version that wrote it.
    """
    try:
        schema = msgspec.json.decode(content, type=_Head).schema
        if schema == SCHEMA:
            return msgspec.json.decode(content, type=kind)
        if schema == 1:
            return msgspec.convert(say_client(msgspec.json.decode(content)), kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise DataError(
            f"{where} is not a {kind.__name__.lower()} as this version of fedfb writes it "
            f"({error}). {WHAT_TO_DO}."
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DataError(
            f"{where} cannot be read as JSON ({error}): it was cut short or changed. Restore it "
            "from a copy, or run it again."
        ) from error
    had = f"schema {schema}" if schema else "no schema"
    raise DataError(
        f"{where} has {had}, and this version of fedfb reads schema {SCHEMA}. {WHAT_TO_DO}."
    )
