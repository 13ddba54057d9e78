r"""Where the laws of clients overlap: the form of every LFT+FedAvg optimum, and how to find it.

With one multiplier for each client's mean difference, the optimum decides positively where

.. math:: T_a(x) = 2\eta(x) - 1 + s_a \sum_i \lambda_i\, r_{ia}(x) > 0, \qquad
          r_{ia} = \frac{p_a^{(i)}}{\sum_j n_{ja} p_a^{(j)}}, \qquad s_0 = 1,\; s_1 = -1

that is :math:`\sum_i [n_{ia}(2\eta-1) + s_a\lambda_i]\,p_a^{(i)} > 0`, divided by a positive number
so that nothing underflows. The paper's Lemma "FFL_soln" lacks the weights :math:`n_{ia}`. The
positive set is in general a union of intervals, not a half-line: ``find_roots`` finds the ends of
all intervals at once, and ``search_below_zero`` the intervals that hide between two nodes of the
grid.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fedfb.shapes import Array, Float
from fedfb.theory.laws import Gaussian
from fedfb.theory.measures import Outcome, Steps, client_rates, negatives, summary
from fedfb.theory.population import ContinuousPopulation

_Function = Callable[[Array], Array]

SIGN = (1.0, -1.0)
MOST_NODES = 1600


@dataclass(frozen=True)
class Overlap:
    """A grid fine enough to see every sign change, with 2 eta - 1 and r on it."""

    population: ContinuousPopulation
    nodes: Float[Array, " k"]
    margin: Float[Array, " k"]
    ratios: tuple[Float[Array, "k i"], Float[Array, "k i"]]
    negatives: float


class Gaps(NamedTuple):
    r"""The rule of given multipliers, each client's gap, and how the gaps move with them.

    ``slopes[a][i, j]`` is :math:`|\partial P_a^{(i)}/\partial\lambda_j|`, the sum of
    :math:`p_a^{(i)} p_a^{(j)} / |S_a'|` over the ends of the intervals.
    """

    rule: tuple[Steps, Steps]
    rates: Float[Array, "i 2"]
    gaps: Float[Array, " i"]
    slopes: tuple[Float[Array, "i i"], Float[Array, "i i"]]

    @property
    def jacobian(self) -> Float[Array, "i i"]:
        r""":math:`\partial M_i / \partial\lambda_j`: symmetric, and no entry is negative."""
        return self.slopes[0] + self.slopes[1]


def make_overlap(population: ContinuousPopulation) -> Overlap:
    """Return the grid on which sign changes of T are searched.

    >>> from fedfb.theory.population import fig2
    >>> make_overlap(fig2()).ratios[0].shape[1]
    2
    """
    nodes = _nodes(population)
    margin = population.eta.value(nodes) - population.eta.upper(nodes)
    ratios = (density_ratios(population, 0, nodes), density_ratios(population, 1, nodes))
    return Overlap(population, nodes, margin, ratios, negatives(population))


def _nodes(population: ContinuousPopulation) -> Float[Array, " k"]:
    parts = [part for laws in population.laws for part in laws.parts]
    knots = np.unique(np.concatenate([part.knots for part in parts]))
    low, high = knots[0], knots[-1]
    bends = np.array(population.eta.knots)
    knots = np.unique(np.concatenate([knots, bends[(bends > low) & (bends < high)]]))
    # A step density jumps at its knots: its value before the jump needs a node of its own.
    stepped = [part.knots for part in parts if not isinstance(part, Gaussian)]
    jumps = np.unique(np.concatenate([np.empty(0), *stepped]))
    if len(knots) > MOST_NODES:
        knots = knots[np.linspace(0, len(knots) - 1, MOST_NODES).round().astype(int)]
    finer = max(1, MOST_NODES // (2 * len(knots)))
    steps = np.arange((len(knots) - 1) * finer + 1) / finer
    filled = np.interp(steps, np.arange(len(knots)), knots)
    # Knots are dense where laws have mass; even nodes cover the tails, where T may still cross 0.
    evenly = np.linspace(low, high, MOST_NODES // 4)
    smooth = np.unique(np.concatenate([filled, evenly]))
    smooth = smooth[np.diff(smooth, prepend=-np.inf) > 1e-4 * (high - low) / MOST_NODES]
    # Nodes that nearly coincide were dropped, but a jump and the node before it both stay.
    return np.unique(np.concatenate([smooth, jumps, np.nextafter(jumps, -np.inf)]))


def density_ratios(
    population: ContinuousPopulation, group: int, x: Float[Array, " k"]
) -> Float[Array, "k i"]:
    r"""Return r at points, 0 where no client has mass.

    :math:`n_{ia} r_{ia}` is a softmax of :math:`\log n_{ia} + \log p_a^{(i)}`.

    Args:
        population: laws with densities.
        group: 0 or 1.
        x: the points.
    """
    weights = population.joint[:, group]
    weighted = population.laws[group].ask_log("logpdf", x[None, :])
    if weights.all():
        weighted = weighted + np.log(weights)[:, None]
    else:  # clients without the group carry no multiplier; their column is never used
        weighted = weighted + np.log(np.where(weights > 0, weights, 1.0))[:, None]
        weighted[weights == 0] = -np.inf
    weighted -= np.maximum(weighted.max(axis=0), -1e300)  # -inf - -inf would be nan
    parts = np.exp(weighted, out=weighted)
    # Where no client has mass all parts are 0, and 0 / 1e-300 is 0.
    parts /= np.maximum(parts.sum(axis=0), 1e-300)
    return (parts / np.where(weights > 0, weights, 1.0)[:, None]).T


def tilt(
    population: ContinuousPopulation, group: int, lam: Float[Array, " i"], x: Float[Array, " k"]
) -> Float[Array, " k"]:
    """Return T at points.

    Args:
        population: laws with densities.
        group: 0 or 1.
        lam: one multiplier for each client.
        x: the points.
    """
    margin = population.eta.value(x) - population.eta.upper(x)
    return margin + SIGN[group] * (density_ratios(population, group, x) @ lam)


def positive_steps(grid: Overlap, group: int, lam: Float[Array, " i"]) -> Steps:
    """Return the union of intervals on which T is positive.

    Args:
        grid: the overlap of the population.
        group: 0 or 1.
        lam: one multiplier for each client.

    >>> from fedfb.theory.population import fig2
    >>> positive_steps(make_overlap(fig2()), 0, np.zeros(2)).edges.round(12)
    array([0.])
    """

    def at(points: Array) -> Array:
        return tilt(grid.population, group, lam, points)

    values = grid.margin + SIGN[group] * (grid.ratios[group] @ lam)
    x, values = _with_hidden_extremes(at, grid.nodes, values)
    positive = values > 0
    change = np.flatnonzero(positive[:-1] != positive[1:])
    ends = x[change], x[change + 1], values[change], values[change + 1]
    edges = find_roots(at, *ends) if len(change) else np.empty(0)
    first = float(positive[0])
    return Steps(edges, np.where(np.arange(len(edges) + 1) % 2 == 0, first, 1.0 - first))


def _with_hidden_extremes(
    at: _Function, x: Float[Array, " k"], values: Float[Array, " k"]
) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
    """Add a point between two roots that lie between neighbouring nodes of equal sign.

    Where the size of T decreases up to a cell and increases after it, the lines through the outer
    nodes meet below the least value of T in the cell. Only where they meet below zero, the cell is
    searched.
    """
    size = np.abs(values)
    slope = np.diff(size) / np.maximum(np.diff(x), 1e-9)
    cell = np.flatnonzero((slope[:-2] < 0) & (slope[2:] > 0)) + 1
    positive = values > 0
    positives = positive[cell - 1] + positive[cell] * 1 + positive[cell + 1] + positive[cell + 2]
    cell = cell[(positives == 0) | (positives == 4)]
    left_slope, right_slope, width = slope[cell - 1], slope[cell + 1], x[cell + 1] - x[cell]
    meet = (size[cell] - size[cell + 1] + right_slope * width) / (right_slope - left_slope)
    cell = cell[size[cell] + left_slope * meet <= 0]
    if len(cell) == 0:
        return x, values
    side = np.where(positive[cell], 1.0, -1.0)
    lower = np.where(size[cell] <= size[cell + 1], cell, cell + 1)
    three = np.stack([cell - 1, lower, cell + 2])
    lowest, lowest_value = search_below_zero(lambda p: side * at(p), x[three], size[three])
    crossed = lowest_value <= 0
    if not crossed.any():
        return x, values
    # A value of exactly 0 must still count as crossed.
    opposite = side * np.where(lowest_value == 0, -1e-300, lowest_value)
    points = np.concatenate([x, lowest[crossed]])
    order = np.argsort(points, kind="stable")
    return points[order], np.concatenate([values, opposite[crossed]])[order]


def evaluate_gaps(grid: Overlap, lam: Float[Array, " i"]) -> Gaps:
    r"""Return the rule of multipliers :math:`\lambda`, its rates, gaps and slopes.

    Args:
        grid: the overlap of the population.
        lam: one multiplier for each client.

    >>> from fedfb.theory.population import fig2
    >>> evaluate_gaps(make_overlap(fig2()), np.zeros(2)).gaps.round(7)
    array([-0.0013496,  0.6826895])
    """
    population = grid.population
    rule = (positive_steps(grid, 0, lam), positive_steps(grid, 1, lam))
    rates = client_rates(population, rule)
    slopes = (_slopes(population, 0, lam, rule[0]), _slopes(population, 1, lam, rule[1]))
    gaps = np.where(population.constrained, rates[:, 0] - rates[:, 1], 0.0)
    return Gaps(rule, rates, gaps, slopes)


def outcome_of(grid: Overlap, evaluation: Gaps) -> Outcome:
    """Return the outcome of an evaluated rule.

    Args:
        grid: the overlap of the population.
        evaluation: as ``evaluate_gaps`` returns it.

    >>> from fedfb.theory.population import fig2
    >>> grid = make_overlap(fig2())
    >>> round(outcome_of(grid, evaluate_gaps(grid, np.zeros(2))).mean_difference, 7)
    0.3406699
    """
    gain = gain_of(grid.population, evaluation.rule)
    return summary(grid.population, grid.negatives + gain, evaluation.rates)


def gain_of(population: ContinuousPopulation, rule: tuple[Steps, ...]) -> float:
    """Return the accuracy that a rule gains over rejecting all rows.

    Args:
        population: laws with densities.
        rule: steps of each group.
    """
    total = 0.0
    for share, table, steps in zip(
        population.group_shares, population.pooled_gains, rule, strict=True
    ):
        edges = np.concatenate([[-np.inf], steps.edges])[None, :]
        total += float(share * (table.at(edges)[0] @ np.diff(steps.values, prepend=0.0)))
    return total


def _slopes(
    population: ContinuousPopulation, group: int, lam: Float[Array, " i"], steps: Steps
) -> Float[Array, "i i"]:
    x = steps.edges
    if len(x) == 0:
        return np.zeros((population.clients, population.clients))
    # Not every eta has a derivative in closed form: a central difference.
    width = 1e-6 * (1.0 + np.abs(x))
    three = np.concatenate([x, x + width, x - width])
    ratios = density_ratios(population, group, three)
    margin = population.eta.value(three) - population.eta.upper(three)
    values = (margin + SIGN[group] * (ratios @ lam))[len(x) :].reshape(2, -1)
    # Where an interval appears T touches 0 with slope 0; the bound keeps the slopes finite.
    steepness = np.maximum(np.abs(values[0] - values[1]) / (2 * width), 1e-12)
    density = population.joint[:, group] @ population.laws[group].ask("pdf", x[None, :])
    ratios_at_edges = ratios[: len(x)]
    return (ratios_at_edges * (density / steepness)[:, None]).T @ ratios_at_edges


GOLDEN = (np.sqrt(5.0) - 1) / 2
_ROUNDING = 4e-15


def find_roots(
    function: _Function,
    low: Float[Array, " n"],
    high: Float[Array, " n"],
    at_low: Float[Array, " n"],
    at_high: Float[Array, " n"],
    steps: int = 70,
) -> Float[Array, " n"]:
    """Return a root in every bracket (Chandrupatla's method).

    Inverse quadratic interpolation where three points make it safe, bisection elsewhere. A jump
    across zero counts as a root. Secants are tried first: brackets are short here, and secants
    mostly suffice.

    Args:
        function: evaluates all brackets at once.
        low: lower ends.
        high: upper ends.
        at_low: values at the lower ends.
        at_high: values at the upper ends, of the other sign.
        steps: largest number of steps.

    >>> ends = np.array([0.0]), np.array([2.0])
    >>> find_roots(lambda x: x**3 - 2.0, *ends, np.array([-2.0]), np.array([6.0])).round(12)
    array([1.25992105])
    """
    quick = _by_secants(function, low, high, at_low, at_high)
    if quick is not None:
        return quick
    a, b, fa, fb = high, low, at_high, at_low
    part = np.clip(fa / (fa - fb), 0.001, 0.999)
    # `a` is the newest point, `b` the end of the other sign, `c` the end that the bracket lost.
    for _ in range(steps):
        x = a + part * (b - a)
        fx = function(x)
        # Signs and not the product: a product of two tiny values would underflow to 0.
        same_sign = (fx > 0) == (fa > 0)
        c, fc = np.where(same_sign, a, b), np.where(same_sign, fa, fb)
        b, fb = np.where(same_sign, b, a), np.where(same_sign, fb, fa)
        a, fa = x, fx
        # The step that rounding still resolves, as a share of the bracket.
        least = (4e-16 * np.abs(a) + 1e-300) / np.maximum(np.abs(b - a), 1e-300)
        if np.all((least > 0.5) | (np.abs(fa) < 1e-15)):
            break
        part = np.clip(_interpolated(a, b, c, fa, fb, fc), np.minimum(least, 0.5), 1 - least)
    return np.where(np.abs(fa) < np.abs(fb), a, b)


def _by_secants(
    function: _Function, low: Array, high: Array, at_low: Array, at_high: Array
) -> Array | None:
    """Return the roots if secants find all of them within their brackets, else None."""
    # The inverse slope is kept, because it stays finite where two values agree.
    x, fx, inverse_slope = high, at_high, (high - low) / (at_high - at_low)
    at_a_jump = high - low <= 1e-15 * (1.0 + np.abs(high))
    for _ in range(6):
        new = x - fx * inverse_slope
        if not ((new >= low) & (new <= high)).all():
            return None
        f_new = function(new)
        if ((np.abs(f_new) < _ROUNDING) | at_a_jump).all():
            return new
        change = f_new - fx
        changed = change != 0
        inverse_slope = np.where(changed, (new - x) / np.where(changed, change, 1.0), inverse_slope)
        x, fx = new, f_new
    return None


def _interpolated(a: Array, b: Array, c: Array, fa: Array, fb: Array, fc: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        xi = (a - b) / (c - b)
        phi = (fa - fb) / (fc - fb)
        # Chandrupatla's test: within it the inverse quadratic is monotonic.
        safe = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
        inverse = fa / (fb - fa) * fc / (fb - fc)
        inverse = inverse + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
    return np.where(safe & np.isfinite(inverse), inverse, 0.5)


def search_below_zero(
    function: _Function,
    points: Float[Array, "3 n"],
    values: Float[Array, "3 n"],
    steps: int = 24,
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Return for every triple of points a point with a value below zero, else the lowest point.

    Parabolas through the three points, golden sections where parabolas do not move. The search ends
    as soon as a value is below zero: any such point separates two roots.

    Args:
        function: evaluates all triples at once.
        points: three increasing points each.
        values: at the points; the middle one is the lowest.
        steps: largest number of steps.

    >>> x = np.array([[0.0], [0.2], [1.0]])
    >>> search_below_zero(lambda x: (x - 0.3) ** 2 - 1e-6, x, (x - 0.3) ** 2 - 1e-6)[1] < 0
    array([ True])
    """
    (a, m, b), (fa, fm, fb) = points, values
    for step in range(steps):
        # Parabolas alone may come from one side only, and keep the other end for ever.
        x = _vertex(a, m, b, fa, fm, fb) if step % 3 < 2 else _section(a, m, b)
        fx = function(x)
        lower, left = fx < fm, x < m
        new_a = np.where(lower, np.where(left, a, m), np.where(left, x, a))
        new_b = np.where(lower, np.where(left, m, b), np.where(left, b, x))
        fa, fb = (
            np.where(lower, np.where(left, fa, fm), np.where(left, fx, fa)),
            np.where(lower, np.where(left, fm, fb), np.where(left, fb, fx)),
        )
        a, b, m, fm = new_a, new_b, np.where(lower, x, m), np.where(lower, fx, fm)
        # A parabola's sag between the ends bounds what is still to be gained.
        if np.all((fm <= 0) | (np.maximum(fa, fb) - fm < 0.1 * fm) | (b - a < 1e-13)):
            break
    return m, fm


def _vertex(a: Array, m: Array, b: Array, fa: Array, fm: Array, fb: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        left, right = (m - a) * (fm - fb), (m - b) * (fm - fa)
        x = m - 0.5 * ((m - a) * left - (m - b) * right) / (left - right)
    wrong = ~np.isfinite(x) | (x <= a) | (x >= b) | (x == m)
    return np.where(wrong, _section(a, m, b), x)


def _section(a: Array, m: Array, b: Array) -> Array:
    return np.where(b - m > m - a, m + (1 - GOLDEN) * (b - m), m - (1 - GOLDEN) * (m - a))
