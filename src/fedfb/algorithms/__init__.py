"""The algorithms: one file for each paper."""

from fedfb.algorithms.fedfb.outer import Outer as Outer
from fedfb.algorithms.fedfb.signals import Quantiser as Quantiser
from fedfb.algorithms.method import METHODS as METHODS
from fedfb.algorithms.method import Knob as Knob
from fedfb.algorithms.method import Method as Method
from fedfb.algorithms.method import Problem as Problem
from fedfb.algorithms.method import find_method as find_method
from fedfb.algorithms.method import register as register
