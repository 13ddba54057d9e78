"""What follows training: all clients add their scores to one histogram, and a rule decides by it.

The exchange is a sum over all clients, not only the participants of a round. What the server
computes is a function of this sum: decisions, and probabilities by group
(:mod:`fedfb.algorithms.fedfb.calibration`).
"""

from collections import namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fedfb.algorithms.fedfb.calibration import fit_maps
from fedfb.algorithms.fedfb.threshold_rules import (
    compared_groups,
    histogram_task,
    look_up,
    read_histogram,
)
from fedfb.algorithms.tasks import count_task, read_counts
from fedfb.core import Algorithm, Arrays, Ask, Examples, Info, Prediction
from fedfb.engine import Engine, sigmoid
from fedfb.notions import Notion
from fedfb.shapes import Array, Bool, Float, Num


class HistogramRule(NamedTuple):
    """How a summed histogram decides.

    Args:
        bins: number of bins of the scores.
        start: number of runs -> the fields that the rule adds to the state, before training. The
            field ``chance`` is P(decide 1) by run, group (or 1, for all groups) and bin.
        wanted: rows by label and group -> the groups that are counted. It is asked again on the
            histogram's own rows: a client may have dropped out.
        decide: histogram by run, and the groups that it has -> the fields after training.
        describe: state, and the facts of the method that trained -> facts for a report.
    """

    bins: int
    start: Callable[[int], Arrays]
    wanted: Callable[[Num[Array, "2 a"]], Bool[Array, " a"]]
    decide: Callable[[Float[Array, "r 2 a k"], Bool[Array, " a"]], Arrays]
    describe: Callable[[Any, list[dict[str, Any]]], list[dict[str, Any]]]


def with_histogram(
    base: Algorithm,
    model: Callable[[Any], Float[Array, "r p"]],
    engine: Engine,
    notion: Notion,
    rule: HistogramRule,
) -> Algorithm:
    """Return a method that trains as ``base`` does and then decides by one summed histogram.

    Args:
        base: the method that trains.
        model: state of ``base`` -> the model whose scores are counted.
        engine: scores the rows.
        notion: names the groups.
        rule: decides.
    """
    groups, _ = compared_groups(base.name, notion)
    count, histogram = count_task(notion), histogram_task(engine, rule.bins)
    count_fields = ("counts",) * ("counts" not in base.state._fields)
    finished = ("finished",) * ("finished" not in base.state._fields)
    added = (*count_fields, *finished, "calibration", *rule.start(1))
    State = _state_with(base.state, *added)
    width = len(base.state._fields)

    def within(s: Any) -> Any:
        return base.state(*s[:width])

    def setup(params: Float[Array, "r p"], ask: Ask) -> Any:
        state, runs = base.setup(params, ask)._asdict(), len(params)
        if count_fields:
            state["counts"] = read_counts(ask(count, {}))
        same = np.tile([1.0, 0.0], (runs, groups + 1, 1))
        return State(**{**state, "finished": 0}, calibration=same, **rule.start(runs))

    def round(s: Any, ask: Ask) -> tuple[Any, Info]:
        inner, info = base.round(within(s), ask)
        return State(*inner, *s[width:]), info

    def finish(s: Any, ask: Ask) -> Any:
        if base.finish is not None:
            s = State(*base.finish(within(s), ask), *s[width:])
        wanted = rule.wanted(s.counts)
        rows = read_histogram(ask(histogram, {"params": model(within(s)), "wanted": wanted}))
        apart = wanted & rule.wanted(rows[0].sum(axis=2))
        rows = np.where(apart[:, None], rows, 0.0)  # the histogram of other groups is only noise
        maps = np.stack([fit_maps(of_run) for of_run in rows])
        return s._replace(calibration=maps, **rule.decide(rows, apart))

    def predict(s: Any, _: object, examples: Examples) -> Prediction:
        score = sigmoid(engine.logits(model(within(s)), examples.x))
        return Prediction(score, look_up(s.chance, examples.group, score))

    def describe(s: Any) -> list[dict[str, Any]]:
        trained = base.describe(within(s)) if base.describe else [{} for _ in s.chance]
        return rule.describe(s, trained)

    return Algorithm(
        name=base.name,
        tasks=(*base.tasks, *(count for _ in count_fields), histogram),
        state=State,
        memory=base.memory,
        setup=setup,
        round=round,
        params=lambda s: base.params(within(s)),
        predict=predict,
        describe=describe,
        finish=finish,
    )


def _state_with(within: Any, *fields: str) -> type[Any]:
    """Return the type of a state with further fields; a checkpoint stores all fields."""
    return namedtuple("State", (*within._fields, *fields))


def rename_distance(facts: dict[str, Any]) -> dict[str, Any]:
    """Rename the distance to the target after training: what follows changes it.

    >>> rename_distance({"off_target": 0.1})
    {'off_target_before': 0.1}
    """
    return {"off_target_before" if k == "off_target" else k: v for k, v in facts.items()}
