r"""A model as ONNX, from raw columns to decisions: standardising, one-hot, network, thresholds.

All numbers are float64. Features are rounded first to the precision of our engine, so that scores
agree. A group that training did not have is the last of each table: no column of a group is set,
and the threshold is 1/2. Names of nodes begin with 'fedfb/', so that they differ from the names of
columns.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from fedfb.algorithms.fedfb.threshold_rules import decide_at_half
from fedfb.core import Prediction
from fedfb.data.columns import MISSING_CATEGORY, CategoryColumn, NumberColumn
from fedfb.data.derive import Bins, Blank, Keep, Merge
from fedfb.errors import ConfigError
from fedfb.experiments.rule import Rule
from fedfb.export.handover import HandOver, between_values, layers_of
from fedfb.shapes import Array, Float
from fedfb.tables.cells import MISSING
from fedfb.tables.table import Table


@dataclass
class Graph:
    """An ONNX graph under construction. Every method adds to it and returns a tensor's name.

    Tensors have one axis, the rows, where no other shape is stated.
    """

    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    inputs: list[Any] = field(default_factory=list)

    def input(self, name: str, number: bool) -> str:
        """Add a column of raw rows: float64, or text."""
        kind = TensorProto.DOUBLE if number else TensorProto.STRING
        self.inputs.append(helper.make_tensor_value_info(name, kind, ["rows"]))
        return name

    def node(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add one operation."""
        name = f"fedfb/{len(self.nodes)} {operator}"
        node = helper.make_node(operator, list(inputs), [name], domain=domain, **attributes)
        self.nodes.append(node)
        return name

    def constant(self, value: Any) -> str:
        """Add a constant: numbers, or text."""
        name, array = f"fedfb/constant {len(self.constants)}", np.asarray(value)
        if array.dtype.kind in "UO":
            words: Any = [str(word).encode() for word in array.ravel()]
            tensor = helper.make_tensor(name, TensorProto.STRING, array.shape, words)
        else:
            tensor = numpy_helper.from_array(array, name)
        self.constants.append(tensor)
        return name

    def number_of(self, text: str, places: Mapping[str, int], default: int) -> str:
        """Map words to int64 numbers.

        Args:
            text: tensor of words.
            places: number of each word.
            default: number of all other words.

        """
        return self.node(
            *("LabelEncoder", text),
            domain=ML,
            keys_strings=list(places),
            values_int64s=list(places.values()),
            default_int64=default,
        )

    def cast(self, tensor: str, kind: int) -> str:
        """Convert numbers to another type. int64 drops the digits after the point."""
        return self.node("Cast", tensor, to=kind)

    def column(self, tensor: str) -> str:
        """Return the tensor as a matrix of one column."""
        return self.node("Unsqueeze", tensor, self.constant(np.array([1])))

    def model(self, outputs: dict[str, str], about: dict[str, str]) -> Any:
        """Return the complete model.

        Args:
            outputs: tensors of float64, by the names of the outputs.
            about: description of the model.

        """
        for name, tensor in outputs.items():
            self.nodes.append(helper.make_node("Identity", [tensor], [name]))
        results = [
            helper.make_tensor_value_info(name, TensorProto.DOUBLE, ["rows"]) for name in outputs
        ]
        graph = helper.make_graph(self.nodes, "fedfb", self.inputs, results, self.constants)
        opsets = [helper.make_opsetid(domain, number) for domain, number in OPSETS.items()]
        model = helper.make_model(
            graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="fedfb"
        )
        helper.set_model_props(model, about)
        onnx.checker.check_model(model, full_check=True)
        return model


HALF, ZERO = np.float64(0.5), np.float64(0.0)


def onnx_model(hand: HandOver) -> Any:
    """Return the ONNX model: raw columns in, ``score`` and ``decision`` out."""
    graph = Graph()
    raw = hand.reading.columns
    cells = {name: _add_input(graph, name, number) for name, number in raw.items()}
    for rule in hand.reading.rules:
        cells[rule.target] = _add_derived(graph, rule, cells[rule.source], raw[rule.source])
    parts = [
        part for column in hand.encoder.columns for part in _add_features(graph, column, cells)
    ]
    group = _add_group(graph, hand, cells) if hand.needs_group else None
    if hand.encoder.sensitive_at_prediction and group is not None:
        groups = len(hand.encoder.groups.names)
        eye = graph.constant(np.eye(groups + 1, groups))
        parts.append(graph.node("Gather", eye, group))
    x = graph.node("Concat", *parts, axis=1)
    if hand.rule.precision == "float32":
        x = graph.cast(graph.cast(x, TensorProto.FLOAT), TensorProto.DOUBLE)
    score, decision = _add_decision(graph, hand.rule, x)
    if hand.rule.chance is not None:
        of_group = group if hand.rule.needs_group else None
        decision = _add_thresholds(graph, hand.rule, score, of_group)
    names = set(raw)
    outputs = {
        _choose_free_name("score", names): score,
        _choose_free_name("decision", names): decision,
    }
    return graph.model(outputs, hand.about)


def _add_input(graph: Graph, name: str, number: bool) -> str:
    """Add a raw column. Every mark of a missing value becomes ''."""
    cells = graph.input(name, number)
    if number:
        return cells
    missing = graph.cast(graph.number_of(cells, dict.fromkeys(MISSING, 1), 0), TensorProto.BOOL)
    return graph.node("Where", missing, graph.constant(""), cells)


def _add_derived(graph: Graph, rule: Any, source: str, number: bool) -> str:
    """Add a derived column; ``number`` tells whether the source is one."""
    if isinstance(rule, Bins):
        is_above = graph.node("Greater", graph.column(source), graph.constant([list(rule.edges)]))
        steps = graph.cast(is_above, TensorProto.INT64)
        place = graph.node("ReduceSum", steps, graph.constant(np.array([1])), keepdims=0)
        name = graph.node("Gather", graph.constant(rule.names), place)
        missing = graph.node("IsNaN", source)
        return graph.node("Where", missing, graph.constant(""), name)
    if isinstance(rule, Blank) and number:
        equal = graph.node("Equal", graph.column(source), graph.constant([list(rule.numbers)]))
        hits = graph.cast(equal, TensorProto.INT64)
        count = graph.node("ReduceSum", hits, graph.constant(np.array([1])), keepdims=0)
        is_blank = graph.cast(count, TensorProto.BOOL)
        return graph.node("Where", is_blank, graph.constant(np.float64("nan")), source)
    if isinstance(rule, Blank):
        rule = Merge(rule.source, rule.target, rule.values, ("",) * len(rule.values))
    if isinstance(rule, Keep):
        words = ["", *rule.values]
        place = graph.number_of(source, {w: i for i, w in enumerate(words)}, default=len(words))
        return graph.node("Gather", graph.constant([*words, rule.other]), place)
    if isinstance(rule, Merge):
        places = dict(zip(rule.values, range(len(rule.values)), strict=True))
        place = graph.number_of(source, places, default=len(rule.values))
        name = graph.node("Gather", graph.constant([*rule.names, ""]), place)
        other = graph.node("Equal", place, graph.constant(np.int64(len(rule.values))))
        return graph.node("Where", other, source, name)
    raise ConfigError(
        f"column {rule.target!r} is made by a rule ({type(rule).__name__}) that has no counterpart "
        "in ONNX. Use fedfb predict, or export --to skops."
    )


def _add_features(graph: Graph, column: Any, cells: dict[str, str]) -> list[str]:
    """Add the encoded columns of a feature, as matrices of float64."""
    values = cells[column.name]
    if isinstance(column, NumberColumn):
        missing = graph.node("IsNaN", values)
        if column.low is not None and column.high is not None:
            ends = [graph.constant(np.float64(end)) for end in (column.low, column.high)]
            values = graph.node("Clip", values, *ends)
        distance = graph.node("Sub", values, graph.constant(np.float64(column.mean)))
        scaled = graph.node("Div", distance, graph.constant(np.float64(column.sd)))
        filled = graph.node("Where", missing, graph.constant(ZERO), scaled)
        flags = [graph.cast(missing, TensorProto.DOUBLE)] if column.indicator else []
        parts = [graph.column(part) for part in (filled, *flags)]
        if column.steps:  # a comparison with nan is False
            steps = graph.constant(np.array([column.steps]))
            is_above = graph.node("Greater", graph.column(values), steps)
            parts.append(graph.cast(is_above, TensorProto.DOUBLE))
        return parts
    if isinstance(column, CategoryColumn):
        places = {category: place for place, category in enumerate(column.categories)}
        if MISSING_CATEGORY in places:
            places[""] = places[MISSING_CATEGORY]
        place = graph.column(graph.number_of(values, places, default=-1))
        hot = graph.node("Equal", place, graph.constant([range(len(column.categories))]))
        return [graph.cast(hot, TensorProto.DOUBLE)]
    raise ConfigError(
        f"column {column.name!r} is encoded in a way ({type(column).__name__}) that has no "
        "counterpart in ONNX. Use fedfb predict, or export --to skops."
    )


def _add_group(graph: Graph, hand: HandOver, cells: dict[str, str]) -> str:
    """Add the number of each row's group."""
    groups = hand.encoder.groups
    before, *after = between_values(groups.columns)
    name_of_group = cells[groups.columns[0]]
    if before:
        name_of_group = graph.node("StringConcat", graph.constant(before), name_of_group)
    for name, words in zip(groups.columns[1:], after, strict=False):
        name_of_group = graph.node("StringConcat", name_of_group, graph.constant(words))
        name_of_group = graph.node("StringConcat", name_of_group, cells[name])
    places = {name: place for place, name in enumerate(groups.names)}
    places |= {name: places[into] for name, into in zip(groups.merged, groups.into, strict=True)}
    rest = places[groups.into[-1]] if groups.into else len(groups.names)
    return graph.number_of(name_of_group, places, default=rest)


def _add_decision(graph: Graph, rule: Rule, x: str) -> tuple[str, str]:
    """Add score and decision of the network, or of the mixture of several."""
    share = rule.weights / rule.weights.sum()
    scores, votes = [], []
    for member, weight in zip(rule.members, share, strict=True):
        logit = _add_logit(graph, rule, member, x)
        is_positive = graph.cast(
            graph.node("GreaterOrEqual", logit, graph.constant(ZERO)), TensorProto.DOUBLE
        )
        factor = graph.constant(np.float64(weight))
        scores.append(graph.node("Mul", graph.node("Sigmoid", logit), factor))
        votes.append(graph.node("Mul", is_positive, factor))
    score, vote = graph.node("Sum", *scores), graph.node("Sum", *votes)
    if rule.mixing == "randomised":
        return score, vote
    share_in_favour = score if rule.mixing == "soft" else vote
    is_favourable = graph.node("GreaterOrEqual", share_in_favour, graph.constant(HALF))
    return score, graph.cast(is_favourable, TensorProto.DOUBLE)


def _add_logit(graph: Graph, rule: Rule, member: Float[Array, " p"], x: str) -> str:
    layers = layers_of(rule).split(member[None].astype(np.float64))
    for number, (weight, bias) in enumerate(layers, start=1):
        product = graph.node("MatMul", x, graph.constant(weight[0]))
        x = graph.node("Add", product, graph.constant(bias[0]))
        x = graph.node("Relu", x) if number < len(layers) else x
    return graph.node("Squeeze", x, graph.constant(np.array([1])))


def _add_thresholds(graph: Graph, rule: Rule, score: str, group: str | None) -> str:
    """Add the lookup of P(decide 1) in a table by group (None: a common cut) and bin."""
    bins = rule.bins
    scaled = graph.node("Mul", score, graph.constant(np.float64(bins)))
    place = graph.node(
        "Min", graph.cast(scaled, TensorProto.INT64), graph.constant(np.int64(bins - 1))
    )
    if group is not None:
        first = graph.node("Mul", group, graph.constant(np.int64(bins)))
        place = graph.node("Add", first, place)
    rows = np.vstack([np.asarray(rule.chance, np.float64), decide_at_half(bins)])
    table = graph.constant(rows.ravel())
    return graph.node("Gather", table, place)


def _choose_free_name(name: str, names: set[str]) -> str:
    """Return the name of an output, with underscores added where a column has the name."""
    return name if name not in names else _choose_free_name(f"{name}_", names)


def run_onnx(content: bytes, table: Table) -> Prediction:
    """Score and decide raw rows with onnxruntime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    score, decision = session.run(
        None, {i.name: np.asarray(table.column(i.name)) for i in session.get_inputs()}
    )
    return Prediction(score[None], decision[None])


ML = "ai.onnx.ml"
OPSETS = {"": 20, ML: 3}
IR_VERSION = 10
"""Old enough for runtimes of 2024 (onnxruntime 1.18), new enough to join text."""
