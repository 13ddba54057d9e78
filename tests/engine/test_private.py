"""Private training: clipped like a naive loop, noise of the stated scale, engines that agree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_cases import (
    INSTRUCTIONS,
    PER_EPOCH,
    assert_trains_alike,
    engine_cases,
    make_case,
    precisions,
    same_cases,
)
from fedfb.core import PrivateTraining
from fedfb.engine import NativeEngine, NumpyEngine
from fedfb.engine.native.engine import SPARSE_PASSES
from fedfb.engine.optimise import private_epochs
from fedfb.models import Network

KEY = (3, 1, 0, 0)


def private(case, clip, noise=0.0, **solver):
    protection = PrivateTraining(clip, {case.data.id: noise})
    return case._replace(solver=case.solver._replace(private=protection, **solver))


def naive_step(case, clip):
    """Clip every row's own gradient, add them up and the noise, divide by the expected number."""
    [epoch] = private_epochs(case.data, case.params.shape, case.solver, KEY)
    [batch], [noise] = epoch.batches, epoch.noise
    total = np.zeros_like(case.params)
    for row in batch:
        alone = case.data._replace(
            **{part: getattr(case.data, part)[row : row + 1] for part in ("x", "y", "group")}
        )
        gradient = case.reference().gradient(case.params, alone, case.weights)
        length = np.linalg.norm(gradient, axis=1, keepdims=True)
        total += gradient * np.minimum(1.0, clip / np.maximum(length, 1e-300))
    return (total + noise) / epoch.expected


@pytest.mark.parametrize("clip", [0.01, 0.5, 1e6])
@pytest.mark.parametrize("noise", [0.0, 1.5])
@pytest.mark.parametrize("engine", ["numpy", "native float64", "native float32"])
@pytest.mark.parametrize("hidden", [(), (4,), (5, 3)])
def test_clipping_equals_a_naive_loop_over_rows(hidden, engine, noise, clip):
    case = make_case(hidden=hidden, runs=2, rows=40, batch=40, optimiser="sgd")
    case = private(case, clip, noise, learning_rate=np.ones(2), weight_decay=0.0, prox=None)
    made = {
        "numpy": NumpyEngine(case.model),
        "native float64": NativeEngine(case.model, np.dtype("float64")),
        "native float32": NativeEngine(case.model, np.dtype("float32")),
    }[engine]
    after = made.train(case.params, case.data, case.weights, case.solver, KEY)
    expected = naive_step(case, clip)
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(case.params - after, expected, rtol=0, atol=1e-6 * scale)


@precisions
@same_cases
@given(
    drawn=engine_cases(epochs=SPARSE_PASSES),
    batch=st.sampled_from([16, 128, 200, 10**6]),
    instructions=st.sampled_from(INSTRUCTIONS),
)
def test_the_engines_train_alike(precision, drawn, batch, instructions):
    """On dense and on sparse rows, on all instruction sets."""
    case = private(make_case(**drawn | {"batch": batch}), clip=0.3, noise=0.5)
    assert_trains_alike(case, [case.native(precision, instructions)], PER_EPOCH)


def test_a_run_of_a_grid_has_noise_of_its_own():
    case = private(make_case(runs=2, rows=30), clip=1.0, noise=1.0)
    [epoch] = private_epochs(case.data, case.params.shape, case.solver, KEY)
    assert not np.any(epoch.noise[:, 0] == epoch.noise[:, 1])


def test_a_secret_changes_rows_and_noise():
    case = private(make_case(rows=300, batch=30), clip=1.0, noise=1.0)
    own = case.solver._replace(private=case.solver.private._replace(secret=(7, 8)))
    [known] = private_epochs(case.data, case.params.shape, case.solver, KEY)
    [secret] = private_epochs(case.data, case.params.shape, own, KEY)
    assert not np.any(known.noise == secret.noise)
    assert [set(batch) for batch in known.batches] != [set(batch) for batch in secret.batches]


def test_the_noise_on_gradients_has_the_stated_scale():
    """Of m normal numbers, the sum of squares is chi-squared: within 5 deviations sqrt(2/m)."""
    multiplier, clip = 1.7, 0.4
    case = private(make_case(hidden=(), inputs=99, rows=50, batch=5), clip, multiplier, epochs=20)
    drawn = np.concatenate(
        [epoch.noise for epoch in private_epochs(case.data, (1, 100), case.solver, KEY)]
    ).ravel()
    of_variance = np.mean(drawn**2) / (multiplier * clip) ** 2
    assert abs(of_variance - 1) < 5 * (2 / drawn.size) ** 0.5
    assert abs(drawn.mean()) < 5 * multiplier * clip / drawn.size**0.5


def test_every_row_is_drawn_by_itself_with_the_same_chance():
    """Numbers of draws are binomial, alone and in pairs: within 5 standard deviations."""
    rows, batch, epochs = 40, 10, 2000
    case = private(make_case(rows=rows, batch=batch), clip=1.0, epochs=epochs)
    steps, rate = epochs * rows // batch, batch / rows
    seen = np.zeros((steps, rows))
    drawn = private_epochs(case.data, (1, 1), case.solver, KEY)
    for step, chosen in enumerate(batch for epoch in drawn for batch in epoch.batches):
        seen[step, chosen] = 1
    deviation = (rate * (1 - rate) / steps) ** 0.5
    assert np.all(np.abs(seen.mean(axis=0) - rate) < 5 * deviation)
    together = (seen.T @ seen / steps)[~np.eye(rows, dtype=bool)]
    assert np.all(np.abs(together - rate**2) < 5 * (rate**2 * (1 - rate**2) / steps) ** 0.5)
    assert len({len(np.flatnonzero(one)) for one in seen}) > 5


def test_a_step_without_any_row_is_noise():
    case = make_case(hidden=(), inputs=3, runs=1, rows=2000, batch=1, optimiser="sgd")
    case = private(case, 1.0, 2.0, learning_rate=np.ones(1), weight_decay=0.0, prox=None)
    [epoch] = private_epochs(case.data, case.params.shape, case.solver, KEY)
    assert any(len(batch) == 0 for batch in epoch.batches)
    for engine in (NumpyEngine(Network(3)), NativeEngine(Network(3), np.dtype("float64"))):
        after = engine.train(case.params, case.data, case.weights, case.solver, KEY)
        assert np.all(np.isfinite(after))
