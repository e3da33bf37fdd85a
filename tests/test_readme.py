"""What the README and the docs promise."""

import re
from pathlib import Path

import pandas as pd
import pytest

from usfa.environments.room.scale import read_yardstick
from usfa.evaluation import read_scores
from usfa.experiments.room_tables import final_table, summary_of, task_table

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


def test_the_python_in_the_readme_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        names: dict[str, object] = {}
        exec(compile(block, "README.md", "exec"), names)
        assert names["action"] in range(8)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)", page.read_text())
    missing = [t for t in targets if not t.startswith("http") and not (page.parent / t).exists()]
    assert not missing


@pytest.mark.parametrize("page", ["README.md", "docs/trip.md"])
def test_published_numbers_are_those_of_the_published_run(page: str) -> None:
    summary = pd.read_csv(ROOT / "docs" / "results" / "trip" / "summary.csv")
    final = summary[(summary.task_set == "trip-directions") & (summary.snapshot == 1000)]
    text = (ROOT / page).read_text().replace("**", "")
    for row in final[final.agent.isin(["usfa", "uvfa", "uvfa-off-policy"])].itertuples():
        published = f"{row.mean:.4f} [{row.low:.4f}, {row.high:.4f}]"
        if row.candidates in {"task", "sample:5"}:
            assert published in text, (row.agent, row.candidates)


README_NAMES = {
    "USFA, C = M": "USFA, C = M",
    "SF&GPI (learned ψ)": "SF&GPI",
    "UVFA, off-policy": "UVFA, off-policy",
    "UVFA": "UVFA, on-policy",
}


def test_published_scores_of_the_room_are_those_of_the_published_runs() -> None:
    table = final_table(pd.read_csv(ROOT / "docs" / "results" / "room-agents" / "summary.csv"))
    readme, page = ((ROOT / name).read_text().replace("**", "") for name in ("README.md", "docs/room-agents.md"))
    assert len(table) == 12
    assert set(README_NAMES) <= set(table.method)
    for name, *scores, runs in table.to_numpy().tolist():
        assert " | ".join([name, *scores, runs]) in page
        if name in README_NAMES:
            assert " | ".join([README_NAMES[name], *scores]) in readme


def test_published_scores_of_longer_training_are_those_of_the_published_runs() -> None:
    yardstick = read_yardstick()
    summary = summary_of(read_scores(ROOT / "docs" / "results" / "room-agents" / "longer.csv"), yardstick)
    sets, tasks = final_table(summary), task_table(summary, yardstick, "room-hard", "normalised")
    page = (ROOT / "docs" / "room-agents.md").read_text().replace("−", "-")
    for whole, each in zip(sets.to_dict("records"), tasks.to_dict("records"), strict=True):
        shown = [whole[name] for name in ("training tasks M", "easy test tasks", "hard test tasks")]
        shown += [each[name] for name in ("1100", "0111", "1111", "-1100", "-1101")]
        assert " | ".join([whole["method"].removeprefix("USFA, C = "), *shown]) in page
