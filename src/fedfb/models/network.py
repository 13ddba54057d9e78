"""The built-in models, and every model by its name in settings.

Logistic regression and multilayer perceptrons are one class: a chain of layer sizes that ends in
one logit. A name with a colon is a user's own torch model.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from fedfb.core import generator
from fedfb.errors import ConfigError, unknown_name
from fedfb.models.torch_model import TorchModel, is_own
from fedfb.shapes import Array, Float


@dataclass(frozen=True)
class Network:
    r"""A fully connected ReLU network with one logit; without hidden layers, logistic regression.

    .. math:: h_0=x,\quad h_{l+1}=[h_l W_l+b_l]_+,\quad z=h_L W_L+b_L,\quad
              P(y=1\mid x)=1/(1+e^{-z})

    The parameters of one run are one flat vector: W_0 (row by row), b_0, W_1, b_1, ...

    >>> Network(inputs=3, hidden=(4,)).size
    21
    """

    inputs: int
    hidden: tuple[int, ...] = ()

    @cached_property
    def layers(self) -> tuple[tuple[int, int], ...]:
        """The (inputs, outputs) of each layer."""
        return tuple(pairwise((self.inputs, *self.hidden, 1)))

    @cached_property
    def size(self) -> int:
        """The number of parameters."""
        return sum((fan_in + 1) * fan_out for fan_in, fan_out in self.layers)

    def init(self, seed: int) -> Float[Array, " p"]:
        r"""Draw initial parameters, uniform on :math:`\pm 1/\sqrt{\text{fan in}}`, from a seed."""
        rng = generator((seed, 0))
        parts = []
        for fan_in, fan_out in self.layers:
            bound = fan_in**-0.5
            parts.append(rng.uniform(-bound, bound, size=(fan_in + 1) * fan_out))
        return np.concatenate(parts)

    def split(
        self, params: Float[Array, "r p"]
    ) -> list[tuple[Float[Array, "r i o"], Float[Array, "r o"]]]:
        """Return (W, b) of each layer as views into the flat vectors."""
        runs, start, layers = len(params), 0, []
        for fan_in, fan_out in self.layers:
            middle = start + fan_in * fan_out
            weight = params[:, start:middle].reshape(runs, fan_in, fan_out)
            layers.append((weight, params[:, middle : middle + fan_out]))
            start = middle + fan_out
        return layers


_MODELS = ("logistic", "mlp")

Model = Network | TorchModel
"""What an engine trains: it has ``inputs``, a number of parameters ``size``, and ``init``."""


def make_model(name: str, inputs: int, hidden: tuple[int, ...] = (4,)) -> Model:
    """Return the model with this name.

    Args:
        name: one of _MODELS, or ``module:function`` for a torch model.
        inputs: number of features.
        hidden: sizes of the hidden layers; only for ``mlp``.

    >>> make_model("logistic", inputs=2)
    Network(inputs=2, hidden=())
    >>> make_model("nets:build", inputs=2)
    TorchModel(name='nets:build', inputs=2)
    """
    if is_own(name):
        return TorchModel(name, inputs)
    if name not in _MODELS:
        raise ConfigError(unknown_name("model", name, _MODELS))
    if name == "mlp" and (not hidden or min(hidden) < 1):
        raise ConfigError(
            f"an mlp needs hidden layers of at least one unit, got {hidden!r}. "
            "Give sizes such as --hidden 16,8, or choose --model logistic."
        )
    return Network(inputs, hidden if name == "mlp" else ())
