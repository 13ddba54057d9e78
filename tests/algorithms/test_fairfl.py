"""FairFL-style participation: everybody in is FedAvg, policies follow the summed reward."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federations import make_clients, make_engine, make_solver, merge
from fedfb.algorithms.baselines.fairfl import METHOD, fairfl, reward_of
from fedfb.algorithms.fedavg import fedavg
from fedfb.core import generator
from fedfb.errors import ConfigError
from fedfb.runtime import make_ask
from local_training import build, chance, client, descend, run

ONE_BATCH = {"batch": 10**6, "epochs": 2}
"""Questions before the fit draw other batches than FedAvg's; of one batch there is one order."""


def make(engine, runs=1, beta=1.0, eta_pi=1.0, groups=2, solver=None, **more):
    solver = solver or make_solver(runs, **ONE_BATCH)
    return fairfl(engine, solver, groups, np.full(runs, beta), np.full(runs, eta_pi), **more)


@pytest.mark.parametrize("hidden", [(), (4,)])
@given(seed=st.integers(0, 10**6))
def test_when_everybody_takes_part_it_is_fedavg(hidden, seed):
    clients, engine = make_clients(seed), make_engine(hidden=hidden)
    fair = run(make(engine, start=60.0, eta_pi=5.0), clients, engine, rounds=3, seed=seed)
    plain = run(fedavg(engine, make_solver(**ONE_BATCH)), clients, engine, rounds=3, seed=seed)
    np.testing.assert_allclose(fair.state.params, plain.state.params, atol=1e-12)
    assert [record.lam[0, 0] for record in fair.history] == [3, 3, 3]


@given(seed=st.integers(0, 10**6))
def test_when_nobody_wants_to_all_do(seed):
    clients, engine = make_clients(seed), make_engine()
    nobody = run(make(engine, start=-60.0), clients, engine, seed=seed)
    plain = run(fedavg(engine, make_solver(**ONE_BATCH)), clients, engine, seed=seed)
    np.testing.assert_allclose(nobody.state.params, plain.state.params, atol=1e-12)


@given(seed=st.integers(0, 10**6), groups=st.sampled_from([1, 2, 3, 5]), beta=st.floats(0, 5))
def test_the_reward_is_mean_f1_less_the_largest_gap_to_the_others(seed, groups, beta):
    table = np.random.default_rng(seed).integers(0, 4, (1, 2, 2, groups)).astype(float)
    table[:, 0, 0] += 1
    f1 = []
    for a in range(groups):
        tp, wrong = table[0, 1, 1, a], table[0, 0, 1, a] + table[0, 1, 0, a]
        f1.append(2 * tp / (2 * tp + wrong) if tp else 0.0)
    gaps = [
        f1[a] - np.mean([f1[b] for b in range(groups) if b != a]) if groups > 1 else 0.0
        for a in range(groups)
    ]
    index, reward = reward_of(table, np.array([beta]))
    np.testing.assert_allclose(index[0], gaps, atol=1e-12)
    assert reward[0] == pytest.approx(np.mean(f1) - beta * np.max(np.abs(gaps)), abs=1e-12)


def test_without_positives_f1_is_0_and_groups_without_rows_are_left_out():
    table = np.zeros((1, 2, 2, 3))
    table[0, 0, 0, :2], table[0, 1, 1, 0] = 5, 3
    index, reward = reward_of(table, np.array([0.5]))
    np.testing.assert_allclose(index, [[1, -1, 0]])
    np.testing.assert_allclose(reward, [0.5 - 0.5])


def test_only_sums_travel_and_those_who_stay_away_send_zeros():
    clients, engine = make_clients(0), make_engine()
    algorithm = make(engine)
    assert {task.reduce for task in algorithm.tasks} == {"sum"}
    params = engine.model.init(0)[None]
    fit = algorithm.tasks[2]
    away = {**algorithm.memory(params), "action": np.zeros(1)}
    broadcast = {"params": params, "everyone": np.array([False])}
    upload, _ = fit.run(broadcast, clients[0], away, (0, 1, 1, 0))
    assert all(np.all(value == 0) for value in upload.values())


@given(seed=st.integers(0, 10**6))
def test_splitting_a_client_changes_no_summed_statistic(seed):
    clients, engine = make_clients(seed), make_engine()
    algorithm = make(engine)
    count, _, _, measure = algorithm.tasks
    answers = []
    for federation in (clients, (merge(clients),)):
        ask = make_ask(federation, {c.id: {} for c in federation}, seed, 1)
        params = engine.model.init(seed)[None]
        answers.append((ask(count, {})["rows"], ask(measure, {"params": params})["confusion"]))
    np.testing.assert_array_equal(answers[0][0], answers[1][0])
    np.testing.assert_array_equal(answers[0][1], answers[1][1])


def test_three_rounds_by_hand():
    """Two clients of three rows, one feature; draws are the clients' own, all else plain numbers.

    The first reward is its own baseline, so policies first move in round 3, by round 2's.
    """
    federation = {
        0: [(-1.0, 0, 0), (0.5, 1, 0), (2.0, 1, 1)],
        1: [(1.5, 1, 1), (-0.5, 0, 1), (-2.0, 1, 0)],
    }
    w, b, lr, beta, eta, seed = 0.4, -0.2, 0.3, 2.0, 3.0, 5
    theta = {i: [0.0] * 6 for i in federation}
    action, score = {0: 0.0, 1: 0.0}, {i: [0.0] * 6 for i in federation}
    surprise = baseline = 0.0
    for t in (1, 2, 3):
        for i, rows in federation.items():
            theta[i] = [a + eta * surprise * s for a, s in zip(theta[i], score[i], strict=True)]
            shares = [sum(g == a for *_, g in rows) / 3 for a in (0, 1)]
            p = [chance(w, b, x) for x, _, _ in rows]
            losses = [-math.log(q if y else 1 - q) for q, (_, y, _) in zip(p, rows, strict=True)]
            seen = [*shares, 3 / 6, sum(y for _, y, _ in rows) / 3, sum(losses) / 3, action[i]]
            pi = 1 / (1 + math.exp(-sum(a * o for a, o in zip(theta[i], seen, strict=True))))
            action[i] = float(generator((seed, t, 0, i)).random() < pi)
            score[i] = [(action[i] - pi) * o for o in seen]
        if not any(action.values()):
            action = dict.fromkeys(action, 1.0)
        models = [
            descend(w, b, rows, [1] * 3, 3, lr) for i, rows in federation.items() if action[i]
        ]
        w, b = (sum(model[k] for model in models) / len(models) for k in (0, 1))
        f1 = []
        for a in (0, 1):
            rows = [row for own in federation.values() for row in own if row[2] == a]
            tp = sum(y and w * x + b >= 0 for x, y, _ in rows)
            wrong = sum((w * x + b >= 0) != y for x, y, _ in rows)
            f1.append(2 * tp / (2 * tp + wrong) if tp else 0.0)
        reward = sum(f1) / 2 - beta * abs(f1[0] - f1[1])
        baseline = reward if t == 1 else baseline
        surprise, baseline = reward - baseline, 0.9 * baseline + 0.1 * reward
    engine = make_engine(1)
    solver = make_solver(lr=lr, epochs=1, batch=10, optimiser="sgd")
    algorithm = make(engine, beta=beta, eta_pi=eta, solver=solver)
    clients = tuple(client(i, rows) for i, rows in federation.items())
    params = np.array([[0.4, -0.2]])
    memories = {c.id: algorithm.memory(params) for c in clients}
    state = algorithm.setup(params, make_ask(clients, memories, seed, 0))
    for t in (1, 2, 3):
        state, _ = algorithm.round(state, make_ask(clients, memories, seed, t))
    np.testing.assert_allclose(state.params, [[w, b]], rtol=1e-12)
    np.testing.assert_allclose(
        [state.surprise[0], state.baseline[0]], [surprise, baseline], atol=1e-12
    )
    for i in federation:
        np.testing.assert_allclose(memories[i]["theta"][0], theta[i], atol=1e-12)


def test_policies_move_only_by_rewards_that_they_had_a_part_in():
    """A client that was not asked in round 1 does not learn from round 1's reward in round 2."""
    clients, engine = make_clients(1), make_engine()
    algorithm = make(engine)
    params = engine.model.init(0)[None]
    memory = algorithm.memory(params)
    memory = {**memory, "score": np.ones_like(memory["score"]), "t": np.asarray(3)}
    broadcast = {"params": params, "rows": np.asarray(66), "surprise": np.ones(1)}
    for t, learns in ((4, True), (5, False)):
        told = {**broadcast, "t": np.asarray(t)}
        _, after = algorithm.tasks[1].run(told, clients[0], memory, (0, t, 0, 0))
        assert np.any(after["theta"] != memory["theta"]) == learns


def test_other_notions_are_refused_in_words():
    with pytest.raises(ConfigError, match="--notion dp or --notion eo"):
        build(METHOD, make_engine(), "eod")
