"""The settings that an experiment leaves open, filled in by its method."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import isfinite
from typing import Any

from fedfb.algorithms import Knob, Method, find_method
from fedfb.algorithms.fedfb.root_search import FREE
from fedfb.errors import ConfigError, unknown_name
from fedfb.experiments.effect import BY_SUMS, is_read, refuse_fit, solver_of, without_effect
from fedfb.experiments.effect import outer_rule as outer_rule
from fedfb.experiments.seed_result import Setting
from fedfb.experiments.spec import Experiment, Resolved
from fedfb.notions import long_name
from fedfb.settings import numbers

TARGETS = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, FREE)
"""What is tried where not the disparity is given but the accuracy that it may cost."""


def resolve(experiment: Experiment) -> Resolved:
    """Return the experiment with everything that its method decides filled in.

    What is chosen on validation rows stays open: filled in it would be a value to choose from.
    To resolve twice is to resolve once, and the hash of an experiment is that of the resolved one.

    >>> resolve(Experiment(algorithm="fedavg", solver="local")).rounds
    10
    >>> local = Experiment(algorithm="fedavg", solver="local")
    >>> resolve(replace(local, lr=(0.005,))).lr, resolve(local).lr
    ((0.005,), ())
    """
    method = find_method(experiment.algorithm)
    check_fit(experiment, method)
    experiment = replace(
        experiment, outer=outer_rule(experiment, method), solver=solver_of(experiment)
    )
    values = {
        knob: user_values or (() if experiment.tune else (usual,))
        for knob, (user_values, usual, _) in _knobs(experiment).items()
    }
    of_fields = ("alpha", "target", "lr")
    values = {name: v for name, v in values.items() if name == "lr" or is_read(experiment, name)}
    knobs = [
        f"{knob}={','.join(repr(float(value)) for value in some)}"
        for knob, some in values.items()
        if some and knob not in of_fields
    ]
    decided: dict[str, Any] = {
        "variant": experiment.variant or method.variants[0],
        "alpha": values.get("alpha", ()),
        "target": values.get("target", ()) if experiment.cost is None else (),
        "lr": () if picks_rate(experiment) else values.get("lr", ()),
        "knobs": tuple(knobs),
        "rounds": experiment.rounds or _usual_rounds(experiment, method),
    }
    return Resolved(**{**vars(experiment), **decided})


def _usual_rounds(experiment: Experiment, method: Method) -> int:
    """Return the default number of rounds; one for a fit by sums with fixed weights."""
    variant = experiment.variant or method.variants[0]
    everyone = experiment.participation == 1 and not experiment.dropout
    once = solver_of(experiment) in BY_SUMS and everyone and variant in method.one_fit
    return 1 if once else method.rounds


def picks_rate(experiment: Experiment) -> bool:
    """Return whether the learning rate is chosen on validation rows although nobody asked.

    All methods that train locally choose it in the same way.

    >>> picks_rate(Experiment(solver="local")), picks_rate(Experiment())
    (True, False)
    """
    private = experiment.privacy_epsilon is not None  # to look at validation rows would cost it
    local = solver_of(experiment) not in BY_SUMS
    return local and not experiment.lr and not experiment.tune and not private


def chooses(experiment: Experiment) -> bool:
    """Return whether anything is chosen on validation rows before training on all."""
    return experiment.tune or picks_rate(experiment) or experiment.cost is not None


def total_rounds(experiment: Experiment) -> int:
    """Return the number of rounds of all seeds, those of tuning included."""
    rounds = resolve(experiment).rounds or 0
    return rounds * len(experiment.seeds) * (2 if chooses(experiment) else 1)


def check_fit(experiment: Experiment, method: Method) -> None:
    """Refuse a notion, variant or knob that the method does not have, or a setting not read."""
    notion = long_name(experiment.notion)
    if method.fair and notion not in method.notions:
        able = ", ".join(name.replace("_", " ") for name in method.notions)
        raise ConfigError(
            f"{method.name} does not aim at {notion.replace('_', ' ')}, only at {able}. "
            "Choose one of these with --notion, or another method (fedfb list)."
        )
    if experiment.variant is not None and experiment.variant not in method.variants:
        what = f"variant of {method.name}"
        raise ConfigError(unknown_name(what, experiment.variant, method.variants))
    for assignment in experiment.knobs:
        name = assignment.partition("=")[0]
        if name not in method.knobs:
            knobs = list(method.knobs) or ["none"]
            raise ConfigError(unknown_name(f"knob of {method.name}", name, knobs))
    for reason in without_effect(experiment).values():
        raise ConfigError(reason)
    refuse_fit(experiment)
    untuned = experiment.tune and experiment.solver in BY_SUMS and experiment.cost is None
    if untuned and (outer_rule(experiment, method) == "solve" or len(tuning_grid(experiment)) == 1):
        raise ConfigError(
            f"--tune has no effect with --solver {experiment.solver}: there is no learning rate to "
            "choose. Leave it out, or give --solver local."
        )


def given_grid(experiment: Experiment) -> list[Setting]:
    """Return every combination of the values given, a knob's usual value where none is."""
    return _combinations(
        {
            knob: user_values or (usual,)
            for knob, (user_values, usual, _) in _knobs(experiment).items()
        }
    )


def tuning_grid(experiment: Experiment) -> list[Setting]:
    """Return what tuning tries: the values given, a knob's grid where none is."""
    return _combinations(
        {knob: user_values or grid for knob, (user_values, _, grid) in _knobs(experiment).items()}
    )


def trial_grid(experiment: Experiment) -> list[Setting]:
    """Return what is tried on validation rows where nobody asked for tuning.

    The learning rates, for every setting that was given and, of a method that takes a target, for
    the free model; where the cost is bounded, all targets.
    """
    knobs = _knobs(experiment)
    values = {knob: user_values or (usual,) for knob, (user_values, usual, _) in knobs.items()}
    if "lr" in knobs:
        user_values, _, rates = knobs["lr"]
        values["lr"] = user_values or rates
    if "target" not in values:
        return _combinations(values)
    if experiment.cost is not None:
        values["target"] = TARGETS
    elif FREE not in values["target"]:
        values["target"] = (*values["target"], FREE)
    return _combinations({"target": values.pop("target"), **values})


def _knobs(
    experiment: Experiment,
) -> dict[str, tuple[tuple[float, ...], float, tuple[float, ...]]]:
    """Return for every knob of the method what is given, its usual value and its grid."""
    method, notion = find_method(experiment.algorithm), long_name(experiment.notion)
    of_fields = {"alpha": experiment.alpha, "target": experiment.target}
    user_values = {name: values for name, values in of_fields.items() if name in method.knobs}
    solved = outer_rule(experiment, method) == "solve"
    for assignment in experiment.knobs:
        name, _, values = assignment.partition("=")
        user_values[name] = _values(name, values, method.knobs[name])
    private = experiment.privacy_epsilon is not None
    knobs = {
        name: (user_values.get(name, ()), *knob.usual(notion, private))
        for name, knob in method.knobs.items()
        if name != ("alpha" if solved else "target")
    }
    # Values of a knob that is not read would be one setting, trained several times.
    for name, (of_user, usual, _) in knobs.items():
        if not is_read(experiment, name):
            knobs[name] = (of_user, usual, (usual,))
    if solver_of(experiment) in BY_SUMS:
        return knobs
    return {**knobs, "lr": (experiment.lr, method.learning_rate, method.learning_rates)}


def _values(name: str, text: str, knob: Knob) -> tuple[float, ...]:
    try:
        values = numbers(text)
    except ConfigError:
        raise ConfigError(f"--set {name}={text}: expected numbers separated by commas.") from None
    for value in values:
        inside = knob.low <= value <= knob.high
        if not inside or not (isfinite(value) or knob.high == value):
            raise ConfigError(
                f"--set {name}={value:g}: {knob.help}; must lie between {knob.low:g} and "
                f"{knob.high:g}."
            )
    return values


def _combinations(values: Mapping[str, Sequence[float]]) -> list[Setting]:
    return [
        dict(zip(values, map(float, combination), strict=True))
        for combination in product(*values.values())
    ]
