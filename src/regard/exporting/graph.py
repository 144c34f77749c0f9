"""A small hand for writing ONNX graphs: every call adds one operator and gives its output's name.

ONNX's operators are named as in its specification, so that a graph reads like the formula."""

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
"""Of 2022: what runs today's engines and those of a few years ago."""

Axes = Sequence[int | str]
"""Sizes of a tensor; a name stands for any size."""


class Graph:
    """A graph in the making. A weight that is used twice is stored once."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}
        self._stored: dict[tuple[int, torch.Size, tuple[int, ...]], tuple[str, Tensor]] = {}
        """By the place in memory, which is the tensor's own only as long as it is held."""

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
        """Numbers that belong to the formula."""
        return self._keep(np.asarray(value, dtype=dtype), f"constant_{len(self._constants)}")

    def weight(self, tensor: Tensor) -> str:
        """Numbers that were learned."""
        key = (tensor.data_ptr(), tensor.shape, tensor.stride())
        if key not in self._stored:
            name = f"weight_{len(self._constants)}"
            self._keep(tensor.detach().float().cpu().numpy(), name)
            self._stored[key] = name, tensor
        return self._stored[key][0]

    def product(self, vectors: str, matrix: Tensor) -> str:
        """W x, for x of any number of axes."""
        return self("MatMul", vectors, self.weight(matrix.detach().mT.contiguous()))

    def linear(self, vectors: str, linear: nn.Linear) -> str:
        """W x + b, for x of any number of axes."""
        product = self.product(vectors, linear.weight)
        return product if linear.bias is None else self("Add", product, self.weight(linear.bias))

    def flat_linear(self, rows: str, linear: nn.Linear) -> str:
        """W x + b, for x of two axes: by the weight as it is, which may be embeddings too."""
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
        """The checked model. Inputs have a type and axes; outputs, which are all of floating point,
        the name of what they are in the graph, and axes."""
        for name, (made, _) in outputs.items():
            self._nodes.append(helper.make_node("Identity", [made], [name]))
        floats = {name: (TensorProto.FLOAT, axes) for name, (_, axes) in outputs.items()}
        graph = helper.make_graph(
            self._nodes,
            self._name,
            [_info(name, *about) for name, about in inputs.items()],
            [_info(name, *about) for name, about in floats.items()],
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
