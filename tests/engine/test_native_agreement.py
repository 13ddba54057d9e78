"""The native engine computes what the numpy engine computes in double precision."""

import numpy as np
import pytest
from hypothesis import given

from engine_cases import (
    KINDS,
    PER_EPOCH,
    PER_STEP,
    assert_close,
    assert_trains_alike,
    engine_cases,
    make_case,
    precision_of,
    precisions,
    same_cases,
)
from fedfb.core import ClientData
from fedfb.engine import NativeEngine, NumpyEngine, Rebalance, cell_counts
from fedfb.engine.native.engine import SPARSE_PASSES
from fedfb.errors import ConfigError
from fedfb.models import Network
from fedfb.notions import make_notion


@same_cases
@given(drawn=engine_cases())
def test_an_epoch_of_training_agrees(drawn):
    case = make_case(**drawn)
    assert_trains_alike(case, case.natives(), PER_EPOCH)


@same_cases
@given(drawn=engine_cases(batch=10**6))
def test_a_single_update_agrees(drawn):
    case = make_case(**drawn)
    assert_trains_alike(case, case.natives(), PER_STEP, anchor=case.params[::-1])


@same_cases
@given(drawn=engine_cases(density=0.1, inputs=100, epochs=SPARSE_PASSES))
def test_training_on_sparse_rows_agrees(drawn):
    case = make_case(**drawn)
    assert_trains_alike(case, case.natives(), PER_EPOCH)


@same_cases
@given(drawn=engine_cases())
def test_sums_of_losses_agree(drawn):
    """A sum may be off by so much for each of its rows."""
    case = make_case(**drawn)
    for kind in KINDS:
        expected = case.reference().loss_sums(case.params, case.data, kind)
        for engine in case.natives():
            np.testing.assert_allclose(
                engine.loss_sums(case.params, case.data, kind),
                expected,
                atol=_of_a_sum(case, engine) * (1 if kind != "zero_one" else 0),
                rtol=10 * PER_STEP[precision_of(engine)],
            )


@pytest.mark.slow
@same_cases
@given(drawn=engine_cases())
def test_gradients_of_losses_agree(drawn):
    case = make_case(**drawn)
    params, data, reference = case.params, case.data, case.reference()
    rows = np.random.default_rng(0).uniform(0, 2, size=(len(params), len(data.y)))
    for kind in KINDS[1:]:
        expected = reference.gradient(params, data, case.weights, kind, rows)
        by_cell = reference.cell_gradients(params, data, kind, rows)
        for engine in case.natives():
            atol = 10 * _of_a_sum(case, engine)
            found = engine.gradient(params, data, case.weights, kind, rows)
            np.testing.assert_allclose(found, expected, atol=atol)
            found = engine.cell_gradients(params, data, kind, rows)
            np.testing.assert_allclose(found, by_cell, atol=atol)


def _of_a_sum(case, engine):
    return PER_STEP[precision_of(engine)] * len(case.data.y) * max(1.0, np.abs(case.data.x).max())


@same_cases
@given(drawn=engine_cases())
def test_logits_and_decisions_agree(drawn):
    case = make_case(**drawn)
    expected = case.reference().logits(case.params, case.data.x)
    confusion = case.reference().confusion(case.params, case.data)
    for engine in case.natives():
        found = engine.logits(case.params, case.data.x)
        assert_close(found, expected, PER_STEP[precision_of(engine)], beside=1.0)
        np.testing.assert_array_equal(engine.confusion(case.params, case.data), confusion)


@precisions
@pytest.mark.parametrize("name", ["dp", "eo", "eod"])
@pytest.mark.parametrize("surrogate", ["zero_one", "prob", "ce"])
def test_rebalancing_agrees(precision, name, surrogate):
    case = make_case(groups=3, rows=200, epochs=3)
    notion, counts = make_notion(name, 3), cell_counts(case.data)
    lam = np.repeat(notion.init(counts)[None], 3, axis=0)
    rule = Rebalance(notion, counts, np.array([0.1, 0.3, 0.5]), surrogate, updates=4)
    arguments = (case.params, case.data, lam, rule, case.solver, (1,))
    expected, moved = case.reference().train_rebalancing(*arguments)
    found, lam = NativeEngine(case.model, precision).train_rebalancing(*arguments)
    assert_close(found, expected, PER_EPOCH[precision])
    assert_close(lam, moved, PER_EPOCH[precision])


@precisions
@pytest.mark.parametrize("hidden", [(), (4,)], ids=str)
def test_a_client_without_rows_changes_nothing(precision, hidden):
    case = make_case(rows=0, hidden=hidden)
    engine = NativeEngine(case.model, precision)
    trained = engine.train(case.params, case.data, case.weights, case.solver, (1,))
    np.testing.assert_array_equal(trained, case.params)
    assert not engine.loss_sums(case.params, case.data, "ce").any()
    assert not engine.confusion(case.params, case.data).any()
    assert not engine.gradient(case.params, case.data, case.weights).any()
    assert not engine.cell_gradients(case.params, case.data).any()
    assert engine.logits(case.params, case.data.x).shape == (3, 0)


def test_an_empty_cell_has_no_gradient():
    case = make_case(rows=30)
    data = case.data._replace(y=np.ones_like(case.data.y))
    by_cell = NativeEngine(case.model, "float64").cell_gradients(case.params, data)
    assert not by_cell[:, 0].any()
    assert by_cell[:, 1].any()


def test_rows_of_weight_zero_do_not_move_a_run():
    case = make_case(runs=2)
    weights = np.zeros_like(case.weights)
    weights[1] = 1.0
    trained = NativeEngine(case.model).train(case.params, case.data, weights, case.solver, (1,))
    np.testing.assert_array_equal(trained[0], case.params[0])
    assert np.all(trained[1] != case.params[1])


def test_the_zero_one_loss_has_no_gradient():
    case = make_case()
    engine = NativeEngine(case.model)
    for ask in (
        lambda: engine.gradient(case.params, case.data, case.weights, "zero_one"),
        lambda: engine.cell_gradients(case.params, case.data, "zero_one"),
    ):
        with pytest.raises(ConfigError, match="no gradient"):
            ask()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [30.0, 1e4])
@precisions
def test_losses_of_extreme_logits_stay_finite(kind, size, precision):
    model = Network(1)
    data = ClientData(
        0, np.array([[-size], [size], [0.0]] * 2), np.repeat([0, 1], 3), np.zeros(6, int), 1
    )
    params = np.array([[1.0, 0.0]])
    found = NativeEngine(model, precision).loss_sums(params, data, kind)
    expected = NumpyEngine(model).loss_sums(params, data, kind)
    np.testing.assert_allclose(found, expected, rtol=PER_STEP[precision], atol=PER_STEP[precision])


def test_a_run_that_is_not_finite_stays_so_and_leaves_the_others_alone():
    case = make_case(runs=3)
    params = case.params.copy()
    params[1, 0] = np.nan
    engine = NativeEngine(case.model)
    broken = engine.train(params, case.data, case.weights, case.solver, (1,))
    whole = engine.train(case.params, case.data, case.weights, case.solver, (1,))
    assert np.isnan(broken[1]).any()
    np.testing.assert_array_equal(broken[[0, 2]], whole[[0, 2]])
    assert np.isnan(engine.loss_sums(params, case.data, "ce")[1]).all()


def _rows_in_all_forms(x, folder):
    path = folder / "x.npy"
    np.save(path, x)
    padded = np.full((2 * len(x), x.shape[1] + 3), np.nan)
    padded[::2, 1:-2] = x
    return {
        "memory-mapped": np.load(path, mmap_mode="r"),
        "column by column": np.asfortranarray(x),
        "a part of a table": padded[::2, 1:-2],
        "backwards": x[::-1].copy()[::-1],
        "swapped bytes": x.astype(x.dtype.newbyteorder()),
        "double": x.astype(np.float64),
        "half": x.astype(np.float16),
    }


def test_rows_are_read_in_whatever_form_they_lie(tmp_path):
    case = make_case(rows=40)
    x = case.data.x.astype(np.float16).astype(np.float32)
    engine, data = NativeEngine(case.model), case.data._replace(x=x)
    expected = engine.train(case.params, data, case.weights, case.solver, (1,))
    for form, rows in _rows_in_all_forms(x, tmp_path).items():
        same = data._replace(x=rows)
        found = engine.train(case.params, same, case.weights, case.solver, (1,))
        np.testing.assert_array_equal(found, expected, err_msg=form)
