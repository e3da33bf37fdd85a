import pytest
import torch

from usfa.errors import InputError
from usfa.learning import choose_device, choose_precision


@pytest.mark.parametrize(("there", "expected"), [(True, "cuda"), (False, "cpu")])
def test_auto_is_a_gpu_where_there_is_one(monkeypatch, there, expected):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert choose_device("auto") == torch.device(expected)
    assert choose_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ("cuda", "device is 'cuda', but PyTorch finds no GPU here; expected auto or cpu."),
        ("cuda:1", "device is 'cuda:1', but PyTorch finds no GPU here; expected auto or cpu."),
        ("abacus", "device is 'abacus'; expected auto, cpu or cuda."),
    ],
)
def test_devices_that_are_not_there(monkeypatch, wanted, sentence):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError) as error:
        choose_device(wanted)
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ({"fp32": [1, 3, 3, 3], "bf16": [9, 2, 2, 2]}, "bf16"),  # the first try warms up and does not count
        ({"fp32": [9, 2, 2, 2], "bf16": [1, 3, 3, 3]}, "fp32"),
        ({"fp32": [1, 5, 5, 5], "bf16": [1, 9, 9, 4]}, "bf16"),  # the best of the others does
        ({"fp32": [1, 5, 5, 5], "bf16": [1, 5, 5, 5]}, "fp32"),
    ],
)
def test_the_faster_precision_is_chosen(monkeypatch, seconds, expected):
    clock, tries = [0.0], {precision: iter(durations) for precision, durations in seconds.items()}

    def work(precision):
        clock[0] += next(tries[precision])

    monkeypatch.setattr("usfa.learning.hardware.time.perf_counter", lambda: clock[0])
    assert choose_precision(work) == expected
