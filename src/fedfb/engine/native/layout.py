"""Parameters in the layout of the kernel, and back (``job.h`` describes it)."""

from typing import NamedTuple

import numpy as np

from fedfb.models import Network
from fedfb.shapes import Array, Float

FEATURE_TILE, ALIGNMENT = 4, 64

MOST_VECTORS = 12
"""The vectors that a slab may be wide: as many sums as registers hold."""

FEW_INPUTS, FEW_VECTORS = 16, 3
"""Up to so many inputs rows are hardly ever sparse, and narrow slabs, which stay in the nearest
cache, are faster."""


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
    inputs, units = model.layers[0]
    steps, many = len(values), layout.runs * units
    flat = aligned_zeros(steps * layout.size, dtype)
    # In a run's flat vector the bias follows the weights as if it were their last row.
    own = values[:, :, : (inputs + 1) * units].reshape(steps, layout.runs, inputs + 1, units)
    side_by_side = np.zeros((steps, layout.features, layout.slabs * layout.wide), dtype)
    side_by_side[:, : inputs + 1, :many] = own.transpose(0, 2, 1, 3).reshape(steps, -1, many)
    slabs = side_by_side.reshape(steps, layout.features, layout.slabs, layout.wide)
    each = flat.reshape(steps, layout.size)
    each[:, : layout.first] = slabs.transpose(0, 2, 1, 3).reshape(steps, -1)
    upper = each[:, layout.first :].reshape(steps, layout.runs, layout.upper)
    upper[:, :, : model.size - (inputs + 1) * units] = values[:, :, (inputs + 1) * units :]
    return flat


def unpack(flat: Array, model: Network, layout: Layout) -> Float[Array, "r p"]:
    """Return each run's flat vector in float64; the inverse of pack."""
    inputs, units = model.layers[0]
    first, upper = _parts(flat, layout)
    side_by_side = first.transpose(1, 0, 2).reshape(layout.features, -1)
    own = side_by_side[: inputs + 1, : layout.runs * units].reshape(inputs + 1, layout.runs, units)
    later = upper[:, : model.size - (inputs + 1) * units]
    params = np.concatenate([own.transpose(1, 0, 2).reshape(layout.runs, -1), later], axis=1)
    return params.astype(np.float64, copy=False)


def by_unit_and_run(
    values: Float[Array, " r"], model: Network, layout: Layout, dtype: np.dtype
) -> Array:
    """Return one value per run as the optimiser reads it: by unit of the first layer, by run."""
    units = layout.slabs * layout.wide
    flat = aligned_zeros(units + layout.runs, dtype)
    each = np.repeat(values, model.layers[0][1])
    flat[: len(each)], flat[units:] = each, values
    return flat


def _parts(flat: Array, layout: Layout) -> tuple[Array, Array]:
    first = flat[: layout.first].reshape(layout.slabs, layout.features, layout.wide)
    return first, flat[layout.first :].reshape(layout.runs, layout.upper)
