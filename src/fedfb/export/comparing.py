"""Compare an exported model with ours, on drawn rows: a run's folder holds no rows."""

import re

import numpy as np

from fedfb.core import Prediction
from fedfb.data.columns import NumberColumn
from fedfb.data.derive import Bins
from fedfb.data.groups import Groups, groups_in
from fedfb.data.table import Table
from fedfb.engine import sigmoid
from fedfb.errors import ConfigError
from fedfb.export.handover import HandOver
from fedfb.shapes import Array, Bool

_TOLERANCE = 1e-6
"""Largest difference of scores from ours: our engine adds up in float32."""

ROWS = 200
UNSEEN = "a value nobody has seen"


def made_up_rows(hand: HandOver) -> Table:
    """Draw raw rows: numbers around their mean, all categories and groups, unknown and missing."""
    rng = np.random.default_rng(0)
    columns = hand.reading.columns
    cells = {name: _draw_cells(hand, name, number, rng) for name, number in columns.items()}
    return Table(cells, "rows made up to compare")


def _draw_cells(hand: HandOver, name: str, number: bool, rng: np.random.Generator) -> Array:
    if not number:
        return rng.choice(np.array([*_list_words(hand, name), "", UNSEEN], object), ROWS)
    for column in hand.encoder.columns:
        if isinstance(column, NumberColumn) and column.name == name:
            values = rng.normal(column.mean, 2 * column.sd, ROWS)
            return np.where(rng.random(ROWS) < 0.1, np.nan, values)
    edges = next(r.edges for r in hand.reading.rules if isinstance(r, Bins) and r.source == name)
    wide = edges[-1] - edges[0] + 1.0
    return np.round(rng.uniform(edges[0] - wide, edges[-1] + wide, ROWS))


def _list_words(hand: HandOver, name: str) -> list[str]:
    """Return all values that the model knows of a raw column, or of columns derived from it."""
    makes = {rule.target for rule in hand.reading.rules if rule.source == name} | {name}
    words: set[str] = set()
    for column in hand.encoder.columns:
        if column.name in makes and not isinstance(column, NumberColumn):
            words.update(column.categories)
    for rule in hand.reading.rules:
        if rule.source == name and not isinstance(rule, Bins):
            words.update(rule.values)
    groups = hand.encoder.groups
    for place, column_name in enumerate(groups.columns):
        if hand.needs_group and column_name in makes:
            words.update(cells[place] for cells in cells_of_groups(groups))
    return sorted(words)


def between_values(columns: tuple[str, ...]) -> list[str]:
    """Return the text before, between and after the values of columns in a group's name."""
    marks = [f"\0{place}\0" for place in range(len(columns))]
    table = Table({n: np.array([m], object) for n, m in zip(columns, marks, strict=True)})
    [name] = groups_in(table, columns).names
    return re.split("\0\\d+\0", name)


def cells_of_groups(groups: Groups) -> list[tuple[str, ...]]:
    """Return the values of the sensitive columns of each group, from its name."""
    pattern = "(.*)".join(map(re.escape, between_values(groups.columns)))
    matches = [re.fullmatch(pattern, name, re.DOTALL) for name in groups.names]
    return [match.groups() for match in matches if match]


def refuse_difference(hand: HandOver, table: Table, prediction: Prediction, form: str) -> None:
    """Refuse an exported model whose scores or decisions differ from ours.

    Decisions may differ where rounding decides.

    Args:
        hand: our model.
        table: raw rows.
        prediction: scores and decisions of the exported model on these rows.
        form: name of the exported form, for the message.

    """
    expected = hand.decide(table)
    far = float(np.max(np.abs(expected.score - prediction.score), initial=0.0))
    differ = np.abs(expected.decision - prediction.decision)[0] > _TOLERANCE
    wrong = int((differ & ~on_an_edge(hand, table)).sum())
    if not far <= _TOLERANCE or wrong:
        raise ConfigError(
            f"the {form} does not decide as the model does: scores are off by up to {far:g}, and "
            f"{wrong} of {len(table)} decisions differ. Nothing was written; please report this."
        )


def on_an_edge(hand: HandOver, table: Table) -> Bool[Array, " n"]:
    """Return the rows so near to a threshold that rounding decides."""
    bins = hand.rule.bins or 2
    place = bins * sigmoid(hand.rule.logits(hand.encode(table).x))
    place = np.vstack([place, bins * hand.decide(table).score])
    edge = np.round(place)
    near = np.abs(place - edge) <= _TOLERANCE * bins
    return np.any(near & (edge > 0) & (edge < bins), axis=0)
