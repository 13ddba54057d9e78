"""Laws, eta and populations: what they compute, and what they refuse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad

from fedfb.errors import ConfigError
from fedfb.theory import (
    Atoms,
    Client,
    Frozen,
    Gaussian,
    Histogram,
    Mixture,
    cfl,
    client,
    erm,
    eta_named,
    identity,
    increasing,
    lft_ensemble,
    lft_fedavg,
    logistic,
    outcome,
    population,
    setting,
    table,
    threshold,
)
from few_examples import one_in
from theory.populations import positive_chance

TWO = Gaussian(3, 1), Gaussian(5, 1)
EDGES = np.array([-2.0, -0.5, 0.0, 1.0, 4.0])
LAWS = {
    "gaussian": Gaussian(0.3, 0.8),
    "mixture": Mixture([0.3, 0.7], [Gaussian(-1.0, 0.5), Gaussian(1.5, 1.2)]),
    "frozen": Frozen(stats.gamma(2.0, loc=-1.0)),
    "bounded": Frozen(stats.uniform(-1.0, 3.0)),
    "histogram": Histogram(EDGES, [0.1, 0.4, 0.2, 0.3]),
    "mixture of kinds": Mixture([0.5, 0.5], [Frozen(stats.t(5)), Histogram(EDGES, [0.25] * 4)]),
}


def density(law, x):
    if isinstance(law, Mixture):
        pairs = zip(law.weights, law.parts, strict=True)
        return sum(w * density(part, x) for w, part in pairs)
    return float(law.pdf(np.array([x]))[0])


@pytest.mark.parametrize("eta", ["logistic", "probit"])
@pytest.mark.parametrize("name", LAWS)
def test_rates_and_accuracy_are_the_integrals_of_the_law(name, eta):
    law = LAWS[name]
    alone = population([client(0.5, law, law)], eta)
    for t in (-0.7, 0.4, 2.0):
        done = outcome(alone, (threshold(t), threshold(np.inf)))

        def integrand(x):
            return density(law, x) * (2 * float(positive_chance(alone, x)) - 1)

        breaks = [p for p in EDGES if p > t]
        rate = quad(lambda x: density(law, x), t, 60, points=breaks, limit=400)[0]
        margin = quad(integrand, t, 60, points=breaks, limit=400)[0]
        everything = quad(integrand, -60, 60, points=list(EDGES), limit=400)[0]
        assert done.rates[0] == pytest.approx(rate, abs=1e-7)
        assert done.accuracy == pytest.approx((1 - everything) / 2 + margin / 2, abs=1e-7)


@pytest.mark.parametrize("name", LAWS)
@one_in(5, derandomize=True)
@given(st.floats(0.2, 0.8), st.floats(-1, 1))
def test_every_kind_of_law_is_solved(name, q, shift):
    other = Gaussian(0.8 + shift, 1.0)
    both = population([client(q, LAWS[name], other), client(0.5, other, LAWS[name])])
    assert cfl(both, 0.05).outcome.spd <= 0.05 + 1e-10
    best = lft_fedavg(both, [0.02, 0.3])
    assert best.gap <= 1e-9
    assert np.all(np.abs(best.outcome.client_gaps) <= np.array([0.02, 0.3]) + 2e-8)


def test_a_mixture_is_what_its_parts_make_it():
    apart = setting("fig2", 0.5, 0.5)
    together = population(
        [
            client(
                0.5,
                Mixture([0.5, 0.5], [Gaussian(3, 1), Gaussian(1, 1)]),
                Mixture([0.5, 0.5], [Gaussian(5, 1), Gaussian(-1, 1)]),
            )
        ]
    )
    assert cfl(together, 0.1).outcome.accuracy == pytest.approx(
        cfl(apart, 0.1).outcome.accuracy, abs=1e-13
    )
    assert lft_ensemble(together, 0.1).outcome.spd == pytest.approx(0.1, abs=1e-12)


def test_a_client_split_in_two_leaves_cfl_unchanged():
    whole = population([client(0.3, *TWO, share=0.6), client(0.8, *TWO[::-1], share=0.4)])
    split = population(
        [
            client(0.3, *TWO, share=0.2),
            client(0.8, *TWO[::-1], share=0.4),
            client(0.3, *TWO, share=0.4),
        ]
    )
    assert cfl(whole, 0.03).outcome.accuracy == pytest.approx(cfl(split, 0.03).outcome.accuracy)


def test_any_increasing_eta_will_do():
    own = increasing(lambda x: 1 / (1 + np.exp(-x)), name="own")
    pair = [client(0.3, *TWO), client(0.7, Gaussian(1, 1), Gaussian(-1, 1))]
    named, made = population(pair, "logistic"), population(pair, own)
    for eps in (0.0, 0.1):
        assert cfl(made, eps).outcome.accuracy == pytest.approx(
            cfl(named, eps).outcome.accuracy, abs=1e-7
        )


def test_thresholds_where_eta_is_one_to_rounding_are_told_apart():
    """Probit at 9: no float between eta and 1, yet the threshold of a fair rule is exact."""
    far = population([client(0.5, Gaussian(9.0, 0.5), Gaussian(9.5, 0.1))], "probit")
    fair = cfl(far, 0.0)
    assert fair.outcome.spd == pytest.approx(0.0, abs=1e-12)


def test_a_group_that_nobody_favours_costs_nothing():
    alike = population([client(0.4, Gaussian(1, 1), Gaussian(1, 1))])
    assert erm(alike).outcome.spd == 0
    assert cfl(alike, 0.0).outcome.accuracy == erm(alike).outcome.accuracy


def test_eta_on_one_side_of_one_half_decides_all_alike():
    rare = table(np.array([0.0, 1.0]), np.array([0.01, 0.3]))
    both = population(
        [client(0.5, Histogram([0, 0.5, 1], [0.9, 0.1]), Histogram([0, 0.5, 1], [0.2, 0.8]))], rare
    )
    assert erm(both).outcome.rates.tolist() == [0.0, 0.0]
    assert cfl(both, 0.0).outcome.spd == 0


WRONG = {
    "no clients": lambda: population([]),
    "q above 1": lambda: client(1.2, *TWO),
    "no deviation": lambda: Gaussian(0.0, 0.0),
    "mean that is no number": lambda: Gaussian(float("nan"), 1.0),
    "mass that sums to .9": lambda: Histogram([0, 1, 2], [0.4, 0.5]),
    "negative mass": lambda: Atoms([0, 1], [1.5, -0.5]),
    "one edge too few": lambda: Histogram([0, 1], [0.5, 0.5]),
    "edges that fall": lambda: Histogram([0, 2, 1], [0.5, 0.5]),
    "points twice": lambda: Atoms([0.1, 0.1], [0.5, 0.5]),
    "weights that sum to 2": lambda: Mixture([1.0, 1.0], TWO),
    "a mixture of atoms": lambda: Mixture([1.0], [Atoms([0.1], [1.0])]),
    "no distribution": lambda: Frozen("normal"),
    "group shares that sum to .8": lambda: population([Client((0.5, 0.3), TWO)]),
    "two shares, three laws": lambda: population([Client((0.5, 0.5), (*TWO, TWO[0]))]),
    "one group": lambda: population([Client((1.0,), TWO[:1])]),
    "a group that nobody is in": lambda: population([client(0.0, TWO[0], None)]),
    "a law that is missing": lambda: population([client(0.5, TWO[0], None)]),
    "shares that sum to .9": lambda: population(
        [client(0.5, *TWO, share=0.5), client(0.5, *TWO, share=0.4)]
    ),
    "a client without a share": lambda: population(
        [client(0.5, *TWO, share=1.0), client(0.5, *TWO)]
    ),
    "atoms beside densities": lambda: population([client(0.5, TWO[0], Atoms([0.5], [1.0]))]),
    "an eta that falls": lambda: population([client(0.5, *TWO)], increasing(lambda x: 0 * x - x)),
    "an eta above 1": lambda: population([client(0.5, *TWO)], increasing(lambda x: x * 1.0)),
    "an eta with a flat piece": lambda: population(
        [client(0.5, *TWO)], increasing(lambda x: 0.5 * np.clip(x, 0, 4) / 4 + 0.1)
    ),
    "a table that falls": lambda: table(np.array([0.0, 1.0]), np.array([0.7, 0.2])),
    "a table of one point": lambda: table(np.array([0.0]), np.array([0.7])),
    "an unknown eta": lambda: eta_named("logit"),
    "an empty domain": lambda: increasing(lambda x: x, 1.0, 0.0),
    "eps above 1": lambda: cfl(setting("fig1c"), 1.5),
    "eps below 0": lambda: cfl(setting("fig1c"), -0.1),
    "a budget that is no number": lambda: lft_fedavg(setting("fig1c"), [float("nan"), 0.1]),
    "three budgets for two clients": lambda: lft_ensemble(setting("fig1c"), [0.1, 0.1, 0.1]),
    "an unknown vote": lambda: lft_ensemble(setting("fig1c"), 0.1, vote="majority"),
    "an unknown setting": lambda: setting("fig4"),
    "shares for a setting without": lambda: setting("fig1b", 0.5, 0.5),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_makes_no_population_is_refused_with_a_reason(what):
    with pytest.raises(ConfigError) as refused:
        WRONG[what]()
    assert len(str(refused.value)) > 25


def test_scores_mean_what_they_say_unless_a_map_is_fitted():
    x = np.array([0.0, 0.3, 1.0])
    np.testing.assert_allclose(identity().value(x), x)
    np.testing.assert_allclose(identity().upper(x), 1 - x)
    assert logistic().inverse(np.array(0.5)) == 0
