"""An experiment as named values, and as a TOML file: written so that it reads back as it was."""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from fedfb import files
from fedfb.errors import ConfigError, unknown_name
from fedfb.experiments import settings as s
from fedfb.experiments.spec import Experiment


def from_values(values: Mapping[str, Any]) -> Experiment:
    """Return the experiment of named values, as a TOML file holds them.

    Lists and single values both do.
    """
    declared = {f.name: s.setting_of(f) for f in fields(Experiment)}
    for name in values:
        if name not in declared:
            raise ConfigError(unknown_name("setting", name, declared))
    read = {name: _coerced(name, value, declared[name]) for name, value in values.items()}
    for name, value in read.items():
        s.check_value(name, value, declared[name])
    return Experiment(**read)


def _coerced(name: str, value: Any, declared: s.Setting) -> Any:
    """Bring a value of TOML, or of a flag, to the type its setting has."""
    if isinstance(value, list) and declared.parse in s.SEVERAL:
        return tuple(_as_float(item) if declared.parse is s.numbers else item for item in value)
    if isinstance(value, bool) and declared.parse is s.yes_or_no:
        return value
    if isinstance(value, list | dict | bool):
        raise ConfigError(f"{s.flag_of(name)} takes {s.describe_range(declared)}, got {value!r}.")
    try:
        return declared.parse(str(value))
    except ConfigError as error:
        raise ConfigError(f"{s.flag_of(name)}: {error}") from None


def _as_float(item: Any) -> Any:
    return float(item) if isinstance(item, int) and not isinstance(item, bool) else item


def read_toml(path: Path, sealed: bool = False) -> dict[str, Any]:
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
