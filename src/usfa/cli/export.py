"""`usfa export`."""

from __future__ import annotations

from pathlib import Path

from usfa.cli.options import Export
from usfa.cli.terminal import print_lines
from usfa.runs import ONNX_FILE, export

__all__ = ["run"]


def run(command: Export) -> None:
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
