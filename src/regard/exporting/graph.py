"""Builder of ONNX graphs: every call adds one operator and returns the name of its output.

Operators have the names of ONNX's specification, so that a graph reads like the formula."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from regard.shapes import Tensor

OPSET, IR_VERSION = 17, 8
"""Versions of 2022, which current engines and engines of a few years ago support."""

Axes = Sequence[int | str]
"""Sizes of a tensor; a name is a variable size."""


class Graph:
    """Builder of a graph. A weight that is used twice is stored once."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}
        self._stored: dict[tuple[int, torch.Size, tuple[int, ...]], tuple[str, Tensor]] = {}
        """Names by address in memory, with their tensors: an address is unique while its tensor
        lives."""

    def __call__(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add an operator with one output."""
        return self.several(operator, inputs, 1, **attributes)[0]

    def several(
        self, operator: str, inputs: Sequence[str], num_outputs: int, **attributes: Any
    ) -> list[str]:
        """Add an operator with several outputs."""
        outputs = [f"{operator.lower()}_{len(self._nodes)}_{n}" for n in range(num_outputs)]
        self._nodes.append(helper.make_node(operator, list(inputs), outputs, **attributes))
        return outputs

    def constant(self, value: Any, dtype: type = np.int64) -> str:
        """Add a constant of the formula and return its name."""
        return self._keep(np.asarray(value, dtype=dtype), f"constant_{len(self._constants)}")

    def weight(self, tensor: Tensor) -> str:
        """Add a weight and return its name."""
        key = (tensor.data_ptr(), tensor.shape, tensor.stride())
        if key not in self._stored:
            name = f"weight_{len(self._constants)}"
            self._keep(tensor.detach().float().cpu().numpy(), name)
            self._stored[key] = name, tensor
        return self._stored[key][0]

    def product(self, vectors: str, matrix: Tensor) -> str:
        """Add W x, for x with any number of axes."""
        return self("MatMul", vectors, self.weight(matrix.detach().mT.contiguous()))

    def linear(self, vectors: str, linear: nn.Linear) -> str:
        """Add W x + b, for x with any number of axes."""
        product = self.product(vectors, linear.weight)
        return product if linear.bias is None else self("Add", product, self.weight(linear.bias))

    def flat_linear(self, rows: str, linear: nn.Linear) -> str:
        """Add W x + b, for x with two axes, without a transposed copy of W, which may be the
        embeddings too."""
        biases = [] if linear.bias is None else [self.weight(linear.bias)]
        return self("Gemm", rows, self.weight(linear.weight), *biases, transB=1)

    def squeeze(self, tensor: str, axis: int) -> str:
        return self("Squeeze", tensor, self.constant([axis]))

    def unsqueeze(self, tensor: str, axis: int) -> str:
        return self("Unsqueeze", tensor, self.constant([axis]))

    def model(
        self,
        inputs: Mapping[str, tuple[int, Axes]],
        outputs: Mapping[str, tuple[str, Axes]],
    ) -> onnx.ModelProto:
        """Return the checked model. Inputs have a type and axes. Outputs are floats and have the
        name of their tensor in the graph, and axes."""
        for name, (tensor, _) in outputs.items():
            self._nodes.append(helper.make_node("Identity", [tensor], [name]))
        floats = {name: (TensorProto.FLOAT, axes) for name, (_, axes) in outputs.items()}
        graph = helper.make_graph(
            self._nodes,
            self._name,
            [_info(name, *kind) for name, kind in inputs.items()],
            [_info(name, *kind) for name, kind in floats.items()],
            list(self._constants.values()),
        )
        opset = helper.make_opsetid("", OPSET)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION)
        onnx.checker.check_model(model, full_check=True)
        return model

    def _keep(self, array: np.ndarray, name: str) -> str:
        self._constants[name] = numpy_helper.from_array(array.copy(order="C"), name)
        return name


def _info(name: str, kind: int, axes: Axes) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, list(axes))
