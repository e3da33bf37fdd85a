"""Export a trained agent: a directory in the layout of the Hugging Face hub, with an ONNX model on request."""

from __future__ import annotations

import os
from pathlib import Path

from usfa.agents import load_agent, onnx_model, read_agent, save_agent
from usfa.decisions import Rule
from usfa.errors import InputError
from usfa.files import require_free, write_atomically
from usfa.runs.loading import agent_directory

__all__ = ["ONNX_FILE", "export"]

ONNX_FILE = "model.onnx"


def export(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    onnx: bool = False,
    rule: str | Rule | None = None,
    seed: int | None = None,
    overwrite: bool = False,
    trust: bool = False,
) -> Path:
    """Write an agent to a directory of its own, which `usfa.load` reads and the client of the Hugging Face hub uploads.

    The directory holds config.json, weights.safetensors (all seeds), a model card README.md with the hub's metadata,
    and model.onnx if requested.

    Args:
        path: as for :func:`usfa.load`.
        out: the directory to write.
        onnx: whether to write model.onnx (extra `export`), see docs/export.md.
        rule: the decision rule inside model.onnx: "cautious", "steady", "gpi", "follow", or "none" to decide outside;
            by default the agent's rule.
        seed: the training seed of model.onnx; by default the first.
        overwrite: whether to replace an agent in this directory.
        trust: whether to import modules that the agent's file names.

    Returns: the directory.
    """
    source, directory = agent_directory(os.fspath(path)), Path(out)
    if not onnx and (rule is not None or seed is not None):
        raise InputError("rule and seed are settings of model.onnx; expected them together with onnx (--onnx).")
    if directory.resolve() == source.resolve():
        raise InputError(f"out is {directory}, the directory of the agent itself; expected another one.")
    require_free(directory / "config.json", overwrite)
    file, weights = read_agent(source, trust)
    model = onnx_model(load_agent(source, seed, trust), rule) if onnx else None
    save_agent(directory, file, weights)
    if model is not None:
        write_atomically(directory / ONNX_FILE, model)
    else:
        (directory / ONNX_FILE).unlink(missing_ok=True)  # left by another agent
    return directory
