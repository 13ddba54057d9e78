r"""The convergence theorem, with the factor that its proof has and its bound drops (erratum E18).

Two groups, the normalised step, the inner problem solved exactly: every step moves lambda_1 by
alpha_t / sqrt 2 towards the root lambda*, since F_1 falls along the line. So

    |lambda_T - lambda*| <= max(|lambda_0 - lambda*| - sum_t alpha_t / sqrt 2, alpha_T / sqrt 2).
"""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from fedfb.notions.base import normalise
from inner_problem import Problem, random_problem, signal_at, solve

RULES = {"a/t": lambda t: 1.0 / t, "a/sqrt t": lambda t: t**-0.5}


def problem_of(kind: str, seed: int) -> Problem:
    """Return a random problem whose direction moves both groups by as much, one up, one down.

    Demographic parity's does; that of equal opportunity if groups are compared with their mean.
    """
    problem, _ = random_problem(kind, kind == "eo", 2, seed)
    return problem


def signal(problem: Problem, lam):
    return signal_at(problem, solve(problem, lam), "ce")


def root(problem: Problem):
    """Return lambda* by bracketing along the line through the start, None without a change of sign.

    Along it one group receives what the other gives up.
    """
    start, direction = problem.start, np.array([[-1.0, 1.0]])
    # 1e-6 inside Lambda's border, where the inner problem may lose a whole cell.
    reach = [_reach(problem, start, sign * direction) * (1 - 1e-6) for sign in (-1, 1)]

    def unfairness(t):
        return float(signal(problem, start + t * direction)[0, 1])

    low, high = -reach[0], reach[1]
    if unfairness(low) * unfairness(high) > 0:
        return None
    return start + brentq(unfairness, low, high, xtol=1e-12) * direction


def _reach(problem, start, direction):
    """Return how far the line stays in Lambda."""
    low, high = 0.0, 2.0
    for _ in range(60):
        middle = (low + high) / 2
        inside = problem.notion.feasible(start + middle * direction, problem.counts)
        low, high = (middle, high) if inside else (low, middle)
    return low


class BorderError(Exception):
    """A step led out of Lambda: projected, it is shorter, and may leave the line."""


def walk(problem: Problem, rule, a: float, steps: int):
    """Yield lambda after every normalised step; the theorem knows no border."""
    lam = problem.start
    for t in range(1, steps + 1):
        step = a * rule(t) * normalise(signal(problem, lam), "l2")
        if not problem.notion.feasible(lam + step, problem.counts):
            raise BorderError
        lam = lam + step
        yield lam


def stays_inside(problem: Problem, rule) -> bool:
    try:
        return bool(list(walk(problem, rule, 0.1, 20)))
    except BorderError:
        return False


def bound(problem, best, rule, a, steps) -> float:
    alphas = np.array([a * rule(t) for t in range(1, steps + 1)]) / np.sqrt(2)
    return max(abs(problem.start[0, 1] - best[0, 1]) - alphas.sum(), alphas[-1])


@pytest.mark.parametrize("rule", RULES)
@given(
    kind=st.sampled_from(["dp", "eo"]),
    seed=st.integers(0, 2**32 - 1),
    a=st.sampled_from([0.01, 0.05, 0.2]),
)
@settings(derandomize=True)
def test_after_ten_steps_lambda_is_as_near_as_the_bound_says(rule, kind, seed, a):
    problem = problem_of(kind, seed)
    best = root(problem)
    assume(best is not None)
    try:
        *_, last = walk(problem, RULES[rule], a, 10)
    except BorderError:
        assume(False)
    assert abs(last[0, 1] - best[0, 1]) <= bound(problem, best, RULES[rule], a, 10) + 1e-8


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ["dp", "eo"])
def test_it_goes_on_to_the_root(rule, kind):
    problem, best = next(
        (problem, best)
        for seed in range(100)
        for problem in [problem_of(kind, seed)]
        if (best := root(problem)) is not None and stays_inside(problem, RULES[rule])
    )
    path = list(walk(problem, RULES[rule], 0.1, 400))
    for steps in (10, 100, 400):
        distance = abs(path[steps - 1][0, 1] - best[0, 1])
        assert distance <= bound(problem, best, RULES[rule], 0.1, steps) + 1e-8
    assert distance < 0.005


@pytest.mark.slow
def test_the_papers_bound_without_the_factor_is_broken():
    """It subtracts sum alpha_t, as if a step of length alpha moved one coordinate by alpha."""
    broken = []
    for seed in range(40):
        problem = problem_of("eo", seed)
        best = root(problem)
        if best is None:
            continue
        a, steps = 0.02, 3
        *_, last = walk(problem, RULES["a/sqrt t"], a, steps)
        alphas = [a * t**-0.5 for t in range(1, steps + 1)]
        printed = max(abs(problem.start[0, 1] - best[0, 1]) - sum(alphas), alphas[-1])
        broken.append(abs(last[0, 1] - best[0, 1]) > printed + 1e-6)
    assert any(broken)
