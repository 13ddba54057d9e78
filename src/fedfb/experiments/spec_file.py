"""An experiment as named values, and as a TOML file: written so that it reads back as it was.

Apart from the codec of results, so that ``fedfb --help`` imports neither results nor numpy.
"""

import json
from collections.abc import Mapping
from dataclasses import Field, asdict, fields
from pathlib import Path
from typing import Any

from fedfb import files
from fedfb.errors import ConfigError, unknown_name
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
