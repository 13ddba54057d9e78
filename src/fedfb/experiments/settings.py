"""How a setting is declared: default, meaning and range in one place.

The place serves library, command line and TOML alike.
"""

from collections.abc import Callable
from dataclasses import Field, field
from typing import Any, NamedTuple

from fedfb.errors import ConfigError, unknown_name


class Setting(NamedTuple):
    """What a field of an experiment means and which values it takes.

    ``or_own`` is the form of values beside the choices, which have a colon: a user's own.
    ``needs`` names another setting and the values with which this one has an effect (none: any
    value but the default). A setting that is ``by_method`` has one where the method reads it.
    A setting ``in_words`` is never a switch: the command line has it as yes or no.
    """

    help: str
    panel: str
    parse: Callable[[str], Any]
    choices: tuple[str, ...] = ()
    or_own: str = ""
    low: float | None = None
    high: float | None = None
    above: float | None = None
    flags: tuple[str, ...] = ()
    infinite: bool = False
    in_words: bool = False
    needs: tuple[str, tuple[Any, ...]] | None = None
    by_method: bool = False


def setting(default: Any, help: str, panel: str, parse: Callable[[str], Any], **more: Any) -> Any:
    """Declare a field of an experiment.

    Args:
        default: the value where none is given.
        help: the meaning, in a line.
        panel: heading on the help page.
        parse: reads the value of the flag.
        **more: other fields of :class:`Setting`, such as ranges.
    """
    return field(default=default, metadata={"setting": Setting(help, panel, parse, **more)})


def setting_of(declared: Field[Any]) -> Setting:
    """Return the declaration of a field."""
    setting: Setting = declared.metadata["setting"]
    return setting


def flag_of(name: str) -> str:
    """Return the flag of a setting on the command line.

    >>> flag_of("local_epochs")
    '--local-epochs'
    """
    return "--" + name.replace("_", "-")


def check_value(name: str, value: Any, declared: Setting) -> None:
    """Refuse a value of another kind or outside its declared range.

    Args:
        name: of the setting, for the message.
        value: the value to check.
        declared: kind and range.
    """
    several = declared.parse in SEVERAL
    if several and not isinstance(value, tuple):
        raise ConfigError(f"{flag_of(name)} takes a tuple of values, got {value!r}.")
    if not value and declared.parse in (wholes, seeds):
        raise ConfigError(f"{flag_of(name)} takes at least one value, got none.")
    for item in value if several else (value,):
        if item is not None:
            _check_item(name, item, declared)
    if declared.parse is seeds and len(set(value)) < len(value):
        raise ConfigError(f"{flag_of(name)} must differ from each other, got {list(value)}.")


def _check_item(name: str, item: Any, declared: Setting) -> None:
    if not _is_of_kind(item, KINDS[declared.parse]):
        raise ConfigError(f"{flag_of(name)} must be {describe_range(declared)}, got {item!r}.")
    if isinstance(item, str) and not _is_unicode(item):
        raise ConfigError(f"{flag_of(name)}: {item!r} is not UTF-8. Rename it so that it is.")
    is_user_file = bool(declared.or_own) and ":" in item
    if declared.choices and item not in declared.choices and not is_user_file:
        more = f", or your own as {declared.or_own}" if declared.or_own else ""
        raise ConfigError(f"{flag_of(name)}: {unknown_name('value', item, declared.choices)}{more}")
    outside = (
        (declared.low is not None and not item >= declared.low)
        or (declared.high is not None and not item <= declared.high)
        or (declared.above is not None and not item > declared.above)
    )
    infinite = item in (float("inf"), float("-inf")) and not declared.infinite
    # Only NaN differs from itself: it is refused also where no range is declared.
    if outside or item != item or infinite:
        raise ConfigError(f"{flag_of(name)} must be {describe_range(declared)}, got {item}.")


def _is_of_kind(item: object, kinds: tuple[type, ...]) -> bool:
    return isinstance(item, kinds) and (not isinstance(item, bool) or bool in kinds)


def _is_unicode(value: str) -> bool:
    """Return whether text can be written down: a file name of other bytes cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


def describe_range(declared: Setting) -> str:
    """Say in words which numbers a setting takes.

    >>> describe_range(Setting("", "", number, above=0.0))
    'a finite number above 0'
    """
    kind = IN_WORDS[KINDS[declared.parse]]
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


def assignments(value: str) -> tuple[str, ...]:
    """Read knobs and their values, separated by semicolons.

    >>> assignments("q = 0.1, 1; beta=2")
    ('q=0.1,1', 'beta=2')
    """
    return tuple(part.replace(" ", "") for part in value.split(";") if part.strip())


def declarations(value: str) -> tuple[str, ...]:
    """Read what is declared of several columns, separated by semicolons.

    >>> declarations("age: 25, 40; income: 1000")
    ('age: 25, 40', 'income: 1000')
    """
    return tuple(part.strip() for part in value.split(";") if part.strip())


def yes_or_no(value: str) -> bool:
    """Read yes or no."""
    if value not in ("yes", "no"):
        raise ConfigError(f"expected yes or no, got {value!r}.")
    return value == "yes"


def seeds(value: str) -> tuple[int, ...]:
    """Read seeds: how many from 0 on, a range, or a list (of one, if it ends in a comma).

    >>> seeds("3"), seeds("100:103"), seeds("4,")
    ((0, 1, 2), (100, 101, 102), (4,))
    """
    if ":" in value:
        start, _, stop = value.partition(":")
        numbers = tuple(range(whole(start or "0"), whole(stop)))
    elif "," in value:
        numbers = tuple(whole(part) for part in value.split(",") if part.strip())
    else:
        numbers = tuple(range(whole(value)))
    if not numbers:
        raise ConfigError(
            f"{value!r} names no seed. Give a number of seeds (5) or a range (100:110)."
        )
    return numbers


SEVERAL = (numbers, wholes, names, assignments, declarations, seeds)
"""Readers of settings that hold several values."""

KINDS: dict[Callable[[str], Any], tuple[type, ...]] = {
    text: (str,),
    names: (str,),
    assignments: (str,),
    declarations: (str,),
    number: (float, int),
    numbers: (float, int),
    whole: (int,),
    wholes: (int,),
    seeds: (int,),
    yes_or_no: (bool,),
}
"""What each reader's values are."""

IN_WORDS: dict[tuple[type, ...], str] = {
    (str,): "text",
    (float, int): "a finite number",
    (int,): "a whole number",
    (bool,): "yes or no",
}
