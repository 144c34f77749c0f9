"""Networks of pictures that others trained, by Hugging Face's `transformers` (extra `vision`).

    picture, 0 to 255 --mean and deviation of its training--> network --> grid of cells

A convolutional network (ResNet, ConvNeXt) ends with a grid; a vision Transformer with a row of
tokens, of which the last make a square, after those that stand for the whole picture.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn

from regard.errors import UserError, install_command
from regard.shapes import Float, Tensor, UInt8

USUAL_MEAN = (0.485, 0.456, 0.406)
USUAL_DEVIATION = (0.229, 0.224, 0.225)
"""ImageNet's, for a network that says nothing of its own."""
PREPARATION = "preprocessor_config.json"


class Backbone(nn.Module):
    """Pictures to cells."""

    mean: Tensor
    deviation: Tensor

    def __init__(
        self,
        network: nn.Module,
        mean: tuple[float, ...] = USUAL_MEAN,
        deviation: tuple[float, ...] = USUAL_DEVIATION,
    ) -> None:
        """`network` takes `pixel_values` and gives a `last_hidden_state`, as those of
        `transformers` do; mean and deviation are of red, green and blue from 0 to 1."""
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.tensor(mean)[:, None, None])
        self.register_buffer("deviation", torch.tensor(deviation)[:, None, None])

    @classmethod
    def load(cls, name: str | Path) -> Backbone:
        """From a folder, or by its name on Hugging Face's hub. UserError where there is none, or
        `transformers` is not installed."""
        transformers = _transformers()
        try:
            network = transformers.AutoModel.from_pretrained(name)
        except (OSError, ValueError, KeyError) as error:
            why = " ".join(str(error).split())[:200]
            raise UserError(f"cannot load the backbone {name}: {why}") from error
        return cls(getattr(network, "vision_model", network), **_preparation(name))

    @classmethod
    def shaped(cls, folder: Path) -> Backbone:
        """With new weights, in the shape of what `save` wrote, for those that are loaded next."""
        transformers = _transformers()
        config = transformers.AutoConfig.from_pretrained(folder)
        return cls(transformers.AutoModel.from_config(config), **_preparation(folder))

    def save(self, folder: Path) -> None:
        """For `load`: all that the network is, and how pictures are prepared for it."""
        network: Any = self.network
        preparation = {
            "image_mean": self.mean.flatten().tolist(),
            "image_std": self.deviation.flatten().tolist(),
        }
        try:
            network.save_pretrained(folder)
            (folder / PREPARATION).write_text(json.dumps(preparation), encoding="utf8")
        except (OSError, SafetensorError) as error:
            raise UserError(f"cannot write {folder}: {error}") from error

    def forward(
        self, pictures: UInt8[Tensor, "picture 3 side side"]
    ) -> Float[Tensor, "picture cell feature"]:
        """Row after row. ValueError where what the network makes is no square of cells."""
        prepared = (pictures.float() / 255 - self.mean) / self.deviation
        states = self.network(pixel_values=prepared.to(self.mean.dtype)).last_hidden_state
        if states.dim() == 4:
            cells = states.flatten(2).mT
        else:
            side = math.isqrt(states.size(1))
            cells = states[:, states.size(1) - side**2 :]
        if math.isqrt(cells.size(1)) ** 2 != cells.size(1):
            raise ValueError(f"{cells.size(1)} cells are no square")
        return cells

    @torch.no_grad()
    def shape(self, side: int) -> tuple[int, int]:
        """The number of cells of a picture of this side, and of the numbers in each. UserError
        where the network cannot see such a picture."""
        was = self.training
        picture = torch.zeros(1, 3, side, side, dtype=torch.uint8, device=self.mean.device)
        try:
            _, cells, features = self.eval()(picture).shape
        except (ValueError, RuntimeError) as error:
            why = " ".join(str(error).split())[:200]
            raise UserError(
                f"the backbone cannot see pictures of {side} dots: {why}. Set --data.picture-size "
                f"to what it was trained on{self._own_side()}"
            ) from error
        finally:
            self.train(was)
        return cells, features

    def _own_side(self) -> str:
        side = getattr(getattr(self.network, "config", None), "image_size", None)
        return "" if side is None else f", {side}"

    def digest(self) -> str:
        """The same for the same weights, and for no others."""
        told = hashlib.sha256()
        for name, weight in sorted(self.state_dict().items()):
            told.update(f"{name} {weight.dtype} {tuple(weight.shape)}".encode())
            told.update(weight.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
        return told.hexdigest()


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise UserError(
            f"model.backbone needs the package transformers: {install_command('transformers')}"
        ) from error
    transformers.utils.logging.disable_progress_bar()
    return transformers


def _preparation(name: str | Path) -> dict[str, tuple[float, ...]]:
    """What a network's own page says of its pictures; the usual where there is none."""
    try:
        if Path(name).is_dir():
            path = Path(name) / PREPARATION
        else:
            from huggingface_hub import hf_hub_download

            path = Path(hf_hub_download(str(name), PREPARATION))
        page = json.loads(path.read_text(encoding="utf8"))
        return {"mean": tuple(page["image_mean"]), "deviation": tuple(page["image_std"])}
    except (OSError, ValueError, LookupError, TypeError):
        return {}
