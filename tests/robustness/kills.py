"""Kill training processes at random moments, resume them, and compare the results with those of undisturbed runs.

    python tests/robustness/kills.py --kills 200 --log runs/kills.jsonl

One-process runs must end with the same bytes. Cluster runs are not repeatable: there, each frame must be accounted for,
and every resume must end. Of a cluster run, the learner is killed, or one of its actors is killed or stopped (SIGSTOP).
With a log, an interrupted series continues where it stopped.

Processes that are killed are forked from one that has trained before, so that no kill is spent on the start of Python.
Undisturbed runs are commands of their own.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from trial_log import TrialLog

from usfa.cluster import read_account
from usfa.errors import InputError
from usfa.runs import RunDirectory

LIMIT_SECONDS = 300.0  # for the end of a resumed run
REPORT_EVERY = 20  # trials
TRAIN = (
    *("train", "trip-usfa", "--seeds", "0", "1", "--learner.budget", "300", "--evaluation.snapshots", "3"),
    *("--evaluation.tasks", "1,0", "--evaluation.candidates", "task", "--checkpoint-every", "20"),
    *("--learner.environments", "2", "--learner.trajectory-length", "2", "--learner.replay-ratio", "1"),
)
CLUSTER = ("--cluster", "local", "--actors", "2", "--cpus-per-actor", "0.5", "--patience", "5")
RESULTS = ("scores.csv", "agent/weights.safetensors", "agent/config.json", "agent/README.md")
PLACES = {False: "in one process", True: "on a cluster"}
USUAL = {}  # seconds of the last whole run, by place: they depend on what else the machine does


def train_in_fork(words, log):
    """Run a command with its output in a file."""
    from usfa.cli import main

    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    sys.exit(main(words))


class Run:
    """A run directory, and the process that trains in it."""

    forks = multiprocessing.get_context("forkserver")

    def __init__(self, path, cluster):
        self.path, self.cluster = path, cluster
        self.log, self.stopped = path.with_suffix(".log"), []

    @property
    def words(self):
        more = ["--resume"] if (self.path / "config.json").exists() else []
        return [*TRAIN, *(CLUSTER if self.cluster else ()), "--out", str(self.path), *more]

    def train_undisturbed(self):
        """Train with a command of its own, and again in a fork, for the seconds of a run; return the results."""
        subprocess.run([sys.executable, "-m", "usfa", *self.words], check=True, capture_output=True)
        again = Run(self.path.with_name(f"{self.path.name}-fork"), self.cluster)
        again.resume()
        fault = again.wait() or again.fault(self.results())
        assert not fault, fault
        return self.results()

    def resume(self):
        """Start the training, or continue it."""
        self.is_first = "--resume" not in self.words
        self.process = self.forks.Process(target=train_in_fork, args=(self.words, str(self.log)))
        self.process.start()
        self.started = time.monotonic()

    def wait(self):
        """Wait for the end; return what is wrong with it."""
        self.process.join(LIMIT_SECONDS)
        if self.process.exitcode is None:
            self.kill()
            return f"it does not end: {self.log.read_text()[-2000:]}"
        if self.is_first:
            USUAL[self.cluster] = time.monotonic() - self.started
        return "" if self.process.exitcode == 0 else f"exit {self.process.exitcode}: {self.log.read_text()[-2000:]}"

    def kill(self):
        self.process.kill()
        self.process.join()

    def actors(self):
        """Process numbers of the actors of this session."""
        ledger = self.path / "trajectories.jsonl"
        found = []
        for raw in ledger.read_bytes().splitlines() if ledger.exists() else ():
            line = json.loads(raw) if raw.endswith(b"}") else {}
            found = [] if "resumed_at" in line else found
            found += [line["process"]] if "process" in line else []
        return found

    def signal_actor(self, rng, number):
        """Send a signal to an actor, as soon as there is one; return whether there was."""
        while not (actors := self.actors()) and self.process.exitcode is None:
            time.sleep(0.01)
        try:
            actor = rng.choice(actors or [0])
            if actor and self.process.exitcode is None:
                os.kill(actor, number)
                self.stopped += [actor] if number == signal.SIGSTOP else []
                return True
        except ProcessLookupError:
            pass
        return False

    def end_stopped(self):
        """Kill actors that are still stopped: they cannot notice that their learner is gone."""
        for actor in self.stopped:
            try:
                if Path(f"/proc/{actor}/stat").read_text().rpartition(")")[2].split()[0] == "T":
                    os.kill(actor, signal.SIGKILL)
            except OSError:
                pass

    def results(self):
        return {name: (self.path / name).read_bytes() for name in RESULTS}

    def fault(self, undisturbed):
        """What is wrong with a finished run; empty if nothing is."""
        if not self.cluster:
            return "" if self.results() == undisturbed else "the results differ"
        run = RunDirectory(self.path)
        try:
            run.read_scores()
            account = read_account(run.trajectories)
            _, values = run.load_checkpoint()
            account.check(sum(values["learner"]["frames"]))
        except InputError as error:
            return str(error)
        return "" if account.under_way == 0 else f"{account.under_way} trajectories are under way"


def disturb(run, rng):
    """Start or resume a run and kill at random moments; return the targets that were hit, the learner last."""
    targets = [rng.choice(["actor", "hung actor"]) for _ in range(rng.randint(0, 2))] if run.cluster else []
    targets += ["learner"] if not targets or rng.random() < 0.5 else []
    moments = sorted(rng.uniform(0, 1.05 * USUAL[run.cluster]) for _ in targets)
    hit = []
    run.resume()
    for target, moment in zip(targets, moments, strict=True):
        run.process.join(max(0.0, run.started + moment - time.monotonic()))
        if run.process.exitcode is not None:
            break
        if target == "learner":
            run.kill()
            hit += [target] if run.process.exitcode == -signal.SIGKILL else []
        elif run.signal_actor(rng, signal.SIGKILL if target == "actor" else signal.SIGSTOP):
            hit.append(target)
    return hit


def trial(run, rng, undisturbed):
    """Disturb a run in one to five sessions and let it end; return the targets that were hit, and the fault."""
    hit = []
    for _ in range(rng.randint(1, 5)):
        hit += disturb(run, rng)
        if hit[-1:] != ["learner"] or run.process.exitcode != -signal.SIGKILL:
            break  # nobody killed the learner, so this session goes on to the end
    else:
        run.resume()
    fault = run.wait() or run.fault(undisturbed)
    run.end_stopped()
    return hit, fault


def kills_in(log, cluster):
    return sum(len(trial["hit"]) for trial in log.trials if trial["cluster"] == cluster)


def summary(log):
    parts = []
    for cluster, where in PLACES.items():
        runs = sum(trial["cluster"] == cluster for trial in log.trials)
        parts.append(f"{kills_in(log, cluster)} kills in {runs} runs {where}")
    return f"{', '.join(parts)}: {sum(bool(trial['fault']) for trial in log.trials)} faults."


def kill_runs(wanted, seed, folder, log, seconds):
    """Run trials until there are enough kills or the time is over."""
    deadline = time.monotonic() + seconds
    undisturbed = {}
    while time.monotonic() < deadline:
        open_places = [cluster for cluster in PLACES if kills_in(log, cluster) < wanted[cluster]]
        if not open_places:
            break
        cluster = min(open_places, key=lambda cluster: kills_in(log, cluster) / wanted[cluster])
        if cluster not in undisturbed:
            undisturbed[cluster] = Run(folder / f"undisturbed-{cluster}", cluster).train_undisturbed()
        run = Run(folder / f"run-{len(log)}", cluster)
        began = time.monotonic()
        hit, fault = trial(run, random.Random(f"{seed} {len(log)}"), undisturbed[cluster])
        log.put(len(log), cluster=cluster, hit=hit, fault=fault, seconds=round(time.monotonic() - began, 1))
        if fault:
            print(f"{seed} {len(log) - 1}, {PLACES[cluster]}: {', '.join(hit)}: {fault}", flush=True)
        if len(log) % REPORT_EVERY == 0:
            print(summary(log), flush=True)


def start_fork_server():
    """Wait until the process that others are forked from has trained once."""
    os.environ["OMP_NUM_THREADS"] = "1"  # a process with threads cannot be forked
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
    Run.forks.set_forkserver_preload(["warm_start"])
    first = Run.forks.Process(target=int)
    first.start()
    first.join()


def command_line():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--cluster-share", type=float, default=0.25, help="share of the kills on a cluster")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", type=Path, help="file of trials; one that exists is continued")
    chosen = parser.parse_args()
    start_fork_server()
    on_cluster = round(chosen.kills * chosen.cluster_share)
    log = TrialLog(chosen.log)
    with tempfile.TemporaryDirectory() as folder:
        wanted = {False: chosen.kills - on_cluster, True: on_cluster}
        kill_runs(wanted, chosen.seed, Path(folder), log, chosen.seconds)
    print(summary(log))
    return int(any(trial["fault"] for trial in log.trials))


if __name__ == "__main__":
    sys.exit(command_line())
