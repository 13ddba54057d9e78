"""FCFL: the step's formula, its stages and limits, two rounds by hand."""

from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federations import make_clients, make_engine, make_solver
from fedfb.algorithms.baselines.fcfl import (
    METHOD,
    common_descent,
    cool,
    fcfl,
    find_shortest,
    share_of_loss,
)
from fedfb.algorithms.method import Problem
from fedfb.errors import ConfigError
from fedfb.experiments.spec import Experiment
from fedfb.notions import make_notion
from scalar_logistic import (
    ROWS,
    START,
    cross_entropy,
    dot,
    gradient_of_mean,
    logit,
    mean,
    minus,
    slope_of_cross_entropy,
)
from step_methods import biased_clients, by_hand, plain_descent, run

vectors = st.lists(st.floats(-3, 3), min_size=3, max_size=3).map(lambda v: np.round(v, 3))


def build(engine, eps, labels=(0, 1), first_stage=100, lr=0.1):
    return fcfl(engine, make_solver(lr=lr), np.array([eps]), labels, first_stage)


def share(d_l, d_g, kept):
    [t] = share_of_loss(d_l[None], d_g[None], np.array([kept]))
    return t


@given(d_l=vectors, d_g=vectors)
def test_opposed_directions_meet_at_a_right_angle_to_the_loss(d_l, d_g):
    t = share(d_l, d_g, kept=False)
    if d_l @ d_g < 0:
        assert 0 < t < 1
        assert (t * d_l + (1 - t) * d_g) @ d_l == pytest.approx(0.0, abs=1e-9)


@given(d_l=vectors, d_g=vectors, kept=st.booleans())
def test_the_share_is_the_best_that_does_not_raise_the_loss(d_l, d_g, kept):
    """Against all t on a grid; where the budget is kept only the ends count, and only the loss."""
    t = share(d_l, d_g, kept)

    def direction(t):
        return t * d_l + (1 - t) * d_g

    aim = d_l if kept else d_g
    assert direction(t) @ d_l >= -1e-9 or kept
    for other in np.linspace(0, 1, 21):
        if kept or direction(other) @ d_l >= 0:
            assert direction(t) @ aim >= direction(other) @ aim - 1e-9


def test_the_three_cases_of_the_share():
    e1, e2 = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    assert share(e1, 0.5 * e1, kept=True) == 1.0
    assert share(e1, 2 * e1, kept=True) == 0.0
    assert share(2 * e1, e1 + 0 * e2, kept=False) == 1.0
    assert share(e1, 2 * e1, kept=False) == 0.0
    assert share(e1, e2 - 3 * e1, kept=False) == 0.75


def test_temperatures_cool_one_by_one_and_stop():
    long, short = np.array([100.0]), np.array([0.0])
    after = cool(np.array([[0.5, 0.5]]), np.stack([long, short])[None])
    np.testing.assert_allclose(after, [[0.5, 0.005]])
    np.testing.assert_array_equal(cool(np.array([[1e-4, 1e-4]]), np.zeros((1, 2, 1))), 1e-4)


@given(seed=st.integers(0, 10**6), clients=st.integers(1, 5), kept=st.booleans())
def test_stage_two_raises_no_objective_and_beats_the_shortest_vector(seed, clients, kept):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(clients, 4)) * 10.0 ** rng.uniform(-6, 2)
    gap = np.zeros(4) if kept else rng.normal(size=4) * np.abs(rows).max()
    found, scale = common_descent(rows, gap), max(np.abs(rows).max(), np.abs(gap).max())
    assert np.all(np.vstack([rows, gap]) @ found >= -1e-6 * scale**2)
    least = find_shortest(np.vstack([rows, gap]) / scale) @ np.vstack([rows, gap])
    assert found @ rows.mean(axis=0) >= least @ rows.mean(axis=0) - 1e-6 * scale**2


@given(seed=st.integers(0, 10**6), many=st.integers(1, 6))
def test_the_shortest_vector_is_that_of_the_hull(seed, many):
    """Optimality of the minimum norm point g: g . G_r >= g . g for every row."""
    rows = np.random.default_rng(seed).normal(size=(many, 3)) + 0.5
    weights = find_shortest(rows)
    g = weights @ rows
    assert np.all(weights >= 0)
    assert weights.sum() == pytest.approx(1.0)
    assert np.all(rows @ g >= g @ g - 1e-9)


def test_no_gradient_no_step():
    assert not common_descent(np.zeros((2, 3)), np.zeros(3)).any()


@pytest.mark.parametrize("hidden", [(), (4,)])
def test_a_budget_of_one_is_pure_min_max(hidden):
    clients, engine = make_clients(3), make_engine(hidden=hidden)
    state = run(build(engine, 1.0), clients, engine, 5).state
    w, delta = engine.model.init(0)[None], 0.5
    for _ in range(5):
        losses = [engine.loss_sums(w, c, "ce").sum() / len(c.y) for c in clients]
        slopes = [engine.gradient(w, c, np.ones((1, 2, 2))) / len(c.y) for c in clients]
        odds = np.exp((np.array(losses) - max(losses)) / delta)
        d = sum(u * g for u, g in zip(odds / odds.sum(), slopes, strict=True))
        w = w - 0.1 * d
        if delta > 1e-4 and 0.1 * np.linalg.norm(d) <= delta:
            delta = 0.01 * delta
    np.testing.assert_allclose(state.params, w, atol=1e-12)


@pytest.mark.parametrize("first_stage", [0, 3, 6])
def test_one_client_without_a_constraint_is_plain_descent(first_stage):
    clients, engine = make_clients(3, sizes=(30,)), make_engine()
    state = run(build(engine, 1.0, first_stage=first_stage), clients, engine, 6).state
    np.testing.assert_allclose(state.params, plain_descent(clients, engine, 6, 0.1), atol=1e-12)


@given(seed=st.integers(0, 10**6))
def test_a_client_without_one_of_the_groups_has_no_disparity(seed):
    one, other = make_clients(seed, sizes=(20, 20))
    alone = other._replace(group=np.ones_like(other.group))
    seen = run(build(make_engine(), 0.01), (one, alone), make_engine(), 2, seed=seed)
    assert all(record.signal[0, 1] == 0 for record in seen.history)


@pytest.mark.parametrize("labels", [(0, 1), (1,)], ids=["dp", "eo"])
def test_every_client_comes_under_the_budget_on_biased_rows(labels):
    clients, engine = biased_clients(1), make_engine()

    def worst(eps):
        seen = run(build(engine, eps, labels, 60, lr=0.3), clients, engine, 150).history
        return np.mean([record.signal.max() for record in seen[-10:]])

    free, fair = worst(1.0), worst(0.05)
    assert free > 0.2
    assert fair < 0.5 * free


def test_more_than_two_groups_are_refused():
    problem = Problem(
        make_engine(), make_solver(), make_notion("dp", 3), {"eps": np.array([0.1])}, "plain", {}
    )
    with pytest.raises(ConfigError, match="there are 3"):
        METHOD.make(problem)


def test_the_first_stage_takes_two_fifths_of_the_rounds():
    """Ten rounds: temperatures cool in the first four only."""
    clients, engine = make_clients(0), make_engine()
    knobs = {"eps": np.array([1.0])}
    problem = Problem(
        engine, make_solver(lr=1e-9), make_notion("dp", 2), knobs, "plain", Experiment(rounds=10)
    )
    warm = [record.lam[0, 0] for record in run(METHOD.make(problem), clients, engine, 10).history]
    late = build(engine, 1.0, first_stage=4, lr=1e-9)
    assert warm == [record.lam[0, 0] for record in run(late, clients, engine, 10).history]


def test_two_rounds_by_hand():
    """Stage 1, then stage 2, on six rows in scalar arithmetic.

    Round 1 breaks the budget: softmax weights at temperature 0.5 over both clients, then the share
    t. Round 2: the two clients' gradients agree, and whichever rows are feasible vertices, the
    program is solved by trying all mixtures of two rows whose bound is tight.
    """
    eps, eta, model = 0.01, 0.05, START
    parts = [[row for row in ROWS if row.client == i] for i in (0, 1)]

    def steep(row, m):
        return 1 / (1 + exp(-10 * logit(m, row)))

    def told(m):
        losses = [mean(rows, lambda r: cross_entropy(m, r)) for rows in parts]
        slopes = [gradient_of_mean(rows, lambda r: slope_of_cross_entropy(m, r)) for rows in parts]
        gaps, tilts = [], []
        for rows in parts:
            ones, zeros = ([r for r in rows if r.group == a] for a in (1, 0))
            gap = mean(ones, lambda r: steep(r, m)) - mean(zeros, lambda r: steep(r, m))

            def slope(r):
                return 10 * steep(r, m) * (1 - steep(r, m))

            tilt = minus(gradient_of_mean(ones, slope), gradient_of_mean(zeros, slope))
            gaps.append(abs(gap))
            tilts.append(minus((0, 0), tilt, -1 if gap > 0 else 1))
        return losses, slopes, gaps, tilts

    def softest(values, vectors, delta):
        odds = [exp((v - max(values)) / delta) for v in values]
        return tuple(
            sum(o * v[k] for o, v in zip(odds, vectors, strict=True)) / sum(odds) for k in (0, 1)
        )

    losses, slopes, gaps, tilts = told(model)
    assert max(gaps) > eps
    d_l, d_g = softest(losses, slopes, 0.5), softest(gaps, tilts, 0.5)
    both = dot(d_l, d_g)
    t = -both / (dot(d_l, d_l) - both) if both < 0 else float(both > dot(d_g, d_g))
    model = minus(minus(model, d_l, eta * t), d_g, eta * (1 - t))
    cool = 0.1 * dot(d_g, d_g) ** 0.5 <= 0.5

    losses, slopes, gaps, tilts = told(model)
    assert max(gaps) > eps
    rows = [*slopes, softest(gaps, tilts, 0.005 if cool else 0.5)]
    average = minus((0, 0), (slopes[0][0] + slopes[1][0], slopes[0][1] + slopes[1][1]), -0.5)
    best = None
    for i in range(3):
        for j in range(3):
            for r in range(3):
                # b on the edge from row i to row j where the bound of row r is tight, and its ends.
                at_i, at_j = dot(rows[i], rows[r]), dot(rows[j], rows[r])
                for s in {1.0, at_i / (at_i - at_j) if at_i * at_j < 0 else 1.0}:
                    g = minus(minus((0, 0), rows[i], -(1 - s)), rows[j], -s)
                    feasible = all(dot(g, row) >= -1e-12 for row in rows)
                    if feasible and (best is None or dot(g, average) > dot(best, average)):
                        best = g
    model = minus(model, best, eta)
    state = by_hand(build(make_engine(1), eps, first_stage=1, lr=eta))
    np.testing.assert_allclose(state.params[0], model, atol=1e-9)
