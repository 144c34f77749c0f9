"""Legend of the axis names in the package's tensor types.

| axis | it counts |
|---|---|
| batch | sentences, images or examples computed together |
| source, target | positions of the source; positions of the target |
| position | positions of either side |
| hypothesis | hypotheses of one sentence in the beam |
| layer, head | layers of a stack, heads of multi-head attention |
| query, key, value | numbers in one query, key or value vector |
| hidden, embedding | numbers in one layer's state, in an embedding |
| feature, fed | numbers from which logits are computed; numbers fed into the next step |
| vocabulary, class | tokens of the vocabulary; classes |
| word | the real (not padded) target positions of a batch, in reading order |

`*batch` stands for any leading axes (none, batch, or batch and head). A mask is Bool, and True
means "may be attended to" or "is a real position".
"""

from jaxtyping import Bool, Float, Int, Shaped, UInt8
from torch import Tensor

__all__ = ["Bool", "Float", "Int", "Shaped", "Tensor", "UInt8"]
