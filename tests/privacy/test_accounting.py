"""Epsilon is what dp-accounting says of the same steps, and of one answer what theory says."""

import dp_accounting as dp
import pytest
from dp_accounting import pld, rdp
from scipy.optimize import brentq
from scipy.stats import norm

from fedfb.errors import ConfigError
from fedfb.experiments.outcome import run
from fedfb.experiments.spec import Experiment
from fedfb.privacy import Budget, Workload, calibrate, epsilon_of, grid_of

DELTA = 1e-5
TINY = {"rows": 400, "test_rows": 200, "rounds": 3, "local_epochs": 2, "lr": (0.005,)}
GIVEN = {"privacy_epsilon": 2.0, "sensitive_at_prediction": True}  # thresholds decide by the group


def step_by_step(accountant, sampling, steps, training, answers, answering):
    """Compose what a client does, written down anew: every kind of step on its own."""
    gradient = dp.PoissonSampledDpEvent(sampling, dp.GaussianDpEvent(training))
    accountant.compose(gradient, steps)
    if answers:
        accountant.compose(dp.GaussianDpEvent(answering), answers)
    return accountant.get_epsilon(DELTA)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["fedavg", "fedfb", "fedfb-thresholds"])
def test_the_epsilon_of_a_run_is_that_of_its_steps(algorithm):
    """FedAvg: steps only; FedFB: counts and a signal a round; thresholds: counts, a histogram."""
    answers = {"fedavg": 0, "fedfb": 4, "fedfb-thresholds": 2}[algorithm]
    report = run(Experiment(**TINY, algorithm=algorithm, **GIVEN))
    for place, client in enumerate(report.privacy.clients):
        assert client.steps == 3 * 2 * -(-client.rows // 128)
        assert client.sampling == min(1.0, 128 / client.rows)
        assert client.answers == answers
        noise = (client.training_noise, answers, client.answering_noise)
        done = (client.sampling, client.steps, *noise)
        grid = grid_of(2.0)
        same = step_by_step(pld.PLDAccountant(value_discretization_interval=grid), *done)
        assert client.epsilon == pytest.approx(same, abs=1e-9)
        assert 0.98 * 2.0 <= client.epsilon <= 2.0
        if place or not answers:
            continue
        finer = step_by_step(pld.PLDAccountant(value_discretization_interval=grid / 10), *done)
        rougher = step_by_step(rdp.RdpAccountant(), *done)
        assert finer <= client.epsilon <= 1.005 * finer
        assert client.epsilon <= rougher


@pytest.mark.parametrize("noise", [0.8, 2.0, 10.0])
def test_one_answer_costs_what_theory_says(noise):
    """Balle and Wang 2018, equation 6: delta of the Gaussian mechanism, exactly."""

    def delta(epsilon):
        near, far = 0.5 / noise - epsilon * noise, -0.5 / noise - epsilon * noise
        return norm.cdf(near) - 2.718281828459045**epsilon * norm.cdf(far)

    exact = brentq(lambda epsilon: delta(epsilon) - DELTA, 1e-6, 100)
    found = epsilon_of(Workload(1.0, 0, answers=1), 0.0, noise, DELTA, 1e-4)
    assert exact <= found <= exact + 2e-4


def test_answers_alone_cost_their_share_and_everything_together_the_budget():
    budget, client = Budget(3.0, DELTA, signals=0.3), Workload(0.02, 500, answers=11)
    spent = calibrate(budget, client)
    alone = epsilon_of(Workload(1.0, 0, 11), 0.0, spent.answering, DELTA)
    assert 0.97 * 0.9 <= alone <= 0.9
    assert 0.98 * 3.0 <= spent.epsilon <= 3.0


def test_more_noise_or_fewer_steps_cost_less():
    base = epsilon_of(Workload(0.05, 200, 5), 1.0, 10.0, DELTA)
    assert epsilon_of(Workload(0.05, 200, 5), 1.2, 10.0, DELTA) < base
    assert epsilon_of(Workload(0.05, 100, 5), 1.0, 10.0, DELTA) < base
    assert epsilon_of(Workload(0.02, 200, 5), 1.0, 10.0, DELTA) < base
    assert epsilon_of(Workload(0.05, 200, 0), 1.0, 10.0, DELTA) < base


@pytest.mark.slow
def test_a_smaller_client_needs_more_noise():
    small, large = (
        calibrate(Budget(1.0, DELTA), Workload(min(1.0, 64 / n), 10 * -(-n // 64), 3))
        for n in (500, 5000)
    )
    assert small.training > large.training


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.03, 0.3, 30.0])
def test_small_and_large_budgets_are_kept(epsilon):
    spent = calibrate(Budget(epsilon, DELTA), Workload(0.01, 8000, answers=11))
    assert 0.95 * epsilon <= spent.epsilon <= epsilon


def test_an_absurd_budget_is_refused_in_words():
    with pytest.raises(ConfigError, match="no sensible noise"):
        calibrate(Budget(1e6, DELTA), Workload(0.01, 10, 1))
