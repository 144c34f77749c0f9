"""Legend of the axis names in the package's tensor types.

| axis | it counts |
|---|---|
| batch | sentences, images or examples computed together |
| source, target | positions of the source; positions of the target |
| position | positions of either side |
| step | steps of a decoder so far |
| slot, capacity | vectors of a key-value cache; vectors that it has room for |
| word | the real (not padded) target positions of a batch, in reading order |
| kept | sentences that remain in a search after the complete ones are dropped |
| stored | sentences of a search whose keys and values are in memory, also complete ones |
| hypothesis | hypotheses of one sentence in the beam |
| candidate | continuations of the hypotheses of one sentence |
| layer, head, direction | layers of a stack, attention heads, directions of an encoder |
| query, key, value | numbers in one query, key or value vector |
| size | numbers in a vector of the layer or score at hand |
| part | numbers in the vector of one head: size / number of heads |
| hidden, embedding | numbers in one layer's state; in an embedding |
| gates, saved | numbers in a cell's gates; numbers that it saves for its gradient |
| input, output | numbers in the input or output of a layer or model |
| feature | numbers from which logits are computed, or in one step of a series |
| fed | numbers fed into the next step |
| vocabulary, class | tokens of the vocabulary; classes |
| vector, number | vectors of a file; numbers in one of them |
| image, cell | images; cells of the grid of an image, row by row |
| channel, channels | numbers of one pixel or position in a convolution; those of another layer |
| window | numbers of the positions that a convolution reads together |
| height, width, side | rows and columns of pixels; both, if the image is square |
| row, column | rows and columns of a matrix |
| choice, count | scores to choose from; the `count` highest of them |
| power | numbers that a kernel prepares for each key |
| expert, active | experts of a layer; experts that compute one position |
| inner | numbers that a product sums over |
| pass, term | passes of an objective through the model; terms of its loss |
| sample | sampled outputs of a batch, sentence by sentence |
| any | all axes of a tensor of whatever shape |
| letter, symbol, filled | counting: letters to count, the alphabet, padded positions |

A name that only one file uses is defined there. `*batch` stands for any leading axes (none, batch,
or batch and head). An axis with `#` may also have the length 1, and is then broadcast. A mask is
Bool, and True means "may be attended to" or "is a real position".
"""

from jaxtyping import Bool, Float, Int, Shaped, UInt8
from torch import Tensor

__all__ = ["Bool", "Float", "Int", "Shaped", "Tensor", "UInt8"]
