"""Images to vectors."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import conv2d, relu

from usfa.errors import InputError

__all__ = ["Convolutions"]


class Convolutions(nn.Module):
    """Convolutions with ReLU on uint8 images [..., H, W, C], flattened to [..., F]."""

    def __init__(self, layers: tuple[tuple[int, int, int], ...], shape: tuple[int, ...]) -> None:
        super().__init__()
        height, width, channels = shape
        self.layers = nn.ModuleList()
        for outputs, kernel, stride in layers:
            self.layers.append(nn.Conv2d(channels, outputs, kernel, stride))
            height, width, channels = (height - kernel) // stride + 1, (width - kernel) // stride + 1, outputs
            if min(height, width) < 1:
                raise InputError(
                    f"Images of {shape[0]}×{shape[1]} pixels are too small for network.convolutions {layers}; "
                    "expected fewer or smaller ones."
                )
        self.features = height * width * channels

    def forward(self, image: Tensor) -> Tensor:
        # In memory channels stay last, as oneDNN and cuDNN like them; nothing is copied but for the cast.
        x = image.flatten(end_dim=-4).movedim(-1, -3).float()
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, nn.Conv2d)
            x = relu(_on_bytes(layer, x) if number == 0 else layer(x))
        return x.flatten(1).unflatten(0, image.shape[:-3])


def _on_bytes(layer: nn.Conv2d, x: Tensor) -> Tensor:
    """The layer on x/255 - ½, with the weights changed instead of the pixels: there are far fewer of them."""
    assert layer.bias is not None
    bias = layer.bias - layer.weight.sum(dim=(1, 2, 3)) / 2
    return conv2d(x, layer.weight / 255, bias, layer.stride)
