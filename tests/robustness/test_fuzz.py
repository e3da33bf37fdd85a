"""A short run of the fuzzer; `python tests/robustness/fuzz.py` is the long one."""

import subprocess
import sys
from pathlib import Path

import pytest
from trial_log import TrialLog


@pytest.mark.skipif(sys.platform != "linux", reason="makes pipes and links")
def test_damaged_files_end_in_the_same_result_a_recovery_or_one_sentence():
    """In a process of its own, because pytest hides the warnings that users see."""
    command = [sys.executable, Path(__file__).with_name("fuzz.py"), "--corruptions", "12", "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("12 corruptions of ")
    for outcome in (" same", " sentence"):
        assert outcome in done.stdout


def test_an_interrupted_series_goes_on_after_its_last_whole_line(tmp_path):
    log = TrialLog(tmp_path / "trials" / "log.jsonl")
    log.put(0, verdict="traceback")
    log.put(1, verdict="same")
    with log.path.open("a") as file:
        file.write('{"number": 2, "verd')
    log = TrialLog(log.path)
    assert len(log) == 2
    log.put(2, verdict="told")
    log.put(0, verdict="sentence")  # tried again after a repair
    assert [trial["verdict"] for trial in TrialLog(log.path).trials] == ["sentence", "same", "told"]
