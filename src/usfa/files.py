"""Read and write files safely: atomic writes, checksums, and checks of space and of existing files."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from usfa.errors import InputError

__all__ = [
    "CheckedLines",
    "LineFile",
    "checked_lines",
    "last_line",
    "read_bytes",
    "read_checked",
    "read_json",
    "read_lines",
    "require_free",
    "require_space",
    "sha256",
    "temporary_of",
    "write_atomically",
    "write_checked",
    "write_json",
]

_MAGIC = b"usfa-checked-1\n"
_DEEPEST = 64  # levels of nesting in a JSON file
_LONGEST_LINE = 4096
_CHECKSUM = "checksum"
_CHECKED_LINE = re.compile(rb'(\{.*), "checksum": "([0-9a-f]{16})"\}')


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def read_bytes(path: Path) -> bytes:
    """Read a file; raise InputError if that fails, or if it is a pipe or a device, which could block for ever."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise InputError(f"{path} is not a regular file; expected one to read.")
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"File {path} cannot be read: {error.strerror}.") from error


def write_atomically(path: Path, content: bytes | memoryview) -> None:
    """Write to a temporary file, fsync and rename, so that a reader sees either the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    require_space(path.parent, len(content))
    try:
        _write_and_rename(path, content)
    except OSError as error:  # report the name of the file, not of the temporary one
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def _write_and_rename(path: Path, content: bytes | memoryview) -> None:
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


def temporary_of(name: str) -> str | None:
    """The final name of a temporary file of :func:`write_atomically`; None for names of other files."""
    found = re.fullmatch(r"\.(.+)\.[^.]+\.part", name)
    return found[1] if found else None


_SPACE = "Nothing was lost; free some space and continue with --resume."


def require_space(folder: Path, size: int, remedy: str = _SPACE) -> None:
    """Raise InputError, ending with `remedy`, if the disk has less than `size` bytes left."""
    free = shutil.disk_usage(folder).free
    if free < size:
        raise InputError(
            f"The disk of {folder} has {free / 2**20:.1f} MiB left; expected at least {size / 2**20:.1f}. {remedy}"
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
    raw = read_bytes(path)
    checksum, _, content = raw.removeprefix(_MAGIC).partition(b"\n")
    if not raw.startswith(_MAGIC) or checksum.decode("ascii", "replace") != sha256(content):
        raise InputError(f"File {path} is torn or was changed: its checksum does not match its content.")
    return content


# --- JSON objects ---


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write a JSON object atomically, with an entry for its checksum."""
    checked = {**value, _CHECKSUM: _checksum(value)}
    write_atomically(path, (json.dumps(checked, indent=2, ensure_ascii=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object without its checksum; raise InputError if the file is missing, changed or not an object.

    Files of earlier versions have no checksum.
    """
    try:
        value = json.loads(read_bytes(path))
    except RecursionError as error:
        raise _too_deep(path) from error
    except ValueError as error:
        raise InputError(f"File {path} is torn or not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise InputError(f"File {path} holds {type(value).__name__}; expected a JSON object.")
    if _is_deep(value):
        raise _too_deep(path)
    if not _is_unicode(value):
        raise InputError(f"File {path} holds text that is not Unicode, as in '\\ud800'; expected none.")
    checksum = value.pop(_CHECKSUM, None)
    if checksum is not None and checksum != _checksum(value):
        raise InputError(
            f"File {path} was changed: its checksum does not match its content. If you edited it, delete its entry "
            f"{_CHECKSUM!r}."
        )
    return value


def _checksum(value: dict[str, Any]) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode())


def _is_unicode(value: dict[str, Any]) -> bool:
    """Whether UTF-8 can encode all texts; JSON can hold halves of surrogate pairs, which it cannot."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _too_deep(path: Path) -> InputError:
    return InputError(f"File {path} is nested too deeply; expected at most {_DEEPEST} levels.")


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        inside = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [member for members in inside for member in members]
    return any(isinstance(one, dict | list) for one in level)


# --- logs: JSON objects, one per line ---


class CheckedLines(NamedTuple):
    """The lines of a log."""

    values: list[dict[str, Any]]  # without damaged lines
    damaged: list[int]  # numbers of damaged lines, from 1
    checksum: str  # of the last line
    size: int  # in bytes, without a torn line at the end


def read_lines(path: Path) -> CheckedLines:
    """Read a log; empty if the file does not exist.

    The checksum of a line covers the line and the checksum before it, so that a missing line is found as well. A last
    line without a newline was torn by a crash and is ignored. Lines before the first checksum were written by an
    earlier version; those that are not JSON were torn, and are skipped.
    """
    values, damaged, before, checked = [], [], "", False
    content = read_bytes(path) if os.path.lexists(path) else b""
    whole = content[: content.rfind(b"\n") + 1]
    for number, raw in enumerate(whole.split(b"\n")[:-1], 1):
        found = _CHECKED_LINE.fullmatch(raw)
        text = found[1] + b"}" if found else raw
        checksum = _line_checksum(before, text)
        value = _object(text)
        if (checked and not found) or (found and found[2].decode() != checksum) or (value and _CHECKSUM in value):
            damaged.append(number)
        elif value is not None:
            values.append(value)
        checked = checked or found is not None
        before = found[2].decode() if found else checksum
    return CheckedLines(values, damaged, before, len(whole))


def last_line(path: Path) -> dict[str, Any]:
    """The last whole line of a log, not verified, without reading all of it; empty if there is none."""
    if not path.is_file():
        return {}
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _LONGEST_LINE))
        lines = file.read().split(b"\n")[:-1]
    found = next(filter(None, map(_object, reversed(lines))), {})
    return {name: value for name, value in found.items() if name != _CHECKSUM}


def checked_lines(values: Iterable[dict[str, Any]], before: str = "") -> tuple[bytes, str]:
    """Format objects as lines of a log, after a line with the checksum `before`; also return their last checksum."""
    lines = []
    for value in values:
        text = json.dumps(value).encode()
        before = _line_checksum(before, text)
        lines.append(text[:-1] + f', "{_CHECKSUM}": "{before}"}}\n'.encode())
    return b"".join(lines), before


def _line_checksum(before: str, text: bytes) -> str:
    return sha256(before.encode() + text)[:16]


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


class LineFile:
    """A log that is open for appending. A torn line at its end is deleted first."""

    def __init__(self, path: Path) -> None:
        found = read_lines(path)
        self._checksum = found.checksum
        self._file: BinaryIO = path.open("ab")
        self._file.truncate(found.size)

    def append(self, value: dict[str, Any]) -> None:
        line, self._checksum = checked_lines([value], self._checksum)
        self._file.write(line)
        self._file.flush()

    def sync(self) -> None:
        """Flush the file to disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()
