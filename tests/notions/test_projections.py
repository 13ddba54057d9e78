import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedfb.notions.base import box, capped_simplex, simplex

vectors = arrays(float, st.integers(1, 6), elements=st.floats(-3, 3))
masses = st.floats(0.05, 2)


@given(vectors, masses, st.data())
@pytest.mark.parametrize("project", [simplex, capped_simplex])
def test_projection_is_feasible_idempotent_and_nearest(project, v, s, data):
    p = project(v, s)
    assert np.all(p >= 0)
    if project is simplex:
        np.testing.assert_allclose(p.sum(), s, atol=1e-12)
    else:
        assert p.sum() <= s + 1e-12
    np.testing.assert_allclose(project(p, s), p, atol=1e-12)
    # The variational inequality (v - p).(z - p) <= 0 for every feasible z says that p is nearest.
    z = data.draw(arrays(float, len(v), elements=st.floats(0, 1, allow_subnormal=False)))
    z = z * (s / max(z.sum(), s)) if project is capped_simplex else _on_simplex(z, s)
    assert (v - p) @ (z - p) <= 1e-9


def _on_simplex(z, s):
    return np.full_like(z, s / len(z)) if z.sum() < 1e-9 else z * (s / z.sum())


@given(vectors, st.data())
def test_box_is_the_nearest_point_of_the_box(v, data):
    upper = data.draw(arrays(float, len(v), elements=st.floats(0, 2)))
    z = data.draw(arrays(float, len(v), elements=st.floats(0, 1))) * upper
    p = box(v, upper)
    assert np.all((p >= 0) & (p <= upper))
    np.testing.assert_array_equal(box(p, upper), p)
    assert (v - p) @ (z - p) <= 1e-9


@pytest.mark.parametrize("project", [simplex, capped_simplex])
def test_the_point_that_an_exclusive_prefix_sum_gets_wrong(project):
    np.testing.assert_allclose(project(np.array([1.3, 0.2]), 1.0), [1.0, 0.0], atol=1e-15)


@pytest.mark.parametrize("project", [simplex, capped_simplex])
def test_no_mass_leaves_nothing(project):
    np.testing.assert_array_equal(project(np.array([0.4, -1.0]), 0.0), [0.0, 0.0])


@given(arrays(float, (3, 4), elements=st.floats(-2, 2)), masses)
def test_runs_are_projected_one_by_one(v, s):
    together = capped_simplex(v, s)
    apart = np.stack([capped_simplex(row, s) for row in v])
    np.testing.assert_array_equal(together, apart)
