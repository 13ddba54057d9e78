"""Gaps from summed answers are the pooled ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federations import make_clients, make_engine, merge
from fedfb.algorithms.baselines.group_gaps import (
    LOSS_OF_POSITIVES,
    MEAN_LOGIT,
    MISTAKE_OF_POSITIVES,
    SOFT_MISS_RATE,
    SOFT_POSITIVE_RATE,
    gaps_task,
    measure_gaps,
    statistic_sums,
)
from fedfb.core import ClientData
from fedfb.engine import cell_counts, sigmoid
from fedfb.notions import make_notion
from fedfb.runtime import make_ask

STATISTICS = {
    "logit": (MEAN_LOGIT, lambda z, y: z, False),
    "rate": (SOFT_POSITIVE_RATE, lambda z, y: sigmoid(z), False),
    "miss": (SOFT_MISS_RATE, lambda z, y: 1 - sigmoid(z), True),
    "mistake": (MISTAKE_OF_POSITIVES, lambda z, y: np.minimum(0, z), True),
    "loss": (LOSS_OF_POSITIVES, lambda z, y: np.logaddexp(0, -z), True),
}


def summed(clients, engine, statistic, params):
    ask = make_ask(clients, {c.id: {} for c in clients}, 0, 1)
    return ask(gaps_task(engine, statistic), {"params": params})


@pytest.mark.parametrize("name", STATISTICS)
@given(seed=st.integers(0, 10**6), groups=st.sampled_from([1, 2, 3]))
def test_gaps_are_those_of_the_pooled_rows(name, seed, groups):
    statistic, value, only_positives = STATISTICS[name]
    clients, engine = make_clients(seed, groups=groups), make_engine()
    params = np.random.default_rng(seed).normal(size=(2, engine.model.size))
    found, everyone = measure_gaps(summed(clients, engine, statistic, params)), merge(clients)
    z = engine.logits(params, everyone.x)
    rows = (everyone.y == 1) if only_positives else np.ones_like(everyone.y, dtype=bool)
    for a in range(groups):
        mine = rows & (everyone.group == a)
        h = value(z, everyone.y)
        gap = h[:, mine].mean(axis=1) - h[:, rows].mean(axis=1)
        np.testing.assert_allclose(found.value[:, a], gap, atol=1e-12)
        np.testing.assert_allclose(found.share[:, a], mine.sum() / rows.sum(), atol=1e-15)


@pytest.mark.parametrize("hidden", [(), (4,)])
@pytest.mark.parametrize("name", STATISTICS)
def test_gradients_of_gaps_are_their_finite_differences(name, hidden):
    clients, engine = make_clients(4), make_engine(hidden=hidden)
    statistic, params = STATISTICS[name][0], engine.model.init(3)[None]
    found = measure_gaps(summed(clients, engine, statistic, params))
    for k in range(engine.model.size):
        nudge = np.zeros_like(params)
        nudge[0, k] = 1e-6
        up, down = (
            measure_gaps(summed(clients, engine, statistic, params + s * nudge)).value
            for s in (1, -1)
        )
        np.testing.assert_allclose(found.gradient[..., k], (up - down) / 2e-6, atol=1e-6)


@given(seed=st.integers(0, 10**6))
def test_the_soft_rate_is_the_notions_surrogate_rate(seed):
    clients, engine = make_clients(seed), make_engine()
    params, everyone = engine.model.init(seed)[None], merge(clients)
    sums = statistic_sums(engine, params, everyone, SOFT_POSITIVE_RATE)
    rates = make_notion("dp", 2).rates(
        engine.loss_sums(params, everyone, "prob"), cell_counts(everyone)
    )
    np.testing.assert_allclose(sums["sums"] / sums["compared"], rates, atol=1e-12)


@given(seed=st.integers(0, 10**6))
def test_splitting_a_client_changes_no_sum(seed):
    clients, engine = make_clients(seed, sizes=(30, 20)), make_engine()
    first, cut = clients[0], np.random.default_rng(seed).random(30) < 0.5
    halves = [
        ClientData(i, first.x[k], first.y[k], first.group[k], 2)
        for i, k in ((0, cut), (2, ~cut))
        if k.any()
    ]
    params = engine.model.init(seed)[None]
    whole = summed(clients, engine, SOFT_MISS_RATE, params)
    split = summed((*halves, clients[1]), engine, SOFT_MISS_RATE, params)
    for name in whole:
        np.testing.assert_allclose(whole[name], split[name], atol=1e-12)


def test_a_group_that_nobody_has_has_no_gap():
    clients = tuple(c._replace(group=np.zeros_like(c.group)) for c in make_clients(0))
    engine = make_engine()
    found = measure_gaps(summed(clients, engine, MEAN_LOGIT, engine.model.init(0)[None]))
    assert found.present.tolist() == [[True, False]]
    assert not found.value.any()
    assert not found.gradient.any()
