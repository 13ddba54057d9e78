"""How a setting is declared: default, meaning, type and range in one place.

The place serves library, command line, TOML and documentation alike. The annotation of a field
decides its kind and range; msgspec checks values against it.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import Field, field
from functools import cache
from math import inf, isfinite
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from msgspec import Meta, ValidationError, convert

from fedfb.errors import ConfigError, unknown_name


class Setting(NamedTuple):
    """What a field means, beside its type.

    ``or_own`` is the form of values beside the choices, which have a colon: a user's own.
    ``needs`` names another setting and the values with which this one has an effect (none: any
    value but the default). A setting that is ``by_method`` has one where the method reads it.
    A setting ``in_words`` is never a switch: the command line has it as yes or no. A setting with
    ``several`` values has them as one text, in which each is a word.
    """

    help: str
    panel: str
    or_own: str = ""
    flags: tuple[str, ...] = ()
    in_words: bool = False
    needs: tuple[str, tuple[Any, ...]] | None = None
    by_method: bool = False
    several: bool = False


def setting(default: Any, help: str, panel: str, **more: Any) -> Any:
    """Declare a field.

    Args:
        default: the value where none is given.
        help: the meaning, in a line.
        panel: heading on the help page.
        **more: other fields of :class:`Setting`.
    """
    return field(default=default, metadata={"setting": Setting(help, panel, **more)})


def setting_of(declared: Field[Any]) -> Setting:
    """Return the declaration of a field."""
    setting: Setting = declared.metadata["setting"]
    return setting


class Form(NamedTuple):
    """How several values are written as one text: what reads it, and its word in the help."""

    read: Callable[[str], tuple[Any, ...]]
    metavar: str
    differ: bool = False


class Kind(NamedTuple):
    """What the annotation of a field says of its values.

    ``item`` is the type of one value with its range, as msgspec reads it, and ``base`` without.
    ``form`` is that of several values, None for a single one.
    """

    item: Any
    base: type
    range: Meta = Meta()
    choices: tuple[str, ...] = ()
    optional: bool = False
    form: Form | None = None
    least: int = 0

    @property
    def metavar(self) -> str:
        """The word for the value of a flag in its help."""
        return self.form.metavar if self.form else METAVARS[self.base]


METAVARS: dict[type, str] = {str: "TEXT", float: "X", int: "N", bool: "yes|no"}


@cache
def kind_of(declared: Field[Any]) -> Kind:
    """Return what the annotation of a field says of its values."""
    return read_annotation(declared.type)


def read_annotation(annotation: Any) -> Kind:
    """Return what an annotation says of the values.

    >>> read_annotation(Annotated[int, Meta(ge=1)] | None).optional
    True
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        kinds = [read_annotation(one) for one in arguments if one is not type(None)]
        return kinds[0]._replace(optional=len(kinds) < len(arguments))
    if origin is Literal:
        return Kind(annotation, str, choices=arguments)
    if origin is tuple:
        kind = read_annotation(arguments[0])
        return kind._replace(form=FORMS[kind.base])
    if origin is Annotated:
        kind = read_annotation(arguments[0])
        for about in arguments[1:]:
            if isinstance(about, Form):
                kind = kind._replace(form=about)
            elif kind.form:
                kind = kind._replace(least=about.min_length)
            else:
                kind = kind._replace(item=annotation, range=about)
        return kind
    return Kind(annotation, annotation)


def flag_of(name: str) -> str:
    """Return the flag of a setting on the command line.

    >>> flag_of("local_epochs")
    '--local-epochs'
    """
    return "--" + name.replace("_", "-")


def convert_value(name: str, value: Any, kind: Kind, or_own: str = "") -> Any:
    """Return a value as its annotation has it; one of another kind or out of range is refused.

    Args:
        name: of the setting, for the message.
        value: the value to check.
        kind: type and range.
        or_own: as in :class:`Setting`.
    """
    flag = flag_of(name)
    if value is None and kind.optional:
        return None
    if kind.form is None:
        return _convert_item(flag, value, kind, or_own)
    if not isinstance(value, tuple):
        raise ConfigError(f"{flag} takes a tuple of values, got {value!r}.")
    if len(value) < kind.least:
        raise ConfigError(f"{flag} takes at least one value, got none.")
    items = tuple(_convert_item(flag, item, kind, or_own) for item in value)
    if kind.form.differ and len(set(items)) < len(items):
        raise ConfigError(f"{flag} must differ from each other, got {list(items)}.")
    return items


def _convert_item(flag: str, item: Any, kind: Kind, or_own: str) -> Any:
    # numpy's numbers are floats too, but msgspec takes only Python's.
    item = float(item) if isinstance(item, float) else item
    is_text = isinstance(item, str) and kind.base is str
    if is_text and any("\ud800" <= character <= "\udfff" for character in item):
        raise ConfigError(f"{flag}: {item!r} is not UTF-8. Rename it so that it is.")
    try:
        value = convert(item, str if is_text and or_own and ":" in item else kind.item)
    except ValidationError:
        if is_text:
            more = f", or your own as {or_own}" if or_own else ""
            raise ConfigError(
                f"{flag}: {unknown_name('value', item, kind.choices)}{more}"
            ) from None
        value = None
    infinite = value == inf and "infinite" in (kind.range.extra or {})
    if value is None or (isinstance(value, float) and not isfinite(value) and not infinite):
        raise ConfigError(f"{flag} must be {describe_range(kind)}, got {item!r}.")
    return value


def describe_range(kind: Kind) -> str:
    """Say in words which values a setting takes.

    >>> describe_range(read_annotation(Annotated[float, Meta(gt=0)]))
    'a finite number above 0'
    """
    words = {str: "text", float: "a finite number", int: "a whole number", bool: "yes or no"}
    bounds = (
        ("above", kind.range.gt),
        ("of at least", kind.range.ge),
        ("at most", kind.range.le),
    )
    parts = [f"{word} {bound:g}" for word, bound in bounds if bound is not None]
    return " ".join([words[kind.base], " and ".join(parts)]).strip()


def read_word(value: str, kind: Kind) -> Any:
    """Read the text of a flag; the range is not checked."""
    return kind.form.read(value) if kind.form else READERS[kind.base](value)


def describe_default(declared: Field[Any]) -> str:
    """Return the default of a setting as it is typed, "" if it is open."""
    default: Any = declared.default  # Any: a field may have none, but every setting has one
    kind = kind_of(declared)
    if default is None or default == ():
        return ""
    if isinstance(default, bool):
        return "yes" if default else "no"
    if kind.form and kind.form.differ:
        return str(len(default))  # as the flag is typed: how many, from 0 on
    return ",".join(map(str, default)) if kind.form else str(default)


def describe_arguments(declared: Iterable[Field[Any]]) -> str:
    """Return the section of a docstring that explains settings as arguments."""
    lines = ["Args:"]
    for one in declared:
        about, kind, default = setting_of(one), kind_of(one), describe_default(one)
        own = (about.or_own,) if about.or_own else ()
        # A pattern such as 'clients/*.csv' is code: on a page its asterisk would begin emphasis.
        help = re.sub(r"('[^']*\*[^']*')", r"``\1``", about.help)
        words = f"{help}. " if kind.choices or default else f"{help}."
        words += f"One of {', '.join((*kind.choices, *own))}. " if kind.choices else ""
        words += f"Default: {default}." if default else ""
        lines.append(f"    {one.name}: {words.rstrip()}")
    return "\n".join(lines)


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


def yes_or_no(value: str) -> bool:
    """Read yes or no."""
    if value not in ("yes", "no"):
        raise ConfigError(f"expected yes or no, got {value!r}.")
    return value == "yes"


READERS: dict[type, Callable[[str], Any]] = {str: str, float: number, int: whole, bool: yes_or_no}


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


def seeds(value: str) -> tuple[int, ...]:
    """Read seeds: how many from 0 on, a range, or a list (of one, if it ends in a comma).

    >>> seeds("3"), seeds("100:103"), seeds("4,")
    ((0, 1, 2), (100, 101, 102), (4,))
    """
    if ":" in value:
        start, _, stop = value.partition(":")
        numbers = tuple(_refuse_many(range(whole(start or "0"), whole(stop))))
    elif "," in value:
        numbers = tuple(whole(part) for part in value.split(",") if part.strip())
    else:
        numbers = tuple(_refuse_many(range(whole(value))))
    if not numbers:
        raise ConfigError(
            f"{value!r} names no seed. Give a number of seeds (5) or a range (100:110)."
        )
    return numbers


MOST_SEEDS = 100_000
"""The largest number of seeds: a file of a few bytes must not fill the memory."""


def _refuse_many(numbers: range) -> range:
    if numbers[MOST_SEEDS:]:
        raise ConfigError(f"{numbers.stop - numbers.start} seeds: at most {MOST_SEEDS} are run.")
    return numbers


FORMS: dict[type, Form] = {
    str: Form(names, "A,B,.."),
    float: Form(numbers, "X,X,.."),
    int: Form(wholes, "N,N,.."),
}
"""How several values of a type are written."""

Assignments = Annotated[tuple[str, ...], Form(assignments, "NAME=X,..")]
Declarations = Annotated[tuple[str, ...], Form(declarations, "COLUMN: ..")]
Seeds = Annotated[
    tuple[Annotated[int, Meta(ge=0)], ...], Meta(min_length=1), Form(seeds, "N|N:N", differ=True)
]
