"""A model with every score, for other programs: exported, for ONNX, traced and compiled.

    python -m tests.attention.all_scores EXPORT|ONNX|TRACE|COMPILE ...

prints the ways whose result differs from that of the model. It runs in a process of its own,
because the shape checks that tests install do not work with a compiler.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import cache
from itertools import cycle

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention import Attention, Entmax15, Softmax, Sparsemax
from regard.compiled.accelerate import accelerate
from tests.attention.parts import SCORES, uneven_mask

Arguments = tuple[Tensor, ...]


class AllScores(nn.Module):
    """Every score, accelerated, with alternating normalisers, with and without weights."""

    def __init__(self) -> None:
        super().__init__()
        cases = [*SCORES.values(), SCORES["scaled_dot"], SCORES["additive"]]
        normalisers = cycle([Softmax, Sparsemax, Entmax15, Softmax])
        self.attentions = nn.ModuleList(
            Attention(case.make(), make()) for case, make in zip(cases, normalisers, strict=False)
        )
        accelerate(self)
        self.key_sizes = [case.key for case in cases]

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> list[Tensor]:
        outputs = []
        turns = zip(self.attentions, self.key_sizes, cycle([False, True]), strict=False)
        for attention, size, need_weights in turns:
            prepared = attention.prepare(keys[..., :size])
            output = attention(queries, prepared, values, mask, need_weights=need_weights)
            outputs += [output.context, output.weights] if need_weights else [output.context]
        return outputs


@cache
def program_of(model: AllScores, *arguments: Tensor) -> torch.export.ExportedProgram:
    return torch.export.export(model, arguments)


def export(model: AllScores, arguments: Arguments) -> list[Tensor]:
    program = program_of(model, *arguments)
    names = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    foreign = [name for name in names if "regard" in name or "mkldnn" in name]
    if foreign:
        raise ValueError(f"operators that other programs do not have: {foreign}")
    return program.module()(*arguments)


def onnx(model: AllScores, arguments: Arguments) -> list[Tensor]:
    exported = program_of(model, *arguments)
    program = torch.onnx.export(exported, dynamo=True, verbose=False, optimize=False)
    return [torch.as_tensor(np.asarray(result)) for result in program(*arguments)]


def trace(model: AllScores, arguments: Arguments) -> list[Tensor]:
    return torch.jit.trace(model, arguments)(*arguments)


def compiled(model: AllScores, arguments: Arguments) -> list[Tensor]:
    """Compile the model, with the gradients of all parameters."""
    function = torch.compile(model, backend="aot_eager", fullgraph=True)
    return with_gradients(model, function(*arguments))


def with_gradients(model: AllScores, results: list[Tensor]) -> list[Tensor]:
    loss = sum(result.square().sum() for result in results)
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    return [*results, *gradients]


WAYS: dict[str, Callable[[AllScores, Arguments], list[Tensor]]] = {
    "export": export,
    "onnx": onnx,
    "trace": trace,
    "compile": compiled,
}


def main() -> None:
    torch.manual_seed(5)
    warnings.simplefilter("ignore")
    model, inputs = AllScores(), SCORES["additive"].inputs(torch.float32)
    arguments = (inputs.queries, inputs.keys, inputs.values, uneven_mask())
    expected = with_gradients(model, model(*arguments))
    for way in sys.argv[1:]:
        results = WAYS[way](model, arguments)
        for result, wanted in zip(results, expected, strict=False):
            torch.testing.assert_close(result, wanted, rtol=1e-4, atol=1e-5)
        sys.stdout.write(f"{way}: {len(results)} results\n")


if __name__ == "__main__":
    main()
