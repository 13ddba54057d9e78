"""What C and Python both declare, compared when the kernel is loaded (``description.c``).

A kernel that was compiled from other sources would read the wrong fields of a job, and compute
wrong numbers without an error.
"""

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

from fedfb.engine.losses import STEEPNESS
from fedfb.engine.native.layout import (
    FEATURE_TILE,
    FEW_INPUTS,
    FEW_VECTORS,
    MOST_VECTORS,
    SIDE_BY_SIDE,
)
from fedfb.engine.optimise import BETA1, BETA2, EPSILON
from fedfb.errors import ConfigError

REMEDY = (
    "Compile the kernel again: `pip install --force-reinstall .`, or `make clean && make` in a "
    "checkout. --engine numpy works without the kernel."
)

CONSTANTS: dict[str, float] = {
    "SIDE_BY_SIDE": SIDE_BY_SIDE,
    "FEATURE_TILE": FEATURE_TILE,
    "FEW_INPUTS": FEW_INPUTS,
    "FEW_VECTORS": FEW_VECTORS,
    "MOST_VECTORS": MOST_VECTORS,
    "STEEPNESS": STEEPNESS,
    "BETA1": BETA1,
    "BETA2": BETA2,
    "EPSILON": EPSILON,
}

MOST_SHOWN = 3
"""A field too many moves all that follow: an error shows the first differences only."""

KIND_OF_TYPE = {ctypes.c_int64: "whole", ctypes.c_double: "real"}
"""The word of ``description.c`` for the type of a field; all other fields are pointers."""

Facts = Mapping[str, tuple[str, float]]
"""By name: a field's type and offset, a structure's size in bytes, or a constant's value."""


class Fact(ctypes.Structure):
    """One line of the description that the kernel gives of itself."""

    _fields_ = (("name", ctypes.c_char_p), ("kind", ctypes.c_char_p), ("value", ctypes.c_double))


def check_seams(
    library: ctypes.CDLL, structures: Sequence[type[ctypes.Structure]], kinds: Sequence[str]
) -> None:
    """Refuse a kernel whose declarations differ from those of the Python code.

    Args:
        library: the loaded kernel.
        structures: what Python hands to the kernel; C has the same names.
        kinds: the losses in the order of their numbers.

    Raises:
        ConfigError: says what differs, and what to do.
    """
    if not hasattr(library, "fedfb_facts"):
        raise ConfigError(
            f"the kernel {library._name} was compiled from older sources than the Python code: it "
            f"does not describe itself. {REMEDY}"
        )
    library.fedfb_facts.restype = ctypes.POINTER(Fact)
    lines = takewhile(lambda fact: fact.name, library.fedfb_facts())
    compiled = {fact.name.decode(): (fact.kind.decode(), fact.value) for fact in lines}
    differences = list(_differences(compiled, _expected_facts(structures, kinds)))
    if differences:
        raise ConfigError(
            f"the kernel {library._name} was compiled from other sources than the Python code: "
            f"{'; '.join(differences[:MOST_SHOWN])} (differences: {len(differences)}). {REMEDY}"
        )


def _expected_facts(structures: Sequence[type[ctypes.Structure]], kinds: Sequence[str]) -> Facts:
    numbers = {kind.upper(): number for number, kind in enumerate(kinds)}
    facts = {name: ("constant", float(value)) for name, value in {**CONSTANTS, **numbers}.items()}
    for structure in structures:
        facts[structure.__name__] = ("bytes", float(ctypes.sizeof(structure)))
        for field, kind, *_ in structure._fields_:
            place = float(getattr(structure, field).offset)
            facts[f"{structure.__name__}.{field}"] = (KIND_OF_TYPE.get(kind, "pointer"), place)
    return facts


def _differences(compiled: Facts, expected: Facts) -> Iterator[str]:
    for name in [*expected, *(compiled.keys() - expected.keys())]:
        in_c, in_python = compiled.get(name), expected.get(name)
        if in_c != in_python:
            yield f"{name} is {_in_words(in_c)} in C and {_in_words(in_python)} in Python"


def _in_words(fact: tuple[str, float] | None) -> str:
    if fact is None:
        return "missing"
    kind, number = fact[0], f"{fact[1]:.15g}"
    return {"constant": number, "bytes": f"{number} bytes"}.get(kind, f"{kind} at {number}")
