"""The code and the published numbers in the README and the docs; links are checked in test_docs.py."""

import re
from pathlib import Path

import pandas as pd
import pytest

import usfa
from usfa.decisions import SINGLE
from usfa.environments.room.yardstick import read_yardstick
from usfa.evaluation import read_scores
from usfa.paper.room_report import final_table, summary_of, task_table

ROOT = Path(__file__).parent.parent


def test_the_python_in_the_readme_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        names: dict[str, object] = {}
        exec(compile(block, "README.md", "exec"), names)
        assert names["action"] in range(8)


TRIP_NAMES = {
    ("usfa", "task"): "USFA, C = {w′}",
    ("usfa", "sample:5"): "USFA, C = random(5)",
    ("usfa", "train"): "USFA, C = M",
    ("usfa", "train+task"): "USFA, C = M ∪ {w′}",
    ("uvfa", "task"): "UVFA, on-policy",
    ("uvfa-off-policy", "task"): "UVFA, off-policy",
}


def rows_of(page: str, header: str) -> dict[tuple[str, str], list[str]]:
    """A table of a page: the other cells of each row by its method and its rule, of which a row may have several."""
    text = (ROOT / page).read_text().replace("**", "")
    table = text[text.index(f"| method | rule | {header} |") :].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]
    return {(row[0].removesuffix(", the default"), rule): row[2:] for row in rows for rule in row[1].split(", ")}


@pytest.mark.parametrize(
    ("page", "header", "columns"), [("README.md", "mean gap", 1), ("docs/trip.md", "51 directions | diagonal", 2)]
)
def test_published_numbers_are_those_of_the_published_run(page: str, header: str, columns: int) -> None:
    """Every row that is published is one of the run, and Eq. 3, the paper's, is published for what the paper shows."""
    summary = pd.read_csv(ROOT / "docs" / "results" / "trip" / "summary.csv")
    final = summary[summary.snapshot == 1000].set_index(["agent", "candidates", "rule", "task_set"])
    rows, found = rows_of(page, header), set()
    for (agent, candidates, rule), _ in final.groupby(level=[0, 1, 2]):
        name = TRIP_NAMES.get((agent, candidates)), "–" if agent.startswith("uvfa") else rule
        if name in rows:
            found.add((agent, candidates, rule))
            measured = (final.loc[agent, candidates, rule, tasks] for tasks in ("trip-directions", "trip-diagonal"))
            published = [f"{row['mean']:.4f} [{row.low:.4f}, {row.high:.4f}]" for row in measured]
            assert rows[name] == published[:columns], name
    assert {(agent, candidates) for agent, candidates, rule in found if rule == "gpi"} >= {
        ("usfa", "task"),
        ("usfa", "sample:5"),
        ("usfa", "train+task"),
        ("uvfa", "task"),
        ("uvfa-off-policy", "task"),
    }
    assert ("usfa", "train+task", "cautious") in found


def test_scores_of_the_trip_are_those_of_its_summary() -> None:
    """scores.csv.gz has the runs of what summary.csv has the statistics of."""
    folder = ROOT / "docs" / "results" / "trip"
    scores, summary = read_scores(folder / "scores.csv.gz"), pd.read_csv(folder / "summary.csv")
    key = ["agent", "candidates", "rule", "task_set", "snapshot"]
    means = scores.assign(gap=scores.optimal - scores.score).groupby(key).gap.mean()
    assert set(means.index) == set(summary.set_index(key).index)
    pd.testing.assert_series_equal(means, summary.set_index(key)["mean"].sort_index(), check_names=False)


def test_published_scores_of_the_room_are_those_of_the_published_runs() -> None:
    """By Eq. 3, the paper's rule; what is published by another rule has to be measured as well."""
    table = final_table(pd.read_csv(ROOT / "docs" / "results" / "room-agents" / "summary.csv"))
    page = rows_of("docs/room-agents.md", " | ".join(list(table)[2:]))
    by_paper = table[table.rule.isin(["gpi", "–"])]
    assert len(by_paper) == 12
    for name, rule, *scores in by_paper.to_numpy().tolist():
        assert page[name, rule] == scores


def test_published_statistics_of_the_room_are_those_of_the_published_scores() -> None:
    folder = ROOT / "docs" / "results" / "room-agents"
    scores, summary = read_scores(folder / "scores.csv"), pd.read_csv(folder / "summary.csv")
    pd.testing.assert_frame_equal(final_table(summary_of(scores, read_yardstick())), final_table(summary))


PUBLISHED = ROOT / "docs" / "results" / "room-agents" / "six-seeds" / "runs"


def test_scores_with_advantage_learning_are_those_of_the_published_runs() -> None:
    scores = pd.concat([read_scores(path) for path in sorted(PUBLISHED.glob("*/scores.csv"))], ignore_index=True)
    header = "training tasks | easy | hard, without dislikes | hard, with dislikes | hard | runs"
    page = rows_of("docs/room-agents.md", header)
    readme = rows_of("README.md", "training tasks | easy tasks | hard tasks | hard tasks with dislikes")
    rows = {(name, rule): cells for name, rule, *cells in final_table(summary_of(scores, read_yardstick())).to_numpy()}
    assert {("USFA, C = M", "steady"), ("UVFA", "–")} <= readme.keys() <= rows.keys()
    for key, (training, easy, without, with_dislikes, hard, runs) in rows.items():
        assert page[key] == [training, easy, without, with_dislikes, hard, runs]
        if key in readme:
            assert readme[key] == [training, easy, hard, with_dislikes]


@pytest.mark.long
@pytest.mark.parametrize("run", sorted(PUBLISHED.iterdir()), ids=lambda run: run.name)
def test_published_agents_have_their_published_scores_on_machines_with_the_same_arithmetic(run: Path) -> None:
    agent, published = usfa.load(run), read_scores(run / "scores.csv")
    final = published[published.snapshot == published.snapshot.max()].set_index(["candidates", "rule", "task"]).score
    candidates = agent.default_candidates
    rules = sorted(set(published.rule[published.candidates == candidates]) - {SINGLE})
    table = usfa.evaluate(agent, "room-hard", candidates, rules=rules, seed=agent.seed, break_loops=False)
    for row in table.itertuples():
        assert row.score == final[row.candidates, row.rule, row.task]


def test_published_scores_of_longer_training_are_those_of_the_published_runs() -> None:
    yardstick = read_yardstick()
    summary = summary_of(read_scores(ROOT / "docs" / "results" / "room-agents" / "longer.csv"), yardstick)
    sets, tasks = final_table(summary), task_table(summary, yardstick, "room-hard", "normalised")
    page = (ROOT / "docs" / "room-agents.md").read_text().replace("−", "-")
    for whole, each in zip(sets.to_dict("records"), tasks.to_dict("records"), strict=True):
        shown = [whole[name] for name in ("training tasks M", "easy test tasks", "hard test tasks")]
        shown += [each[name] for name in ("1100", "0111", "1111", "-1100", "-1101")]
        assert " | ".join([whole["method"].removeprefix("USFA, C = "), *shown]) in page


def test_utilities_in_the_readme_are_those_of_the_race() -> None:
    """Of usfa by budget; of the peers at the end of their race by steps if there is one, otherwise by time.

    ¹ is GPI-LS with one gradient step per step.
    """
    summary = pd.read_csv(ROOT / "docs" / "results" / "race" / "summary.csv")
    found = summary.set_index(["race", "environment", "algorithm"])["expected utility"]
    text = (ROOT / "README.md").read_text()
    lines = text[text.index("| environment | budget | usfa |") :].split("\n\n")[0].splitlines()
    environment = ""
    for line in lines[2:]:
        name, budget, *racers, constant, optimum = [cell.strip(" *") for cell in line.strip("|").split("|")]
        environment = environment if name == '"' else f"{name}-v0"
        race = budget.replace(",", "") if budget.endswith("steps") else "time"
        known = summary[summary.environment == environment].iloc[0]
        assert_shown(constant, known["best constant action"])
        assert_shown(optimum.partition(",")[0], known.optimum)
        assert ("approximate" in optimum) == (known["optimum is"] == "approximate")
        for algorithm, cell in zip(("usfa", "gpi-ls", "envelope"), racers, strict=True):
            algorithm = "gpi-ls-1" if cell.endswith("¹") else algorithm
            cell = cell.strip("¹ *")
            raced = race if (race, environment, algorithm) in found or algorithm == "usfa" else "time"
            if cell != "–":
                assert_shown(cell, found[raced, environment, algorithm])
    assert len(lines) == 10


def assert_shown(cell: str, measured: float) -> None:
    """A cell is the measured number, rounded to its decimals."""
    if cell == "unknown":
        assert pd.isna(measured)
    else:
        assert float(cell.replace("−", "-")) == pytest.approx(measured, abs=0.51 * 10 ** -len(cell.partition(".")[2]))
