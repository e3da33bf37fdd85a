"""Links, paths, names and settings in README.md, CONTRIBUTING.md and docs/*.md."""

import dataclasses
import importlib
import re
from pathlib import Path

import pytest

import usfa
from test_layers import LAYERS
from usfa.runs.presets import PRESETS

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
LINK = re.compile(r"\[([^\[\]]*)\]\(([^)\s]+)\)")
PATH = re.compile(r"\b(?:src|tests|benchmarks|docs|examples)/[\w./-]*\w\.(?:py|md|csv|png|gif|yaml)\b")
SETTING = re.compile(r"--(learner|network|evaluation)\.([\w-]+)")
SECTIONS = {"learner": usfa.LearnerConfig, "network": usfa.NetworkConfig, "evaluation": usfa.EvaluationConfig}

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def links(page):
    """(text, file, anchor) of every relative link of a page."""
    for text, target in LINK.findall(page.read_text("utf-8")):
        if not re.match(r"\w+:", target):
            path, _, anchor = target.partition("#")
            yield text, (page.parent / path).resolve() if path else page, anchor


def anchors(page):
    """The anchors of a page's headings, as GitHub and MyST make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def has(thing, names):
    """Whether a dotted name leads to something; its last part may be a field without a default."""
    name, *others = names
    if not others and name in getattr(thing, "__annotations__", {}):
        return True
    return hasattr(thing, name) and (not others or has(getattr(thing, name), others))


def defines(module, name):
    """Whether a module defines a name itself, rather than importing it; `usfa.` in front may be given as well."""
    names = name.removeprefix("usfa.").split(".")
    home = getattr(getattr(module, names[0], None), "__module__", module.__name__)
    return has(module, names) and home == module.__name__


def missing_names(page):
    """Names in the text of links to modules of ours that the modules do not have."""
    for text, file, _ in links(page):
        if file.suffix != ".py" or SOURCE not in file.parents:
            continue
        module = importlib.import_module(".".join(file.relative_to(SOURCE).with_suffix("").parts))
        for name in re.findall(r"`([^`]+)`", text):
            if name not in PRESETS and not str(file).endswith(f"/{name}") and not defines(module, name):
                yield f"{file.relative_to(ROOT)} does not define {name}"


@pages
def test_links_lead_to_files(page):
    assert not [str(file) for _, file, _ in links(page) if not file.exists()]


@pages
def test_anchors_are_headings(page):
    pointed = [(file, anchor) for _, file, anchor in links(page) if anchor and file.suffix == ".md"]
    assert not [f"{file.name}#{anchor}" for file, anchor in pointed if anchor not in anchors(file)]


@pages
def test_paths_in_the_text_exist(page):
    assert not [path for path in PATH.findall(page.read_text("utf-8")) if not (ROOT / path).exists()]


@pages
def test_linked_names_exist(page):
    assert not list(missing_names(page))


@pages
def test_settings_exist(page):
    fields = {section: {field.name for field in dataclasses.fields(cls)} for section, cls in SECTIONS.items()}
    named = SETTING.findall(page.read_text("utf-8"))
    assert not [(section, name) for section, name in named if name.replace("-", "_") not in fields[section]]


def test_every_page_is_in_the_table_of_contents():
    listed = re.findall(r"^[\w/-]+$", (ROOT / "docs" / "index.md").read_text("utf-8"), flags=re.MULTILINE)
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("*.ipynb")]
    assert {page.stem for page in pages} - {"index"} <= set(listed)


def test_contributing_lists_the_layers():
    table = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("| layer |")[2].partition("\n\n")[0]
    first_cells = [row.split(" | ")[0] for row in table.splitlines()[2:]]
    top_to_bottom = LAYERS[-2::-1]  # without usfa/__init__.py and __main__.py
    assert [set(re.findall(r"`(\w+)`", cell)) for cell in first_cells] == [set(layer) for layer in top_to_bottom]


def test_the_table_of_the_paper_links_names():
    table = [text for text, file, _ in links(ROOT / "docs" / "paper-to-code.md") if SOURCE in file.parents]
    assert sum(text.count("`") // 2 for text in table) > 30


def test_the_checks_can_fail(tmp_path):
    page = tmp_path / "page.md"
    code = f"[`td_error`, `td_errors`, `lambda_return`]({SOURCE}/usfa/losses.py)"
    page.write_text(f"# One, two\n{code} [there](page.md#one-two) [here](#three) [x](y.md)")
    assert [file.name for _, file, _ in links(page) if not file.exists()] == ["y.md"]
    assert anchors(page) == {"one-two"}
    assert list(missing_names(page)) == [
        "src/usfa/losses.py does not define td_error",
        "src/usfa/losses.py does not define lambda_return",
    ]
