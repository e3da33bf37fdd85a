"""The claims of Section 4.3 and Appendices C and D, each with what was measured and a verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from usfa.decisions import DEFAULT_RULE, PAPER_RULE, SINGLE
from usfa.evaluation import bootstrap_interval
from usfa.figures.room import BASELINES, BROAD, LARGE, USFA, last_snapshot
from usfa.figures.style import method
from usfa.paper.report import Claim, Verdict, verdict
from usfa.paper.room_tables import UVFAS, gains

__all__ = ["aside", "room_claims"]

Key = tuple[str, str]

ARCHITECTURES: tuple[Key, ...] = (*USFA, *UVFAS)
"""What the paper's Figure 5 compares."""
OWN, TRAIN, BOTH = USFA
TEST_SETS = ("room-easy", "room-hard")
ALMOST = 0.9
"""Almost matching: at least this share of the other score."""
STRAIGHTFORWARD = 0.75
"""Straightforward generalisation: at least this share of the score on the training tasks."""
CHANCE = 0.05
"""Counts of tasks decide what would come about by chance less often than this."""


def room_claims(scores: pd.DataFrame, yardstick: pd.DataFrame) -> list[Claim]:
    """Every claim of Section 4.3 and Appendices C and D about results, with what was measured, by Eq. 3."""
    final, single = (_finals(scores[scores.rule == rule], yardstick) for rule in (PAPER_RULE, SINGLE))
    return [
        *_generalisation_claims(final),
        _easy_claim(final),
        *_architecture_claims(_on(final, "room-hard")),
        *_candidate_claims(_on(final, "room-hard")),
        *_combination_claims(_on(final, *TEST_SETS)),
        *_coverage_claims(_on(final, "room-hard")),
        _reliability_claim(_on(final, "room-hard"), _on(single, "room-hard")),
        _regimes_claim(final),
        *_training_set_claims(_on(final, "room-hard")),
    ]


def _generalisation_claims(final: pd.DataFrame) -> list[Claim]:
    """Better than random as a whole; the tasks on which each is better are counted beside it."""
    about = {
        "all architectures generalise quite well to the test tasks, without any learning": _on(final, *TEST_SETS),
        "even to test tasks with negative rewards, never experienced in training (hard tasks)": final[final.negative],
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
            "… especially on tasks with negative rewards (hard tasks)",
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
    """Holds if on more tasks than chance would give almost all runs have a difference above 0: a sign test of each."""
    runs = min((len(runs) for runs in differences.values()), default=0)
    if runs < 2:
        return Claim("Section 4.3", statement, "fewer than two runs with both", "not decided")
    needed = next((count for count in range(runs) if _tail(count, runs, 0.5) < CHANCE), runs)
    chance = _tail(needed, runs, 0.5)
    up = sorted(task for task, difference in differences.items() if (difference > 0).sum() >= needed)
    down = sorted(task for task, difference in differences.items() if (difference < 0).sum() >= needed)
    opposite, total = "better" if word == "worse" else "worse", len(differences)
    measured = (
        f"{word} on {len(up)} of {total} test tasks{_listed(up)}, {opposite} on {len(down)}{_listed(down)}, each in "
        f"{needed} of {runs} runs or more; by chance about {chance * total:.1f} each (return, run by run)"
    )
    decided: Verdict = "not decided"
    if _tail(len(up), total, chance) < CHANCE:
        decided = "holds"
    elif not up and _tail(len(down), total, chance) < CHANCE:
        decided = "does not hold"
    return Claim("Section 4.3", statement, measured, decided)


def _listed(tasks: Sequence[str]) -> str:
    return f" ({'; '.join(tasks)})" if tasks else ""


def _tail(count: int, total: int, chance: float) -> float:
    """How probable `count` or more of `total` are, each with the same chance."""
    return sum(math.comb(total, k) * chance**k * (1 - chance) ** (total - k) for k in range(count, total + 1))


def _coverage_claims(final: pd.DataFrame) -> list[Claim]:
    narrow, broad, gpi = (_normalised(final, key) for key in (OWN, BROAD[0], BROAD[1]))
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
    ]


def _reliability_claim(final: pd.DataFrame, single: pd.DataFrame) -> Claim:
    """Reliable means not below the best policy of M, followed alone, which needs no new behaviour."""
    difference = _paired(final, single, TRAIN)
    tasks = [_paired(final[final.task == task], single[single.task == task], TRAIN) for task in final.task.unique()]
    below = sum(_above(-runs) == "holds" for runs in tasks)
    beside = f"best single policy of M {_shown(_normalised(single, TRAIN))}, difference {_shown(difference)}, "
    beside += f"below it on {below} of {len(tasks)} tasks" if len(difference) > 1 else "too few runs to compare"
    return Claim(
        "Section 4.3",
        "with limited coverage of the policy space (σ = 0.1), GPI over M provides a reliable generalisation",
        f"hard tasks: C = M {_shown(_normalised(final, TRAIN))}; {beside} (asked: not below it)",
        _above(difference),
    )


def _paired(final: pd.DataFrame, other: pd.DataFrame, key: Key) -> pd.Series:
    """The difference of two normalised scores, run by run."""
    return (_normalised(final, key) - _normalised(other, key)).dropna()


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


def aside(scores: pd.DataFrame, yardstick: pd.DataFrame) -> str:
    """Comparisons that the paper's figures invite, but about which it claims nothing."""
    hard, single, cautious = (
        _on(_finals(scores[scores.rule == rule], yardstick), "room-hard") for rule in (PAPER_RULE, SINGLE, DEFAULT_RULE)
    )
    on_policy, off_policy = (_shown(_normalised(hard, key)) for key in UVFAS)
    return (
        f"Beside the claims, on the hard tasks: a UVFA trained on-policy {on_policy}, off-policy {off_policy}; "
        f"SF&GPI, which learns the policies of M only, {_shown(_normalised(hard, BASELINES[0]))}, USFA with C = M "
        f"{_shown(_normalised(hard, TRAIN))}. By the cautious rule USFA with C = M has "
        f"{_shown(_normalised(cautious, TRAIN))} and with C = M ∪ {{w′}} {_shown(_normalised(cautious, BOTH))}; the "
        f"best single policy of M in hindsight {_shown(_normalised(single, TRAIN))}."
    )


# --- numbers for claims: a series is a number for each run, indexed by its seed ---


def _finals(scores: pd.DataFrame, yardstick: pd.DataFrame) -> pd.DataFrame:
    """The last snapshot of every method, with what was gained, what the oracle gains, and which rewards are negative.

    Easy tasks are not counted among the latter: their negative rewards are a tenth of the others, and can be ignored.
    """
    final = gains(last_snapshot(scores), yardstick)
    return final.assign(negative=final.task.str.contains("-", regex=False) & (final.task_set == "room-hard"))


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
