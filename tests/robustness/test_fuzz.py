"""A short run of the fuzzer; `python tests/robustness/fuzz.py` is the long one."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(sys.platform != "linux", reason="makes pipes and links")
def test_damaged_files_end_in_the_same_result_a_recovery_or_one_sentence():
    """In a process of its own, because pytest hides the warnings that users see."""
    command = [sys.executable, Path(__file__).with_name("fuzz.py"), "--corruptions", "12", "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("12 corruptions of ")
    for outcome in (" same", " sentence"):
        assert outcome in done.stdout
