"""The algorithms, one paper one file."""

from fedfb.algorithms.fedavg import fedavg as fedavg
from fedfb.algorithms.fedfb import Outer as Outer
from fedfb.algorithms.fedfb import fedfb as fedfb
from fedfb.algorithms.quantise import Quantiser as Quantiser
from fedfb.algorithms.registry import METHODS as METHODS
from fedfb.algorithms.registry import Method as Method
from fedfb.algorithms.registry import find_method as find_method
