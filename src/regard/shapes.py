"""The legend of every axis name that the package's types use.

| axis | what it counts |
|---|---|
| batch | sentences, pictures or examples worked on together |
| source, target | positions read; positions written |
| position | positions of either side |
| hypothesis | beams of one sentence that are alive together |
| layer, head | layers of a stack, heads of multi-head attention |
| query, key, value | numbers in one query, key or value vector |
| hidden, embedding | numbers in one layer's state, in an embedding |
| feature, fed | numbers that become logits; numbers fed back into the next step |
| vocabulary, class | things to choose from |
| word | the real (not padded) target positions of a batch, in reading order |

`*batch` stands for any leading axes (none, batch, or batch and head). A mask is Bool and True means
"may be attended to" or "is really there".
"""

from jaxtyping import Bool, Float, Int, Shaped, UInt8
from torch import Tensor

__all__ = ["Bool", "Float", "Int", "Shaped", "Tensor", "UInt8"]
