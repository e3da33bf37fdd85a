"""Imports point downwards only, also those inside functions and under TYPE_CHECKING."""

import ast
from pathlib import Path

import pytest

import usfa

SOURCE = Path(usfa.__file__).parent
LAYERS = (
    ("errors", "version"),
    ("compiling", "files", "names", "progress", "records", "registry", "samplers", "tasks", "threads", "trajectory"),
    ("functional",),
    ("decisions",),
    ("losses", "networks", "environments"),
    ("phi",),
    ("agents",),
    ("learning",),
    ("cluster",),
    ("evaluation", "figures"),
    ("runs",),
    ("paper",),
    ("playground",),
    ("cli",),
    ("__init__", "__main__"),
)
LEVEL = {unit: level for level, units in enumerate(LAYERS) for unit in units}
# Units of one layer that may see each other; all others of a layer are strangers.
SIBLINGS = {frozenset({"errors", "version"})} | {frozenset({a, b}) for a in LAYERS[1] for b in LAYERS[1] if a != b}
FORBIDDEN_IN_FIGURES = ("torch", "usfa.agents", "usfa.evaluation")
FILES = sorted(SOURCE.rglob("*.py"))


def imports_of(tree, package):
    """(line, dotted name) of every import; `from a import b` gives a.b, for b may be a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def unit_of(name):
    """The unit that a dotted name of ours belongs to; None for other people's modules."""
    parts = name.split(".")
    if parts[0] != "usfa":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in LEVEL else "__init__"


def violations(code, relative):
    """What is wrong with the imports of a file at a path below src/usfa."""
    own = Path(relative).parts[0].removesuffix(".py")
    package = ("usfa", *Path(relative).parts[:-1])
    for line, name in imports_of(ast.parse(code), package):
        other = unit_of(name)
        where = f"src/usfa/{relative}:{line} imports {name}"
        if other is not None and other != own:
            if LEVEL[other] > LEVEL[own]:
                yield f"{where}: {other} is above {own}"
            elif LEVEL[other] == LEVEL[own] and frozenset({own, other}) not in SIBLINGS:
                yield f"{where}: {own} and {other} are on one layer and must not know each other"
        if own == "figures" and any(name == bad or name.startswith(f"{bad}.") for bad in FORBIDDEN_IN_FIGURES):
            yield f"{where}: figures are functions of tables"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_downwards(path):
    found = list(violations(path.read_text("utf-8"), str(path.relative_to(SOURCE))))
    assert not found, "\n".join(found)


def test_every_unit_has_a_layer():
    units = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in FILES}
    assert units == set(LEVEL)


@pytest.mark.parametrize(
    ("relative", "code", "line"),
    [
        ("losses.py", "import usfa.environments", 1),
        ("networks/parallel_runs.py", "from usfa.environments.batch import Step", 1),
        ("environments/batch.py", "def f():\n    from usfa.networks import Parameters", 2),
        ("functional/exact.py", "if TYPE_CHECKING:\n    from usfa import agents", 2),
        ("agents/usfa.py", "from ..rollout import Rollout", 1),
        ("tasks.py", "from usfa import load", 1),
        ("figures/trip.py", "import torch.nn", 1),
        ("figures/trip.py", "\nfrom usfa.evaluation.table import read_scores", 2),
        ("evaluation/table.py", "from usfa.figures import save", 1),
    ],
)
def test_the_check_can_fail(relative, code, line):
    (found, *_) = violations(code, relative)
    assert found.startswith(f"src/usfa/{relative}:{line} imports ")


@pytest.mark.parametrize(
    ("relative", "code"),
    [
        ("agents/usfa.py", "from usfa.agents.agent import Agent\nfrom .agent import Agent"),
        ("losses.py", "import torch\nfrom usfa.functional import gpi"),
        ("cli.py", "from usfa.version import __version__"),
        ("__init__.py", "from usfa.runs import load"),
    ],
)
def test_the_check_can_pass(relative, code):
    assert not list(violations(code, relative))
