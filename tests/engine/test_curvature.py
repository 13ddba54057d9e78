"""The sums of a Newton step: both engines agree, and they are the derivatives of the loss."""

import numpy as np
import pytest
from hypothesis import given

from engine_cases import engine_cases, make_case, same_cases
from fedfb.engine import NativeEngine, NumpyEngine
from fedfb.engine.rows import full_matrix
from fedfb.errors import ConfigError
from fedfb.models import Network


@same_cases
@given(drawn=engine_cases(hidden=()))
def test_all_engines_have_the_same_sums_in_double_precision(drawn):
    case = make_case(**drawn)
    for full in (True, False):
        expected = case.reference().curvature(case.params, case.data, case.weights, full)
        for engine in case.natives():
            for _ in range(2):  # the second pass may be over rows without their zeros
                found = engine.curvature(case.params, case.data, case.weights, full)
                # Rows are rounded to single precision where their zeros are left out.
                sparse = engine.dtype == np.float32 and drawn["density"] < 1
                rtol = 1e-5 if sparse else 1e-10
                for name in expected._fields:
                    mine, theirs = getattr(found, name), getattr(expected, name)
                    np.testing.assert_allclose(
                        mine, theirs, rtol=rtol, atol=rtol * len(case.data.y)
                    )


def test_gradient_and_second_derivatives_are_those_of_the_loss():
    case = make_case(hidden=(), inputs=3, runs=2, rows=40)
    engine, step = NumpyEngine(case.model), 1e-5
    here = engine.curvature(case.params, case.data, case.weights)
    np.testing.assert_allclose(
        here.gradient, engine.gradient(case.params, case.data, case.weights), rtol=1e-10
    )
    for k in range(case.model.size):
        move = step * (np.arange(case.model.size) == k)
        up, down = (
            engine.curvature(case.params + sign * move, case.data, case.weights) for sign in (1, -1)
        )
        slope = (up.loss - down.loss) / (2 * step)
        np.testing.assert_allclose(here.gradient[:, k], slope, rtol=1e-6, atol=1e-8)
        bend = (up.gradient - down.gradient) / (2 * step)
        for run in range(2):
            matrix = full_matrix(here.second[run], case.model.size)
            np.testing.assert_allclose(matrix[k], bend[run], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("engine", [NumpyEngine, NativeEngine])
def test_a_run_has_the_same_bits_alone_and_in_a_grid(engine):
    case = make_case(hidden=(), inputs=33, runs=5, rows=300, density=0.1)
    several = engine(case.model).curvature(case.params, case.data, case.weights)
    for run in range(5):
        one = slice(run, run + 1)
        alone = engine(case.model).curvature(case.params[one], case.data, case.weights[one])
        for part, whole in zip(alone, several, strict=True):
            np.testing.assert_array_equal(part, whole[one])


@pytest.mark.parametrize("engine", [NumpyEngine, NativeEngine])
def test_a_network_with_hidden_layers_is_refused(engine):
    case = make_case(hidden=(4,))
    with pytest.raises(ConfigError, match=r"hidden layers \(4,\).*--model logistic"):
        engine(Network(7, (4,))).curvature(case.params, case.data, case.weights)
