import torch

from usfa.networks import autocast


def test_bf16_is_for_products_and_inside_only():
    x = torch.ones(2, 2)
    for precision, expected in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        with autocast(torch.device("cpu"), precision):
            assert (x @ x).dtype == expected
            assert (x + x).dtype == torch.float32
    assert (x @ x).dtype == torch.float32
