"""The compiled kernel: where it lies, and its types as ctypes sees them (``job.h``)."""

import ctypes
import os
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from typing import get_args

import numpy as np

from fedfb.engine.losses import RowLoss
from fedfb.engine.native.seams import REMEDY, check_seams
from fedfb.errors import ConfigError

KINDS: tuple[str, ...] = (*get_args(RowLoss), "positive")
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
    check_seams(library, (Job, Kernel), KINDS)
    return library


@cache
def _path() -> str | None:
    named = os.environ.get(KERNEL_VARIABLE)
    if named:
        return named
    beside = os.path.dirname(__file__)
    names = (os.path.join(beside, f"_kernel{suffix}") for suffix in EXTENSION_SUFFIXES)
    return next((path for path in names if os.path.exists(path)), None)
