"""FedFB on one client is CFL to the bit, and CFL is an independent pooled FairBatch to 1e-10."""

from dataclasses import replace

import numpy as np
import pytest
from pooled_fairbatch import pooled_fairbatch

from federations import NOTIONS, make_clients, make_engine, make_solver, merge
from fedfb.algorithms import Outer
from fedfb.algorithms.fedfb.fedfb import fedfb
from fedfb.algorithms.tasks import confusion_task
from fedfb.data import load, pooled
from fedfb.engine import minibatches
from fedfb.experiments import outcome as experiments
from fedfb.experiments.resolve import given_grid, resolve
from fedfb.experiments.spec import Experiment
from fedfb.experiments.train import fit
from fedfb.notions import PooledClientParity, make_notion
from fedfb.runtime import train
from slow_cases import slow_unless

ROUNDS = 5


@pytest.mark.parametrize("notion", NOTIONS)
@pytest.mark.parametrize("model", ["logistic", "mlp"])
def test_fedfb_with_one_client_equals_cfl(notion, model):
    experiment = Experiment(
        rows=300, test_rows=50, rounds=3, local_epochs=2, notion=notion, model=model
    )
    alone = pooled(load(experiment.request, 0))
    settings = given_grid(experiment)
    states = [
        fit(resolve(replace(experiment, algorithm=name)), alone, settings, seed=4).trained.state
        for name in ("fedfb", "cfl")
    ]
    if notion == "cp":  # a client keeps its weight to itself: it is 1 up to rounding
        np.testing.assert_allclose(states[0].params, states[1].params, rtol=1e-12)
        return
    np.testing.assert_array_equal(states[0].params, states[1].params)
    np.testing.assert_array_equal(states[0].lam.ravel(), states[1].lam.ravel())


@pytest.mark.parametrize("notion", NOTIONS)
@pytest.mark.parametrize("surrogate", ["zero_one", "prob", "ce"])
@pytest.mark.parametrize("groups", slow_unless(lambda groups: groups == 3, [2, 3]))
def test_cfl_equals_an_independent_pooled_fairbatch(notion, surrogate, groups):
    clients = make_clients(11, sizes=(70, 45, 60)[:groups], groups=groups)
    everyone = merge(clients)
    if notion == "cp":
        sizes = [len(client.y) for client in clients]
        everyone = everyone._replace(group=np.repeat(np.arange(groups), sizes))
    rule = PooledClientParity(groups) if notion == "cp" else make_notion(notion, groups)
    engine, solver, seed = make_engine(), make_solver(lr=0.02, epochs=4, batch=16), 3
    algorithm = fedfb(engine, solver, rule, Outer(np.array([0.4]), surrogate))
    start = engine.model.init(seed)
    batches = [
        list(minibatches(len(everyone.y), solver, (seed, t, 0, 0))) for t in range(1, ROUNDS + 1)
    ]
    expected = pooled_fairbatch(
        everyone.x, everyone.y, everyone.group, groups, notion, surrogate, 0.4, 0.02, batches, start
    )
    for rounds in range(1, ROUNDS + 1):
        state = train(
            algorithm,
            [everyone],
            start[None],
            seed=seed,
            rounds=rounds,
            watch=confusion_task(engine),
        ).state
        weights, lam = expected[rounds - 1]
        np.testing.assert_allclose(state.params[0], weights, atol=1e-10)
        np.testing.assert_allclose(state.lam[0], lam, atol=1e-10)
    assert np.abs(lam - rule.init(state.counts)).max() > 1e-4  # lambda has really moved


def test_cfl_through_the_experiment_is_fedfb_on_pooled_rows():
    experiment = Experiment(rows=300, test_rows=60, rounds=2, local_epochs=2, algorithm="cfl")
    outcome = experiments.train(experiment)
    [fitted] = outcome.fitted
    one = pooled(load(experiment.request, 0))
    same = fit(resolve(replace(experiment, algorithm="fedfb")), one, fitted.settings, 0)
    np.testing.assert_array_equal(fitted.trained.state.params, same.trained.state.params)
