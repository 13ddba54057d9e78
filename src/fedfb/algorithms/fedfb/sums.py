"""FedFB for client parity from sums alone (Zeng, Chen, Lee, appendix on client parity).

By the paper's rule, the server needs every client's loss to move the clients' weights. Here each
client moves its own weight, and the server needs only sums.
"""

from typing import Literal, NamedTuple

import numpy as np

from fedfb.algorithms.method import TRAINING, Knob, Method, Problem
from fedfb.algorithms.tasks import average, equal_weights, global_model, make_task, weigh_model
from fedfb.core import Algorithm, Arrays, Ask, ClientData, ClientTask, Info, Key, LocalSolver
from fedfb.engine import Engine
from fedfb.notions import Surrogate
from fedfb.notions.base import decay, ratio
from fedfb.shapes import Array, Float

Decay = Literal["const", "inv_sqrt", "inv"]

_TOLERANCE = 1e-9
"""The tolerance of the weights' sum. It is larger than the rounding of fixed point, so that a run
has the same number of exchanges with and without secure sums."""


class State(NamedTuple):
    """The common model, the number of all rows, and of rounds. The clients keep lambda."""

    params: Float[Array, "r p"]
    rows: int
    t: int


def fedfb_sums(
    engine: Engine,
    solver: LocalSolver,
    alpha: Float[Array, " r"],
    decaying: Decay = "inv_sqrt",
    surrogate: Surrogate = "ce",
    minimum: int = 1,
) -> Algorithm:
    r"""Return FedFB for client parity in the form that needs only sums.

    Client i keeps :math:`\lambda_i`, at first :math:`n_i/n`. With :math:`L_i` its mean loss at the
    new model,

    .. math:: w=\sum_i\lambda_iw_i\Big/\sum_i\lambda_i,\qquad
              v_i=\lambda_i+\alpha_u\Big(L_i-\frac1I\sum_jL_j\Big),\qquad
              \lambda_i\leftarrow[v_i-\theta]_+

    with theta such that :math:`\sum_i\lambda_i=1`: the projection onto the simplex. The server
    finds it by Newton's method from theta = 0 on :math:`f(\theta)=\sum_i[v_i-\theta]_+`,

    .. math:: \theta\leftarrow\theta+\frac{f(\theta)-1}{\#\{i:v_i>\theta\}}

    f is convex, decreasing and piecewise linear, so theta rises to the root in at most I steps,
    usually in one or two. The root is reached when a step leaves the same clients above theta.
    Every step is an exchange whose total is three sums. FedFB with the symmetric form of client
    parity has the same lambda.

    Departs from the paper: losses are compared with their mean, which is a sum, not with the loss
    of client 0, which this client would have to publish. If only some clients take part, they share
    the part of lambda that they had. A client keeps :math:`n\lambda_i/n_i`, which is 1 at first.

    Args:
        engine: does the arithmetic.
        solver: local training.
        alpha: step size, one value per run.
        decaying: how the step size falls.
        surrogate: loss that is compared.
        minimum: a client with fewer rows keeps weight 1 and adds 0 to the sums.
    """

    def is_compared(data: ClientData) -> bool:
        return len(data.y) >= minimum

    def share(memory: Arrays, name: str, data: ClientData, rows: Array) -> Float[Array, " r"]:
        return memory[name] * len(data.y) / rows

    def train(
        broadcast: Arrays, data: ClientData, memory: Arrays, key: Key
    ) -> tuple[Arrays, Arrays]:
        weights = equal_weights(broadcast, data)
        trained = engine.train(broadcast["params"], data, weights, solver, key)
        weight = memory["weight"] * len(data.y)
        return weigh_model(trained, weight), memory

    def upload_loss(
        broadcast: Arrays, data: ClientData, memory: Arrays, key: Key
    ) -> tuple[Arrays, Arrays]:
        sums = engine.loss_sums(broadcast["params"], data, surrogate)
        loss = sums.sum(axis=(1, 2)) / len(data.y)
        compared = np.asarray(int(is_compared(data)))
        upload = {"loss": loss * compared, "clients": compared}
        return upload, {**memory, "before": memory["weight"], "loss": loss}

    def move_weight(
        broadcast: Arrays, data: ClientData, memory: Arrays, key: Key
    ) -> tuple[Arrays, Arrays]:
        before, rows = share(memory, "before", data, broadcast["rows"]), broadcast["rows"]
        v = before + broadcast["step_size"] * (memory["loss"] - broadcast["mean_loss"])
        if not is_compared(data):
            nothing = np.zeros_like(before)
            return {"held": nothing, "above": nothing, "before": nothing}, memory
        lam = np.maximum(v - broadcast["theta"], 0.0)
        upload = {"held": lam, "above": (lam > 0).astype(np.float64), "before": before}
        return upload, {**memory, "weight": lam * rows / len(data.y)}

    count = make_task("count", "sum", lambda _, data: {"rows": np.asarray(len(data.y))})
    fit = ClientTask("fit", "sum", train)
    measure = ClientTask("measure", "sum", upload_loss, bounds={"loss": 2.0**12})
    project = ClientTask("project", "sum", move_weight, bounds={"held": 2.0**12, "before": 2.0**12})

    def setup(params: Float[Array, "r p"], ask: Ask) -> State:
        return State(params, int(ask(count, {})["rows"]), 0)

    def round(s: State, ask: Ask) -> tuple[State, Info]:
        params, t = average(ask(fit, {"params": s.params}), s.params), s.t + 1
        rows = np.asarray(s.rows)
        losses = ask(measure, {"params": params})
        mean_loss = ratio(losses["loss"], losses["clients"], empty=0.0)
        step = {"mean_loss": mean_loss, "step_size": alpha * decay(t, decaying), "rows": rows}
        theta, above = np.zeros(len(params)), np.full(len(params), np.nan)
        for _ in range(int(losses["clients"]) + 1):
            held = ask(project, {**step, "theta": theta})
            excess = held["held"] - held["before"]
            # Rounding grows with the number of clients: the same clients above theta also mean the
            # root.
            if np.all((np.abs(excess) <= _TOLERANCE) | (held["above"] == above)):
                break
            theta, above = theta + ratio(excess, held["above"], empty=0.0), held["above"]
        return State(params, s.rows, t), Info(signal=mean_loss[:, None])

    def memory(params: Float[Array, "r p"]) -> Arrays:
        ones = np.ones(len(params))
        return {"weight": ones, "before": ones, "loss": np.zeros(len(params))}

    return global_model(
        "fedfb-sums", engine, (count, fit, measure, project), State, setup, round, memory
    )


def _make(problem: Problem) -> Algorithm:
    options = problem.options
    return fedfb_sums(
        problem.engine,
        problem.solver,
        problem.knobs["alpha"],
        options.decay,
        options.signal_loss or "ce",
        problem.notion.minimum,
    )


METHOD = Method(
    "fedfb-sums",
    "FedFB for client parity by the paper's step; needs only sums",
    "Zeng, Chen, Lee 2021",
    _make,
    knobs={
        "alpha": Knob(
            2.0, (0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0), "step size of the clients' weights"
        )
    },
    notions=("client_parity",),
    additive=False,  # every client keeps a weight of its own
    reads={**TRAINING, "signal_loss": (), "decay": ()},
)
