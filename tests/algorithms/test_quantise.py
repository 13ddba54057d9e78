from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from federations import make_clients, make_engine, make_solver
from fedfb.algorithms import Outer, Quantiser
from fedfb.algorithms.fedfb.fedfb import fedfb, signal_exchange
from fedfb.algorithms.fedfb.signals import bits_per_value
from fedfb.algorithms.tasks import confusion_task
from fedfb.errors import ConfigError
from fedfb.experiments.outcome import run
from fedfb.experiments.spec import Experiment
from fedfb.notions import make_notion
from fedfb.report.text import print_run
from fedfb.runtime import train

quantisers = st.builds(
    lambda bits, reach, signed, rounding: Quantiser(
        bits, -reach if signed else 0.0, reach, rounding
    ),
    st.integers(2, 16),
    st.floats(0.1, 5),
    st.booleans(),
    st.sampled_from(["nearest", "stochastic"]),
)


@given(quantisers, st.integers(1, 20), st.data())
def test_the_error_of_a_sum_is_bounded_by_that_of_its_parts(quantiser, clients, data):
    values = data.draw(
        arrays(float, (clients, 3), elements=st.floats(quantiser.low, quantiser.high))
    )
    codes = np.sum([quantiser.encode(v, (0, i)) for i, v in enumerate(values)], axis=0)
    bound = quantiser.step * (0.5 if quantiser.rounding == "nearest" else 1.0)
    error = np.abs(quantiser.decode(codes) - values.sum(axis=0))
    assert np.all(error <= clients * bound + 1e-9)


@given(quantisers, st.floats(-20, 20), st.floats(-20, 20))
def test_codes_fit_the_bits_saturate_and_keep_the_order(quantiser, one, other):
    low, high = np.sort([one, other])
    codes = quantiser.encode(np.array([low, high, quantiser.low, quantiser.high]), (1,))
    levels = 2**quantiser.bits - (1 if quantiser.low < 0 else 0)
    assert np.ptp(codes) <= levels - 1
    assert codes.min() >= codes[2] or quantiser.rounding == "stochastic"
    if quantiser.rounding == "nearest":
        assert codes[0] <= codes[1]
        assert codes[2] <= codes[0]
        assert codes[1] <= codes[3]


@given(quantisers)
def test_zero_stays_zero(quantiser):
    assert quantiser.decode(quantiser.encode(np.zeros(1), (0,)))[0] == 0.0


def test_one_bit_is_the_sign():
    quantiser = Quantiser(1, -2.0, 2.0)
    decoded = quantiser.decode(quantiser.encode(np.array([-0.1, 0.3, 9.0]), (0,)))
    np.testing.assert_array_equal(decoded, [-2.0, 2.0, 2.0])


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_stochastic_rounding_is_unbiased(bits):
    """The tolerance is 4.2 standard errors of the mean at least: error rate below 1e-4."""
    quantiser = Quantiser(bits, -2.0, 2.0, "stochastic")
    decoded = quantiser.decode(quantiser.encode(np.full(20_000, 0.37), (5,)))
    assert decoded.mean() == pytest.approx(0.37, abs=4.2 * quantiser.step / 20_000**0.5)


def test_bits_of_a_round_are_shared_by_its_values():
    assert bits_per_value(10, 4, "per_value") == 10
    with pytest.raises(ConfigError, match="--bits 5"):
        bits_per_value(4, 5, "per_round")


@pytest.mark.parametrize("name", ["dp", "eo", "eod", "cp"])
def test_with_many_bits_the_quantised_run_is_the_plain_one(name):
    clients, engine = make_clients(0, groups=3), make_engine()

    def lam(bits):
        outer = Outer(np.array([0.5]), surrogate="prob", bits=bits)
        algorithm = fedfb(engine, make_solver(), make_notion(name, 3), outer)
        start, watch = engine.model.init(0)[None], confusion_task(engine)
        return train(algorithm, clients, start, seed=0, rounds=3, watch=watch).state.lam

    np.testing.assert_allclose(lam(28), lam(None), atol=1e-6)
    assert np.abs(lam(2) - lam(None)).max() > 1e-4


@pytest.mark.parametrize(
    ("groups", "notion", "bits", "needed"),
    [(4, "dp", 8, 12), (4, "dp", 11, 12), (4, "eod", 23, 24), (3, "eo", 6, 8)],
)
def test_bits_of_a_round_that_leave_too_few_for_a_value_are_refused(groups, notion, bits, needed):
    """With 3 bits a value FedFB is less fair on COMPAS than FedAvg: .281 to .243."""
    made = make_notion(notion, groups)
    outer = Outer(bits=bits, bits_mode="per_round", surrogate="zero_one")
    with pytest.raises(ConfigError, match=f"Give at least --bits {needed}"):
        signal_exchange(make_engine(), made, outer)
    enough = signal_exchange(make_engine(), made, replace(outer, bits=needed))
    assert enough.task.bits == {"signal": 4}


@pytest.mark.parametrize(("bits", "warned"), [(2, True), (3, True), (4, False), (None, False)])
@pytest.mark.parametrize("rule", ["solve", "step"])
def test_a_run_whose_codes_are_too_coarse_says_so_first(bits, warned, rule, capsys):
    tiny = {"rows": 200, "test_rows": 200, "rounds": 2, "local_epochs": 1, "lr": (0.01,)}
    report = run(Experiment(bits=bits, outer=rule, **tiny))
    print_run(report)
    printed = capsys.readouterr().out
    # Before any figure of the run.
    head = " ".join(printed.split("Test rows")[0].split())
    assert (f"Warning: codes of {bits} bits are too coarse" in head) == warned
    assert ("Give each value --bits 4 or more." in head) == warned
