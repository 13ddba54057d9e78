"""Results as JSON and experiments as TOML, written so that they read back as they were.

In JSON a field without a default is always written, as null where there is no value; a field with a
default is written only where it has another value.
"""

import json
from collections.abc import Mapping
from dataclasses import Field, asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from fedfb import files
from fedfb.errors import ConfigError, DataError, unknown_name
from fedfb.experiments.result import Comparison, Frontier, Result
from fedfb.experiments.seed_result import Value
from fedfb.experiments.spec import Experiment
from fedfb.settings import (
    convert_value,
    describe_range,
    flag_of,
    kind_of,
    read_word,
    setting_of,
)
from fedfb.tables.address import hide
from fedfb.tables.sources import join_patterns

if TYPE_CHECKING:
    from pathlib import Path


def from_values(values: Mapping[str, Any]) -> Experiment:
    """Return the experiment of named values, as a TOML file holds them.

    Lists and single values both do.
    """
    declared = {f.name: f for f in fields(Experiment)}
    for name in values:
        if name not in declared:
            raise ConfigError(unknown_name("setting", name, declared))
    return Experiment(**{name: _read(declared[name], value) for name, value in values.items()})


OLD_VALUES = {("privacy_level", "silo"): "client"}
"""Values that have another word now. Files and commands of before stay valid for one release."""


def _read(declared: Field[Any], value: Any) -> Any:
    """Bring a value of TOML, or of a flag, to the type its setting has."""
    name, kind = declared.name, kind_of(declared)
    if isinstance(value, str):
        value = OLD_VALUES.get((name, value), value)
    if isinstance(value, list) and setting_of(declared).several:
        value = join_patterns(map(str, value))
    if isinstance(value, list) and kind.form:
        value = tuple(value)
    elif isinstance(value, list | dict) or (isinstance(value, bool) and kind.base is not bool):
        raise ConfigError(f"{flag_of(name)} takes {describe_range(kind)}, got {hide(repr(value))}.")
    elif not isinstance(value, bool):
        try:
            value = read_word(str(value), kind)
        except ConfigError as error:
            raise ConfigError(f"{flag_of(name)}: {error}") from None
    return convert_value(name, value, kind, setting_of(declared).or_own)


def read_settings(path: Path, sealed: bool = False) -> dict[str, Any]:
    """Read the named values of an experiment file.

    Args:
        path: a TOML file.
        sealed: whether the digest of the file is checked. False for a file that users may change.
    """
    return files.read_toml(
        path,
        "an experiment as TOML, such as the experiment.toml in an --out folder; data are named by "
        "--data",
        sealed,
    )


def to_toml(experiment: Experiment) -> str:
    """Write an experiment so that reading it back gives an equal one.

    Settings without a value are left out.
    """
    lines = []
    for name, value in asdict(experiment).items():
        if value is not None and value != ():
            # JSON's spelling is TOML's too, but for characters that TOML wants escaped or plain.
            plain = list(value) if isinstance(value, tuple) else value
            text = json.dumps(plain, ensure_ascii=False).replace("\x7f", "\\u007f")
            lines.append(f"{name} = {text}")
    return "\n".join(lines) + "\n"


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
