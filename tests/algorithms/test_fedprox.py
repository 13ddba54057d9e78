"""FedProx: FedAvg with a pull towards the received model."""

import numpy as np
import pytest

from client_methods import build, line_client, run, slope
from federations import make_clients, make_engine, make_solver
from fedfb.algorithms.fedavg import fedavg

ROWS = ([(1.0, 1), (-2.0, 0)], [(0.5, 0), (1.5, 0), (-1.0, 1)])


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_without_pull_it_is_fedavg_bit_for_bit(optimiser):
    clients, engine = make_clients(0), make_engine(3, hidden=(4,))
    solver = make_solver(optimiser=optimiser)
    pulled = run(build("fedprox", engine, solver, mu=0), clients, engine)
    plain = run(fedavg(engine, solver), clients, engine)
    np.testing.assert_array_equal(pulled.state.params, plain.state.params)


def test_two_rounds_by_hand():
    """Two local full-batch steps; the second feels mu (w - w^t)."""
    clients, engine = [line_client(i, rows) for i, rows in enumerate(ROWS)], make_engine(1)
    solver = make_solver(lr=0.5, epochs=2, batch=100, optimiser="sgd")
    state = run(build("fedprox", engine, solver, mu=0.7), clients, engine, rounds=2).state
    w, b = engine.model.init(0).tolist()
    for _ in range(2):
        ends = []
        for rows in ROWS:
            v, c = w, b
            for _ in range(2):
                gv, gc = slope(v, c, rows)
                v, c = v - 0.5 * (gv + 0.7 * (v - w)), c - 0.5 * (gc + 0.7 * (c - b))
            ends.append((v, c))
        w, b = ((2 * ends[0][axis] + 3 * ends[1][axis]) / 5 for axis in (0, 1))
    np.testing.assert_allclose(state.params, [[w, b]], atol=1e-12)


def test_a_stronger_pull_shortens_the_way():
    clients, engine = make_clients(1), make_engine()
    solver = make_solver(lr=0.1, epochs=10, optimiser="sgd")
    start, ways = engine.model.init(0), []
    for mu in (0.0, 0.1, 1.0, 5.0):
        state = run(build("fedprox", engine, solver, mu=mu), clients, engine, rounds=1).state
        ways.append(np.linalg.norm(state.params - start))
    assert ways == sorted(ways, reverse=True)


def test_it_is_declared_unfair():
    from fedfb.algorithms.fedavg import FEDPROX as METHOD

    assert not METHOD.fair
