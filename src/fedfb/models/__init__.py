"""Shapes, initial values and flat parameter vectors of the models."""

from fedfb.models.network import Network as Network
from fedfb.models.network import make_model as make_model
