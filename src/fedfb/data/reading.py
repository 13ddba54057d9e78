"""What an encoder reads of raw rows: which columns, of what kind, and the rules in between."""

from typing import NamedTuple

from fedfb.data.columns import NumberColumn
from fedfb.data.derive import Bins, Derived
from fedfb.data.encode import Encoder
from fedfb.errors import ConfigError


class Reading(NamedTuple):
    """Raw columns, with whether each holds numbers, and the rules to be applied to them."""

    columns: dict[str, bool]
    rules: tuple[Derived, ...]


def reading(encoder: Encoder, *, features: bool = True, group: bool = True) -> Reading:
    """Return what features and groups, or one of both, need of raw rows."""
    columns = encoder.columns if features else ()
    needed = {column.name: isinstance(column, NumberColumn) for column in columns}
    for name in encoder.groups.columns if group else ():
        needed.setdefault(name, False)
    rules: list[Derived] = []
    for rule in reversed(encoder.derived):
        if rule.target not in needed:
            continue
        number, same = isinstance(rule, Bins), rule.source == rule.target
        if not same and needed.get(rule.source, number) != number:
            raise ConfigError(
                f"column {rule.source!r} is read both as a number and as text, which a model that "
                "is handed over cannot. Write it into two columns and train again."
            )
        del needed[rule.target]
        needed[rule.source] = number
        rules.insert(0, rule)
    return Reading(needed, tuple(rules))
