"""FedFB for client parity, solved from sums: the same search as with every loss in sight."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_methods import run
from federations import make_clients, make_engine, make_solver
from fedfb.algorithms.fedfb.fedfb import fedfb
from fedfb.algorithms.fedfb.outer import Outer
from fedfb.algorithms.fedfb.root_search import FAR_LEVEL, SLOPES
from fedfb.algorithms.fedfb.search import GRIDS, LEVELS, fedfb_by_sums
from fedfb.experiments.explain import explain
from fedfb.experiments.outcome import run as run_experiment
from fedfb.experiments.spec import Experiment
from fedfb.notions import ClientParity


def pair(seed: int, sizes, rounds: int, hidden=()):
    clients, engine, solver = make_clients(seed, sizes=sizes), make_engine(3, hidden), make_solver()
    sums = run(fedfb_by_sums(engine, solver), clients, engine, rounds, seed)
    outer = Outer(surrogate="ce")
    whole = fedfb(engine, solver, ClientParity(symmetric=True), outer)
    return clients, sums, run(whole, clients, engine, rounds, seed)


@pytest.mark.parametrize("hidden", [(), (4,)], ids=["logistic", "mlp"])
@given(seed=st.integers(0, 10**6), count=st.integers(2, 6), rounds=st.integers(1, 6))
def test_the_models_are_those_of_the_search_that_sees_every_loss(hidden, seed, count, rounds):
    sizes = np.random.default_rng(seed).integers(5, 30, count)
    _, sums, whole = pair(seed, sizes, rounds, hidden)
    # A shift is off by less than this, and so is a mean of models that lie less than 1 apart.
    error = 2 * FAR_LEVEL / (LEVELS - 1) ** GRIDS / SLOPES[0]
    np.testing.assert_allclose(sums.state.params, whole.state.params, rtol=0, atol=error)


@given(seed=st.integers(0, 10**6))
def test_the_weights_keep_their_sum(seed):
    clients, sums, whole = pair(seed, (9, 14, 7, 20), 4)
    rows = np.array([len(client.y) for client in clients])
    # The last search is not carried out before the next round trains.
    assert all(sums.memories[client.id]["searched"] == 4 for client in clients)
    omega = np.stack([np.exp(sums.memories[client.id]["theta"]) for client in clients], axis=1)
    np.testing.assert_allclose((omega * rows).sum(axis=1), rows.sum(), rtol=4e-3)
    assert np.ptp(omega) > 0.01
    assert whole.state.lam.sum() == pytest.approx(1)


def test_who_stays_away_neither_moves_nor_stops_the_others():
    few = Experiment(
        notion="cp", lr=(0.005,), rounds=6, local_epochs=3, participation=0.67, rows=300, clients=3
    )
    [one] = run_experiment(few).runs
    assert one.method.chosen_round >= 2
    assert np.isfinite(one.disparity["client_parity"])


def test_clients_become_more_alike_and_no_loss_is_seen():
    flags = {"lr": (0.005,), "local_epochs": 10, "seeds": (0, 1, 2)}
    aim = {"notion": "cp", "partition": "group"}
    [fair, free] = (
        run_experiment(Experiment(algorithm=name, **flags, **aim)) for name in ("fedfb", "fedavg")
    )
    mean = [
        np.mean([one.disparity["client_parity"] for one in found.runs]) for found in (fair, free)
    ]
    assert mean[0] < mean[1]


@pytest.mark.parametrize(
    ("changes", "sums_only"),
    [
        ({}, True),
        ({"target": (0.05,)}, True),
        ({"bits": 8}, False),
        ({"outer": "step"}, False),
    ],
)
def test_single_losses_are_asked_only_for_codes_and_by_steps(changes, sums_only):
    assert explain(Experiment(notion="cp", **changes), groups=2).needs_only_sums == sums_only
