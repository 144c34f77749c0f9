"""Pretrained image networks of Hugging Face's `transformers` (extra `vision`).

    image, 0 to 255 --mean and deviation of the training data--> network --> grid of cells

A convolutional network (ResNet, ConvNeXt) returns a grid. A vision Transformer returns a sequence:
tokens that stand for the whole image, then one token for each cell of a square grid.
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
"""Mean and deviation of ImageNet, for networks without a file of their own."""
PREPARATION = "preprocessor_config.json"


class Backbone(nn.Module):
    """Pretrained network from images to the features of grid cells."""

    varies_in_batches = True

    mean: Tensor
    deviation: Tensor

    def __init__(
        self,
        network: nn.Module,
        mean: tuple[float, ...] = USUAL_MEAN,
        deviation: tuple[float, ...] = USUAL_DEVIATION,
    ) -> None:
        """`network` maps `pixel_values` to an output with a `last_hidden_state`, as networks of
        `transformers` do. Mean and deviation are those of red, green and blue from 0 to 1."""
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.tensor(mean)[:, None, None])
        self.register_buffer("deviation", torch.tensor(deviation)[:, None, None])

    @classmethod
    def load(cls, name: str | Path) -> Backbone:
        """Load a network from a folder, or by its name on Hugging Face's hub. UserError if it does
        not exist or `transformers` is not installed."""
        transformers = _transformers()
        try:
            network = transformers.AutoModel.from_pretrained(name)
        except (OSError, ValueError, KeyError) as error:
            reason = " ".join(str(error).split())[:200]
            raise UserError(f"cannot load the backbone {name}: {reason}") from error
        return cls(getattr(network, "vision_model", network), **_preparation(name))

    @classmethod
    def shaped(cls, folder: Path) -> Backbone:
        """Build a newly initialised network of the shape that `save` stored in this folder."""
        transformers = _transformers()
        config = transformers.AutoConfig.from_pretrained(folder)
        return cls(transformers.AutoModel.from_config(config), **_preparation(folder))

    def save(self, folder: Path) -> None:
        """Write the network, and the mean and deviation of its images, for `load`."""
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
        self, images: UInt8[Tensor, "image 3 side side"]
    ) -> Float[Tensor, "image cell feature"]:
        """Return the features of the cells, row by row. ValueError if the cells form no square."""
        prepared = (images.float() / 255 - self.mean) / self.deviation
        states = self.network(pixel_values=prepared.to(self.mean.dtype)).last_hidden_state
        if states.dim() == 4:
            cells = states.flatten(2).mT
        else:
            side = math.isqrt(states.size(1))
            cells = states[:, states.size(1) - side**2 :]
        if math.isqrt(cells.size(1)) ** 2 != cells.size(1):
            raise ValueError(f"backbone: expected a square number of cells, got {cells.size(1)}")
        return cells

    @torch.no_grad()
    def shape(self, side: int) -> tuple[int, int]:
        """Return the number of cells of an image with this side, and the number of features of a
        cell. UserError if the network does not support this size."""
        was_training = self.training
        image = torch.zeros(1, 3, side, side, dtype=torch.uint8, device=self.mean.device)
        try:
            _, cells, features = self.eval()(image).shape
        except (ValueError, RuntimeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise UserError(
                f"the backbone does not support images of {side} pixels: {reason}. Set "
                f"--data.image-size to the size of its training images{self._own_side()}"
            ) from error
        finally:
            self.train(was_training)
        return cells, features

    def _own_side(self) -> str:
        side = getattr(getattr(self.network, "config", None), "image_size", None)
        return "" if side is None else f", {side}"

    def digest(self) -> str:
        """Return the SHA-256 of the names, types, shapes and values of all weights."""
        digest = hashlib.sha256()
        for name, weight in sorted(self.state_dict().items()):
            digest.update(f"{name} {weight.dtype} {tuple(weight.shape)}".encode())
            digest.update(
                weight.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data
            )
        return digest.hexdigest()


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise UserError(
            "model.encoder.kind backbone needs the package transformers: "
            f"{install_command('transformers')}"
        ) from error
    transformers.utils.logging.disable_progress_bar()
    return transformers


def _preparation(name: str | Path) -> dict[str, tuple[float, ...]]:
    """Return mean and deviation from the network's own file; nothing if there is no such file."""
    try:
        if Path(name).is_dir():
            path = Path(name) / PREPARATION
        else:
            from huggingface_hub import hf_hub_download

            path = Path(hf_hub_download(str(name), PREPARATION))
        settings = json.loads(path.read_text(encoding="utf8"))
        return {"mean": tuple(settings["image_mean"]), "deviation": tuple(settings["image_std"])}
    except (OSError, ValueError, LookupError, TypeError):
        return {}
