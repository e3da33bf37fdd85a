"""Training goes on, whoever is killed or hangs: actors, the learner, and the learner when it only has to close."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from counted_trip import steps_counted
from usfa.cluster import read_account
from usfa.cluster.ledger import ActorId
from usfa.evaluation import read_scores, summarise

TESTS = Path(__file__).parents[1]
TRAIN = (
    *("train", "trip-usfa", "--environment", "counted_trip:CountedTrip-v0", "--seeds", "0", "1", "2", "3", "4"),
    *("--learner.environments", "2", "--learner.trajectory-length", "2", "--learner.replay-ratio", "7"),
    *("--evaluation.tasks", "trip-directions", "--evaluation.candidates", "task"),
    *("--evaluation.snapshots", "1", "--checkpoint-every", "20"),
    *("--cluster", "local", "--actors", "2", "--cpus-per-actor", "0.5"),
)
FRAMES = 5 * 2 * 2  # of a trajectory: seeds, environments, steps
UNDISTURBED = (0.0009, 0.0022)
"""95 % interval of the mean gap after the same training in one process, with nobody killed."""


class Training:
    """A training process, and what can be seen of it from outside."""

    def __init__(self, path, tally, *more, budget=6000, patience=5):
        self.path = path
        settings = ("--learner.budget", str(budget), "--patience", str(patience), "--out", str(path))
        words = [sys.executable, "-m", "usfa", *TRAIN, *settings, *more]
        modules = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
        place = {"USFA_TALLY": str(tally), "PYTHONPATH": modules}
        self.log = (path.parent / "log").open("a")
        self.process = subprocess.Popen(words, stdout=self.log, stderr=self.log, env=os.environ | place)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.log.close()

    def lines(self):
        ledger = self.path / "trajectories.jsonl"
        whole = ledger.read_text().splitlines(keepends=True) if ledger.exists() else []
        return [json.loads(line) for line in whole if line.endswith("\n")]

    def wait_for(self, what):
        """Until `what()` gives something."""
        deadline = time.monotonic() + 240
        while not (found := what()):
            assert self.process.poll() is None, f"It ended before: {(self.path.parent / 'log').read_text()}"
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return found

    def process_of(self, actor):
        """Once it has delivered."""
        lines = [line for line in self.lines() if line.get("actor") == list(actor)]
        return lines[0]["process"] if any(line.get("fate") == "learned" for line in lines) else None

    def kill_actor(self, actor, number=signal.SIGKILL):
        os.kill(self.wait_for(lambda: self.process_of(actor)), number)

    def checkpoints(self):
        return {path.name for path in (self.path / "checkpoints").glob("state-*.usfa")}


def alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
def test_all_frames_are_accounted_for_and_the_score_is_as_undisturbed(tmp_path):
    path, tally = tmp_path / "run", tmp_path / "tally"
    tally.mkdir()
    with Training(path, tally) as first:
        first.kill_actor(ActorId(0, 0, 0))
        first.kill_actor(ActorId(0, 0, 1))
        before = first.checkpoints()
        first.wait_for(lambda: first.checkpoints() - before)
        first.wait_for(lambda: first.lines()[-1].get("updates", 0) % 20 > 4)  # something to be forgotten
        actors = {line["process"] for line in first.lines() if "process" in line}
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
    deadline = time.monotonic() + 60
    while any(map(alive, actors)):  # they go with their learner
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert not (path / "scores.csv").exists()
    with Training(path, tally, "--resume") as second:
        second.kill_actor(ActorId(1, 0, 0))
        second.kill_actor(ActorId(1, 1, 0), signal.SIGSTOP)
        assert second.process.wait(timeout=240) == 0, (tmp_path / "log").read_text()
        lines = second.lines()
    stepped = steps_counted(tally)
    assert stepped.pop(second.process.pid) == 5 * 24 * 32  # seeds, environments and steps, to see how wrong ψ is
    check_account(path, lines, sum(stepped.values()))
    assert as_good_as_undisturbed(path)


def check_account(path, lines, stepped):
    """What was asked for is settled, once; what was stepped was counted, but for what died half-way."""
    account = read_account(path / "trajectories.jsonl")
    assert account.under_way == 0
    assert account.asked == sum(account.trajectories.values())
    assert account.sessions == 2
    assert account.restarts >= 2
    settled = Counter((*line["actor"], line["sequence"]) for line in lines if "fate" in line)
    assert set(settled.values()) == {1}
    counted = sum(account.frames.values())
    assert counted <= stepped <= counted + FRAMES * account.trajectories["lost"]
    assert account.trajectories["lost"] <= 4 * 2 + 2 * 2  # the requests of four failed actors, and of a dead learner


def as_good_as_undisturbed(path):
    """The interval of the disturbed run reaches down to that of the other; a smaller gap is no fault."""
    scores = read_scores(path / "scores.csv").query("rule == 'gpi'")
    last = scores[scores.snapshot == scores.snapshot.max()]
    found = summarise(last.assign(gap=last.optimal - last.score), ["agent"], "gap").iloc[0]
    return found["low"] <= UNDISTURBED[1]


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
def test_a_learner_killed_while_it_waits_for_a_hung_actor_ends_when_resumed(tmp_path):
    """The budget is used up by the other actor; the learner is killed in its close()."""
    path, tally = tmp_path / "run", tmp_path / "tally"
    tally.mkdir()
    with Training(path, tally, budget=300, patience=200) as first:
        hung = first.wait_for(lambda: first.process_of(ActorId(0, 1, 0)))
        os.kill(hung, signal.SIGSTOP)
        first.wait_for((path / "agent" / "config.json").exists)  # written before the learner closes
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
    if alive(hung):
        os.kill(hung, signal.SIGKILL)
    assert read_account(path / "trajectories.jsonl").under_way > 0
    assert not (path / "scores.csv").exists()
    with Training(path, tally, "--resume", budget=300, patience=200) as second:
        assert second.process.wait(timeout=120) == 0, (tmp_path / "log").read_text()
    account = read_account(path / "trajectories.jsonl")
    assert account.under_way == 0
    assert account.asked == sum(account.trajectories.values())
    assert (path / "scores.csv").exists()
