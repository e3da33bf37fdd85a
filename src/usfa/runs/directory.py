"""The run directory: the files of a training run.

config.json          the resolved configuration, accepted by `usfa train`
manifest.json        the names of all other files of the run, and checksums of its results
metrics.jsonl        a line for every few updates
trajectories.jsonl   the ledger of trajectories, on a cluster
checkpoints/         the state to resume from, and snapshots
phi/                 the learned φ, if there is one: safetensors and phi.json
agent/               the trained agent: safetensors, config.json, model card
scores.csv           long form, one row per agent, candidates, seed, snapshot and task
figures/
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import pandas as pd
import safetensors
import safetensors.torch
from torch import Tensor

from usfa.agents import load_kept_phi, part_texts, updated_settings
from usfa.errors import InputError
from usfa.evaluation import read_scores
from usfa.files import (
    checked_lines,
    last_line,
    read_bytes,
    read_checked,
    read_json,
    read_lines,
    sha256,
    write_atomically,
    write_checked,
    write_json,
)
from usfa.records import from_json, to_json
from usfa.registry import import_modules
from usfa.runs.manifest import (
    CONFIG,
    MANIFEST,
    add_to_manifest,
    check_unchanged,
    has_checksum,
    is_temporary,
    written_entries,
)
from usfa.version import __version__

__all__ = ["OnExisting", "RunDirectory", "read_config"]

try:
    import fcntl
except ImportError:  # Windows, where directories are not locked
    fcntl = None  # type: ignore[assignment]

FORMAT = 2
READABLE = (1, FORMAT)
KEPT_CHECKPOINTS = 2
OnExisting = Literal["refuse", "resume", "overwrite"]
Config = TypeVar("Config")


class RunDirectory:
    """Paths and files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.agent = path / "agent"
        self.phi = path / "phi"
        self.scores = path / "scores.csv"
        self.figures = path / "figures"
        self.metrics = path / "metrics.jsonl"
        self.trajectories = path / "trajectories.jsonl"

    # --- opening ---

    @classmethod
    @contextmanager
    def opened(cls, path: Path, config: object, existing: OnExisting = "refuse") -> Iterator[RunDirectory]:
        """Create the directory of a run, or open it to resume, and lock it against other processes.

        Raise InputError if the directory holds a run and `existing` is "refuse", if it holds other files, or if a run
        to resume has another configuration. If an InputError ends a new run before it has written anything, the run is
        removed with the directories that were created for it, so that the command can be repeated with other settings.
        """
        run, created = cls(path), [folder for folder in (path, *path.parents) if not folder.exists()]
        run.check(config, existing)
        path.mkdir(parents=True, exist_ok=True)
        with run._locked():
            run.check(config, existing)  # again, because another process may have changed it in between
            run._sweep()
            begins = existing != "resume" or not run._holds_something
            if begins:
                run._begin(config)
            try:
                yield run
            except InputError:
                if begins and {entry.name for entry in path.iterdir()} <= {CONFIG, MANIFEST}:
                    run._remove(created)
                raise

    def check(self, config: object, existing: OnExisting) -> None:
        """Raise InputError if :meth:`opened` would; change nothing."""
        choices = get_args(OnExisting)
        if existing not in choices:  # a misspelt value must not delete an existing run
            raise InputError(f"existing is {existing!r}; expected one of {', '.join(map(repr, choices))}.")
        if self.path.is_symlink() and not self.path.exists():
            raise InputError(f"{self.path} is a link to nothing; expected a directory for the run, or a new name.")
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
        return self.path.is_dir() and any(not is_temporary(self.path, entry.name) for entry in self.path.iterdir())

    def _check_replaceable(self, kind: str, existing: OnExisting) -> None:
        if not (self.path / CONFIG).is_file():
            raise InputError(f"Directory {self.path} holds files that are not a run; expected an empty or new one.")
        header, _ = _read_header(self.path / CONFIG)
        if header["kind"] != kind:
            raise InputError(f"Directory {self.path} holds a {header['kind']}, not a {kind}; choose another --out.")
        if existing == "refuse":
            raise InputError(
                f"Directory {self.path} already holds a run; continue it with --resume, replace it with --overwrite, "
                "or choose another --out."
            )
        written_entries(self.path)  # raises if there is anything else

    def _sweep(self) -> None:
        """Remove temporary files of interrupted writes, except those of runs inside this directory."""
        for folder in ("", "agent", "phi", "checkpoints", "figures"):
            inside = self.path / folder
            for entry in inside.iterdir() if inside.is_dir() and (not folder or not inside.is_symlink()) else ():
                if is_temporary(self.path, f"{folder}/{entry.name}" if folder else entry.name):
                    entry.unlink()

    def _begin(self, config: object) -> None:
        """Delete everything, results first, then write the configuration. A run killed in between is unfinished."""
        entries = written_entries(self.path)
        ends = [entry for entry in entries if entry.parent == self.path and entry.name in _LAST_WRITTEN]
        kept = {*ends, self.path / CONFIG, self.path / MANIFEST}
        for entry in (*ends, *(entry for entry in entries if entry not in kept)):
            entry.rmdir() if entry.is_dir() else entry.unlink()
        (self.path / MANIFEST).unlink(missing_ok=True)  # after the files that only it lists
        header = {"format": FORMAT, "version": __version__, "kind": type(config).__name__}
        write_json(self.path / CONFIG, header | to_json(config))
        self.claim()

    def _remove(self, created: Sequence[Path]) -> None:
        """Remove a run that has only a configuration, and the directories that were created for it."""
        for name in (CONFIG, MANIFEST):
            (self.path / name).unlink(missing_ok=True)
        with suppress(OSError):  # a directory is not empty: another run has begun in it
            for folder in created:
                folder.rmdir()

    def _check_same(self, config: object) -> None:
        found, wanted = self.config(type(config)), config
        header, _ = _read_header(self.path / CONFIG)
        if header["format"] != FORMAT and not any((self.path / name).exists() for name in _LAST_WRITTEN):
            raise InputError(
                f"The run in {self.path} was started by usfa {header['version']}, whose checkpoints cannot be resumed; "
                "expected a new --out, or --overwrite."
            )
        if found != wanted:
            changed = ", ".join(_differences(to_json(found), to_json(wanted)))
            raise InputError(
                f"The run in {self.path} has another configuration (different: {changed}); expected the same to resume."
            )

    def config(self, kind: type[Config], trust: bool = False) -> Config:
        """Read the configuration; raise InputError if the directory is not a run of this kind."""
        self.check_kind(kind)
        return read_config(self.path / CONFIG, kind, trust)

    def check_kind(self, kind: type[Config]) -> None:
        """Raise InputError if the directory is not a run of this kind and format; its settings are not read."""
        if not self.path.is_dir():
            raise InputError(f"Run directory {self.path} does not exist.")
        if not (self.path / CONFIG).is_file():
            raise InputError(f"Directory {self.path} is not a run: it has no config.json.")
        header, _ = _read_header(self.path / CONFIG)
        if header["kind"] != kind.__name__:
            raise InputError(f"File {self.path / 'config.json'} holds a {header['kind']}; expected a {kind.__name__}.")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the directory against other processes; the lock ends with the process, also after kill -9."""
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

    # --- files ---

    def claim(self, *names: str) -> None:
        """Add names of files to the manifest; required before they are written."""
        add_to_manifest(self.path, {CONFIG: "", **dict.fromkeys(names, "")})

    def claim_folder(self, name: str) -> None:
        """Add all files in a folder to the manifest; for files of other libraries, whose names are known only later."""
        files = [file for file in (self.path / name).rglob("*") if file.is_file() and not file.is_symlink()]
        self.claim(*(file.relative_to(self.path).as_posix() for file in files))

    def write(self, name: str, content: bytes) -> None:
        """Write a result, with its checksum in the manifest."""
        add_to_manifest(self.path, {name: sha256(content)})
        write_atomically(self.path / name, content)

    def seal_logs(self) -> None:
        """Add the checksums of the logs to the manifest, once nothing more is appended to them."""
        logs = [path for path in (self.metrics, self.trajectories) if path.exists()]
        add_to_manifest(self.path, {path.name: sha256(read_bytes(path)) for path in logs})

    def was_written(self, path: Path) -> bool:
        """Whether a result or a finished log was written, even if it is missing now."""
        return os.path.lexists(path) or has_checksum(self.path, path.name)

    def read_scores(self) -> pd.DataFrame:
        """Read scores.csv; raise InputError if it was changed."""
        self.check_unchanged(self.scores.name)
        return read_scores(self.scores)

    def check_unchanged(self, name: str) -> None:
        """Raise InputError if a result or a log of a finished run was changed."""
        check_unchanged(self.path, name)

    def _checkpoint(self, updates: int) -> Path:
        return self.path / "checkpoints" / f"state-{updates:010d}.usfa"

    def _snapshot(self, milestone: int) -> Path:
        return self.path / "checkpoints" / f"snapshot-{milestone:010d}.usfa"

    def save_checkpoint(
        self, updates: int, tensors: dict[str, Tensor], values: dict[str, Any], kept: int = KEPT_CHECKPOINTS
    ) -> None:
        """Write a checkpoint, and delete all but the newest `kept`."""
        self._write_tensors(self._checkpoint(updates), tensors, values)
        for old in self._checkpoints()[:-kept]:
            old.unlink()

    def load_checkpoint(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Read the newest intact checkpoint, with a warning if a newer one is torn.

        Return None if there are no checkpoints; raise InputError if all are torn.
        """
        broken: InputError | None = None
        for path in reversed(self._checkpoints()):
            try:
                found = _read_tensors(path)
            except InputError as error:
                broken = error
                continue
            if broken is not None:
                warnings.warn(f"{broken} The checkpoint before it is used.", stacklevel=2)
            return found
        if broken is not None:
            raise broken
        return None

    @property
    def has_checkpoints(self) -> bool:
        return bool(self._checkpoints())

    def _checkpoints(self) -> list[Path]:
        return sorted((self.path / "checkpoints").glob("state-*.usfa"))

    @property
    def bytes_of_checkpoints(self) -> int:
        """Size of all checkpoints and snapshots."""
        return sum(path.lstat().st_size for path in (self.path / "checkpoints").glob("*.usfa"))

    def save_snapshot(self, milestone: int, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        self._write_tensors(self._snapshot(milestone), tensors, values)

    def load_snapshot(self, milestone: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
        path = self._snapshot(milestone)
        if not path.exists():
            raise InputError(f"The run in {self.path} has no snapshot {path.name}; finish it with --resume.")
        return _read_tensors(path)

    def _write_tensors(self, path: Path, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        self.claim(path.relative_to(self.path).as_posix())
        contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
        write_checked(
            path, safetensors.torch.save(contiguous, metadata={"values": json.dumps(values), "file": path.name})
        )

    def read_metrics(self) -> list[dict[str, Any]]:
        """Read all lines of metrics.jsonl; warn of damaged ones, which are left out."""
        found = read_lines(self.metrics)
        if found.damaged:
            lines = ", ".join(map(str, found.damaged))
            warnings.warn(f"File {self.metrics} is damaged; left out: line {lines}.", stacklevel=2)
        else:
            try:
                self.check_unchanged(self.metrics.name)
            except InputError as error:
                warnings.warn(str(error), stacklevel=2)
        return [line for line in found.values if isinstance(line.get("updates"), int) and "loss" in line]

    def last_metrics(self) -> dict[str, Any]:
        """Read the last line of metrics.jsonl, to show progress; empty if there is none."""
        return last_line(self.metrics)

    def rewind_metrics(self, updates: int) -> None:
        """Delete the lines after this update, which a resumed run writes again."""
        if self.metrics.exists():
            kept = [line for line in self.read_metrics() if line["updates"] <= updates]
            write_atomically(self.metrics, checked_lines(kept)[0])


_LAST_WRITTEN = {"scores.csv", "report.md", "quality.csv"}  # their presence marks a finished run or experiment


def _differences(was: dict[str, Any], now: dict[str, Any], inside: str = "") -> Iterator[str]:
    """Names of the settings that differ, with their old and new values."""
    for name in sorted(now):
        before, after = was.get(name), now[name]
        if isinstance(before, dict) and isinstance(after, dict):
            yield from _differences(before, after, f"{inside}{name}.")
        elif before != after:
            yield f"{inside}{name} was {json.dumps(before)}, now {json.dumps(after)}"


def read_config(path: Path, kind: type[Config], trust: bool = False) -> Config:
    """Read the config.json of a run; raise InputError if it has another kind or format.

    Args:
        path: the file.
        kind: the class of the configuration.
        trust: whether to import modules that the file names, for classes of users.
    """
    header, fields = _read_header(path)
    if trust:
        import_modules(part_texts(fields))
    load_kept_phi(path.parent / "phi", fields.get("phi"), trust)
    if header["kind"] != kind.__name__:
        raise InputError(f"File {path} holds a {header['kind']}; expected a {kind.__name__}.")
    return from_json(kind, fields, f"File {path}")


def _read_header(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    fields = read_json(path)
    header = {name: fields.pop(name, None) for name in ("format", "version", "kind")}
    if header["format"] not in READABLE:
        raise InputError(
            f"File {path} has format {header['format']} (usfa {header['version']}); "
            f"usfa {__version__} reads format {FORMAT}."
        )
    return header, updated_settings(fields)


def _read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    content = read_checked(path)
    try:
        tensors = safetensors.torch.load(content)
        length = int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8 : 8 + length])["__metadata__"]
        values = json.loads(metadata["values"])
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        raise InputError(f"File {path} is not a checkpoint of usfa: {error}.") from error
    if metadata.get("file", path.name) != path.name:
        raise InputError(f"File {path} was changed: it is a copy of {metadata['file']}.")
    return tensors, values
