"""Read and write files safely: atomic writes, checksums, and checks of space and of existing files."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from usfa.errors import InputError

__all__ = [
    "read_checked",
    "read_json",
    "require_free",
    "require_space",
    "sha256",
    "write_atomically",
    "write_checked",
    "write_json",
]

_MAGIC = b"usfa-checked-1\n"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def write_atomically(path: Path, content: bytes) -> None:
    """Write to a temporary file, fsync and rename, so that a reader sees either the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    require_space(path.parent, len(content))
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def require_space(folder: Path, size: int) -> None:
    """Raise InputError if the disk has less than `size` bytes left."""
    free = shutil.disk_usage(folder).free
    if free < size:
        raise InputError(
            f"The disk of {folder} has {free / 2**20:.1f} MiB left; expected at least {size / 2**20:.1f}. "
            "Nothing was lost; free some space and continue with --resume."
        )


def require_free(path: Path, overwrite: bool) -> None:
    """Raise InputError if the file exists and `overwrite` is false."""
    if path.exists() and not overwrite:
        raise InputError(f"{path} already exists; replace it with --overwrite, or choose another --out.")


def write_checked(path: Path, content: bytes) -> None:
    """Write atomically, with the checksum of the content in front."""
    write_atomically(path, _MAGIC + sha256(content).encode() + b"\n" + content)


def read_checked(path: Path) -> bytes:
    """Read a file from :func:`write_checked`; raise InputError if it is torn or was changed."""
    raw = path.read_bytes()
    checksum, _, content = raw.removeprefix(_MAGIC).partition(b"\n")
    if not raw.startswith(_MAGIC) or checksum.decode("ascii", "replace") != sha256(content):
        raise InputError(f"File {path} is torn or was changed: its checksum does not match its content.")
    return content


def write_json(path: Path, value: Any) -> None:
    write_atomically(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; raise InputError if the file is missing or holds anything else."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"File {path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise InputError(f"File {path} is torn or not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise InputError(f"File {path} holds {type(value).__name__}; expected a JSON object.")
    return value
