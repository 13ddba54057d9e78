"""The round that FedFB chooses: near to the target, and useful."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from federations import deal, make_rows
from fedfb.algorithms.fedfb.fedfb import fedfb
from fedfb.algorithms.fedfb.outer import Outer, constant_error, keep_best
from fedfb.core import LocalSolver
from fedfb.engine import NumpyEngine
from fedfb.models import Network
from fedfb.notions import make_notion, symmetric
from fedfb.runtime import train

HALF = np.array([[50.0], [50.0]])
"""Rows of which a constant decides half wrongly."""


class Rounds(NamedTuple):
    t: int
    best: Any
    best_round: Any
    distance: Any
    off_target: Any
    error: Any
    least_error: Any


def choose(rounds):
    """Return the number of the round that is chosen, of (distance, share of mistakes)."""
    far = np.array([np.inf])
    s = Rounds(0, np.zeros((1, 1)), np.zeros(1, int), far, far, far, far)
    for number, (distance, error) in enumerate(rounds, start=1):
        distance, error = np.array([distance]), np.array([error])
        params = np.full((1, 1), float(number))
        s = keep_best(s._replace(t=number), params, distance, distance, error, HALF)
    assert s.best[0, 0] == s.best_round[0]
    return int(s.best_round[0])


@pytest.mark.parametrize(
    ("rounds", "chosen"),
    [
        ([(0.3, 0.2), (0.1, 0.22), (0.05, 0.23)], 3),
        ([(0.3, 0.2), (0.0, 0.5)], 1),
        ([(0.0, 0.5), (0.3, 0.2)], 2),
        ([(0.0, 0.53), (0.2, 0.51), (0.1, 0.52)], 2),
        ([(0.0, 0.49), (0.2, 0.2), (0.3, 0.1)], 2),
        ([(0.004, 0.2), (0.003, 0.201), (0.001, 0.3)], 2),
        ([(0.1, 0.2), (0.1, 0.2)], 2),
    ],
    ids=[
        "the nearest",
        "never a constant after a useful round",
        "never a constant before a useful round",
        "where none is useful, the fewest mistakes",
        "a round that hardly beats a constant is not useful",
        "of rounds near the target the last that costs no accuracy",
        "of equal rounds the last",
    ],
)
def test_the_round_is_near_and_useful(rounds, chosen):
    assert choose(rounds) == chosen


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=8),
)
def test_no_constant_and_nothing_worse_is_chosen_while_another_exists(rounds):
    _, error = rounds[choose(rounds) - 1]
    errors = [share for _, share in rounds]
    assert error < 0.5 or error == min(errors)


@pytest.mark.parametrize("notion", ["dp", "eo", "eod"])
@given(seed=st.integers(0, 10**6))
def test_on_random_tables_the_chosen_model_beats_a_constant_or_says_so(notion, seed):
    rng = np.random.default_rng(seed)
    groups = int(rng.integers(2, 6))
    data = make_rows(seed, int(rng.integers(60, 400)), groups, features=2)
    data = data._replace(x=data.x * rng.choice([0.0, 0.3, 1.0, 20.0], size=2))
    clients = deal(data, "dirichlet", int(rng.integers(2, 8)), seed)
    engine, rule = NumpyEngine(Network(2, ())), symmetric(make_notion(notion, groups))
    algorithm = fedfb(
        engine, LocalSolver(np.zeros(1), newton=True), rule, Outer(surrogate="zero_one")
    )
    state = train(algorithm, clients, np.zeros((1, 3)), seed=0, rounds=6, watch=None).state
    [facts] = algorithm.describe(state)
    wrong = engine.loss_sums(state.best, data, "zero_one").sum() / len(data.y)
    assert facts["training_accuracy"] == pytest.approx(1 - wrong)
    assert facts["constant_accuracy"] == pytest.approx(1 - constant_error(state.counts))
    assert wrong < constant_error(state.counts) or wrong == pytest.approx(state.least_error[0])
