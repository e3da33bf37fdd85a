"""Execute a notebook in the working directory and save its outputs: `python docs/run_notebook.py docs/tutorial.ipynb`.

Cells run as in Jupyter: in one namespace, the value of the last expression and open figures are outputs, and
`%%writefile NAME` writes a file. With --check the outputs are
not saved, but must be of the same kinds as the saved ones.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt

Outputs = list[dict[str, Any]]


def main(words: list[str]) -> int:
    path, check = Path(words[0]), words[1:] == ["--check"]
    notebook = json.loads(path.read_text("utf-8"))
    sys.path.insert(0, "")
    names: dict[str, Any] = {"__name__": "__main__"}
    for count, cell in enumerate((cell for cell in notebook["cells"] if cell["cell_type"] == "code"), start=1):
        outputs = outputs_of("".join(cell["source"]), names)
        if check and kinds(outputs) != kinds(cell["outputs"]):
            print(f"Cell {count} gives {kinds(outputs)}; saved are {kinds(cell['outputs'])}.", file=sys.stderr)
            return 1
        cell["outputs"], cell["execution_count"] = outputs, count
        print("".join("".join(output.get("text", [])) for output in outputs), end="")
    if not check:
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return 0


def outputs_of(source: str, names: dict[str, Any]) -> Outputs:
    """Execute the source of one cell, and collect what Jupyter would show below it."""
    if source.startswith("%%writefile "):
        first, _, content = source.partition("\n")
        Path(first.split()[1]).write_text(content, "utf-8")
        return [{"output_type": "stream", "name": "stdout", "text": [f"Writing {first.split()[1]}\n"]}]
    tree = ast.parse(source)
    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None  # type: ignore[attr-defined]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        value = eval(compile(last, "cell", "eval"), names) if last is not None else None
    outputs: Outputs = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue().splitlines(True)})
    if value is not None:
        outputs.append(_output({"text/plain": str(value).splitlines(True)}))
    return outputs + [_picture(number) for number in plt.get_fignums()]


def _picture(number: int) -> dict[str, Any]:
    figure, content = plt.figure(number), io.BytesIO()
    figure.savefig(content, dpi=110, metadata={"Software": None})
    described = figure.get_label() or "a figure"
    plt.close(figure)
    return _output({"image/png": base64.b64encode(content.getvalue()).decode(), "text/plain": [described]})


def _output(data: dict[str, Any]) -> dict[str, Any]:
    return {"output_type": "display_data", "data": data, "metadata": {}}


def kinds(outputs: Outputs) -> list[str]:
    return [output["output_type"] + "".join(sorted(output.get("data", {}))) for output in outputs]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
