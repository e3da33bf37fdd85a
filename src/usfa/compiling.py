"""Compile with numba, and cache the result where possible."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba

__all__ = ["compiled"]

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(*, fastmath: bool = False, inner: bool = False) -> Callable[[Function], Function]:
    """`njit` with a cache next to the source, in the home directory, in a private temporary directory, or nowhere.

    Args:
        fastmath: allow reordering of floating-point operations, as for pixels; not for the rules of an environment.
        inner: only compiled functions call this one. It has no cache entry and no Python wrapper, which takes most of
            the compile time. A cached caller is recompiled after a change only if both are in the same file.
    """

    def decorate(function: Function) -> Function:
        if inner:
            return _njit(function, fastmath=fastmath, no_cpython_wrapper=True, no_cfunc_wrapper=True)
        try:
            return _njit(function, fastmath=fastmath, no_cfunc_wrapper=True, cache=True)
        except RuntimeError:  # "cannot cache function: no locator available"
            return _cached_elsewhere(function, fastmath)

    return decorate


def _cached_elsewhere(function: Function, fastmath: bool) -> Function:
    folder = _private_folder()
    if folder is None:
        return _njit(function, fastmath=fastmath, cache=False)
    config: Any = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = str(folder)
    try:
        return _njit(function, fastmath=fastmath, no_cfunc_wrapper=True, cache=True)
    except RuntimeError:
        return _njit(function, fastmath=fastmath, cache=False)
    finally:
        config.CACHE_DIR = before


def _private_folder() -> Path | None:
    """A temporary folder that only this user can write to, because cached code is executed; None if impossible."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    try:
        folder = Path(tempfile.gettempdir()) / f"usfa-numba-{user}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o022 and getattr(found, "st_uid", user) == user
    return folder if private else None


def _njit(function: Function, **options: Any) -> Function:
    # Release the interpreter lock: the playground serves requests while another thread computes oracle tables.
    made: Function = numba.njit(error_model="numpy", nogil=True, **options)(function)
    return made
