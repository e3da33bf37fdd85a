"""The manifest of a run directory: the names of the files that the run wrote, with checksums of its results.

A name is added before its file is written. `--overwrite` deletes the files in the manifest, and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from usfa.errors import InputError
from usfa.files import read_bytes, read_json, sha256, temporary_of, write_json

__all__ = [
    "CONFIG",
    "MANIFEST",
    "add_to_manifest",
    "check_unchanged",
    "has_checksum",
    "is_temporary",
    "written_entries",
]

CONFIG, MANIFEST = "config.json", "manifest.json"
_IN_EVERY_RUN = (CONFIG, MANIFEST)
_SHOWN = 8  # names in an error
_RUNS = "runs"  # folder of an experiment, with run directories


def add_to_manifest(folder: Path, files: Mapping[str, str]) -> None:
    """Add names, relative to the run directory, with their SHA-256 or an empty text; drop names of deleted files."""
    listed = _read(folder)
    if not files.items() <= listed.items():
        kept = {name: checksum for name, checksum in listed.items() if (folder / name).exists()}
        write_json(folder / MANIFEST, {"files": {**kept, **files}})


def check_unchanged(folder: Path, name: str) -> None:
    """Raise InputError if a file does not match its checksum in the manifest; without a checksum it passes."""
    checksum = _read(folder).get(name)
    if checksum and sha256(read_bytes(folder / name)) != checksum:
        raise InputError(f"File {folder / name} was changed: its checksum does not match {MANIFEST}.")


def has_checksum(folder: Path, name: str) -> bool:
    """Whether the manifest has a checksum of a file, which means that it was written or was about to be."""
    return bool(_read(folder).get(name))


def is_temporary(folder: Path, name: str) -> bool:
    """Whether a file is left from an interrupted write of a file of this run."""
    target = temporary_of(Path(name).name)
    return target is not None and _is_listed((Path(name).parent / target).as_posix(), _read(folder))


def written_entries(folder: Path) -> list[Path]:
    """List the entries of a run directory, contents before their folders; InputError if no run wrote one of them.

    Links are never followed, and no run writes them.
    """
    listed = _read(folder)
    others = sorted(entry.name for entry in folder.iterdir() if entry.name not in _IN_EVERY_RUN)
    if not listed and others:
        shown = ", ".join(others[:_SHOWN]) + (", …" if len(others) > _SHOWN else "")
        raise InputError(
            f"Directory {folder} has no {MANIFEST}, like runs of earlier versions, so --overwrite cannot tell what the "
            f"run wrote, and deleted nothing: delete its files yourself (it holds {shown}), or choose another --out."
        )
    return list(_written(folder, folder, listed))


def _written(root: Path, folder: Path, listed: Mapping[str, str]) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        ordered = sorted(entries, key=lambda entry: entry.name)
    for entry in ordered:
        path = Path(entry.path)
        name = path.relative_to(root).as_posix()
        if entry.is_dir(follow_symlinks=False) and _is_folder_of_run(name, listed):
            yield from _written(root, path, listed)
        elif entry.is_dir(follow_symlinks=False) and Path(name).parent.name == _RUNS:
            yield from written_entries(path)
        elif not (entry.is_file(follow_symlinks=False) and (_is_listed(name, listed) or is_temporary(root, name))):
            raise InputError(f"Directory {root} also holds {name!r}, which no run wrote; nothing was deleted.")
        yield path


def _is_folder_of_run(name: str, listed: Mapping[str, str]) -> bool:
    return name == _RUNS or any(file.startswith(f"{name}/") for file in listed)


def _is_listed(name: str, listed: Mapping[str, str]) -> bool:
    return name in listed or name in _IN_EVERY_RUN


def _read(folder: Path) -> dict[str, str]:
    path = folder / MANIFEST
    if not os.path.lexists(path):
        return {}
    files = read_json(path).get("files")
    if not isinstance(files, dict) or not all(isinstance(checksum, str) for checksum in files.values()):
        raise InputError(f"File {path} is not the manifest of a run: it has no entry 'files'.")
    return files
