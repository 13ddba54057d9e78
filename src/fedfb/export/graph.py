"""An ONNX graph as it grows: nodes, constants, inputs. Names of our own begin with 'fedfb/'."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ML = "ai.onnx.ml"
OPSETS = {"": 20, ML: 3}
IR_VERSION = 10
"""Old enough for runtimes of 2024 (onnxruntime 1.18), new enough to join text."""


@dataclass
class Graph:
    """Grows by every call; all methods return the name of a tensor.

    Tensors have one axis, the rows, unless said otherwise.
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
        """Map words to numbers, every word that is not known to the default; int64."""
        return self.node(
            *("LabelEncoder", text),
            domain=ML,
            keys_strings=list(places),
            values_int64s=list(places.values()),
            default_int64=default,
        )

    def cast(self, tensor: str, kind: int) -> str:
        """Convert numbers; to int64 by leaving out what follows the point."""
        return self.node("Cast", tensor, to=kind)

    def column(self, tensor: str) -> str:
        """Make one axis two: a matrix of one column."""
        return self.node("Unsqueeze", tensor, self.constant(np.array([1])))

    def model(self, outputs: dict[str, str], about: dict[str, str]) -> Any:
        """Return the whole model; ``outputs`` are tensors of float64 by the names to give them."""
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
