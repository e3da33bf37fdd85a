import numpy as np
import pytest
import torch
from torch import nn

from usfa.errors import InputError
from usfa.networks import MNIH_2015, NetworkConfig, Sizes, UniversalNetwork, make_network
from usfa.networks.layers import Convolutions
from usfa.trajectory import Inputs

LAYERS = {
    "one layer": (((4, 3, 1),), (7, 7, 3)),
    "two layers": (((4, 4, 2), (6, 3, 2)), (14, 17, 3)),
    "one channel, pixels left over": (((5, 4, 3),), (12, 9, 1)),
    "Mnih et al. 2015": (MNIH_2015, (84, 84, 3)),
}


def drawn_images(rng, *shape):
    return torch.from_numpy(rng.integers(256, size=shape, dtype=np.uint8))


def seeded(make, *arguments):
    """A module with the same random weights every time, and without gradients."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make(*arguments).requires_grad_(False)


def literal(layers, shape, weights):
    """The same weights in modules of PyTorch, one after the other."""
    modules, channels = [], shape[-1]
    for number, (outputs, kernel, stride) in enumerate(layers):
        layer = nn.Conv2d(channels, outputs, kernel, stride).requires_grad_(False)
        layer.weight.copy_(weights[f"{number}.weight"])
        layer.bias.copy_(weights[f"{number}.bias"])
        modules += [layer, nn.ReLU()]
        channels = outputs
    return nn.Sequential(*modules, nn.Flatten())


@pytest.mark.parametrize(("layers", "shape"), LAYERS.values(), ids=LAYERS)
def test_convolutions_are_torchs_on_pixels_around_0(layers, shape):
    rng = np.random.default_rng(0)
    convolutions = seeded(Convolutions, layers, shape)
    image = drawn_images(rng, 2, 3, *shape)
    found = convolutions(image)
    pixels = image.reshape(6, *shape).permute(0, 3, 1, 2).float() / 255 - 0.5
    expected = literal(layers, shape, convolutions.state_dict())(pixels)
    assert found.shape == (2, 3, convolutions.features)
    torch.testing.assert_close(found, expected.reshape(2, 3, -1), rtol=1e-4, atol=1e-5)
    assert expected.std() > 0.01


def test_an_image_does_not_depend_on_its_neighbours():
    rng = np.random.default_rng(0)
    layers, shape = LAYERS["two layers"]
    convolutions = seeded(Convolutions, layers, shape)
    images = drawn_images(rng, 4, 2, *shape)
    together = convolutions(images)
    for t, b in np.ndindex(4, 2):
        alone = convolutions(images[t, b][None])
        torch.testing.assert_close(together[t, b], alone[0])


@pytest.mark.parametrize(
    ("layers", "side"), [(MNIH_2015, 35), (((8, 3, 1), (8, 4, 2)), 5), (((8, 9, 1),), 8), (((4, 8, 4), (4, 4, 2)), 19)]
)
def test_images_that_are_too_small(layers, side):
    with pytest.raises(InputError) as error:
        Convolutions(layers, (side, side, 3))
    assert str(error.value) == (
        f"Images of {side}×{side} pixels are too small for network.convolutions {layers}; "
        "expected fewer or smaller ones."
    )
    assert Convolutions(layers, (side + 1, side + 1, 3)).features == layers[-1][0]  # one pixel is enough


# --- in the whole network ---

CONVOLUTIONS, SHAPE, D, A = ((4, 4, 2), (6, 3, 2)), (14, 14, 3), 2, 3


@pytest.mark.parametrize("normalise", [False, True])
def test_the_trunk_sees_the_convolved_image(normalise):
    """Normalised or not: the same as a network of vectors that is given the features."""
    rng = np.random.default_rng(0)
    config = NetworkConfig(CONVOLUTIONS, trunk=(8,), embedding=(4,), head=(5,), normalise=normalise)
    network = seeded(UniversalNetwork, Sizes(SHAPE, A, D, D), config)
    weights = network.state_dict()
    if normalise:
        for part in ("weight", "bias"):
            norm = weights[f"trunk.image_norm.{part}"]
            norm += torch.from_numpy(rng.standard_normal(norm.shape)).float() / 2
    image, z = drawn_images(rng, 2, 3, *SHAPE), torch.from_numpy(rng.standard_normal((3, 4, D))).float()
    flags = torch.zeros(2, 3, dtype=torch.bool)
    found, memory = network(Inputs(image, flags.long(), flags), (), z)
    x = network.trunk.convolutions(image)
    if normalise:
        centred = x - x.mean(dim=-1, keepdim=True)
        x = centred / (centred.square().mean(dim=-1, keepdim=True) + 1e-5).sqrt()
        x = x * weights["trunk.image_norm.weight"] + weights["trunk.image_norm.bias"]
    vectors = UniversalNetwork(Sizes((x.shape[-1],), A, D, D), config).requires_grad_(False)
    vectors.load_state_dict({name: weights[name] for name in vectors.state_dict()})
    expected, _ = vectors(Inputs(x, flags.long(), flags), (), z)
    assert memory == ()
    torch.testing.assert_close(found, expected)


def test_images_are_prepared_once_for_several_networks():
    rng = np.random.default_rng(0)
    config = NetworkConfig(LAYERS["two layers"][0], memory=4, trunk=(6,), embedding=(4,), head=(5,), members=2)
    network = seeded(make_network, Sizes((14, 17, 3), 4, 2, 2), config)
    images = drawn_images(rng, 3, 8, 14, 17, 3)[:, 2:6]  # a part of a batch, as in an update
    inputs = Inputs(images, torch.zeros(3, 4, dtype=torch.int64), torch.zeros(3, 4, dtype=torch.bool))
    prepared = inputs._replace(observation=network.prepare(images))
    assert prepared.observation.dtype == torch.float32
    z, memory = torch.randn(4, 5, 2), network.initial_state(4)
    for found, expected in zip(network.each(prepared, memory, z), network.each(inputs, memory, z), strict=True):
        assert torch.equal(found, expected)
