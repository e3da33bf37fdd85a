"""Kill training processes at random moments, resume them, and compare the results with those of undisturbed runs.

    python tests/robustness/kills.py --kills 200

One-process runs must end with the same bytes. Cluster runs are not repeatable: there, each frame must be accounted for,
and every resume must end. Of a cluster run, the learner is killed, or one of its actors is killed or stopped (SIGSTOP).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from usfa.cluster import read_account
from usfa.runs import RunDirectory

LIMIT_SECONDS = 300.0  # for the end of a resumed run
TRAIN = (
    *("train", "trip-usfa", "--seeds", "0", "1", "--learner.budget", "300", "--evaluation.snapshots", "3"),
    *("--evaluation.tasks", "1,0", "--evaluation.candidates", "task", "--checkpoint-every", "20"),
    *("--learner.environments", "2", "--learner.trajectory-length", "2", "--learner.replay-ratio", "1"),
)
CLUSTER = ("--cluster", "local", "--actors", "2", "--cpus-per-actor", "0.5", "--patience", "5")
RESULTS = ("scores.csv", "agent/weights.safetensors", "agent/config.json", "agent/README.md")


class Run:
    """A run directory, and the process that trains in it."""

    def __init__(self, path, cluster):
        self.path, self.cluster = path, cluster

    def start(self, *more):
        words = [
            sys.executable,
            "-m",
            "usfa",
            *TRAIN,
            *(CLUSTER if self.cluster else ()),
            "--out",
            str(self.path),
            *more,
        ]
        self.log = self.path.with_suffix(".log").open("w+")
        self.process = subprocess.Popen(words, stdout=self.log, stderr=self.log)
        self.started = time.monotonic()

    def resume(self):
        self.start(*(["--resume"] if (self.path / "config.json").exists() else []))

    def wait(self):
        """Wait for the end; return what is wrong with it."""
        try:
            code = self.process.wait(LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return "it does not end"
        finally:
            self.log.close()
        return "" if code == 0 else f"exit code {code}: {self.path.with_suffix('.log').read_text()[-2000:]}"

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.log.close()

    def actors(self):
        """Process numbers of the actors of this session."""
        ledger = self.path / "trajectories.jsonl"
        found = []
        for raw in ledger.read_bytes().splitlines() if ledger.exists() else ():
            line = json.loads(raw) if raw.endswith(b"}") else {}
            found = [] if "resumed_at" in line else found
            found += [line["process"]] if "process" in line else []
        return found

    def results(self):
        return {name: (self.path / name).read_bytes() for name in RESULTS}

    def fault(self, undisturbed):
        """What is wrong with a finished run; empty if nothing is."""
        if not self.cluster:
            return "" if self.results() == undisturbed else "the results differ"
        run = RunDirectory(self.path)
        run.read_scores()
        account = read_account(run.trajectories)
        _, values = run.load_checkpoint()
        account.check(sum(values["learner"]["frames"]))
        return "" if account.under_way == 0 else f"{account.under_way} trajectories are under way"


def disturb(run, rng, seconds):
    """Start or resume a run and kill something at a random moment; return whether the learner was killed."""
    run.resume()
    moment = run.started + rng.uniform(0, 1.05 * seconds)
    target = rng.choice(["learner", "learner", "actor", "hung actor"]) if run.cluster else "learner"
    while time.monotonic() < moment and run.process.poll() is None:
        time.sleep(0.002)
    actors = run.actors() if target != "learner" else []
    if target != "learner" and actors:
        try:
            os.kill(rng.choice(actors), signal.SIGKILL if target == "actor" else signal.SIGSTOP)
        except ProcessLookupError:
            return target, False
        return target, True
    if run.process.poll() is None:
        run.kill()
        return "learner", True
    return "learner", False


def trial(run, rng, seconds, undisturbed):
    """Kill a run one to three times and let it end; return the number of kills and the fault."""
    kills = 0
    for _ in range(rng.randint(1, 3)):
        target, hit = disturb(run, rng, seconds)
        kills += hit
        if target != "learner" or not hit:
            fault = run.wait()
            if fault:
                return kills, fault
        if (run.path / "scores.csv").exists():
            break
    run.resume()
    return kills, run.wait() or run.fault(undisturbed)


def command_line():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--cluster-share", type=float, default=0.25, help="share of trials on a cluster")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    rng = random.Random(chosen.seed)
    kills, trials, faults = {False: 0, True: 0}, {False: 0, True: 0}, 0
    with tempfile.TemporaryDirectory() as folder:
        seconds, undisturbed = {}, {}
        for cluster in (False, True):
            run = Run(Path(folder) / f"undisturbed-{cluster}", cluster)
            run.start()
            assert not run.wait()
            seconds[cluster], undisturbed[cluster] = time.monotonic() - run.started, run.results()
        deadline = time.monotonic() + chosen.seconds
        while sum(kills.values()) < chosen.kills and time.monotonic() < deadline:
            cluster = rng.random() < chosen.cluster_share
            run = Run(Path(folder) / f"run-{sum(trials.values())}", cluster)
            hits, fault = trial(run, rng, seconds[cluster], undisturbed[cluster])
            kills[cluster] += hits
            trials[cluster] += 1
            if fault:
                faults += 1
                print(f"{run.path.name}{' on a cluster' if cluster else ''}: {fault}", flush=True)
    for cluster, where in ((False, "in one process"), (True, "on a cluster")):
        print(f"{kills[cluster]} kills in {trials[cluster]} runs {where}.")
    print(f"{faults} faults.")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(command_line())
