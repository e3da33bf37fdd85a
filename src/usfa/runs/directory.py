"""The run directory: what a run leaves on disk, and how it is found again.

config.json      the resolved configuration, which can be given back
metrics.jsonl    a line for every few updates
trajectories.jsonl   of a cluster: what became of every trajectory
checkpoints/     the state to resume from, and frozen snapshots
agent/           the trained agent: safetensors, config.json, model card
scores.csv       long form, one row per agent, candidates, seed, snapshot and task
figures/
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import safetensors
import safetensors.torch
from torch import Tensor

from usfa.errors import InputError
from usfa.files import read_checked, read_json, write_atomically, write_checked, write_json
from usfa.records import from_json, to_json
from usfa.version import __version__

__all__ = ["OnExisting", "RunDirectory", "read_config"]

try:
    import fcntl
except ImportError:  # not on Windows, where nothing is locked
    fcntl = None  # type: ignore[assignment]

FORMAT = 1
KEPT_CHECKPOINTS = 2
OnExisting = Literal["refuse", "resume", "overwrite"]
Config = TypeVar("Config")


class RunDirectory:
    """Paths and files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    # --- finding and making ---

    @classmethod
    @contextmanager
    def opened(cls, path: Path, config: object, existing: OnExisting = "refuse") -> Iterator[RunDirectory]:
        """A directory for a run with this configuration: new, or the one to resume. No other process works there.

        Nothing is lost without a word: a directory that holds a run is refused unless `existing` says otherwise, one
        that holds anything else is always refused, and resuming wants the same configuration.
        """
        run = cls(path)
        run.check(config, existing)
        path.mkdir(parents=True, exist_ok=True)
        with run._locked():
            run.check(config, existing)  # again: another process may have been here in between
            run._sweep()
            if existing != "resume" or not run._holds_something:
                run._begin(config)
            yield run

    def check(self, config: object, existing: OnExisting) -> None:
        """InputError if :meth:`opened` would refuse; changes nothing."""
        choices = get_args(OnExisting)
        if existing not in choices:  # anything else would mean to delete what is there
            raise InputError(f"existing is {existing!r}; expected one of {', '.join(map(repr, choices))}.")
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path} is a file; expected a directory for the run.")
        if not self._holds_something:
            return
        if existing == "resume":
            self._check_same(config)
        else:
            self._check_replaceable(type(config).__name__, existing)

    @property
    def _holds_something(self) -> bool:
        return self.path.is_dir() and any(not entry.match(_TORN) for entry in self.path.iterdir())

    def _check_replaceable(self, kind: str, existing: OnExisting) -> None:
        if not (self.path / "config.json").is_file():
            raise InputError(f"Directory {self.path} holds files that are not a run; expected an empty or new one.")
        header, _ = _read_header(self.path / "config.json")
        if header["kind"] != kind:
            raise InputError(f"Directory {self.path} holds a {header['kind']}, not a {kind}; choose another --out.")
        if existing == "refuse":
            raise InputError(
                f"Directory {self.path} already holds a run; go on with --resume, replace it with --overwrite, "
                "or choose another --out."
            )
        foreign = sorted(entry.name for entry in self.path.iterdir() if not _is_ours(entry))
        if foreign:
            raise InputError(f"Directory {self.path} also holds {foreign[0]!r}, not of a run; nothing was deleted.")

    def _sweep(self) -> None:
        """Remove what a kill in the middle of a write left behind; runs inside this one do so for themselves."""
        folders = [entry for entry in self.path.iterdir() if entry.is_dir() and entry.name != "runs"]
        for folder in (self.path, *folders):
            for torn in folder.glob(_TORN):
                torn.unlink()

    def _begin(self, config: object) -> None:
        """Nothing but the configuration. A kill in between leaves a run that is not finished, and can be replaced."""
        ends = [entry for entry in self.path.iterdir() if entry.name in _LAST_WRITTEN]
        rest = [entry for entry in self.path.iterdir() if entry.name not in {*_LAST_WRITTEN, "config.json"}]
        for entry in (*ends, *rest):
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        header = {"format": FORMAT, "version": __version__, "kind": type(config).__name__}
        write_json(self.path / "config.json", header | to_json(config))

    def _check_same(self, config: object) -> None:
        found, wanted = self.config(type(config)), config
        if found != wanted:
            changed = ", ".join(_differences(to_json(found), to_json(wanted)))
            raise InputError(
                f"The run in {self.path} was made with another configuration (different: {changed}); "
                "expected the same to resume."
            )

    def config(self, kind: type[Config]) -> Config:
        """The run's configuration; InputError if the directory holds no run of this kind and version."""
        if not self.path.is_dir():
            raise InputError(f"Run directory {self.path} does not exist.")
        if not (self.path / "config.json").is_file():
            raise InputError(f"Directory {self.path} is not a run: it has no config.json.")
        return read_config(self.path / "config.json", kind)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Only one process at a time may work here; the lock goes with the process, also after kill -9."""
        if fcntl is None:
            yield
            return
        handle = os.open(self.path, os.O_RDONLY)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(f"Another process is working in {self.path}; wait for it or stop it.") from None
            yield
        finally:
            os.close(handle)

    # --- what is in it ---

    @property
    def agent(self) -> Path:
        return self.path / "agent"

    @property
    def scores(self) -> Path:
        return self.path / "scores.csv"

    @property
    def figures(self) -> Path:
        return self.path / "figures"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def trajectories(self) -> Path:
        return self.path / "trajectories.jsonl"

    def _checkpoint(self, updates: int) -> Path:
        return self.path / "checkpoints" / f"state-{updates:010d}.usfa"

    def _snapshot(self, milestone: int) -> Path:
        return self.path / "checkpoints" / f"snapshot-{milestone:010d}.usfa"

    def save_checkpoint(
        self, updates: int, tensors: dict[str, Tensor], values: dict[str, Any], kept: int = KEPT_CHECKPOINTS
    ) -> None:
        """Beside this one only the newest stay, `kept` in all."""
        _write_tensors(self._checkpoint(updates), tensors, values)
        for old in self._checkpoints()[:-kept]:
            old.unlink()

    def load_checkpoint(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The newest checkpoint that is whole; None if there is none yet. A torn one is never used."""
        broken: InputError | None = None
        for path in reversed(self._checkpoints()):
            try:
                return _read_tensors(path)
            except InputError as error:
                broken = error
        if broken is not None:
            raise broken
        return None

    def _checkpoints(self) -> list[Path]:
        return sorted((self.path / "checkpoints").glob("state-*.usfa"))

    @property
    def bytes_of_checkpoints(self) -> int:
        """What states and snapshots take by now."""
        return sum(path.stat().st_size for path in (self.path / "checkpoints").glob("*.usfa"))

    def save_snapshot(self, milestone: int, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        _write_tensors(self._snapshot(milestone), tensors, values)

    def load_snapshot(self, milestone: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
        path = self._snapshot(milestone)
        if not path.exists():
            raise InputError(f"The run in {self.path} has no snapshot {path.name}; finish it with --resume.")
        return _read_tensors(path)

    def read_metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl that are whole."""
        if not self.metrics.exists():
            return []
        return _whole_lines(self.metrics.read_bytes())

    def last_metrics(self) -> dict[str, Any]:
        """The last whole line of metrics.jsonl, without reading all; empty if there is none."""
        if not self.metrics.exists():
            return {}
        with self.metrics.open("rb") as file:
            file.seek(max(0, self.metrics.stat().st_size - _LONGEST_LINE))
            return next(reversed(_whole_lines(file.read())), {})

    def rewind_metrics(self, updates: int) -> None:
        """Drop the lines that a resumed run will write again."""
        if self.metrics.exists():
            kept = [json.dumps(line) + "\n" for line in self.read_metrics() if line["updates"] <= updates]
            write_atomically(self.metrics, "".join(kept).encode())


_TORN = ".*.part"  # what a kill in the middle of a write leaves behind
_LAST_WRITTEN = {"scores.csv", "report.md"}  # by these a run, or an experiment of several, is known to be finished
_LONGEST_LINE = 4096
_OURS = {"config.json", "metrics.jsonl", "trajectories.jsonl", "report.md", "checkpoints", "agent", "figures", "runs"}


def _differences(was: dict[str, Any], now: dict[str, Any], inside: str = "") -> Iterator[str]:
    """The names of settings that differ, with what they were and what they would be."""
    for name in sorted(now):
        before, after = was.get(name), now[name]
        if isinstance(before, dict) and isinstance(after, dict):
            yield from _differences(before, after, f"{inside}{name}.")
        elif before != after:
            yield f"{inside}{name} was {json.dumps(before)}, now {json.dumps(after)}"


def _is_ours(entry: Path) -> bool:
    """Whether a run directory's entry is one that runs write."""
    return entry.name in _OURS or entry.suffix == ".csv" or entry.match(_TORN)


def _whole_lines(content: bytes) -> list[dict[str, Any]]:
    """Lines of metrics.jsonl, without those that a kill or a power cut has torn."""
    found = []
    for line in content.split(b"\n")[:-1]:
        try:
            metrics = json.loads(line)
        except ValueError:
            continue
        if isinstance(metrics, dict) and isinstance(metrics.get("updates"), int):
            found.append(metrics)
    return found


def read_config(path: Path, kind: type[Config]) -> Config:
    """The configuration in a run's config.json; InputError if it is of another kind or version."""
    header, fields = _read_header(path)
    if header["kind"] != kind.__name__:
        raise InputError(f"File {path} holds a {header['kind']}; expected a {kind.__name__}.")
    return from_json(kind, fields, f"File {path}")


def _read_header(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    fields = read_json(path)
    header = {name: fields.pop(name, None) for name in ("format", "version", "kind")}
    if header["format"] != FORMAT:
        raise InputError(
            f"File {path} has format {header['format']} (usfa {header['version']}); "
            f"usfa {__version__} reads format {FORMAT}."
        )
    return header, fields


def _write_tensors(path: Path, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
    contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
    write_checked(path, safetensors.torch.save(contiguous, metadata={"values": json.dumps(values)}))


def _read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    content = read_checked(path)
    try:
        tensors = safetensors.torch.load(content)
        length = int.from_bytes(content[:8], "little")
        values = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["values"])
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        raise InputError(f"File {path} is not a checkpoint of usfa: {error}.") from error
    return tensors, values
