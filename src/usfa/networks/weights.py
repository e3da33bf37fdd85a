"""Weights in files: safetensors, nothing is unpickled."""

from __future__ import annotations

from pathlib import Path

import safetensors
import safetensors.torch
from torch import Tensor

from usfa.errors import InputError
from usfa.files import read_bytes, sha256

__all__ = ["read_weights"]


def read_weights(path: Path, expected_sha256: str, named_in: str) -> dict[str, Tensor]:
    """Read a safetensors file; raise InputError if its format or its checksum is wrong.

    Args:
        path: the file.
        expected_sha256: its checksum.
        named_in: name of the file that holds the checksum, for the error.
    """
    content = read_bytes(path)
    if sha256(content) != expected_sha256:
        raise InputError(f"File {path} is torn or was changed: its checksum does not match {named_in}.")
    try:
        return safetensors.torch.load(content)
    except (safetensors.SafetensorError, KeyError, ValueError) as error:  # KeyError: a type that torch does not have
        raise InputError(f"File {path} is not a safetensors file: {error}.") from error
