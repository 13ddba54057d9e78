"""Whatever encoder, network, mixture and thresholds there are: ONNX and skops decide as ours."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedfb.data.columns import CategoryColumn, NumberColumn
from fedfb.data.derive import Bins, Keep, Merge
from fedfb.data.encode import Encoder
from fedfb.data.groups import groups_in
from fedfb.experiments.result import Result
from fedfb.experiments.rule import Rule
from fedfb.experiments.spec import Experiment
from fedfb.export.formats import run_skops, skops_file
from fedfb.export.handover import UNSEEN, HandOver, made_up_rows, on_an_edge
from fedfb.export.to_onnx import onnx_model, run_onnx
from fedfb.models import Network
from fedfb.tables.cells import MISSING
from fedfb.tables.table import Table

# As cells are once they are read: no spaces around, none of the words for a missing value.
WORDS = st.text(
    st.characters(exclude_categories=("C", "Z"), exclude_characters="\0"), min_size=1, max_size=6
).filter(lambda word: word not in MISSING)
SEVERAL = st.lists(WORDS, min_size=2, max_size=4, unique=True)


@st.composite
def encoders(draw) -> Encoder:
    columns = []
    for number in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            mean, sd = draw(st.floats(-50, 50)), draw(st.floats(0.1, 20))
            clip = (mean - sd, mean + sd) if draw(st.booleans()) else (None, None)
            columns.append(NumberColumn(f"c{number}", mean, sd, draw(st.booleans()), *clip))
        else:
            words = draw(SEVERAL) + (["missing"] if draw(st.booleans()) else [])
            columns.append(CategoryColumn(f"c{number}", tuple(dict.fromkeys(words))))
    sensitive = {f"a{place}": draw(SEVERAL) for place in range(draw(st.integers(1, 2)))}
    derived = ()
    if draw(st.booleans()):
        kind, words = draw(st.integers(0, 2)), sensitive["a0"]
        if kind == 0:
            edges = tuple(map(float, range(len(words) - 1)))
            derived = (Bins("raw", "a0", edges, tuple(words)),)
        elif kind == 1:
            derived = (Keep("a0", "a0", tuple(words[:-1]), words[-1]),)
        else:
            derived = (Merge("a0", "a0", ("old", "older"), (words[0], words[1])),)
    crossed = np.array(np.meshgrid(*sensitive.values())).reshape(len(sensitive), -1)
    table = Table({n: row.astype(object) for n, row in zip(sensitive, crossed, strict=True)})
    groups = groups_in(table, tuple(sensitive))
    return Encoder(tuple(columns), groups, "y", "1", draw(st.booleans()), derived)


@st.composite
def models(draw) -> HandOver:
    encoder = draw(encoders())
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    hidden = tuple(draw(st.lists(st.integers(1, 4), max_size=2)))
    network, members = Network(len(encoder.feature_names), hidden), draw(st.integers(1, 3))
    chance = None
    if draw(st.booleans()):
        bins = draw(st.integers(2, 40))
        chance = np.sort(rng.random((len(encoder.groups.names), bins)).round(1), axis=1)
    rule = Rule(
        network,
        draw(st.sampled_from(["float32", "float64"])),
        rng.normal(size=(members, network.size)),
        rng.random(members) + 0.1,
        draw(st.sampled_from(["randomised", "soft", "vote"])),
        chance,
    )
    nothing = Result(**{**dict.fromkeys(Result.__struct_fields__), "runs": ()})
    return HandOver(encoder, rule, Experiment(), ("one",), {}, nothing)


def assert_same(hand: HandOver, table: Table, found) -> None:
    ours, clear = hand.decide(table), ~on_an_edge(hand, table)
    np.testing.assert_allclose(found.score, ours.score, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found.decision[:, clear], ours.decision[:, clear], rtol=0, atol=1e-6)


def assert_all_that_can_go_wrong(hand: HandOver, table: Table) -> None:
    assert len(table) > 100
    for column in hand.encoder.columns:
        cells = table.column(column.name)
        if isinstance(column, NumberColumn):
            assert np.isnan(cells).any()
        else:
            assert {*column.categories, "", UNSEEN} <= set(cells)


@given(hand=models(), word=st.sampled_from(sorted(MISSING)))
def test_onnx_decides_as_ours(hand, word):
    table, content = made_up_rows(hand), onnx_model(hand).SerializeToString()
    assert_all_that_can_go_wrong(hand, table)
    written = table
    for column in hand.encoder.columns:
        if isinstance(column, CategoryColumn):  # every way to write that a value is missing
            cells = table.column(column.name)
            written = written.with_column(column.name, np.where(cells == "", word, cells))
    assert_same(hand, table, run_onnx(content, written))


@given(hand=models())
def test_skops_decides_as_ours(hand):
    content, types = skops_file(hand)
    table = made_up_rows(hand)
    found, ours = run_skops(content, types, hand, table), hand.decide(table)
    np.testing.assert_array_equal(found.score, ours.score)
    np.testing.assert_array_equal(found.decision, ours.decision)
