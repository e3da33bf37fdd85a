"""`usfa export`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from usfa.cli.terminal import parse, print_lines
from usfa.runs import ONNX_FILE, export

__all__ = ["Export", "run"]


@dataclass(frozen=True)
class Export:
    """Write a trained agent to a directory of its own, for the Hugging Face hub and for ONNX Runtime.

    The directory holds config.json, weights.safetensors and a model card; with --onnx also model.onnx, one step of
    acting with the memory as inputs and outputs.

    Examples:
      usfa export room --onnx
      usfa export runs/trip-usfa --onnx --rule none --out elsewhere   (the model ends in ψ, you decide)
      usfa export runs/trip-usfa                                      (without ONNX: only the hub's layout)
    """

    run: tyro.conf.Positional[str]
    """A run directory, an agent directory, the name of a shipped agent, or hf://OWNER/NAME."""
    onnx: bool = False
    """Also write model.onnx (extra export: pip install 'usfa[export]')."""
    rule: str | None = None
    """Decision rule inside model.onnx: cautious, cautious:0.5, gpi, follow, or none; the agent's rule by default."""
    seed: int | None = None
    """Training seed of model.onnx, if there are several; the first by default."""
    out: Path | None = None
    """Directory to write; by default exports/NAME."""
    overwrite: bool = False
    """Replace the agent in this directory."""
    trust: bool = False
    """Allow the agent's file to name modules to import, for its network, sampler or agent class."""


def run(words: list[str]) -> None:
    command = parse(Export, "export", words)
    directory = export(
        command.run,
        command.out if command.out is not None else Path("exports") / Path(command.run).resolve().name,
        onnx=command.onnx,
        rule=command.rule,
        seed=command.seed,
        overwrite=command.overwrite,
        trust=command.trust,
    )
    print_lines(
        f"Agent: {directory}",
        f"ONNX model: {directory / ONNX_FILE}" if command.onnx else "",
        f"To upload it to the Hugging Face hub: hf upload OWNER/NAME {directory}",
    )
