"""Images to vectors."""

from __future__ import annotations

from torch import Tensor, relu

from usfa.errors import InputError
from usfa.networks.layers import Convolution, Parameters

__all__ = ["Convolutions"]


class Convolutions:
    """Convolutions with ReLU on uint8 images [..., H, W, C], flattened to [..., F]."""

    def __init__(self, layers: tuple[tuple[int, int, int], ...], shape: tuple[int, ...]) -> None:
        if not layers:
            raise InputError("network.convolutions is empty; images want at least one layer.")
        height, width, channels = shape
        self.layers: list[Convolution] = []
        for number, (outputs, kernel, stride) in enumerate(layers):
            self.layers.append(Convolution(f"convolutions.{number}", channels, outputs, kernel, stride))
            height, width, channels = (height - kernel) // stride + 1, (width - kernel) // stride + 1, outputs
            if min(height, width) < 1:
                raise InputError(
                    f"Images of {shape[0]}×{shape[1]} pixels are too small for network.convolutions {layers}; "
                    "expected fewer or smaller ones."
                )
        self.features = height * width * channels

    def __call__(self, parameters: Parameters, image: Tensor) -> Tensor:
        # In memory channels stay last, as oneDNN and cuDNN like them; nothing is copied but for the cast.
        x = image.flatten(end_dim=-4).movedim(-1, -3).float()
        first, *others = self.layers
        x = relu(first.on_bytes(parameters, x))
        for layer in others:
            x = relu(layer(parameters, x))
        return x.flatten(1).unflatten(0, image.shape[:-3])
