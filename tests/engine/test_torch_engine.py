"""The torch engine computes what the numpy engine computes, and what torch itself computes."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_cases import (
    KINDS,
    PER_EPOCH,
    PER_STEP,
    assert_close,
    assert_trains_alike,
    engine_cases,
    make_case,
    same_cases,
)
from federations import make_clients, make_solver, merge
from fedfb.core import PrivateTraining
from fedfb.engine import Rebalance, cell_counts, choose_engine
from fedfb.engine.torch_engine import TorchEngine
from fedfb.errors import ConfigError
from fedfb.models import TorchModel, name_of
from fedfb.notions import make_notion

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'fedfb[torch]'")
nets = pytest.importorskip("torch_nets")

DROPPING = [nets.three_layers_with_dropout, nets.Branching]
ALL_KINDS = [*DROPPING, nets.Frozen, nets.Tied]
modules = pytest.mark.parametrize("factory", ALL_KINDS, ids=lambda f: f.__name__)
dropping = pytest.mark.parametrize("factory", DROPPING, ids=lambda f: f.__name__)


@cache
def engine_of(factory, features=3, precision="float64"):
    return choose_engine("auto", TorchModel(name_of(factory), features), np.dtype(precision))


def torch_cases():
    """As those of the native engine, but smaller: torch takes its time for every step."""
    few = {
        "hidden": st.sampled_from(list(nets.OF_HIDDEN)),
        "inputs": st.sampled_from([1, 3, 20]),
        "runs": st.sampled_from([1, 2, 4]),
        "rows": st.sampled_from([1, 2, 17, 40]),
        "batch": st.sampled_from([7, 16, 10**6]),
    }
    return engine_cases().flatmap(
        lambda drawn: st.fixed_dictionaries(few).map(lambda found: {**drawn, **found})
    )


def start(engine, runs=2):
    return np.stack([engine.model.init(seed) for seed in range(runs)])


@same_cases
@given(precision=st.sampled_from(["float64", "float32"]), drawn=torch_cases())
def test_an_epoch_of_training_agrees_with_numpy(precision, drawn):
    case = make_case(**drawn)
    engine = engine_of(nets.OF_HIDDEN[case.model.hidden], case.model.inputs, precision)
    assert_trains_alike(case, [engine], PER_EPOCH, anchor=case.params[::-1])


@same_cases
@given(precision=st.sampled_from(["float64", "float32"]), drawn=torch_cases())
def test_sums_gradients_logits_and_decisions_agree_with_numpy(precision, drawn):
    case = make_case(**drawn)
    engine = engine_of(nets.OF_HIDDEN[case.model.hidden], case.model.inputs, precision)
    reference, params, data = case.reference(), case.params, case.data
    atol = PER_STEP[precision] * len(data.y) * max(1.0, np.abs(data.x).max())
    rows = np.random.default_rng(0).uniform(0, 2, size=(len(params), len(data.y)))
    kind = KINDS[1 + drawn["seed"] % (len(KINDS) - 1)]
    for summed in ("zero_one", kind):
        found, expected = (e.loss_sums(params, data, summed) for e in (engine, reference))
        np.testing.assert_allclose(found, expected, rtol=10 * PER_STEP[precision], atol=atol)
    for ask in ("gradient", "cell_gradients"):
        weights = (case.weights,) if ask == "gradient" else ()
        found, expected = (
            getattr(e, ask)(params, data, *weights, kind, rows) for e in (engine, reference)
        )
        np.testing.assert_allclose(found, expected, atol=10 * atol)
    expected = reference.logits(params, data.x)
    assert_close(engine.logits(params, data.x), expected, PER_STEP[precision], beside=1.0)
    found, expected = (e.confusion(params, data) for e in (engine, reference))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["dp", "eo", "eod"])
def test_rebalancing_agrees_with_numpy(name):
    case = make_case(groups=3, rows=60, epochs=3)
    notion, counts = make_notion(name, 3), cell_counts(case.data)
    lam = np.repeat(notion.init(counts)[None], 3, axis=0)
    rule = Rebalance(notion, counts, np.array([0.1, 0.3, 0.5]), updates=4)
    arguments = (case.params, case.data, lam, rule, case.solver, (1,))
    expected, moved = case.reference().train_rebalancing(*arguments)
    found, lam = engine_of(nets.mlp_4, 7).train_rebalancing(*arguments)
    assert_close(found, expected, PER_EPOCH["float64"])
    assert_close(lam, moved, PER_EPOCH["float64"])


@modules
def test_gradients_are_those_of_torch(factory):
    engine, data = engine_of(factory), merge(make_clients(2, groups=3))
    params, weights = start(engine), np.random.default_rng(3).uniform(0, 2, size=(2, 2, 3))
    found = engine.gradient(params, data, weights)
    for run in range(2):
        module = engine.model.module(params[run]).double()
        z = module(torch.from_numpy(data.x)).reshape(-1)
        y, w = torch.from_numpy(data.y).double(), torch.from_numpy(weights[run].reshape(-1))
        ce = torch.nn.functional.binary_cross_entropy_with_logits(z, y, reduction="none")
        (ce * w[torch.from_numpy(data.cell)]).sum().backward()
        parts = [p.grad.reshape(-1) for p in module.parameters() if p.requires_grad]
        # A module is handed over in single precision, as its function builds it.
        np.testing.assert_allclose(found[run], torch.cat(parts).numpy(), atol=1e-5, rtol=1e-5)
        np.testing.assert_allclose(
            engine.logits(params, data.x)[run], z.detach().numpy(), atol=1e-5
        )


@modules
def test_a_module_taken_out_with_its_initial_parameters_is_the_module(factory):
    model = TorchModel(name_of(factory), 3)
    expected, found = model.build(0).eval().state_dict(), model.module(model.init(0)).state_dict()
    assert list(found) == list(expected)
    assert all(found[name].equal(expected[name]) for name in found)


def test_what_is_not_trained_is_not_sent_and_the_same_for_every_seed():
    model = TorchModel(name_of(nets.Frozen), 3)
    assert model.size == 6
    engine, data = engine_of(nets.Frozen), merge(make_clients(1))
    logits = engine.logits(model.init(5)[None], data.x)
    fresh = TorchEngine(model, np.float64).logits(model.init(5)[None], data.x)
    np.testing.assert_array_equal(logits, fresh)
    assert not np.array_equal(model.init(5), model.init(6))


def test_tied_weights_are_counted_once():
    assert TorchModel(name_of(nets.Tied), 3).size == 9 + 3 + 3


def test_a_module_that_branches_on_values_is_trained_run_by_run():
    assert not engine_of(nets.Branching)._passes.batched
    assert engine_of(nets.three_layers_with_dropout)._passes.batched
    assert engine_of(nets.mlp_5_3)._passes.batched


@dropping
def test_dropout_belongs_to_the_key_and_not_to_the_grid(factory):
    engine, data = engine_of(factory), merge(make_clients(4))
    params, weights = start(engine, 3), np.ones((3, 2, 2))
    solver = make_solver(runs=3)
    together = engine.train(params, data, weights, solver, (1, 2))
    for run in range(3):
        one = slice(run, run + 1)
        single = solver._replace(learning_rate=solver.learning_rate[one])
        alone = engine.train(params[one], data, weights[one], single, (1, 2))
        np.testing.assert_allclose(alone[0], together[run], atol=1e-10)
    again = engine.train(params, data, weights, solver, (1, 2))
    np.testing.assert_array_equal(again, together)


def test_dropout_is_on_in_training_and_off_elsewhere():
    """Of two keys the order of rows differs too, so all rows are one batch of one epoch."""
    engine, data = engine_of(nets.three_layers_with_dropout), merge(make_clients(4))
    params, weights = start(engine, 1), np.ones((1, 2, 2))
    solver = make_solver(batch=10**6, epochs=1, optimiser="sgd")
    trained = [engine.train(params, data, weights, solver, (key,)) for key in (1, 2)]
    assert np.abs(trained[0] - trained[1]).max() > 1e-4
    whole = engine.gradient(params, data, weights) / len(data.y)
    assert np.abs(params - 0.05 * whole - trained[0]).max() > 1e-4
    np.testing.assert_array_equal(whole, engine.gradient(params, data, weights) / len(data.y))


def test_dropout_steps_go_the_right_way_on_average():
    """The mean over 100 masks of half the units is near the step of a linear layer without them.

    With inputs dropped at rate 1/2 and the weights at 0 the logit is 0 whatever is dropped, so the
    step is unbiased. Four standard errors for each of 4 numbers: chance 3e-4, and seeds are fixed.
    """
    engine, data = engine_of(nets.dropped_inputs), merge(make_clients(4))
    params, weights = np.zeros((1, 4)), np.ones((1, 2, 2))
    solver = make_solver(lr=1.0, batch=10**6, epochs=1, optimiser="sgd")
    steps = np.stack([engine.train(params, data, weights, solver, (k,))[0] for k in range(100)])
    expected = -engine.gradient(params, data, weights)[0] / len(data.y)
    error = steps.std(axis=0) / 100**0.5
    assert np.all(np.abs(steps.mean(axis=0) - expected) <= 4 * error + 1e-12)
    assert error[:3].min() > 0


def test_torch_is_left_as_it_was():
    engine, data = engine_of(nets.three_layers_with_dropout), merge(make_clients(4))
    before = torch.get_rng_state(), torch.get_num_threads(), torch.get_default_dtype()
    params = start(engine)
    engine.train(params, data, np.ones((2, 2, 2)), make_solver(runs=2), (1,))
    engine.confusion(params, data)
    engine.cell_gradients(params, data)
    assert torch.get_rng_state().equal(before[0])
    assert (torch.get_num_threads(), torch.get_default_dtype()) == before[1:]


def test_parameters_that_go_in_are_not_written_to():
    engine, data = engine_of(nets.mlp_4), merge(make_clients(4))
    params = start(engine)
    kept = params.copy()
    engine.train(params, data, np.ones((2, 2, 2)), make_solver(runs=2), (1,))
    np.testing.assert_array_equal(params, kept)


def test_a_client_without_rows_changes_nothing():
    case, engine = make_case(rows=0), engine_of(nets.mlp_4, 7)
    trained = engine.train(case.params, case.data, case.weights, case.solver, (1,))
    np.testing.assert_array_equal(trained, case.params)
    assert not engine.loss_sums(case.params, case.data, "ce").any()
    assert not engine.confusion(case.params, case.data).any()
    assert not engine.cell_gradients(case.params, case.data).any()
    assert engine.logits(case.params, case.data.x).shape == (3, 0)


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        (nets.batch_norm, "buffer '1.running_mean' changes in training"),
        (nets.batch_statistics, "ValueError: Expected more than 1 value per channel"),
        (nets.Centred, "depends on the rows beside it"),
        (nets.two_logits, r"answers 8 rows in the shape \(8, 2\), expected \(8,\) or \(8, 1\)"),
        (nets.wrong_inputs, "cannot be used on rows of 3 features: RuntimeError"),
        (nets.untrained, "has no parameters to train"),
        (nets.lazy, "the parameter 'weight' has no shape"),
        (nets.no_module, "returns a value of type int. Expected module:function"),
        (nets.broken, "stops while it is built: KeyError: 'nothing here'"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_cannot_be_trained_is_refused_in_words(factory, said):
    engine = engine_of(factory)
    with pytest.raises(ConfigError, match=said):
        engine.logits(np.zeros((1, 4)), np.zeros((2, 3)))


def test_a_buffer_that_moves_only_now_and_then_is_found_in_training():
    engine, data = engine_of(nets.Counting), merge(make_clients(4))
    with pytest.raises(ConfigError, match="the buffer 'seen' changes in training"):
        engine.train(start(engine), data, np.ones((2, 2, 2)), make_solver(runs=2), (1,))


def test_parameters_of_another_module_are_refused():
    with pytest.raises(ConfigError, match="has 4 parameters for 3 features, and these are 5"):
        engine_of(nets.linear).logits(np.zeros((1, 5)), np.zeros((2, 3)))


def test_private_training_is_refused_not_passed_over():
    engine, data = engine_of(nets.linear), merge(make_clients(4))
    solver = make_solver(runs=2)._replace(private=PrivateTraining(1.0, {0: 2.0}))
    with pytest.raises(ConfigError, match="--privacy-epsilon cuts the gradient of every"):
        engine.train(start(engine), data, np.ones((2, 2, 2)), solver, (1,))


@pytest.mark.parametrize("engine", ["native", "numpy"])
def test_no_other_engine_trains_a_torch_model(engine):
    with pytest.raises(ConfigError, match=f"--engine {engine} trains --model logistic and mlp"):
        choose_engine(engine, TorchModel("torch_nets:linear", 3), np.float32)
