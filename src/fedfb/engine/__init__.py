"""One client's arithmetic, for all runs of a grid at once. Names are imported at first use."""

from typing import TYPE_CHECKING

from fedfb.extras import export_lazily

if TYPE_CHECKING:
    from fedfb.engine.base import ENGINES as ENGINES
    from fedfb.engine.base import Engine as Engine
    from fedfb.engine.base import Rebalance as Rebalance
    from fedfb.engine.base import RowLoss as RowLoss
    from fedfb.engine.base import choose_engine as choose_engine
    from fedfb.engine.base import decide as decide
    from fedfb.engine.base import explain_engine as explain_engine
    from fedfb.engine.base import is_native as is_native
    from fedfb.engine.base import sigmoid as sigmoid
    from fedfb.engine.native import NativeEngine as NativeEngine
    from fedfb.engine.numpy_engine import NumpyEngine as NumpyEngine
    from fedfb.engine.rows import cell_counts as cell_counts
    from fedfb.engine.rows import minibatches as minibatches

_HOME = {
    "ENGINES": "base",
    "Engine": "base",
    "NativeEngine": "native",
    "NumpyEngine": "numpy_engine",
    "Rebalance": "base",
    "RowLoss": "base",
    "cell_counts": "rows",
    "choose_engine": "base",
    "decide": "base",
    "explain_engine": "base",
    "is_native": "base",
    "minibatches": "rows",
    "sigmoid": "base",
}

__getattr__, __dir__, __all__ = export_lazily(__name__, _HOME)
