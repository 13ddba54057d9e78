"""Neighbours and thresholds: what the plan promises, it keeps."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedfb.secure import Plan, ThresholdError, make_plan
from fedfb.secure.graph import (
    FAILURE_BITS,
    LEAK_BITS,
    check_plan,
    failure_log2,
    find_neighbours,
    leak_log2,
    tail_log2,
)


@given(st.integers(6, 200), st.data(), st.binary(max_size=32))
def test_the_graph_is_regular_symmetric_and_connected(clients, data, seed):
    degree = 2 * data.draw(st.integers(2, (clients - 2) // 2))
    graph = find_neighbours(range(clients), degree, seed)
    assert all(len(set(near)) == degree and u not in near for u, near in graph.items())
    assert all(u in graph[v] for u, near in graph.items() for v in near)
    reached, edge = {0}, {0}
    while edge:
        edge = {v for u in edge for v in graph[u]} - reached
        reached |= edge
    assert reached == set(range(clients))


def test_the_graph_follows_its_seed_alone():
    assert find_neighbours(range(100), 10, b"a") == find_neighbours(range(100), 10, b"a")
    assert find_neighbours(range(100), 10, b"a") != find_neighbours(range(100), 10, b"b")


@given(st.integers(1, 300), st.data())
def test_tails_are_hypergeometric(population, data):
    marked, drawn = (data.draw(st.integers(0, population)) for _ in range(2))
    at_least = data.draw(st.integers(0, drawn))
    expected = stats.hypergeom(population, marked, drawn).sf(at_least - 1)
    found = 2.0 ** tail_log2(population, marked, drawn, at_least)
    assert math.isclose(found, expected, rel_tol=1e-6, abs_tol=1e-12)


@pytest.mark.parametrize("clients", [3, 4, 5, 10, 50])
def test_small_rosters_are_complete_and_two_thirds_answer(clients):
    plan = make_plan(clients)
    assert plan.degree == clients - 1
    assert plan.threshold == plan.fewest == 2 * clients // 3 + 1


@pytest.mark.parametrize("clients", [51, 100, 300, 1000])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.1])
def test_large_rosters_are_sparse_and_keep_the_stated_probabilities(clients, share):
    plan = make_plan(clients, colluders=int(share * clients), dropouts=clients // 10)
    assert plan.degree < clients - 1
    assert leak_log2(plan, clients) <= -LEAK_BITS
    assert failure_log2(plan, clients) <= -FAILURE_BITS
    fewer = plan._replace(degree=plan.degree - 2)
    for threshold in range(fewer.degree // 2 + 1, fewer.degree + 2):
        worse = fewer._replace(threshold=threshold)
        leaks = leak_log2(worse, clients) > -LEAK_BITS
        assert leaks or failure_log2(worse, clients) > -FAILURE_BITS


def test_a_roster_that_no_sparse_graph_can_serve_is_complete():
    assert make_plan(51, colluders=16).degree == 50


@pytest.mark.parametrize(
    ("plan", "clients", "match"),
    [
        (Plan(1, 2, 3, 0, 0), 2, "3 clients or more"),
        (Plan(9, 5, 5, 0, 5), 10, "more than half"),
        (Plan(9, 11, 10, 0, 0), 10, "more than half"),
        (Plan(9, 6, 6, 3, 4), 10, "against 3 colluders; at least 7"),
        (Plan(9, 6, 2, 0, 8), 10, "at least 3 are needed"),
        (Plan(9, 10, 4, 4, 6), 10, "two more than the 4 that may collude"),
        (Plan(5, 4, 60, 0, 40), 100, "do not fit into a ring"),
        (Plan(20, 12, 90, 5, 10), 100, "may leak"),
        (Plan(36, 27, 80, 5, 10), 100, "all but the 10 that may drop out"),
    ],
)
def test_a_plan_that_protects_less_is_refused(plan, clients, match):
    with pytest.raises(ThresholdError, match=match):
        check_plan(plan, clients)


def test_a_declared_threshold_is_kept():
    assert make_plan(5, threshold=3) == Plan(4, 3, 3, 0, 2)
    assert make_plan(3, threshold=2) == Plan(2, 2, 3, 0, 0)
