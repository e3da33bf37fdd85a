"""The claims of Section 4.3 and Appendices C and D, each with the measured result and a verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from usfa.decisions import DEFAULT_RULE, PAPER_RULE, SINGLE
from usfa.environments.room.yardstick import measured
from usfa.evaluation import bootstrap_interval
from usfa.figures.room import BASELINES, BROAD, LARGE, USFA
from usfa.figures.style import UVFAS, Key, last_snapshot, method, rows_of
from usfa.paper.report import Claim, Interval, Verdict, verdict

__all__ = ["aside", "gains", "room_claims"]

ARCHITECTURES: tuple[Key, ...] = (*USFA, *UVFAS)
"""Methods that the paper's Figure 5 compares."""
OWN, TRAIN, BOTH = USFA
TEST_SETS = ("room-easy", "room-hard")
ALMOST = 0.9
"""Share of another score that counts as almost matching it."""
STRAIGHTFORWARD = 0.75
"""Share of the score on the training tasks that counts as straightforward generalisation."""
CHANCE = 0.05
"""Significance level of the sign tests."""


def room_claims(scores: pd.DataFrame, yardstick: pd.DataFrame) -> list[Claim]:
    """Every claim about results in Section 4.3 and Appendices C and D, measured with Eq. 3."""
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
    """Better than random on all tasks together; the number of tasks with a better score is given as well."""
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
    mine = rows_of(final, key)
    better = [_above(task.set_index("seed").gained) == "holds" for _, task in mine.groupby("task")]
    count = f" ({sum(better)} of {len(better)} tasks)" if mine.seed.nunique() > 1 else ""
    return f"{method(*key).label} {_score(final, key)}{count}"


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
    uvfa, off_policy = UVFAS
    return [
        Claim(
            "Section 4.3",
            f"USFAs perform considerably better than the unstructured UVFAs, {_candidates(key)}",
            f"hard tasks: USFA {_score(final, key)}; UVFA {_score(final, uvfa)}, "
            f"off-policy {_score(final, off_policy)} (asked: better than both)",
            _all_of(_below(_normalised(final, other), _normalised(final, key)) for other in UVFAS),
        )
        for key in USFA
    ]


def _candidates(key: Key) -> str:
    return method(*key).label.rpartition(", ")[2]


def _better(final: pd.DataFrame, source: str, statement: str, names: Sequence[str], better: Key, worse: Key) -> Claim:
    """The claim that one method is better than another on the hard tasks."""
    measured = f"hard tasks: {names[0]} {_score(final, better)}; {names[1]} {_score(final, worse)}"
    return Claim(source, statement, measured, _below(_normalised(final, worse), _normalised(final, better)))


def _candidate_claims(final: pd.DataFrame) -> list[Claim]:
    statement = "there is a clear advantage in including M in C: "
    return [
        _better(final, "Section 4.3", statement + _candidates(key), (_candidates(key), _candidates(OWN)), key, OWN)
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
    """For each task, the return of the first minus that of the second, paired by run."""
    tables = [rows_of(final, key).pivot(index="seed", columns="task", values="score") for key in (first, second)]
    difference = (tables[0] - tables[1]).dropna(axis=1, how="all").dropna()
    return {task: difference[task] for task in difference}


def _sometimes(statement: str, word: str, differences: Mapping[str, pd.Series]) -> Claim:
    """A sign test per task: the claim holds if more tasks than expected by chance have a difference above 0."""
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
    """The binomial probability of `count` or more successes in `total` trials."""
    return sum(math.comb(total, k) * chance**k * (1 - chance) ** (total - k) for k in range(count, total + 1))


def _coverage_claims(final: pd.DataFrame) -> list[Claim]:
    statement = "with σ = 0.5 the generalisation of the structured UVFA (C = {w′}) improves considerably"
    broad, gpi = (_normalised(final, key) for key in BROAD[:2])
    return [
        _better(final, "Section 4.3", statement, ("σ = 0.5", "σ = 0.1"), BROAD[0], OWN),
        Claim(
            "Section 4.3",
            "… almost matching that of GPI",
            f"hard tasks, σ = 0.5: C = {{w′}} {_shown(broad)}; C = M {_shown(gpi)}; with σ = 0.1, C = M "
            f"{_score(final, TRAIN)} (asked: above random, and {ALMOST:.0%} of C = M at σ = 0.5)",
            _all_of([_above(broad), _above((broad - ALMOST * gpi).dropna())]),
        ),
    ]


def _reliability_claim(final: pd.DataFrame, single: pd.DataFrame) -> Claim:
    """Reliable means not below the best single policy of M, which needs no new behaviour."""
    difference = _paired(final, single, TRAIN)
    tasks = [_paired(final[final.task == task], single[single.task == task], TRAIN) for task in final.task.unique()]
    below = sum(_above(-runs) == "holds" for runs in tasks)
    beside = f"best single policy of M {_score(single, TRAIN)}, difference {_shown(difference)}, "
    beside += f"below it on {below} of {len(tasks)} tasks" if len(difference) > 1 else "too few runs to compare"
    return Claim(
        "Section 4.3",
        "with limited coverage of the policy space (σ = 0.1), GPI over M provides a reliable generalisation",
        f"hard tasks: C = M {_score(final, TRAIN)}; {beside} (asked: not below it)",
        _above(difference),
    )


def _paired(final: pd.DataFrame, other: pd.DataFrame, key: Key) -> pd.Series:
    """The difference of two normalised scores, paired by run."""
    return (_normalised(final, key) - _normalised(other, key)).dropna()


def _regimes_claim(final: pd.DataFrame) -> Claim:
    shown, verdicts = [], []
    for label, key in (("σ = 0.1", TRAIN), ("σ = 0.5", BROAD[1])):
        train, hard = (_normalised(_on(final, name), key) for name in ("room-train", "room-hard"))
        shown.append(f"{label}: training tasks {_shown(train)}, hard tasks {_shown(hard)}")
        verdicts += [_above(train), _above(hard)]
    return Claim(
        "Appendix C.2",
        "the algorithm can successfully learn and operate in both regimes, σ = 0.1 and σ = 0.5",
        f"C = M, {'; '.join(shown)} (asked: all above random)",
        _all_of(verdicts),
    )


def _training_set_claims(final: pd.DataFrame) -> list[Claim]:
    statement = "trained on eight tasks, also with negative rewards, USFA generalises better, "
    return [
        _better(final, "Appendix D.3", statement + _candidates(large), ("eight", "four"), large, small)
        for small, large in zip(USFA, LARGE, strict=True)
    ]


def aside(scores: pd.DataFrame, yardstick: pd.DataFrame) -> str:
    """Further comparisons from the paper's figures, about which the paper makes no claim."""
    hard, single, cautious = (
        _on(_finals(scores[scores.rule == rule], yardstick), "room-hard") for rule in (PAPER_RULE, SINGLE, DEFAULT_RULE)
    )
    on_policy, off_policy = (_score(hard, key) for key in UVFAS)
    return (
        f"Beside the claims, on the hard tasks: a UVFA trained on-policy {on_policy}, off-policy {off_policy}; "
        f"SF&GPI, which learns the policies of M only, {_score(hard, BASELINES[0])}, USFA with C = M "
        f"{_score(hard, TRAIN)}. By the cautious rule USFA with C = M has {_score(cautious, TRAIN)} and with "
        f"C = M ∪ {{w′}} {_score(cautious, BOTH)}; the best single policy of M in hindsight {_score(single, TRAIN)}."
    )


# --- numbers for claims: a series holds one number per run, indexed by seed ---


def gains(scores: pd.DataFrame, yardstick: pd.DataFrame) -> pd.DataFrame:
    """Scores with their gain over the random policy, the gain that the oracle has, and the normalised score."""
    table = measured(scores, yardstick)
    return table.assign(gained=table.score - table.random, possible=table.oracle - table.random)


def _finals(scores: pd.DataFrame, yardstick: pd.DataFrame) -> pd.DataFrame:
    """The last snapshot of every method, with gains and with a mark on hard tasks that have negative rewards.

    Easy tasks are not marked: their negative rewards are a tenth of the others, and an agent can ignore them.
    """
    final = gains(last_snapshot(scores), yardstick)
    return final.assign(negative=final.task.str.contains("-", regex=False) & (final.task_set == "room-hard"))


def _on(final: pd.DataFrame, *task_sets: str) -> pd.DataFrame:
    return final[final.task_set.isin(task_sets)]


def _normalised(final: pd.DataFrame, key: Key) -> pd.Series:
    sums = rows_of(final, key).groupby("seed")[["gained", "possible"]].sum()
    return sums.gained / sums.possible


def _interval(runs: pd.Series) -> Interval:
    """95 % bootstrap interval of the mean; NaN for fewer than two runs."""
    if len(runs) < 2:
        return math.nan, math.nan
    return bootstrap_interval(runs.to_numpy(dtype=np.float64)[:, None], np.random.default_rng(0))


def _shown(runs: pd.Series) -> str:
    if not len(runs):
        return "no run"
    low, high = _interval(runs)
    return f"{runs.mean():.2f} " + (f"[{low:.2f}, {high:.2f}]" if len(runs) > 1 else "(one run)")


def _score(final: pd.DataFrame, key: Key) -> str:
    return _shown(_normalised(final, key))


def _above(runs: pd.Series) -> Verdict:
    """Whether the mean is above 0."""
    return verdict((0.0, 0.0), _interval(runs))


def _below(lower: pd.Series, upper: pd.Series) -> Verdict:
    return verdict(_interval(lower), _interval(upper))


def _all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """The conjunction: it fails if one fails, and is open if one is open or there is none."""
    found = set(verdicts)
    if "does not hold" in found:
        return "does not hold"
    return "not decided" if "not decided" in found or not found else "holds"
