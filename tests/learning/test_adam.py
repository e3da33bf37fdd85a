import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from random_mdps import generators
from usfa.learning.adam import Adam, clip, flatten


def drawn(rng, *shape):
    return torch.from_numpy(rng.standard_normal(shape))


@given(generators, st.sampled_from([(0.9, 0.999), (0.5, 0.9)]))
def test_every_run_is_torchs_adam_with_its_own_rate(rng, betas):
    shapes, rates = {"weight": (3, 2), "bias": (3,)}, torch.tensor([1e-2, 3e-1], dtype=torch.float64)
    parameters = {name: drawn(rng, 2, *shape) for name, shape in shapes.items()}
    single = [{name: x[run].clone().requires_grad_() for name, x in parameters.items()} for run in range(2)]
    torchs = [
        torch.optim.Adam(list(run.values()), lr=float(rate), betas=betas)
        for run, rate in zip(single, rates, strict=True)
    ]
    adam = Adam(parameters, betas)
    for _ in range(6):
        gradients = {name: drawn(rng, 2, *shape) for name, shape in shapes.items()}
        adam.step(parameters, flatten(list(gradients.values())), rates)
        for index, optimiser in enumerate(torchs):
            for name, x in single[index].items():
                x.grad = gradients[name][index].clone()
            optimiser.step()
    for name, x in parameters.items():
        for index in range(2):
            torch.testing.assert_close(x[index], single[index][name].detach(), rtol=1e-10, atol=1e-10)


def test_a_run_with_rate_0_stands_still_whatever_its_momentum():
    rng = np.random.default_rng(0)
    parameters = {"x": drawn(rng, 2, 4)}
    adam = Adam(parameters)
    adam.step(parameters, drawn(rng, 2, 4), torch.tensor([0.1, 0.1], dtype=torch.float64))
    before = parameters["x"].clone()
    adam.step(parameters, drawn(rng, 2, 4), torch.tensor([0.1, 0.0], dtype=torch.float64))
    assert torch.equal(parameters["x"][1], before[1])
    assert not torch.equal(parameters["x"][0], before[0])


@given(generators, st.sampled_from([0.1, 1.0, 3.0, 100.0, None]))
def test_clipping_shortens_what_is_too_long_run_by_run(rng, longest):
    gradient = drawn(rng, 3, 5) * torch.tensor([[0.01], [1.0], [100.0]])
    before = gradient.clone()
    lengths = clip(gradient, longest)
    for run in range(3):
        length = sum(float(x) ** 2 for x in before[run]) ** 0.5
        assert float(lengths[run]) == pytest.approx(length)
        scale = 1 if longest is None or length <= longest else longest / length
        torch.testing.assert_close(gradient[run], before[run] * scale)


def test_clipping_leaves_nothing_at_nothing():
    gradient = torch.zeros(2, 3)
    assert clip(gradient, 1.0).tolist() == [0, 0]
    assert gradient.tolist() == [[0] * 3] * 2


def test_flattening_keeps_runs_apart_and_the_order():
    rng = np.random.default_rng(0)
    tensors = [drawn(rng, 2, 3, 2), drawn(rng, 2, 1), drawn(rng, 2, 4)]
    expected = [[x for tensor in tensors for x in tensor[run].flatten().tolist()] for run in range(2)]
    assert flatten(tensors).tolist() == expected
