"""Shapes, initial values and flat parameter vectors of the models."""

from fedfb.models.network import Model as Model
from fedfb.models.network import Network as Network
from fedfb.models.network import make_model as make_model
from fedfb.models.torch_model import TorchModel as TorchModel
