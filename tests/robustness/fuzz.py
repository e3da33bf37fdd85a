"""Damage files of runs at random. Every command gives the same result, a recovery with a warning, or one sentence.

    python tests/robustness/fuzz.py --corruptions 2000 --log runs/fuzz.jsonl

Subjects are a finished and an interrupted run, in one process and on a cluster (with actors in this process). Each
trial damages one file of a copy and runs one command on it. Bytes are changed, cut, added or replaced, files are
deleted or replaced by folders, pipes and links, and values inside files are replaced under a valid checksum ("forged").
A forged file may change the results, because its checksum fits, but must not cause a traceback or a hang. With a log,
an interrupted series continues where it stopped, after another try of the trials that found faults.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from functools import partial
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import safetensors.torch
import torch
from matplotlib.figure import Figure
from rich.console import Console

sys.path.append(str(Path(__file__).parents[1]))

from trial_log import TrialLog

from fake_fleet import FakeFleet
from undrawn import write_lines
from usfa.cli import main
from usfa.cluster.remote_acting import ClusterActing
from usfa.errors import InputError
from usfa.files import read_checked, sha256, write_checked, write_json
from usfa.learning import Learner
from usfa.runs import RunDirectory
from usfa.runs.manifest import MANIFEST

LIMIT_SECONDS = 60
TRAIN = (
    *("train", "trip-usfa", "--seeds", "0", "1", "--learner.budget", "30", "--learner.replay-ratio", "1"),
    *("--learner.replay-capacity", "5", "--learner.environments", "2", "--learner.trajectory-length", "2"),
    *("--evaluation.snapshots", "2", "--evaluation.tasks", "1,0", "--evaluation.candidates", "task"),
    *("--checkpoint-every", "3", "--out", "run"),
)
CLUSTER = ("--cluster", "local", "--actors", "2", "--cpus-per-actor", "0.1")
INTERRUPTED_AFTER = 8  # rounds: two checkpoints, something to forget
RESULTS = ("scores.csv", "agent/weights.safetensors", "agent/config.json", "figures/learning-curve.png")
SHARES = {"resume": 6, "evaluate": 4, "metrics": 2, "plot": 2, "export": 2, "overwrite": 1, "again": 1}  # of trials
REPORT_EVERY = 100
HOSTILE = (None, -1, 0, 1e-300, float("nan"), float("inf"), 10**400, "", "x", [], {}, [[]], True, "\ud800", "os:system")


class Subject(NamedTuple):
    """A directory to damage."""

    name: str
    path: Path
    cluster: bool
    finished: bool

    @property
    def commands(self) -> dict[str, tuple[str, ...]]:
        more = CLUSTER if self.cluster else ()
        resume = {"resume": (*TRAIN, *more, "--resume")}
        if not self.finished:
            return resume
        again = (*TRAIN[:-1], "again")
        return {
            **resume,
            "evaluate": ("evaluate", "run", "--task", "0.5,0.5", "--csv"),
            "metrics": (),
            "plot": ("plot", "run", "--out", "plot.png"),
            "export": ("export", "run", "--out", "exported"),
            "overwrite": (*TRAIN, *more, "--overwrite"),
            "again": ("train", "run/config.json", *again[2:]),
        }


class Outcome(NamedTuple):
    """What a command did."""

    code: object  # the exit code, "hang" or "traceback"
    said: str  # on stderr
    output: str
    results: dict[str, bytes]


class Stopped(BaseException):
    pass


def _stop(*_):
    raise Stopped


# --- running commands in this process ---


@contextlib.contextmanager
def quiet():
    """No progress bars, no Ray, all warnings; short measurements, and figures that are not drawn, to save time."""
    console = Console(file=io.StringIO())
    with (
        warnings.catch_warnings(),
        mock.patch("usfa.cli.train.progress_console", return_value=console),
        mock.patch("usfa.cli.evaluate.progress_console", return_value=console),
        mock.patch("usfa.runs.training.connected", contextlib.nullcontext),
        mock.patch("usfa.runs.training.RayFleet", side_effect=lambda _: FakeFleet()),
        mock.patch("usfa.cluster.remote_acting.END_SECONDS", 0.1),
        mock.patch.multiple("usfa.evaluation.accuracy", _FEWEST=4, _FEWEST_AROUND=1, _HORIZONS=1, _SHORTEST=4),
        mock.patch.object(Figure, "savefig", write_lines),
    ):
        warnings.simplefilter("always")
        yield


def run(words, folder):
    """Run a command in a folder, within the time limit."""
    said, output = io.StringIO(), io.StringIO()
    before, handler = Path.cwd(), signal.signal(signal.SIGALRM, _stop)
    os.chdir(folder)
    signal.alarm(LIMIT_SECONDS)
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(output), quiet():
            code = main(list(words)) if words else show_metrics()
    except Stopped:
        code = "hang"
        traceback.print_exc(file=said)
    except SystemExit as error:
        code = error.code
    except Exception:
        code = "traceback"
        traceback.print_exc(file=said)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
        os.chdir(before)
    return Outcome(code, said.getvalue(), output.getvalue(), results_of(words, Path(folder)))


def show_metrics():
    """The log as `usfa reproduce room` reads it."""
    try:
        for line in RunDirectory(Path("run")).read_metrics():
            print(json.dumps({name: line.get(name) for name in ("updates", "frames", "loss", "returns")}))
    except InputError as error:
        print(f"usfa: {error}", file=sys.stderr)
        return 2
    return 0


def results_of(words, folder):
    """The content of the files that a command writes, if they are there."""
    written = {"train": "again" if "again" in words else "run", "plot": ".", "export": "exported"}
    if not words or words[0] not in written:
        return {}
    names = {"train": RESULTS, "plot": ("plot.png",), "export": ("weights.safetensors", "config.json")}[words[0]]
    place = folder / written[words[0]]
    return {name: content_of(place / name) for name in names if (place / name).is_file()}


def content_of(path):
    """The bytes of a file, without white space behind JSON, which means nothing."""
    return path.read_bytes().rstrip() if path.suffix == ".json" else path.read_bytes()


# --- subjects ---


def make_subjects(folder):
    """Train the runs that are damaged."""
    found = []
    for cluster in (False, True):
        for finished in (True, False):
            name = f"{'finished' if finished else 'interrupted'} {'cluster run' if cluster else 'run'}"
            place = folder / name.replace(" ", "-")
            place.mkdir()
            words = (*TRAIN, *(CLUSTER if cluster else ()))
            with interrupted() if not finished else contextlib.nullcontext():
                outcome = run(words, place)
            assert (outcome.code == 0) == finished, outcome.said
            found.append(Subject(name, place / "run", cluster, finished))
    return found


@contextlib.contextmanager
def interrupted():
    """As by kill -9: nothing is closed or saved."""
    step, rounds = Learner.step, []

    def some(learner):
        rounds.append(1)
        if len(rounds) > INTERRUPTED_AFTER:
            raise Stopped
        return step(learner)

    def nothing(*_):
        pass

    with mock.patch.object(Learner, "step", some), mock.patch.object(ClusterActing, "close", nothing):
        yield


# --- corruptions ---


def flipped(content, rng):
    return changed(content, rng, lambda byte: byte ^ (1 << rng.randrange(8)))


def another_letter(content, rng):
    return changed(content, rng, lambda byte: rng.choice([b for b in b"0123456789abcxyz-. \"',{}[]" if b != byte]))


def not_utf8(content, rng):
    return changed(content, rng, lambda _: rng.choice([0, 0x80, 0xC0, 0xFF]))


def changed(content, rng, change):
    if not content:
        return b"x"
    place = rng.randrange(len(content))
    return content[:place] + bytes([change(content[place])]) + content[place + 1 :]


def cut(content, rng):
    return content[: rng.randrange(len(content) + 1)]


def cut_out(content, rng):
    start, end = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    return content[:start] + content[end:]


def doubled(content, rng):
    start, end = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    return content[:end] + content[start:]


def zeroed(content, rng):
    start, end = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    return content[:start] + bytes(end - start) + content[end:]


def inserted(content, rng):
    place = rng.randrange(len(content) + 1)
    return content[:place] + rng.randbytes(rng.randint(1, 8)) + content[place:]


def without_a_line(content, rng):
    lines = content.splitlines(keepends=True)
    if lines:
        del lines[rng.randrange(len(lines))]
    return b"".join(lines)


def appended(content, rng):
    return content + rng.choice([b"x", b"\n", b"{}\n", rng.randbytes(30), content])


def replaced(content, rng):
    return rng.choice([b"", b"{}", b"[]", b"null", b"[" * 100_000, b'{"a":' * 5000 + b"1" + b"}" * 5000, b"9" * 9999])


OF_BYTES = (
    flipped,
    another_letter,
    not_utf8,
    cut,
    cut_out,
    doubled,
    zeroed,
    inserted,
    without_a_line,
    appended,
    replaced,
)


def as_folder(path, rng):
    path.unlink()
    path.mkdir()


def as_pipe(path, rng):
    path.unlink()
    os.mkfifo(path)


def as_link(path, rng):
    target = rng.choice(["/dev/zero", "/dev/null", "nowhere", path.name, "/dev/full"])
    path.unlink()
    path.symlink_to(target)


def gone(path, rng):
    path.unlink()


def swapped(path, rng):
    """With the content of another file in its folder."""
    others = sorted(other for other in path.parent.iterdir() if other.is_file() and other != path)
    path.write_bytes(rng.choice(others).read_bytes() if others else b"")


OF_FILES = (as_folder, as_pipe, as_link, gone, swapped)


def forged(path, rng):
    """Change a value, and make the checksum fit."""
    if path.suffix == ".usfa":
        forge_tensors(path, rng)
    elif path.suffix == ".json":
        fields = json.loads(path.read_bytes())
        fields.pop("checksum", None)
        forge_value(fields, rng)
        checksum = sha256(json.dumps(fields, sort_keys=True).encode())
        path.write_text(json.dumps({**fields, "checksum": checksum}))  # escapes what UTF-8 cannot encode
    elif path.suffix == ".jsonl":  # as an earlier version wrote it, which had no checksums
        lines = [json.loads(line) for line in path.read_bytes().splitlines()]
        for line in lines:
            line.pop("checksum", None)
        if lines:
            forge_value(rng.choice(lines), rng)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    elif path.name == "weights.safetensors":
        forge_weights(path, rng)
    elif path.name == "scores.csv":
        forge_scores(path, rng)
    else:  # has no checksum
        path.write_bytes(flipped(path.read_bytes(), rng))


def forge_value(fields, rng):
    """Replace an entry at any depth."""
    places = [(fields, key) for key in fields]
    for container, key in places:
        inside = container[key]
        if isinstance(inside, dict):
            places += [(inside, inner) for inner in inside]
        elif isinstance(inside, list):
            places += [(inside, index) for index in range(len(inside))]
    container, key = rng.choice(places)
    if isinstance(container, dict) and rng.random() < 0.2:
        del container[key]
    else:
        container[key] = json.loads(json.dumps(rng.choice(HOSTILE)))


def forge_tensors(path, rng):
    content = read_checked(path)
    tensors = safetensors.torch.load(content)
    size = int.from_bytes(content[:8], "little")
    values = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["values"])
    if rng.random() < 0.5:
        forge_value(values, rng)
    else:
        forge_tensor(tensors, rng)
    write_checked(path, safetensors.torch.save(tensors, metadata={"values": json.dumps(values)}))


def forge_tensor(tensors, rng):
    name = rng.choice(sorted(tensors))
    x = tensors[name]
    change = rng.choice(["nan", "inf", "type", "shape", "missing", "scalar"])
    if change == "missing":
        del tensors[name]
    else:
        tensors[name] = {
            "nan": torch.full_like(x, torch.nan) if x.is_floating_point() else x + 1,
            "inf": torch.full_like(x, torch.inf) if x.is_floating_point() else x + 1,
            "type": x.to(torch.float64 if x.dtype != torch.float64 else torch.int8),
            "shape": torch.cat([x, x]) if x.dim() else x[None],
            "scalar": torch.zeros((), dtype=x.dtype),
        }[change]


def forge_weights(path, rng):
    tensors = safetensors.torch.load(path.read_bytes())
    forge_tensor(tensors, rng)
    path.write_bytes(safetensors.torch.save(tensors))
    config = path.parent / "config.json"
    fields = json.loads(config.read_bytes())
    fields.pop("checksum", None)
    write_json(config, fields | {"weights_sha256": sha256(path.read_bytes())})


def forge_scores(path, rng):
    rows = [line.split(",") for line in path.read_text().splitlines()]
    row = rng.choice(rows)
    row[rng.randrange(len(row))] = rng.choice(["", "nan", "inf", "-1", "x", "1e400", '"', "0,0", "9" * 400])
    path.write_text("".join(",".join(row) + "\n" for row in rows))
    manifest = path.parent / MANIFEST
    files = json.loads(manifest.read_bytes())["files"]
    write_json(manifest, {"files": files | {path.name: sha256(path.read_bytes())}})


def corrupt(path, rng):
    """Damage a file; return the name of the damage."""
    kind = rng.choices(("bytes", "file", "forged"), (12, 3, 4))[0]
    if kind == "bytes":
        change, before = rng.choice(OF_BYTES), path.read_bytes()
        path.write_bytes(change(before, rng))
        return "lost lines" if path.suffix == ".jsonl" and has_lost_lines(path, before) else change.__name__
    change = rng.choice(OF_FILES) if kind == "file" else forged
    change(path, rng)
    return "lost checkpoint" if change is gone and path.name.startswith("state-") else change.__name__


def has_lost_lines(path, before):
    """Whether a log only lacks lines after its last checkpoint, which an earlier kill would not have written."""
    after = path.read_bytes()
    return before.startswith(after) and before.count(b'{"checkpoint"') == after.count(b'{"checkpoint"') > 0


# --- verdicts ---


def verdict(outcome, undisturbed, damage):
    """One of same, recovered, told, sentence, forged; all others are faults."""
    lines = [line for line in outcome.said.splitlines() if line]
    if outcome.code in ("hang", "traceback"):
        return outcome.code
    if not all(line.startswith("usfa: ") for line in lines):
        return "babble"
    if outcome.code == 2:
        return "sentence" if lines else "silence"
    if outcome.code != 0:
        return f"exit code {outcome.code}"
    if (outcome.output, outcome.results) == (undisturbed.output, undisturbed.results):
        return "recovered" if lines else "same"
    if damage == "forged":
        return "forged"
    if damage == "lost checkpoint" or (damage == "lost lines" and outcome.results == undisturbed.results):
        return "recovered"  # as after a kill before it was written
    return "told" if lines else "SILENT CHANGE"


FINE = ("same", "recovered", "told", "sentence", "forged")


def fuzz(corruptions, seed, folder, log, report=print, seconds=float("inf")):
    """Run trials until there are enough of them or the time is over; report faults."""
    deadline = time.monotonic() + seconds
    subjects, expected = make_subjects(folder), {}
    mended = [number for number, found in enumerate(log.trials) if found["verdict"] not in FINE]
    for number in (*mended, *range(len(log), corruptions)):
        if time.monotonic() > deadline:
            break
        subject = subjects[number % len(subjects)]
        found, said = trial(subject, random.Random(f"{seed} {number}"), folder / "trial", expected)
        log.put(number, subject=subject.name, **found)
        if found["verdict"] not in FINE:
            report(f"{seed} {number}: {log.trials[number]}\n{said}")
        if (number + 1) % REPORT_EVERY == 0:
            report(summary(log))


def trial(subject, rng, folder, expected):
    """Damage a file and run a command; return what was found, and what was said."""
    names = list(subject.commands)
    command = rng.choices(names, [SHARES[name] for name in names])[0]
    words = subject.commands[command]
    if (subject, command) not in expected:
        fresh(subject, folder)
        expected[subject, command] = run(words, folder)
        assert expected[subject, command].code == 0, expected[subject, command].said
    fresh(subject, folder)
    file = rng.choice(sorted(path for path in (folder / "run").rglob("*") if path.is_file()))
    damage = corrupt(file, rng)
    outcome = run(words, folder)
    found = {"file": str(file.relative_to(folder / "run")), "damage": damage, "command": command}
    found["verdict"] = verdict(outcome, expected[subject, command], damage)
    return found, outcome.said[-3000:] + outcome.output[-300:]


def summary(log):
    verdicts = Counter(trial["verdict"] for trial in log.trials)
    shown = ", ".join(f"{count} {name}" for name, count in verdicts.most_common())
    files = {(trial["subject"], trial["file"]) for trial in log.trials}
    faults = sum(count for name, count in verdicts.items() if name not in FINE)
    return f"{len(log)} corruptions of {len(files)} files: {shown}; {faults} faults."


def fresh(subject, trial):
    shutil.rmtree(trial, ignore_errors=True)
    trial.mkdir()
    shutil.copytree(subject.path, trial / "run")


def command_line():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corruptions", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", type=Path, help="file of trials; one that exists is continued")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    log = TrialLog(chosen.log)
    with tempfile.TemporaryDirectory() as folder:
        fuzz(chosen.corruptions, chosen.seed, Path(folder), log, partial(print, flush=True), chosen.seconds)
    print(summary(log))
    return int(any(trial["verdict"] not in FINE for trial in log.trials))


if __name__ == "__main__":
    sys.exit(command_line())
