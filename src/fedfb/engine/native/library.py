"""The compiled kernel: where it lies, its types for ctypes, and its parameters (``job.h``).

What C and Python both declare is compared when the kernel is loaded (``description.c``).
A kernel that was compiled from other sources would read the wrong fields of a job, and compute
wrong numbers without an error.
"""

import ctypes
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from itertools import takewhile
from typing import NamedTuple, get_args

import numpy as np

from fedfb.engine.base import STEEPNESS, RowLoss
from fedfb.engine.optimise import BETA1, BETA2, EPSILON
from fedfb.errors import ConfigError
from fedfb.models import Network
from fedfb.shapes import Array, Float, Int

SIDE_BY_SIDE = 4
"""Dense rows that are added to a matrix of second derivatives at a time."""

FEATURE_TILE, ALIGNMENT = 4, 64

MOST_VECTORS = 12
"""The vectors that a slab may be wide: as many sums as registers hold."""

FEW_INPUTS, FEW_VECTORS = 16, 3
"""Up to so many inputs rows are hardly ever sparse, and narrow slabs, which stay in the nearest
cache, are faster."""


class Layout(NamedTuple):
    """The sizes of the kernel's layout for a model and a number of runs.

    ``first`` numbers hold the first layer of all runs, ``size`` numbers all parameters.
    """

    runs: int
    features: int
    slabs: int
    wide: int
    upper: int
    first: int
    size: int


@lru_cache(maxsize=64)
def layout_of(model: Network, runs: int, lanes: int) -> Layout:
    """Return the layout; the bias is one more feature, and all is filled up to whole vectors."""
    inputs, units = model.layers[0]
    later = model.size - (inputs + 1) * units
    vectors = filled_up(runs * units, lanes) // lanes
    most = FEW_VECTORS if inputs <= FEW_INPUTS else MOST_VECTORS
    slabs = filled_up(vectors, most) // most
    features, upper = filled_up(inputs + 1, FEATURE_TILE), filled_up(later, lanes)
    wide = filled_up(vectors, slabs) // slabs * lanes
    first = slabs * features * wide
    return Layout(runs, features, slabs, wide, upper, first, first + runs * upper)


def filled_up(count: int, unit: int) -> int:
    """Round up to a multiple.

    >>> filled_up(9, 8)
    16
    """
    return -(-count // unit) * unit


def aligned_zeros(size: int, dtype: np.dtype) -> Array:
    """Return zeros that begin where vectors may be loaded from."""
    spare = np.zeros(size * dtype.itemsize + ALIGNMENT, np.uint8)
    start = -spare.ctypes.data % ALIGNMENT
    return spare[start : start + size * dtype.itemsize].view(dtype)


def pack_steps(
    values: Float[Array, "s r p"], model: Network, layout: Layout, dtype: np.dtype
) -> Array:
    """Return values of all runs' parameters, step after step in the kernel's layout."""
    steps = len(values)
    flat = aligned_zeros(steps * layout.size, dtype)
    flat.reshape(steps, -1)[:, _places(model, layout)] = values
    return flat


def unpack_params(flat: Array, model: Network, layout: Layout) -> Float[Array, "r p"]:
    """Return each run's flat vector in float64; the inverse of pack."""
    return flat[_places(model, layout)].astype(np.float64, copy=False)


@lru_cache(maxsize=8)
def _places(model: Network, layout: Layout) -> Int[Array, "r p"]:
    """Return where each parameter of each run stands in the kernel's layout."""
    inputs, units = model.layers[0]
    runs, slab = np.arange(layout.runs)[:, None], layout.features * layout.wide
    # In a run's flat vector the bias follows the weights as if it were their last row.
    feature, unit = np.divmod(np.arange((inputs + 1) * units), units)
    which, lane = np.divmod(runs * units + unit, layout.wide)
    later = layout.first + runs * layout.upper + np.arange(model.size - len(unit))
    return np.concatenate([which * slab + feature * layout.wide + lane, later], axis=1)


def by_unit_and_run(
    values: Float[Array, " r"], model: Network, layout: Layout, dtype: np.dtype
) -> Array:
    """Return one value per run as the optimiser reads it: by unit of the first layer, by run."""
    units = layout.slabs * layout.wide
    flat = aligned_zeros(units + layout.runs, dtype)
    each = np.repeat(values, model.layers[0][1])
    flat[: len(each)], flat[units:] = each, values
    return flat


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


LOSS_KINDS: tuple[str, ...] = (*get_args(RowLoss), "positive")
"""The losses in the order of the kernel's numbers, and the decision itself."""

BASELINE = "baseline"
INSTRUCTIONS_VARIABLE = "FEDFB_INSTRUCTIONS"
"""Names the environment variable that may ask for the baseline, to compare machines."""

KERNEL_VARIABLE = "FEDFB_KERNEL"
"""Names the environment variable that may name another build, such as one with sanitizers."""

_whole, _real, _at = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p


class Job(ctypes.Structure):
    """One client's rows and the runs' parameters; the arrays behind it must outlive it."""

    _fields_ = (
        *((name, _whole) for name in ("runs", "inputs", "depth")),
        ("sizes", _at),
        *((name, _whole) for name in ("features", "slabs", "wide", "upper")),
        ("x", _at),
        *((name, _whole) for name in ("stride", "x_is_double")),
        *((name, _at) for name in ("starts", "columns", "values", "cell")),
        ("groups", _whole),
        ("cell_weights", _at),
        ("table", _whole),
        ("row_weights", _at),
        ("all_rows", _whole),
        *((name, _at) for name in ("theta", "gradient", "mean", "square", "anchor")),
        *((name, _at) for name in ("rates", "pulls")),
        ("weight_decay", _real),
        *((name, _whole) for name in ("adam", "time", "batch")),
        *((name, _at) for name in ("total", "scratch")),
        *((name, _real) for name in ("clip", "expected")),
        ("noise", _at),
    )


_job = ctypes.POINTER(Job)


class Kernel(ctypes.Structure):
    """The functions of one precision on one instruction set; a call lets other threads run."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("vector_bytes", _whole),
        ("scratch_bytes", ctypes.CFUNCTYPE(_whole, _job)),
        ("train_epoch", ctypes.CFUNCTYPE(None, _job, _at, _whole)),
        ("add_gradient", ctypes.CFUNCTYPE(None, _job, _at, _whole, _whole)),
        ("add_losses", ctypes.CFUNCTYPE(None, _job, _whole, _whole, _at)),
        ("logits", ctypes.CFUNCTYPE(None, _job, _whole, _at)),
        ("count_nonzero", ctypes.CFUNCTYPE(None, _job, _whole, _at)),
        ("compress", ctypes.CFUNCTYPE(None, _job, _whole, _at, _at)),
        ("train_private", ctypes.CFUNCTYPE(None, _job, _at, _at, _whole)),
        ("add_curvature", ctypes.CFUNCTYPE(None, _job, _whole, _whole, _at, _at, _at, _at)),
    )


def is_built() -> bool:
    """Tell whether the kernel was compiled when the package was installed."""
    return _path() is not None


@cache
def kernel(precision: np.dtype, instructions: str) -> Kernel:
    """Return the kernel of ``float32`` or ``float64`` for an instruction set of this machine."""
    found = _lookup(precision == np.float64, instructions == BASELINE)
    name = found.name.decode()
    if name != instructions:
        raise ConfigError(
            f"the native engine was asked for the instruction set {instructions!r}, and this "
            f"machine has {name!r} and {BASELINE!r}."
        )
    return found


@cache
def best_instructions() -> str:
    """Return the name of the instruction set that the native engine uses here."""
    wanted = os.environ.get(INSTRUCTIONS_VARIABLE)
    return wanted or str(_lookup(False, False).name.decode())


def _lookup(is_double: bool, only_baseline: bool) -> Kernel:
    path = _path()
    if path is None:
        raise ConfigError(
            "the native engine was not compiled when fedfb was installed. Install a C compiler and "
            "fedfb again, or use --engine numpy."
        )
    look_up = _load(path).fedfb_kernel
    look_up.restype, look_up.argtypes = ctypes.POINTER(Kernel), (_whole, _whole)
    found: Kernel = look_up(is_double, only_baseline).contents
    return found


@cache
def _load(path: str) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ConfigError(f"the kernel cannot be loaded ({error}). {REMEDY}") from None
    check_seams(library, (Job, Kernel), LOSS_KINDS)
    return library


@cache
def _path() -> str | None:
    named = os.environ.get(KERNEL_VARIABLE)
    if named:
        return named
    beside = os.path.dirname(__file__)
    names = (os.path.join(beside, f"_kernel{suffix}") for suffix in EXTENSION_SUFFIXES)
    return next((path for path in names if os.path.exists(path)), None)
