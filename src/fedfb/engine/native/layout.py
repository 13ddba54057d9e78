"""Parameters in the layout of the kernel, and back (``job.h`` describes it)."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from fedfb.models import Network
from fedfb.shapes import Array, Float, Int

FEATURE_TILE, ALIGNMENT = 4, 64

MOST_VECTORS = 12
"""The vectors that a slab may be wide: as many sums as registers hold."""

FEW_INPUTS, FEW_VECTORS = 16, 3
"""Up to so many inputs rows are hardly ever sparse, and narrow slabs, which stay in the nearest
cache, are faster."""


SIDE_BY_SIDE = 4
"""Dense rows that are added to a matrix of second derivatives at a time."""


class Layout(NamedTuple):
    """The sizes of the kernel's layout for a model and a number of runs."""

    runs: int
    features: int
    slabs: int
    wide: int
    upper: int

    @property
    def first(self) -> int:
        """The numbers that hold the first layer of all runs."""
        return self.slabs * self.features * self.wide

    @property
    def size(self) -> int:
        """The numbers that hold all parameters."""
        return self.first + self.runs * self.upper


@lru_cache(maxsize=64)
def layout_of(model: Network, runs: int, lanes: int) -> Layout:
    """Return the layout; the bias is one more feature, and all is filled up to whole vectors."""
    inputs, units = model.layers[0]
    later = model.size - (inputs + 1) * units
    vectors = filled_up(runs * units, lanes) // lanes
    most = FEW_VECTORS if inputs <= FEW_INPUTS else MOST_VECTORS
    slabs = filled_up(vectors, most) // most
    return Layout(
        runs,
        filled_up(inputs + 1, FEATURE_TILE),
        slabs,
        filled_up(vectors, slabs) // slabs * lanes,
        filled_up(later, lanes),
    )


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


def pack(params: Float[Array, "r p"], model: Network, layout: Layout, dtype: np.dtype) -> Array:
    """Return all runs' parameters in the kernel's layout."""
    return pack_steps(params[None], model, layout, dtype)


def pack_steps(
    values: Float[Array, "s r p"], model: Network, layout: Layout, dtype: np.dtype
) -> Array:
    """Return values of all runs' parameters, step after step in the kernel's layout."""
    steps = len(values)
    flat = aligned_zeros(steps * layout.size, dtype)
    flat.reshape(steps, -1)[:, _places(model, layout)] = values
    return flat


def unpack(flat: Array, model: Network, layout: Layout) -> Float[Array, "r p"]:
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
