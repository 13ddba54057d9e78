"""One client's arithmetic, compiled when the package is installed."""

from fedfb.engine.native.engine import NativeEngine as NativeEngine
from fedfb.engine.native.library import BASELINE as BASELINE
from fedfb.engine.native.library import best_instructions as best_instructions
from fedfb.engine.native.library import is_built as is_built
