"""What training one setting with one seed ends in, as types."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from fedfb.notions.values import Chance

Interval = tuple[float, float]
"""The ends of a 95% interval."""

Setting = Mapping[str, float]
"""The values of a method's knobs, by name."""

MeasureName = Annotated[
    str, Meta(pattern="^(demographic_parity|spd|equal_opportunity|equalized_odds|client_parity)$")
]
"""The name of a disparity; a damaged file that has another is refused when it is read."""

ByNotion = Mapping[MeasureName, float | None]
"""A figure for each notion, None where it is not estimable."""


class Value(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value that cannot be changed; its fields are its JSON."""


class Statistic(Value, frozen=True, kw_only=True):
    """Mean and standard deviation over seeds, None where not estimable, and maybe an interval.

    >>> Statistic(mean=0.5, std=None, ends=(0.4, 0.6)).interval
    (0.4, 0.6)
    """

    mean: float | None
    std: float | None
    ends: Interval | UnsetType | None = field(default=UNSET, name="interval")

    @property
    def interval(self) -> Interval | None:
        """The 95% interval of the mean; None where it is not estimable or not computed."""
        return None if isinstance(self.ends, UnsetType) else self.ends


class Estimate(Value, frozen=True, kw_only=True):
    """A mean over seeds with its 95% interval."""

    mean: float | None
    interval: Interval | None


class GroupRates(Value, frozen=True, kw_only=True):
    """What a model decides about one group of the test rows.

    ``n`` counts rows and ``positives`` those with a positive label. Rates are None where no row can
    tell them.
    """

    name: str
    n: int
    positives: int
    positive_rate: float | None
    tpr: float | None
    fpr: float | None
    accuracy: float | None


class ClientRates(Value, frozen=True, kw_only=True):
    """How good a model is on the test rows of one client.

    ``loss_variance`` is that of the mean loss, None where client parity leaves the client out.
    ``disparity`` is the one among the client's rows.
    """

    name: str
    n: int
    accuracy: float | None
    loss: float | None
    loss_variance: float | None
    disparity: ByNotion


class Round(Value, frozen=True, kw_only=True):
    """One round on training rows; a quantity that nobody measured is None.

    ``signal`` and ``lam`` are a number or a vector over what is compared.
    """

    round: int
    signal: list[Any] | float | None
    lam: list[Any] | float | None = field(name="lambda")
    accuracy: float | None
    disparity: float | None


class Divergence(Value, frozen=True, kw_only=True):
    """Where training stopped being finite; no client where it was the common model."""

    round: int
    client: str | None


class DivergedSeeds(Divergence, frozen=True, kw_only=True):
    """Where training of a setting diverged first, and with which seeds."""

    seeds: tuple[int, ...]


class Quality(Value, frozen=True, kw_only=True):
    """Accuracy and disparities of one model, and nothing else of it."""

    accuracy: float | None
    disparity: ByNotion


class Coarse(Value, frozen=True, kw_only=True):
    """Codes that are too coarse for the gaps: their bits, their step, and the bits needed."""

    bits: int
    step: float
    needed: int


class MethodAccount(Value, frozen=True, kw_only=True):
    """What a method says of the end of its training; every field is for some methods only.

    Attributes:
        chosen_round: the round nearest to the target on training rows.
        off_target: how far the training disparity is from the target.
        off_target_before: the same, before thresholds.
        training_accuracy: accuracy of the chosen round on training rows, before thresholds.
        constant_accuracy: accuracy of the best constant decision on training rows.
        at_bound: groups (client parity: clients) whose weights are at their bound.
        idle: groups whose gaps do not answer to their weights, where clients train by themselves.
        left_out: groups with too few rows for a threshold.
        target_is_for: the measure that the target bounds, where it is not the disparity.
        coarse: codes that are too coarse.
        thresholds: for each group the cuts and chances of its rule.
        curve: accuracy and disparity of the rules that were found on training rows.
    """

    chosen_round: int | None = None
    off_target: float | None = None
    off_target_before: float | None = None
    training_accuracy: float | None = None
    constant_accuracy: float | None = None
    at_bound: tuple[str, ...] | None = None
    idle: tuple[str, ...] | None = None
    left_out: tuple[str, ...] | None = None
    target_is_for: str | None = None
    coarse: Coarse | None = None
    thresholds: list[Any] | None = None
    curve: list[dict[str, float]] | None = None


class Training(Value, frozen=True, kw_only=True):
    """The training disparity beside its target, and whether the target is missed beyond chance."""

    target: float
    disparity: float
    missed: bool


class ClientPrivacy(Value, frozen=True, kw_only=True):
    """What one client spends.

    ``sampling`` is the chance of a row to be in a training step, ``steps`` and ``answers`` count,
    and the noises are multipliers.
    """

    client: str
    rows: int
    epsilon: float
    sampling: float
    steps: int
    answers: int
    training_noise: float
    answering_noise: float


class Privacy(Value, frozen=True, kw_only=True):
    """How well rows (level ``record``) or whole clients (level ``client``) are hidden.

    ``epsilon`` is the budget, ``most`` what the client spends that spends most, ``signals`` the
    share for counts and signals, ``shared_by`` how many clients add the noise of a sum together.
    """

    level: str
    epsilon: float
    delta: float
    most: float
    clip: float
    signals: float
    shared_by: int
    clients: tuple[ClientPrivacy, ...]
    covered: tuple[str, ...]
    not_covered: tuple[str, ...]
    trust: tuple[str, ...]


class Evaluation(Value, frozen=True, kw_only=True):
    """What one model is worth on test rows.

    Attributes:
        accuracy: None where training diverged.
        auc: area under the ROC curve, None where rows have one label only.
        disparity: by notion.
        interval: the 95% interval of each disparity.
        groups: one entry a group.
        clients: one entry a client; none where only sums over clients are known.
        local_disparity: the largest disparity among one client's rows.
        four_fifths: least rate of positive decisions over the largest.
        not_estimable: by notion the groups (client parity: clients) with too few rows.
        majority_accuracy: what the better constant classifier reaches.
    """

    accuracy: float | None
    balanced_accuracy: float | None
    auc: float | None
    disparity: ByNotion
    interval: Mapping[MeasureName, Interval | None]
    groups: tuple[GroupRates, ...]
    clients: tuple[ClientRates, ...]
    local_disparity: ByNotion
    four_fifths: float | None
    not_estimable: Mapping[str, tuple[str, ...]]
    majority_accuracy: float | None

    @property
    def rows(self) -> int:
        """The number of test rows."""
        return sum(group.n for group in self.groups)


EVERYONE = "all clients"
"""The name of the figures on all rows, each decided by the model without its client."""


class ClientLeftOut(Value, frozen=True, kw_only=True):
    """Figures on a client's test rows: of the model of all clients, and of one without the client.

    ``excluded`` and its loss are None where training without the client diverged. ``chance`` is
    what chance alone shows beside each disparity of ``excluded``.
    """

    name: str
    included: Evaluation
    excluded: Evaluation | None
    included_loss: float | None
    excluded_loss: float | None
    chance: Mapping[MeasureName, Chance | None] = {}


class LeaveOut(Value, frozen=True, kw_only=True):
    """What models are worth on clients that they were not trained on.

    ``everyone`` is about the test rows of all clients, each decided by the model without its
    client. ``trainings`` counts these models; with many clients several are left out together.
    """

    trainings: int
    everyone: ClientLeftOut
    clients: tuple[ClientLeftOut, ...]


class SeedResult(Evaluation, frozen=True, kw_only=True):
    """One setting trained with one seed.

    Attributes:
        loss: mean loss on test rows; ``loss_spread`` is the standard deviation of the rows' losses.
        constant_loss: mean loss of the training share of positive labels as every row's score;
            ``loss_error`` is the standard error of the difference.
        copied: share of test rows with an exact copy in training, None if within chance.
        at_one_half: what the scores alone come to, where decisions are not scores of at least 1/2.
        method: what the method says of its end.
        needs_single: tasks of which the method needs every client's upload by itself.
        rounds: training, round by round; empty where nobody looked.
        chance: by disparity what chance alone shows; empty where a grid has several settings.
        training: None for a method without a target.
        diverged: where training diverged; figures are then None.
        leave_out: figures on clients that were left out; None: no client was.
    """

    seed: int
    settings: Setting
    loss: float | None
    loss_spread: float | None
    constant_loss: float | None
    loss_error: float | None
    copied: float | None
    at_one_half: Quality | None
    method: MethodAccount = field(name="told")
    needs_single: tuple[str, ...]
    rounds: tuple[Round, ...]
    training: Training | None
    privacy: Privacy | None = None
    diverged: Divergence | None = None
    chance: Mapping[MeasureName, Chance | None] = {}
    leave_out: LeaveOut | None = None
