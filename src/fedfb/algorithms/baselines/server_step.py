"""The server's step if clients send gradients: plain descent or Adam, with moments in the state."""

import numpy as np

from fedfb.core import LocalSolver
from fedfb.shapes import Array, Float

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
DECAY = np.array([[BETA1], [BETA2]])


def no_moments(params: Float[Array, "r p"]) -> Float[Array, "r 2 p"]:
    """Return Adam's two moments before the first step."""
    return np.zeros((len(params), 2, params.shape[1]))


def descend(
    params: Float[Array, "r p"],
    gradient: Float[Array, "r p"],
    moments: Float[Array, "r 2 p"],
    solver: LocalSolver,
    t: int,
) -> tuple[Float[Array, "r p"], Float[Array, "r 2 p"]]:
    r"""Return the parameters and moments after step t (1, 2, ...) of the solver's optimiser.

    .. math:: w\leftarrow w-\eta g\qquad\text{or}\qquad
              m\leftarrow\beta_1m+(1-\beta_1)g,\quad v\leftarrow\beta_2v+(1-\beta_2)g^2,\quad
              w\leftarrow w-\eta\,\frac{m/(1-\beta_1^t)}{\sqrt{v/(1-\beta_2^t)}+\epsilon}

    Weight decay adds :math:`wd\cdot w` to g.

    Args:
        params: the common model.
        gradient: of the objective, over all rows.
        moments: Adam's moments after step t - 1.
        solver: learning rate, optimiser, weight decay. Epochs, batch and proximal term have no
            meaning here, because one exchange is one step on all rows.
        t: number of the step: 1, 2, ...

    >>> solver = LocalSolver(np.array([0.1]), optimiser="sgd")
    >>> w = np.array([[1.0, 2.0]])
    >>> descend(w, np.array([[1.0, -1.0]]), no_moments(w), solver, t=1)[0]
    array([[0.9, 2.1]])
    >>> adam = solver._replace(optimiser="adam")
    >>> descend(w, np.array([[3.0, -0.5]]), no_moments(w), adam, t=1)[0].round(6)
    array([[0.9, 2.1]])
    """
    if solver.weight_decay:
        gradient = gradient + solver.weight_decay * params
    rate = solver.learning_rate[:, None]
    if solver.optimiser == "sgd":
        return params - rate * gradient, moments
    after = moments * DECAY
    after[:, 0] += (1 - BETA1) * gradient
    after[:, 1] += (1 - BETA2) * gradient**2
    mean, square = after[:, 0] / (1 - BETA1**t), after[:, 1] / (1 - BETA2**t)
    return params - rate * (mean / (np.sqrt(square) + EPSILON)), after
