import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from random_mdps import generators
from usfa.learners import Adam


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
        adam.step(parameters, gradients, rates)
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
    adam.step(parameters, {"x": drawn(rng, 2, 4)}, torch.tensor([0.1, 0.1], dtype=torch.float64))
    before = parameters["x"].clone()
    adam.step(parameters, {"x": drawn(rng, 2, 4)}, torch.tensor([0.1, 0.0], dtype=torch.float64))
    assert torch.equal(parameters["x"][1], before[1])
    assert not torch.equal(parameters["x"][0], before[0])
