"""A short run of the fuzzer; `python tests/robustness/fuzz.py` is the long one."""

import importlib
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def fuzz():
    sys.path.insert(0, str(Path(__file__).parent))
    yield importlib.import_module("fuzz")
    sys.path.remove(str(Path(__file__).parent))


@pytest.mark.skipif(sys.platform != "linux", reason="makes pipes and links")
def test_damaged_files_end_in_the_same_result_a_recovery_or_one_sentence(fuzz, tmp_path):
    faults = []
    counts = fuzz.fuzz(60, 1, tmp_path, faults.append)
    assert faults == []
    assert set(counts) <= set(fuzz.FINE)
    assert {"same", "sentence"} <= set(counts)
