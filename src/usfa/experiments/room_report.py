"""The report on the room: Sections 4.2 and 4.3, Appendices C and D, claim by claim."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from usfa.environments.room.scale import measured
from usfa.evaluation import bootstrap_interval, summarise
from usfa.experiments.config import TrainConfig
from usfa.experiments.report import Claim, Verdict, claims_section, markdown_table, verdict
from usfa.figures.room_results import AGENTS, BASELINES, BROAD, LARGE, SETS, USFA
from usfa.figures.style import method

__all__ = ["ROOM_TITLE", "final_table", "room_claims", "room_report", "settings_of", "summary_of"]

Key = tuple[str, str]

METHODS: tuple[Key, ...] = (*USFA, *BROAD, *LARGE, *BASELINES)
UVFAS: tuple[Key, ...] = (("uvfa", "task"), ("uvfa-off-policy", "task"))
ARCHITECTURES: tuple[Key, ...] = (*USFA, *UVFAS)
"""What the paper's Figure 5 compares."""
OWN, TRAIN, BOTH = USFA
TEST_SETS = ("room-easy", "room-hard")
ALMOST = 0.9
"""Almost matching: at least this share of the other score."""
STRAIGHTFORWARD = 0.75
"""Straightforward generalisation: at least this share of the score on the training tasks."""
ROOM_TITLE = "The room: normalised score (0 random, 1 oracle), 95 % interval"
"""Over :func:`final_table` on the terminal."""
CHANCE = 0.05
"""Counts of tasks decide what would come about by chance less often than this."""


# --- tables ---


def summary_of(scores: pd.DataFrame, yardstick: pd.DataFrame) -> pd.DataFrame:
    """Scores over runs, of every task and of every set as a whole (task "all"), as returns and normalised.

    The normalised score of a set is Σ(score − random) / Σ(oracle − random) over its tasks, so that a task with little
    to gain cannot outweigh the others; its return is the mean over its tasks.

    Args:
        scores: the table of scores.
        yardstick: set, task, policy, mean.
    """
    groups = ["agent", "candidates", "task_set", "task", "snapshot"]
    each = _measured(scores, yardstick).rename(columns={"score": "return"})
    table = pd.concat([each, _whole_sets(scores, yardstick)], ignore_index=True)
    measures = [summarise(table, groups, name).assign(measure=name) for name in ("normalised", "return")]
    frames = scores.groupby(["agent", "candidates", "snapshot"], as_index=False).frames.mean()
    summary = pd.concat(measures, ignore_index=True).merge(frames, on=["agent", "candidates", "snapshot"])
    first = ["measure", *groups, "frames"]
    return summary[[*first, *(name for name in summary if name not in first)]]


def _whole_sets(scores: pd.DataFrame, yardstick: pd.DataFrame) -> pd.DataFrame:
    groups = _measured(scores, yardstick).groupby(["agent", "candidates", "task_set", "snapshot", "seed"], sort=False)
    sums = groups[["gained", "possible"]].sum()
    whole = pd.DataFrame({"return": groups.score.mean(), "normalised": sums.gained / sums.possible})
    return whole.reset_index().assign(task="all")


def _measured(scores: pd.DataFrame, yardstick: pd.DataFrame) -> pd.DataFrame:
    """Scores with what was gained over the random policy, what the oracle gains, and the share."""
    table = measured(scores, yardstick)
    return table.assign(gained=table.score - table.random, possible=table.oracle - table.random)


def final_table(summary: pd.DataFrame, measure: str = "normalised") -> pd.DataFrame:
    """Method × set at the last snapshot, each with the 95 % interval over runs."""
    mine = _last(summary[(summary.measure == measure) & (summary.task == "all")])
    return _table_of(mine, "task_set", SETS, 2 if measure == "normalised" else 1)


def _last(table: pd.DataFrame) -> pd.DataFrame:
    return table[table.snapshot == table.groupby(["agent", "candidates"]).snapshot.transform("max")]


def _table_of(final: pd.DataFrame, column: str, names: Mapping[str, str], digits: int) -> pd.DataFrame:
    rows = []
    for key in METHODS:
        mine = final[(final.agent == key[0]) & (final.candidates == key[1])].set_index(column)
        if len(mine):
            cells = {title: _cell(mine, name, digits) for name, title in names.items()}
            rows.append({"method": method(*key).label, **cells, "runs": str(mine.runs.iloc[0])})
    return pd.DataFrame(rows, columns=["method", *names.values(), "runs"])


def _cell(table: pd.DataFrame, name: str, digits: int) -> str:
    if name not in table.index:
        return "–"
    row = table.loc[name]
    interval = f" [{row.low:.{digits}f}, {row.high:.{digits}f}]" if row.runs > 1 else ""
    return f"{row['mean']:.{digits}f}{interval}"


def _task_table(summary: pd.DataFrame, yardstick: pd.DataFrame, task_set: str, measure: str) -> pd.DataFrame:
    """Method × task at the last snapshot; returns are followed by those of the yardstick."""
    mine = _last(summary[(summary.measure == measure) & (summary.task_set == task_set) & (summary.task != "all")])
    known = yardstick[yardstick.set == task_set].pivot(index="policy", columns="task", values="mean")
    tasks = list(dict.fromkeys(yardstick[yardstick.set == task_set].task))
    table = _table_of(mine, "task", {task: task for task in tasks}, 2 if measure == "normalised" else 1)
    table = table.drop(columns="runs")
    if measure == "return":
        levels = [{"method": name, **{task: f"{known.loc[name, task]:.1f}" for task in tasks}} for name in known.index]
        table = pd.concat([table, pd.DataFrame(levels)], ignore_index=True)
    return table


def _behaviour_table(training: pd.DataFrame) -> pd.DataFrame:
    """Agent × canonical task: the mean ε-greedy return in the last tenth of training, and the worst and best run."""
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


def settings_of(config: TrainConfig) -> dict[str, object]:
    """What a reader wants to know of a run, in the paper's letters."""
    learner, evaluation = config.learner, config.evaluation
    image = config.environment_arguments.get("image_size", "default")
    return {
        "frames per run": f"{learner.budget:,}",
        "image": f"{image}×{image}",
        "environments": learner.environments,
        "trajectory length": learner.trajectory_length,
        "n_z": learner.policies_per_step,
        "γ": learner.gamma,
        "λ": learner.lambda_,
        "ε in training": learner.epsilon,
        "learning rate (Adam, to 0)": learner.learning_rate,
        "evaluation episodes per task": evaluation.episodes,
        "ε in evaluation": evaluation.epsilon,
    }


# --- the report ---


def room_report(
    scores: pd.DataFrame,
    training: pd.DataFrame,
    summary: pd.DataFrame,
    yardstick: pd.DataFrame,
    settings: Mapping[str, object] | str,
) -> str:
    """Markdown: the tables, the claims, the figures.

    Args:
        scores: the table of scores, for snapshots at regular frame counts.
        training: ε-greedy returns while training: agent, seed, task, frames, score.
        summary: from :func:`summary_of`.
        yardstick: set, task, policy, mean.
        settings: of the experiment, a text or a value for each name.
    """
    hard = yardstick[yardstick.set == "room-hard"].pivot(index="task", columns="policy", values="mean")
    least = (hard.oracle - hard.random).idxmin()
    return f"""# The room: Sections 4.2 and 4.3, Appendices C and D

Zero-shot scores of frozen agents after {summary.frames.max() / 1e6:.3g} million frames of training: undiscounted return
of one-minute episodes.

{_settings_section(settings)}

{markdown_table(final_table(summary))}

Normalised scores: 0 is the random policy, 1 the oracle, which sees the true state. That of a set is
Σ(score − random) / Σ(oracle − random) over its tasks: on {least} there is almost nothing to gain (random
{hard.random[least]:.1f}, oracle {hard.oracle[least]:.1f}), and a mean of normalised scores would be a statement about
this task alone. In brackets: 95 % percentile bootstrap of the mean, drawing whole runs.
{_caveat(summary.runs)}

![Scores after training](figures/overview.png)

The same as mean returns:

{markdown_table(final_table(summary, "return"))}

## The paper's claims

{_RULES}

{claims_section(room_claims(scores, yardstick))}

{_aside(_finals(scores, yardstick))}

## Learning

ε-greedy returns on the canonical tasks in the last tenth of training, from the worst to the best run:

{markdown_table(_behaviour_table(training))}

![Learning curves](figures/learning_curves.png)

## Zero-shot generalisation

Bands are ±1 std over runs; the bars on the right of each panel are the 95 % intervals of the last snapshot.

![Easy test tasks](figures/zero_shot_easy.png)
![Hard test tasks](figures/zero_shot_hard.png)

## Larger coverage of the policy space: σ = 0.5

![Both σ on the hard test tasks](figures/sigma.png)

## Eight training tasks

![Four and eight training tasks](figures/training_set.png)

## Every task

{_tasks_sections(summary, yardstick)}
"""


_RULES = """All numbers are normalised scores of several tasks as a whole. A comparison holds, or does not, where the
95 % intervals over runs do not overlap; otherwise, and where there is only one run or none, it is not decided. "Almost"
and "straightforward" ask for a share of another score of the same run; the interval of the difference is compared with
0. Where the paper says "sometimes" or "can", tasks are counted on which the interval of the difference between both
returns, run by run, lies on one side of 0: the claim holds if they are more than chance would give (5 %, tasks taken as
independent), and does not hold if there are none while the other side has more than chance would give."""


def _settings_section(settings: Mapping[str, object] | str) -> str:
    if isinstance(settings, str):
        return settings
    return "; ".join(f"{name}: {value}" for name, value in settings.items()) + "."


def _caveat(runs: pd.Series) -> str:
    several = sorted(count for count in set(runs) if count > 1)
    if not several:
        return "With one run there are no intervals, and no comparison is decided."
    if several[0] > 3:
        return f"With {several[0]} runs such intervals tend to be a little narrow."
    return (
        f"With {several[0]} runs this is the range of the runs, and two methods that do not differ would still come "
        f"apart in 1 of {math.comb(2 * several[0], several[0]) // 2} comparisons."
    )


def _tasks_sections(summary: pd.DataFrame, yardstick: pd.DataFrame) -> str:
    sections = []
    for task_set, title in SETS.items():
        for measure in ("return", "normalised"):
            table = markdown_table(_task_table(summary, yardstick, task_set, measure))
            sections.append(f"{title[0].upper()}{title[1:]}, {measure}:\n\n{table}")
    return "\n\n".join(sections)


# --- numbers for claims: a series is a number for each run, indexed by its seed ---


def _finals(scores: pd.DataFrame, yardstick: pd.DataFrame) -> pd.DataFrame:
    """The last snapshot of every method, with what was gained and what the oracle gains."""
    final = _measured(_last(scores), yardstick)
    return final.assign(negative=final.task.str.contains("-", regex=False))


def _on(final: pd.DataFrame, *task_sets: str) -> pd.DataFrame:
    return final[final.task_set.isin(task_sets)]


def _of(final: pd.DataFrame, key: Key) -> pd.DataFrame:
    return final[(final.agent == key[0]) & (final.candidates == key[1])]


def _normalised(final: pd.DataFrame, key: Key) -> pd.Series:
    sums = _of(final, key).groupby("seed")[["gained", "possible"]].sum()
    return sums.gained / sums.possible


def _interval(runs: pd.Series) -> tuple[float, float]:
    """95 % bootstrap interval of the mean; NaN for one run, or none."""
    if len(runs) < 2:
        return math.nan, math.nan
    return bootstrap_interval(runs.to_numpy(dtype=np.float64)[:, None], np.random.default_rng(0))


def _shown(runs: pd.Series) -> str:
    if not len(runs):
        return "no run"
    low, high = _interval(runs)
    return f"{runs.mean():.2f} " + (f"[{low:.2f}, {high:.2f}]" if len(runs) > 1 else "(one run)")


def _above(runs: pd.Series, level: float = 0.0) -> Verdict:
    return verdict((level, level), _interval(runs))


def _below(lower: pd.Series, upper: pd.Series) -> Verdict:
    return verdict(_interval(lower), _interval(upper))


def _all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """One that does not hold refutes all; one that is not decided leaves all open."""
    found = set(verdicts)
    if "does not hold" in found:
        return "does not hold"
    return "not decided" if "not decided" in found or not found else "holds"


# --- the claims ---


def room_claims(scores: pd.DataFrame, yardstick: pd.DataFrame) -> list[Claim]:
    """Every claim of Section 4.3 and Appendices C and D about results, with what was measured after training."""
    final = _finals(scores, yardstick)
    return [
        *_generalisation_claims(_on(final, *TEST_SETS)),
        _easy_claim(final),
        *_architecture_claims(_on(final, "room-hard")),
        *_candidate_claims(_on(final, "room-hard")),
        *_combination_claims(_on(final, *TEST_SETS)),
        *_coverage_claims(_on(final, "room-hard")),
        _regimes_claim(final),
        *_training_set_claims(_on(final, "room-hard")),
    ]


def _generalisation_claims(final: pd.DataFrame) -> list[Claim]:
    """Better than random as a whole; the tasks on which each is better are counted beside it."""
    about = {
        "all architectures generalise quite well to the test tasks, without any learning": final,
        "even to test tasks with negative rewards, never experienced in training": final[final.negative],
    }
    return [
        Claim(
            "Section 4.3",
            statement,
            "; ".join(_generalisation(tasks, key) for key in ARCHITECTURES) + " (asked: all above random)",
            _all_of(_above(_normalised(tasks, key)) for key in ARCHITECTURES),
        )
        for statement, tasks in about.items()
    ]


def _generalisation(final: pd.DataFrame, key: Key) -> str:
    mine = _of(final, key)
    better = [_above(task.set_index("seed").gained) == "holds" for _, task in mine.groupby("task")]
    count = f" ({sum(better)} of {len(better)} tasks)" if mine.seed.nunique() > 1 else ""
    return f"{method(*key).label} {_shown(_normalised(final, key))}{count}"


def _easy_claim(final: pd.DataFrame) -> Claim:
    verdicts, shown = [], []
    for key in ARCHITECTURES:
        easy, train = (_normalised(_on(final, name), key) for name in ("room-easy", "room-train"))
        verdicts += [_above(easy), _above((easy - STRAIGHTFORWARD * train).dropna())]
        shown.append(f"{method(*key).label} {_shown(easy)}, training {_shown(train)}")
    return Claim(
        "Appendix D.1",
        "generalisation to the easy tasks, close to M, should be fairly straightforward",
        f"{'; '.join(shown)} (asked: above random, and {STRAIGHTFORWARD:.0%} of the score on the training tasks)",
        _all_of(verdicts),
    )


def _architecture_claims(final: pd.DataFrame) -> list[Claim]:
    uvfas = [_normalised(final, key) for key in UVFAS]
    return [
        Claim(
            "Section 4.3",
            f"USFAs perform considerably better than the unstructured UVFAs, {_candidates(key)}",
            f"hard tasks: USFA {_shown(_normalised(final, key))}; UVFA {_shown(uvfas[0])}, "
            f"off-policy {_shown(uvfas[1])} (asked: better than both)",
            _all_of(_below(uvfa, _normalised(final, key)) for uvfa in uvfas),
        )
        for key in USFA
    ]


def _candidates(key: Key) -> str:
    return method(*key).label.rpartition(", ")[2]


def _candidate_claims(final: pd.DataFrame) -> list[Claim]:
    own = _normalised(final, OWN)
    return [
        Claim(
            "Section 4.3",
            f"there is a clear advantage in including M in C: {_candidates(key)}",
            f"hard tasks: {_candidates(key)} {_shown(_normalised(final, key))}; {_candidates(OWN)} {_shown(own)}",
            _below(own, _normalised(final, key)),
        )
        for key in (TRAIN, BOTH)
    ]


def _combination_claims(final: pd.DataFrame) -> list[Claim]:
    rest = {True: final[final.negative], False: final[~final.negative]}
    changes = {sign: _normalised(tasks, BOTH) - _normalised(tasks, TRAIN) for sign, tasks in rest.items()}
    return [
        _sometimes(
            "C = M ∪ {w′} sometimes performs worse than C = M",
            "worse",
            _differences(final, TRAIN, BOTH),
        ),
        Claim(
            "Section 4.3",
            "… especially on tasks with negative rewards",
            f"C = M ∪ {{w′}} minus C = M: {_shown(changes[True])} on tasks with negative rewards, "
            f"{_shown(changes[False])} on the others (asked: below 0, and below the others)",
            _all_of([_above(-changes[True]), _below(changes[True], changes[False])]),
        ),
        _sometimes(
            "combining both (C = M ∪ {w′}) can boost the performance of a model with only one of them (C = {w′})",
            "better",
            _differences(final, BOTH, OWN),
        ),
    ]


def _differences(final: pd.DataFrame, first: Key, second: Key) -> dict[str, pd.Series]:
    """For each task the return of the first minus that of the second, run by run."""
    tables = [_of(final, key).pivot(index="seed", columns="task", values="score") for key in (first, second)]
    difference = (tables[0] - tables[1]).dropna(axis=1, how="all").dropna()
    return {task: difference[task] for task in difference}


def _sometimes(statement: str, word: str, differences: Mapping[str, pd.Series]) -> Claim:
    """Holds if more tasks have a difference above 0 than chance would give."""
    found = {task: _above(runs) for task, runs in differences.items()}
    up = sorted(task for task, decided in found.items() if decided == "holds")
    down = sorted(task for task, decided in found.items() if decided == "does not hold")
    runs = min((len(runs) for runs in differences.values()), default=0)
    chance = max(0.5**runs, CHANCE)
    opposite = "better" if word == "worse" else "worse"
    measured = (
        f"{word} on {len(up)} of {len(found)} test tasks{_listed(up)}, {opposite} on {len(down)}{_listed(down)}; "
        f"by chance about {chance * len(found):.1f} each (return, run by run)"
    )
    decided: Verdict = "not decided"
    if _beyond_chance(len(up), len(found), chance):
        decided = "holds"
    elif not up and _beyond_chance(len(down), len(found), chance):
        decided = "does not hold"
    return Claim("Section 4.3", statement, measured if runs > 1 else "fewer than two runs with both", decided)


def _listed(tasks: Sequence[str]) -> str:
    return f" ({'; '.join(tasks)})" if tasks else ""


def _beyond_chance(count: int, total: int, chance: float) -> bool:
    """Whether `count` or more of `total` come about with a probability below 5 %."""
    tail = sum(math.comb(total, k) * chance**k * (1 - chance) ** (total - k) for k in range(count, total + 1))
    return tail < CHANCE


def _coverage_claims(final: pd.DataFrame) -> list[Claim]:
    narrow, broad, gpi = (_normalised(final, key) for key in (OWN, BROAD[0], BROAD[1]))
    reliable = {name: task.set_index("seed").gained for name, task in _of(final, TRAIN).groupby("task")}
    above = [name for name, runs in reliable.items() if _above(runs) == "holds"]
    gap = (broad - ALMOST * gpi).dropna()
    return [
        Claim(
            "Section 4.3",
            "with σ = 0.5 the generalisation of the structured UVFA (C = {w′}) improves considerably",
            f"hard tasks: σ = 0.5 {_shown(broad)}; σ = 0.1 {_shown(narrow)}",
            _below(narrow, broad),
        ),
        Claim(
            "Section 4.3",
            "… almost matching that of GPI",
            f"hard tasks, σ = 0.5: C = {{w′}} {_shown(broad)}; C = M {_shown(gpi)}; with σ = 0.1, C = M "
            f"{_shown(_normalised(final, TRAIN))} (asked: above random, and {ALMOST:.0%} of C = M at σ = 0.5)",
            _all_of([_above(broad), _above(gap)]),
        ),
        Claim(
            "Section 4.3",
            "with limited coverage of the policy space (σ = 0.1), GPI over M provides a reliable generalisation",
            f"C = M {_shown(_normalised(final, TRAIN))}; above random on {len(above)} of {len(reliable)} hard tasks "
            "(asked: all)",
            _all_of(_above(runs) for runs in reliable.values()),
        ),
    ]


def _regimes_claim(final: pd.DataFrame) -> Claim:
    keys = {"σ = 0.1": TRAIN, "σ = 0.5": BROAD[1]}
    runs = {
        (name, key): _normalised(_on(final, task_set), key)
        for name, task_set in (("training tasks", "room-train"), ("hard tasks", "room-hard"))
        for key in keys.values()
    }
    shown = "; ".join(
        f"{label}: " + ", ".join(f"{name} {_shown(mine)}" for (name, other), mine in runs.items() if other == key)
        for label, key in keys.items()
    )
    return Claim(
        "Appendix C.2",
        "the algorithm can successfully learn and operate in both regimes, σ = 0.1 and σ = 0.5",
        f"C = M, {shown} (asked: all above random)",
        _all_of(_above(mine) for mine in runs.values()),
    )


def _training_set_claims(final: pd.DataFrame) -> list[Claim]:
    return [
        Claim(
            "Appendix D.3",
            f"trained on eight tasks, also with negative rewards, USFA generalises better, {_candidates(large)}",
            f"hard tasks: eight {_shown(_normalised(final, large))}; four {_shown(_normalised(final, small))}",
            _below(_normalised(final, small), _normalised(final, large)),
        )
        for small, large in zip(USFA, LARGE, strict=True)
    ]


def _aside(final: pd.DataFrame) -> str:
    """Comparisons that the paper's figures invite, but about which it claims nothing."""
    hard = _on(final, "room-hard")
    on_policy, off_policy = (_shown(_normalised(hard, key)) for key in UVFAS)
    return (
        f"Beside the claims, on the hard tasks: a UVFA trained on-policy {on_policy}, off-policy {off_policy}; "
        f"SF&GPI, which learns the policies of M only, {_shown(_normalised(hard, BASELINES[0]))}, USFA with C = M "
        f"{_shown(_normalised(hard, TRAIN))}."
    )
