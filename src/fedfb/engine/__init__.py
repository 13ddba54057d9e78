"""One client's arithmetic, for all runs of a grid at once."""

from fedfb.engine.base import Engine as Engine
from fedfb.engine.losses import decide as decide
from fedfb.engine.losses import sigmoid as sigmoid
from fedfb.engine.reference import NumpyEngine as NumpyEngine
from fedfb.engine.reference import cell_counts as cell_counts
from fedfb.engine.reference import minibatches as minibatches
