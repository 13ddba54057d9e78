"""Thresholds from summed histograms: federated training, then one exchange for fair thresholds."""

from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from fedfb.algorithms.fedavg import fedavg
from fedfb.algorithms.fedfb import fedfb
from fedfb.algorithms.fedfb.outer import pick_model
from fedfb.algorithms.fedfb.threshold_rules import (
    Compared,
    Cut,
    comparable,
    compared_groups,
    cut,
    decide_at_half,
    histogram_task,
    look_up,
    read_histogram,
    refuse_without_group,
)
from fedfb.algorithms.method import TRAINING, Knob, Method, Problem
from fedfb.algorithms.tasks import count_task, read_counts
from fedfb.core import Algorithm, Ask, Examples, Info, Prediction
from fedfb.engine import Engine, sigmoid
from fedfb.errors import ConfigError
from fedfb.notions import Notion
from fedfb.shapes import Array, Bool, Float, Num

LEVELS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 1.0)
"""The disparities at which the trade-off curve of the final model is computed."""


@dataclass(frozen=True)
class Cutting:
    """How scores are cut.

    Args:
        bins: number of bins of the scores.
        minimum: a group with fewer rows of a label that it has is left out of the histogram.
        target: largest disparity, one value per run.
        mixed: whether a group may choose between thresholds at random.
    """

    bins: int
    minimum: int
    target: Float[Array, " r"]
    mixed: bool


def with_thresholds(
    base: Algorithm,
    model: Callable[[Any], Float[Array, "r p"]],
    engine: Engine,
    notion: Notion,
    cutting: Cutting,
) -> Algorithm:
    r"""Return a method that trains as ``base`` does and then gives every group its thresholds.

    After the last round every client, not only the participants of a round, adds its rows to a
    histogram :math:`P_{yak}` of the final model's scores. From the sum the server computes the
    thresholds for any target (:mod:`fedfb.algorithms.fedfb.threshold_rules`), and the whole
    trade-off curve of the model. A group needs enough rows in the histogram itself: a client may
    have dropped out. A decision needs the group of a row; the score is that of the model.

    Args:
        base: the method that trains.
        model: state of ``base`` -> the model whose scores are cut.
        engine: scores the rows.
        notion: which rates are compared.
        cutting: how scores are cut.
    """
    groups, compared = compared_groups(base.name, notion)
    count, histogram = count_task(notion), histogram_task(engine, cutting.bins)
    count_fields = ("counts",) * ("counts" not in base.state._fields)
    fields = (*count_fields, "finished", "chance", "curve", "found", "apart")
    State = _state_with(base.state, *(name for name in fields if name not in base.state._fields))
    width = len(base.state._fields)

    def within(s: Any) -> Any:
        return base.state(*s[:width])

    def setup(params: Float[Array, "r p"], ask: Ask) -> Any:
        state, runs = base.setup(params, ask)._asdict(), len(params)
        if count_fields:
            state["counts"] = read_counts(ask(count, {}))
        state |= {
            "finished": 0,
            "chance": np.tile(decide_at_half(cutting.bins), (runs, groups, 1)),
            "curve": np.zeros((runs, len(LEVELS), 2)),
            "found": np.zeros((runs, 2)),
            "apart": np.zeros(groups, dtype=bool),
        }
        return State(**state)

    def round(s: Any, ask: Ask) -> tuple[Any, Info]:
        inner, info = base.round(within(s), ask)
        return State(*inner, *s[width:]), info

    def finish(s: Any, ask: Ask) -> Any:
        def large(of: Num[Array, "2 a"]) -> Bool[Array, " a"]:
            return are_large_enough(of, compared, cutting.minimum, notion.minimum)

        if base.finish is not None:
            s = State(*base.finish(within(s), ask), *s[width:])
        wanted = large(s.counts)
        rows = read_histogram(ask(histogram, {"params": model(within(s)), "wanted": wanted}))
        apart = wanted & large(rows[0].sum(axis=2))
        rows = np.where(apart[:, None], rows, 0.0)  # the histogram of other groups is only noise

        @cache
        def cut_at(run: int, target: float) -> Cut:
            return cut(rows[run], compared, target, cutting.mixed)

        # Runs that differ only in their target have the same model: it is cut once.
        first = [_place_of(run_rows, rows) for run_rows in rows]
        cuts = [cut_at(run, float(at)) for run, at in zip(first, cutting.target, strict=True)]
        curves = [[cut_at(run, level) for level in LEVELS] for run in first]
        return s._replace(
            chance=np.stack([rule.chance for rule in cuts]),
            curve=np.array([[_point(rule) for rule in curve] for curve in curves]),
            found=np.array([_point(rule) for rule in cuts]),
            apart=apart,
        )

    def predict(s: Any, _: object, examples: Examples) -> Prediction:
        score = sigmoid(engine.logits(model(within(s)), examples.x))
        return Prediction(score, look_up(s.chance, examples.group, score))

    def describe(s: Any) -> list[dict[str, Any]]:
        left_out = np.flatnonzero(~s.apart).tolist()
        trained = base.describe(within(s)) if base.describe else [{} for _ in s.chance]
        return [
            {
                **_rename_fields(of_base),
                "off_target": max(float(disparity) - float(target), 0.0),
                "thresholds": [thresholds(row) for row in chance],
                "curve": [{"accuracy": a, "disparity": d} for a, d in curve.tolist()],
                "left_out": left_out,
            }
            for of_base, (_, disparity), target, chance, curve in zip(
                trained, s.found, cutting.target, s.chance, s.curve, strict=True
            )
        ]

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


def _place_of(run_rows: Float[Array, "2 a k"], rows: Float[Array, "r 2 a k"]) -> int:
    """Return the place of the first run whose scores are in the same bins."""
    return next(
        place for place, other_rows in enumerate(rows) if np.array_equal(run_rows, other_rows)
    )


def _point(cut_rule: Cut) -> tuple[float, float]:
    return cut_rule.accuracy, cut_rule.disparity


def _rename_fields(facts: dict[str, Any]) -> dict[str, Any]:
    """Rename the distance to the target after training: thresholds change it afterwards."""
    return {"off_target_before" if k == "off_target" else k: v for k, v in facts.items()}


def are_large_enough(
    counts: Num[Array, "2 a"], compared: Compared, minimum: int, minimum_group: int = 1
) -> Bool[Array, " a"]:
    """Return True for the groups that are large enough for their own thresholds.

    Args:
        counts: training rows of all clients, by label and group.
        compared: the sets of labels whose rates are compared.
        minimum: smallest number of rows of every label that a group has.
        minimum_group: smallest number of rows of every set of labels.

    >>> are_large_enough(np.array([[30, 3, 0], [30, 30, 30]]), ((1,),), minimum=20)
    array([ True, False,  True])
    """
    small = (counts > 0) & (counts < minimum)
    return comparable(counts, compared, minimum_group) & ~small.any(axis=0)


def thresholds(chance: Float[Array, " k"]) -> list[dict[str, float]]:
    """Return a group's thresholds with their probabilities; no score reaches a threshold above 1.

    >>> thresholds(np.array([0.0, 0.25, 1.0, 1.0]))
    [{'score': 0.25, 'share': 0.25}, {'score': 0.5, 'share': 0.75}]
    """
    share = np.diff(np.concatenate([[0.0], chance, [1.0]]))
    at = np.flatnonzero(share > 0)
    return [{"score": float(k / len(chance)), "share": float(share[k])} for k in at]


def read_cutting(problem: Problem, mixed: bool, minimum: int, bins: int) -> Cutting:
    """Return how scores are cut by the settings.

    Args:
        problem: gives the targets.
        mixed: see :class:`Cutting`.
        minimum: see :class:`Cutting`.
        bins: see :class:`Cutting`.
    """
    return Cutting(bins, minimum, problem.knobs["target"], mixed)


def _make(problem: Problem) -> Algorithm:
    refuse_without_group("fedfb-thresholds", problem.options.sensitive_at_prediction)
    bins, minimum = (_read_whole_number(problem, name) for name in ("bins", "minimum"))
    cutting = read_cutting(problem, "mixed" in problem.variant, minimum, bins)
    base, model = fedavg(problem.engine, problem.solver), _common_model
    if problem.variant.startswith("combined"):
        # FedFB solves for its weights first: thresholds then have little to change.
        base, model = fedfb.from_settings(problem, "solve"), pick_model
    algorithm = with_thresholds(base, model, problem.engine, problem.notion, cutting)
    return algorithm._replace(name="fedfb-thresholds")


def _common_model(s: Any) -> Float[Array, "r p"]:
    params: Float[Array, "r p"] = s.params
    return params


def _read_whole_number(problem: Problem, name: str) -> int:
    values = np.unique(problem.knobs[name])
    if len(values) > 1 or values[0] != int(values[0]):
        raise ConfigError(f"--set {name} takes one whole number, got {values.tolist()}.")
    return int(values[0])


COMBINED = ("combined", "combined-mixed")
"""The variants that train with FedFB's weights before they cut."""

METHOD = Method(
    name="fedfb-thresholds",
    summary="federated training, then thresholds by group from summed histograms",
    paper="ours, after Hardt, Price, Srebro 2016",
    make=_make,
    knobs={
        "target": fedfb.TARGET,
        "bins": Knob(1024, (1024,), "bins of the scores", low=2, high=2**16, if_private=64),
        "minimum": Knob(20, (20,), "least rows of a label for a group to be cut", low=0),
    },
    variants=("plain", "mixed", *COMBINED),
    outer_rules=("solve",),
    one_fit=("plain", "mixed"),
    reads={**TRAINING, "solver": (), **dict.fromkeys((*fedfb.SIGNAL, "scaling"), COMBINED)},
)
