"""One client's training in all its variety, drawn by hypothesis."""

from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from fedfb.core import ClientData, LocalSolver
from fedfb.engine import NativeEngine, NumpyEngine
from fedfb.engine.native import BASELINE, best_instructions
from fedfb.models import Network

HIDDEN = [(), (1,), (4,), (5, 3), (17, 9, 2)]
INSTRUCTIONS = sorted({best_instructions(), BASELINE})
KINDS = ("zero_one", "prob", "ce", "logit", "steep", "mistake")
PER_STEP = {"float64": 1e-13, "float32": 2e-6}
PER_EPOCH = {"float64": 1e-10, "float32": 1e-4}

# Always the same cases: what is said of single precision is no law without exception.
same_cases = settings(derandomize=True)

precisions = pytest.mark.parametrize("precision", ["float64", "float32"])
instruction_sets = pytest.mark.parametrize("instructions", INSTRUCTIONS)


class EngineCase(NamedTuple):
    """A client's rows, the runs' parameters and weights, and how they are trained."""

    model: Network
    data: ClientData
    params: np.ndarray
    weights: np.ndarray
    solver: LocalSolver

    def native(self, precision, instructions) -> NativeEngine:
        return NativeEngine(self.model, np.dtype(precision), instructions)

    def natives(self) -> list[NativeEngine]:
        """The native engine in both precisions, on every instruction set of this machine."""
        return [self.native(precision, one) for precision in PER_STEP for one in INSTRUCTIONS]

    def reference(self) -> NumpyEngine:
        return NumpyEngine(self.model)


def engine_cases(**given) -> st.SearchStrategy[dict]:
    """What make_case takes. Odd sizes on purpose: what fills up vectors must never count.

    The case itself is made in the test: where shapes are checked, making it draws random numbers,
    which hypothesis forbids while it draws its own.
    """
    drawn = {
        "hidden": st.sampled_from(HIDDEN),
        "inputs": st.sampled_from([1, 2, 7, 33, 100]),
        "runs": st.sampled_from([1, 2, 5, 24]),
        "rows": st.sampled_from([1, 2, 15, 16, 17, 128, 129, 300]),
        "groups": st.integers(1, 5),
        "density": st.sampled_from([0.1, 1.0]),
        "batch": st.sampled_from([1, 7, 16, 128, 200, 10**6]),
        "optimiser": st.sampled_from(["adam", "sgd"]),
        "weight_decay": st.sampled_from([0.0, 0.1]),
        "pulled": st.booleans(),
        "epochs": st.just(1),
        "seed": st.integers(0, 2**32),
    }
    return st.fixed_dictionaries(drawn | {name: st.just(v) for name, v in given.items()})


def make_case(
    *,
    hidden=(4,),
    inputs=7,
    runs=3,
    rows=50,
    groups=2,
    density=1.0,
    batch=16,
    optimiser="adam",
    weight_decay=0.0,
    pulled=False,
    epochs=1,
    seed=0,
) -> EngineCase:
    """All numbers are representable in single precision, so that both engines begin alike."""
    rng, model = np.random.default_rng(seed), Network(inputs, hidden)
    x = rng.normal(size=(rows, inputs)) * (rng.random((rows, inputs)) < density)
    data = ClientData(
        3, _single(x), rng.integers(0, 2, rows), rng.integers(0, groups, rows), groups
    )
    weights = rng.uniform(0, 2, size=(runs, 2, groups)) * (rng.random((runs, 2, groups)) < 0.8)
    rates, pulls = rng.uniform(0.001, 0.01, runs), rng.uniform(0, 0.5, runs)
    solver = LocalSolver(_single(rates), epochs, batch, optimiser, weight_decay)
    if pulled:
        solver = solver._replace(prox=_single(pulls))
    params = np.stack([model.init(int(rng.integers(2**32))) for _ in range(runs)])
    return EngineCase(model, data, _single(params), _single(weights), solver)


def _single(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32).astype(np.float64)


def assert_close(found, expected, tolerance, slack=lambda: 0.0, beside=0.0) -> None:
    """Compare to a share of the largest number expected, or of what stands beside."""
    largest = max(np.max(np.abs(expected), initial=0.0), np.max(np.abs(beside), initial=0.0))
    gap = np.abs(found - expected)
    if np.max(gap, initial=0.0) > tolerance * largest:
        excess = np.max(gap - slack(), initial=0.0)
        assert excess <= tolerance * largest, f"differs by {excess:.1e}, of {largest:.1e}"


def precision_of(engine) -> str:
    return np.dtype(engine.dtype).name


def assert_trains_alike(case, engines, tolerances, anchor=None) -> None:
    """Compare training on engines, each to the tolerance of its precision, and on the reference.

    A unit at its kink, or one of Adam's gradients that is 0 but for rounding, may go either way. So
    where they differ by more, the reference is asked how far it moves itself when its start is off
    by a rounding.
    """
    rng, reference = np.random.default_rng(0), case.reference()
    arguments = (case.data, case.weights, case.solver, (1, 2), anchor)
    expected = reference.train(case.params, *arguments)

    def moved_by(rounding):
        off = [1 + rounding * rng.uniform(-1, 1, case.params.shape) for _ in range(5)]
        moved = [reference.train(case.params * each, *arguments) - expected for each in off]
        return 10 * np.max(np.abs(moved), axis=0)

    for engine in engines:
        found, precision = engine.train(case.params, *arguments), precision_of(engine)
        slack = partial(moved_by, np.finfo(precision).eps)
        assert_close(found, expected, tolerances[precision], slack, beside=case.params)
