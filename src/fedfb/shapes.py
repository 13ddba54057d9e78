"""Array types with shapes.

``Float[Array, "r p"]`` is a float array of runs by parameters. If FEDFB_CHECK_SHAPES is set, as in
the tests, shapes are checked at every call. Otherwise the annotations cost nothing, and jaxtyping
need not be installed.
"""

import os
from typing import TYPE_CHECKING, Any

from numpy import ndarray as Array  # noqa: N812  (a type, named like one)

CHECKED = "FEDFB_CHECK_SHAPES"

if TYPE_CHECKING:
    from jaxtyping import Bool as Bool
    from jaxtyping import Float as Float
    from jaxtyping import Int as Int
    from jaxtyping import Num as Num
elif os.environ.get(CHECKED):
    from jaxtyping import Bool, Float, Int, Num
else:

    class _Unchecked:
        def __class_getitem__(cls, _: Any) -> Any:
            return Array

    Bool = Float = Int = Num = _Unchecked

__all__ = ["Array", "Bool", "Float", "Int", "Num"]
