"""How a setting is declared: default, meaning and range in one place.

The place serves library, command line and TOML alike.
"""

from collections.abc import Callable
from dataclasses import Field, field
from typing import Any, NamedTuple

from fedfb.errors import ConfigError, unknown_name


class Setting(NamedTuple):
    """What a field of an experiment means and which values it takes."""

    help: str
    panel: str
    parse: Callable[[str], Any]
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    above: float | None = None
    flags: tuple[str, ...] = ()


def setting(default: Any, help: str, panel: str, parse: Callable[[str], Any], **more: Any) -> Any:
    """Declare a field of an experiment."""
    return field(default=default, metadata={"setting": Setting(help, panel, parse, **more)})


def setting_of(declared: Field[Any]) -> Setting:
    """Return the declaration of a field."""
    found: Setting = declared.metadata["setting"]
    return found


def flag_of(name: str) -> str:
    """Return the flag of a setting on the command line.

    >>> flag_of("local_epochs")
    '--local-epochs'
    """
    return "--" + name.replace("_", "-")


def check_value(name: str, value: Any, declared: Setting) -> None:
    """Refuse a value outside its declared range, with one voice for all settings."""
    for item in value if isinstance(value, tuple) else (value,):
        if item is None:
            continue
        if declared.choices and item not in declared.choices:
            raise ConfigError(f"{flag_of(name)}: {unknown_name('value', item, declared.choices)}")
        outside = (
            (declared.low is not None and not item >= declared.low)
            or (declared.high is not None and not item <= declared.high)
            or (declared.above is not None and not item > declared.above)
        )
        if outside or item != item or item in (float("inf"), float("-inf")):
            raise ConfigError(f"{flag_of(name)} must be {describe_range(declared)}, got {item}.")


def describe_range(declared: Setting) -> str:
    """Say in words which numbers a setting takes.

    >>> describe_range(Setting("", "", float, above=0.0))
    'a finite number above 0'
    """
    kind = "a whole number" if declared.parse is whole else "a finite number"
    parts = []
    if declared.above is not None:
        parts.append(f"above {declared.above:g}")
    if declared.low is not None:
        parts.append(f"of at least {declared.low:g}")
    if declared.high is not None:
        parts.append(f"at most {declared.high:g}")
    return " ".join([kind, " and ".join(parts)]).strip()


def text(value: str) -> str:
    """Read text as it is."""
    return value


def number(value: str) -> float:
    """Read one number."""
    try:
        return float(value)
    except ValueError:
        raise ConfigError(f"expected a number, got {value!r}.") from None


def whole(value: str) -> int:
    """Read one whole number."""
    try:
        return int(value)
    except ValueError:
        raise ConfigError(f"expected a whole number, got {value!r}.") from None


def numbers(value: str) -> tuple[float, ...]:
    """Read numbers separated by commas.

    >>> numbers("0.1,2")
    (0.1, 2.0)
    """
    return tuple(number(part) for part in value.split(","))


def wholes(value: str) -> tuple[int, ...]:
    """Read whole numbers separated by commas."""
    return tuple(whole(part) for part in value.split(","))


def names(value: str) -> tuple[str, ...]:
    """Read names separated by commas.

    >>> names("sex, race")
    ('sex', 'race')
    """
    return tuple(part.strip() for part in value.split(",") if part.strip())


def yes_or_no(value: str) -> bool:
    """Read yes or no."""
    if value not in ("yes", "no"):
        raise ConfigError(f"expected yes or no, got {value!r}.")
    return value == "yes"


def seeds(value: str) -> tuple[int, ...]:
    """Read seeds: a number of them, a range, or a list that ends in a comma or has several.

    >>> seeds("3"), seeds("100:103"), seeds("4,")
    ((0, 1, 2), (100, 101, 102), (4,))
    """
    if ":" in value:
        start, _, stop = value.partition(":")
        found = tuple(range(whole(start or "0"), whole(stop)))
    elif "," in value:
        found = tuple(whole(part) for part in value.split(",") if part.strip())
    else:
        found = tuple(range(whole(value)))
    if not found:
        raise ConfigError(
            f"--seeds {value} names no seed. Give a number of seeds (5) or a range (100:110)."
        )
    return found
