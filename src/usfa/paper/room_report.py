"""Tables of the room's scores, and the report with the claims of Section 4.3 and Appendices C and D."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd

from usfa.evaluation import summarise
from usfa.figures.room import AGENTS, BASELINES, BROAD, LARGE, SETS, USFA, has_curves, has_several_rules
from usfa.figures.style import UVFAS, last_snapshot, method, rows_of
from usfa.paper.report import claims_section, markdown_table
from usfa.paper.room_claims import aside, default_rule, gains, room_claims
from usfa.runs.config import TrainConfig

__all__ = [
    "ROOM_TITLE",
    "behaviour_table",
    "final_table",
    "has_rows_for",
    "room_report",
    "settings_of",
    "summary_of",
    "task_table",
]

ROWS = (*USFA, *BROAD, *LARGE, *BASELINES)
COLUMNS = {
    ("room-train", "all"): SETS["room-train"],
    ("room-easy", "all"): SETS["room-easy"],
    ("room-hard", "without dislikes"): "hard, without dislikes",
    ("room-hard", "with dislikes"): "hard, with dislikes",
    ("room-hard", "all"): SETS["room-hard"],
}
"""Titles of :func:`final_table`, by task set and part of it. Tasks with dislikes have negative entries."""
ROOM_TITLE = "The room: normalised score (0 random, 1 oracle), 95 % interval"
"""Title of :func:`final_table` on the terminal."""


# --- tables ---


def summary_of(scores: pd.DataFrame, yardstick: pd.DataFrame) -> pd.DataFrame:
    """Summarise scores over runs, for each task and for each whole set (task "all"), as returns and normalised.

    The hard tasks with dislikes, and those without, are summarised as well.

    The normalised score of a set is Σ(score − random) / Σ(oracle − random) over its tasks, so that a task with little
    to gain cannot dominate the others; the return of a set is the mean over its tasks.

    Args:
        scores: the table of scores.
        yardstick: set, task, policy, mean.
    """
    groups = ["agent", "candidates", "rule", "task_set", "task", "snapshot"]
    each = gains(scores, yardstick)
    hard, disliking = each.task_set == "room-hard", each.task.str.contains("-", regex=False)
    parts = {"all": each, "with dislikes": each[hard & disliking], "without dislikes": each[hard & ~disliking]}
    wholes = [_as_a_whole(part, name) for name, part in parts.items() if len(part)]
    table = pd.concat([each.rename(columns={"score": "return"}), *wholes], ignore_index=True)
    measures = [summarise(table, groups, name).assign(measure=name) for name in ("normalised", "return")]
    frames = scores.groupby(["agent", "candidates", "snapshot"], as_index=False).frames.mean()
    summary = pd.concat(measures, ignore_index=True).merge(frames, on=["agent", "candidates", "snapshot"])
    first = ["measure", *groups, "frames"]
    return summary[[*first, *(name for name in summary if name not in first)]]


def _as_a_whole(scores: pd.DataFrame, name: str) -> pd.DataFrame:
    groups = scores.groupby(["agent", "candidates", "rule", "task_set", "snapshot", "seed"], sort=False)
    sums = groups[["gained", "possible"]].sum()
    whole = pd.DataFrame({"return": groups.score.mean(), "normalised": sums.gained / sums.possible})
    return whole.reset_index().assign(task=name)


def final_table(summary: pd.DataFrame, measure: str = "normalised") -> pd.DataFrame:
    """Scores of each method and rule (rows) on each set (columns) at the last snapshot, with 95 % intervals."""
    mine = last_snapshot(summary[summary.measure == measure])
    title = [COLUMNS.get(key) for key in zip(mine.task_set, mine.task, strict=True)]
    mine = mine.assign(title=title).dropna(subset="title")
    return _table_of(mine, "title", {title: title for title in COLUMNS.values()}, 2 if measure == "normalised" else 1)


def has_rows_for(scores: pd.DataFrame) -> bool:
    """Whether :func:`final_table` has a row for each of these scores, and they can be normalised."""
    keys = set(zip(scores.agent, scores.candidates, strict=True))
    return keys <= set(ROWS) and set(scores.task_set) <= set(SETS)


def _table_of(final: pd.DataFrame, column: str, names: Mapping[str, str], digits: int) -> pd.DataFrame:
    rows = []
    for key in ROWS:
        for rule, group in rows_of(final, key).groupby("rule", sort=False):
            mine = group.set_index(column)
            cells = {title: _cell(mine, name, digits) for name, title in names.items()}
            label = {"method": method(*key).label, "rule": "–" if key in UVFAS else rule}  # UVFAs have one policy
            rows.append({**label, **cells, "runs": str(mine.runs.iloc[0])})
    return pd.DataFrame(rows, columns=["method", "rule", *names.values(), "runs"])


def _cell(table: pd.DataFrame, name: str, digits: int) -> str:
    if name not in table.index:
        return "–"
    row = table.loc[name]
    interval = f" [{row.low:.{digits}f}, {row.high:.{digits}f}]" if row.runs > 1 else ""
    return f"{row['mean']:.{digits}f}{interval}"


def task_table(summary: pd.DataFrame, yardstick: pd.DataFrame, task_set: str, measure: str) -> pd.DataFrame:
    """Scores of each method (rows) on each task of a set at the last snapshot; returns include the yardstick's."""
    each = summary[(summary.measure == measure) & (summary.task_set == task_set) & (summary.task != "all")]
    known = yardstick[yardstick.set == task_set]
    tasks = list(dict.fromkeys(known.task))
    table = _table_of(last_snapshot(each), "task", {task: task for task in tasks}, 2 if measure == "normalised" else 1)
    table = table.drop(columns="runs")
    if measure == "return":
        levels = [
            {"method": name, "rule": "–", **{row.task: f"{row.mean:.1f}" for row in group.itertuples()}}
            for name, group in known.groupby("policy")
        ]
        table = pd.concat([table, pd.DataFrame(levels)], ignore_index=True)
    return table


def behaviour_table(training: pd.DataFrame) -> pd.DataFrame:
    """Mean ε-greedy return in the last tenth of training, with worst and best run, by agent and canonical task."""
    late = training[training.frames >= 0.9 * training.groupby(["agent", "seed"]).frames.transform("max")]
    runs = late.groupby(["agent", "task", "seed"]).score.mean().groupby(["agent", "task"])
    cells = {key: _range(group) for key, group in runs}
    tasks = ("1000", "0100", "0010", "0001")
    rows = [
        (look.label, *(cells.get((agent, task), "–") for task in tasks))
        for agent, look in AGENTS.items()
        if agent in set(late.agent)
    ]
    return pd.DataFrame(rows, columns=["agent", *tasks])


def _range(runs: pd.Series) -> str:
    return f"{runs.mean():.1f}" + (f" ({runs.min():.1f} to {runs.max():.1f})" if len(runs) > 1 else "")


# --- the report ---


def room_report(
    scores: pd.DataFrame,
    training: pd.DataFrame,
    summary: pd.DataFrame,
    yardstick: pd.DataFrame,
    settings: Mapping[str, object] | str,
) -> str:
    """The report in Markdown: tables, claims and figures.

    Args:
        scores: the table of scores, with snapshots at regular frame counts.
        training: ε-greedy returns during training: agent, seed, task, frames, score.
        summary: from :func:`summary_of`.
        yardstick: set, task, policy, mean.
        settings: settings of the experiment, as text or by name.
    """
    hard = yardstick[yardstick.set == "room-hard"].pivot(index="task", columns="policy", values="mean")
    least = (hard.oracle - hard.random).idxmin()
    return f"""# The room: Sections 4.2 and 4.3, Appendices C and D

Zero-shot scores of frozen agents after {summary.frames.max() / 1e6:.3g} million frames of training: undiscounted return
of one-minute episodes. Rules: gpi is Eq. 3, the paper's; cautious and steady are ours, steady is the default of agents
with advantage learning; single is the best policy of C for each task in hindsight, followed alone. Figures whose
legend names no rule use Eq. 3. Hard tasks with dislikes have negative entries.

{settings if isinstance(settings, str) else "; ".join(f"{name}: {value}" for name, value in settings.items()) + "."}

{markdown_table(final_table(summary))}

Normalised scores: 0 is the random policy, 1 the oracle, which sees the true state. The normalised score of a set is
Σ(score − random) / Σ(oracle − random) over its tasks: on {least} there is almost nothing to gain (random
{hard.random[least]:.1f}, oracle {hard.oracle[least]:.1f}), and this task alone would dominate a
mean of normalised scores. In brackets: 95 % percentile bootstrap of the mean, drawing whole runs.
{_caveat(summary.runs)}

![Scores after training](figures/overview.png)
{_RULES_FIGURE if has_several_rules(summary) else ""}

The same as mean returns:

{markdown_table(final_table(summary, "return"))}

## The paper's claims

{_TESTS}

By Eq. 3, the paper's rule:

{claims_section(room_claims(scores, yardstick))}

{aside(scores, yardstick)}

{_by_our_rule(scores, yardstick)}

{_curves(training) if has_curves(summary) else _NO_CURVES}

## Every task

{_tasks_sections(summary, yardstick)}
"""


_TESTS = """All numbers are normalised scores of several tasks as a whole, one number per run. Differences within a run
(two candidate sets of the same networks, or a share of another score) have a paired t-test, differences between methods
Welch's. All tests of a table are one family: p-values are corrected by Holm's method, and a comparison is decided if
the corrected p-value is below 0.05; otherwise, and where there are fewer than two runs, it is not decided. A claim
about several comparisons needs all of them. Where the paper says "sometimes" or "can", the claim is about the task with
the clearest difference, whose p-value is first multiplied by the number of tasks; it does not hold if the clearest
opposite difference is decided and no task has p < 0.05 for it; its difference is one of returns. Intervals of
differences are 95 % t-intervals, not corrected."""


_RULES_FIGURE = """
Every decision rule on every hard task; the vertical lines are the greedy policy of the yardstick, which sees the true
state:

![Decision rules on the hard test tasks](figures/rules.png)
"""


_NO_CURVES = "Learning curves need the snapshots of training; these are scores of trained agents."


def _curves(training: pd.DataFrame) -> str:
    return f"""## Learning

ε-greedy returns on the canonical tasks in the last tenth of training, from the worst to the best run:

{markdown_table(behaviour_table(training))}

![Learning curves](figures/learning_curves.png)

## Zero-shot generalisation

Normalised scores, mean over runs; the bars on the right of each panel are the 95 % intervals of the last snapshot, and
the numbers in brackets the returns of the random policy (0) and of the oracle (1).

![Easy test tasks](figures/zero_shot_easy.png)
![Hard test tasks](figures/zero_shot_hard.png)

## Larger coverage of the policy space: σ = 0.5

![Both σ on the hard test tasks](figures/sigma.png)

## Eight training tasks

![Four and eight training tasks](figures/training_set.png)"""


def _by_our_rule(scores: pd.DataFrame, yardstick: pd.DataFrame) -> str:
    rule = default_rule(scores)
    if rule not in set(scores.rule):
        return ""
    return f"By the {rule} rule, our default:\n\n{claims_section(room_claims(scores, yardstick, rule))}"


def _caveat(runs: pd.Series) -> str:
    several = sorted(count for count in set(runs) if count > 1)
    if not several:
        return "With one run there are no intervals, and no comparison is decided."
    if several[0] > 3:
        return f"With {several[0]} runs such intervals tend to be a little narrow."
    return (
        f"With {several[0]} runs the interval is the range of the runs, and two equal methods would still be separated "
        f"in 1 of {math.comb(2 * several[0], several[0]) // 2} comparisons."
    )


def _tasks_sections(summary: pd.DataFrame, yardstick: pd.DataFrame) -> str:
    sections = []
    for task_set, title in SETS.items():
        for measure in ("return", "normalised"):
            table = markdown_table(task_table(summary, yardstick, task_set, measure))
            sections.append(f"{title[0].upper()}{title[1:]}, {measure}:\n\n{table}")
    return "\n\n".join(sections)


def settings_of(configs: Mapping[str, TrainConfig]) -> dict[str, object]:
    """The main settings of all variants, by name, in the paper's letters."""
    config = next(iter(configs.values()))
    learner, evaluation = config.learner, config.evaluation
    image = config.environment_arguments.get("image_size", "default")
    return {
        "frames per run": f"{learner.budget:,}",
        "image": f"{image}×{image}",
        "environments": learner.environments,
        "trajectory length": learner.trajectory_length,
        "updates per round": learner.updates_per_round,
        "past rounds learned again with each": f"{learner.replay_ratio} of {learner.replay_capacity}"
        if learner.replay_ratio
        else 0,
        "target network": f"of every {learner.target_every} updates" if learner.target_every else "none",
        "n_z": ", ".join(f"{one.learner.policies_per_step} ({name})" for name, one in configs.items()),
        "γ": learner.gamma,
        "λ": learner.lambda_,
        "ε in training": learner.epsilon,
        "learning rate (Adam, to 0)": learner.learning_rate,
        "evaluation episodes per task": evaluation.episodes,
        "ε in evaluation": evaluation.epsilon,
    }
