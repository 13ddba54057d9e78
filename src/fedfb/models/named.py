"""Models by their names in settings: those built in, and a user's own."""

from fedfb.errors import ConfigError, unknown_name
from fedfb.models.network import Network
from fedfb.models.own import is_own
from fedfb.models.torch_model import TorchModel

MODELS = ("logistic", "mlp")

Model = Network | TorchModel
"""What an engine trains: its number of inputs and parameters (``size``), and ``init`` by seed."""


def make_model(name: str, inputs: int, hidden: tuple[int, ...] = (4,)) -> Model:
    """Return the model of that name for a number of features; ``hidden`` matters for ``mlp`` only.

    >>> make_model("logistic", inputs=2)
    Network(inputs=2, hidden=())
    >>> make_model("nets:build", inputs=2)
    TorchModel(name='nets:build', inputs=2)
    """
    if is_own(name):
        return TorchModel(name, inputs)
    if name not in MODELS:
        raise ConfigError(unknown_name("model", name, MODELS))
    if name == "mlp" and (not hidden or min(hidden) < 1):
        raise ConfigError(
            f"an mlp needs hidden layers of at least one unit, got {hidden!r}. "
            "Give sizes such as --hidden 16,8, or choose --model logistic."
        )
    return Network(inputs, hidden if name == "mlp" else ())
