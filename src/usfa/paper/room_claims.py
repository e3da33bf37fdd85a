"""The claims of Section 4.3 and Appendices C and D, each with the measured result, tests and a verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from usfa.decisions import DEFAULT_RULE, GAP_RULE, PAPER_RULE, SINGLE
from usfa.environments.room.yardstick import measured
from usfa.evaluation import bootstrap_interval
from usfa.figures.room import BASELINES, BROAD, LARGE, USFA
from usfa.figures.style import UVFAS, Key, last_snapshot, method, rows_of
from usfa.paper.comparisons import LEVEL, Comparison, holm, paired, strongest, unpaired, verdict_of
from usfa.paper.report import Claim, Interval, Verdict

__all__ = ["aside", "default_rule", "gains", "room_claims"]

ARCHITECTURES: tuple[Key, ...] = (*USFA, *UVFAS)
"""Methods that the paper's Figure 5 compares."""
OWN, TRAIN, BOTH = USFA
TEST_SETS = ("room-easy", "room-hard")
ALMOST = 0.9
"""Share of another score that counts as almost matching it."""
STRAIGHTFORWARD = 0.75
"""Share of the score on the training tasks that counts as straightforward generalisation."""


class _Question(NamedTuple):
    """A claim before its verdict, which depends on all claims: they are one family of tests."""

    source: str
    statement: str
    measured: str
    comparisons: tuple[Comparison, ...]
    sometimes: bool = False  # the comparisons are the clearest case for the claim, and the clearest against it

    def claim(self, corrected: Sequence[float]) -> Claim:
        """The claim with a verdict, from the corrected p-values of its comparisons."""
        verdicts = [verdict_of(one, p) for one, p in zip(self.comparisons, corrected, strict=True)]
        found = self._of_cases(verdicts) if self.sometimes else _all_of(verdicts)
        tests = "; ".join(one.describe(p) for one, p in zip(self.comparisons, corrected, strict=True))
        return Claim(self.source, self.statement, self.measured, found, tests)

    def _of_cases(self, verdicts: Sequence[Verdict]) -> Verdict:
        """Holds if there is a case for the claim; does not hold if there is one against it and no sign of one for."""
        if verdicts[0] == "holds":
            return "holds"
        return "does not hold" if verdicts[1] == "does not hold" and self.comparisons[0].p > LEVEL else "not decided"


def room_claims(scores: pd.DataFrame, yardstick: pd.DataFrame, rule: str = PAPER_RULE) -> list[Claim]:
    """Every claim about results in Section 4.3 and Appendices C and D, with agents that act by this rule."""
    by_rule = (scores.rule == rule) | scores.agent.isin([agent for agent, _ in UVFAS])  # UVFAs have one policy
    final, single = (_finals(scores[rows], yardstick) for rows in (by_rule, scores.rule == SINGLE))
    questions = [
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
    corrected = iter(holm([one.p for question in questions for one in question.comparisons]))
    return [question.claim([next(corrected) for _ in question.comparisons]) for question in questions]


def _generalisation_claims(final: pd.DataFrame) -> list[_Question]:
    """Better than random on all tasks together; the number of tasks with a better score is given as well."""
    about = {
        "all architectures generalise quite well to the test tasks, without any learning": _on(final, *TEST_SETS),
        "even to test tasks with negative rewards, never experienced in training (hard tasks)": final[final.negative],
    }
    return [
        _Question(
            "Section 4.3",
            statement,
            "; ".join(_generalisation(tasks, key) for key in ARCHITECTURES) + " (asked: all above random)",
            tuple(paired(method(*key).label, _normalised(tasks, key)) for key in ARCHITECTURES),
        )
        for statement, tasks in about.items()
    ]


def _generalisation(final: pd.DataFrame, key: Key) -> str:
    mine = rows_of(final, key)
    better = [_is_above(task.set_index("seed").gained) for _, task in mine.groupby("task")]
    count = f" ({sum(better)} of {len(better)} tasks)" if mine.seed.nunique() > 1 else ""
    return f"{method(*key).label} {_score(final, key)}{count}"


def _easy_claim(final: pd.DataFrame) -> _Question:
    comparisons, shown = [], []
    for key in ARCHITECTURES:
        label = method(*key).label
        easy, train = (_normalised(_on(final, name), key) for name in ("room-easy", "room-train"))
        share = f"{label} − {STRAIGHTFORWARD:.0%} of training"
        comparisons += [paired(label, easy), paired(share, easy - STRAIGHTFORWARD * train)]
        shown.append(f"{label} {_shown(easy)}, training {_shown(train)}")
    return _Question(
        "Appendix D.1",
        "generalisation to the easy tasks, close to M, should be fairly straightforward",
        f"{'; '.join(shown)} (asked: above random, and {STRAIGHTFORWARD:.0%} of the score on the training tasks)",
        tuple(comparisons),
    )


def _architecture_claims(final: pd.DataFrame) -> list[_Question]:
    uvfa, off_policy = UVFAS
    return [
        _Question(
            "Section 4.3",
            f"USFAs perform considerably better than the unstructured UVFAs, {_candidates(key)}",
            f"hard tasks: USFA {_score(final, key)}; UVFA {_score(final, uvfa)}, "
            f"off-policy {_score(final, off_policy)} (asked: better than both)",
            tuple(
                unpaired(f"USFA − {method(*other).label}", _normalised(final, key), _normalised(final, other))
                for other in UVFAS
            ),
        )
        for key in USFA
    ]


def _candidates(key: Key) -> str:
    return method(*key).label.rpartition(", ")[2]


def _candidate_claims(final: pd.DataFrame) -> list[_Question]:
    """Both sets are evaluated with the same networks, so differences are within runs."""
    names = {key: _candidates(key) for key in USFA}
    return [
        _Question(
            "Section 4.3",
            f"there is a clear advantage in including M in C: {names[key]}",
            f"hard tasks: {names[key]} {_score(final, key)}; {names[OWN]} {_score(final, OWN)}",
            (paired(f"{names[key]} − {names[OWN]}", _normalised(final, key) - _normalised(final, OWN)),),
        )
        for key in (TRAIN, BOTH)
    ]


def _combination_claims(final: pd.DataFrame) -> list[_Question]:
    rest = {True: final[final.negative], False: final[~final.negative]}
    changes = {sign: _normalised(tasks, BOTH) - _normalised(tasks, TRAIN) for sign, tasks in rest.items()}
    return [
        _sometimes(
            "C = M ∪ {w′} sometimes performs worse than C = M",
            "worse",
            _differences(final, TRAIN, BOTH),
        ),
        _Question(
            "Section 4.3",
            "… especially on tasks with negative rewards (hard tasks)",
            f"C = M ∪ {{w′}} minus C = M: {_shown(changes[True])} on tasks with negative rewards, "
            f"{_shown(changes[False])} on the others (asked: below 0, and below the others)",
            (
                paired("C = M − M ∪ {w′}, negative rewards", -changes[True]),
                paired("and more than on the others", changes[False] - changes[True]),
            ),
        ),
        _sometimes(
            "combining both (C = M ∪ {w′}) can boost the performance of a model with only one of them (C = {w′})",
            "better",
            _differences(final, BOTH, OWN),
        ),
    ]


def _differences(final: pd.DataFrame, first: Key, second: Key) -> list[Comparison]:
    """For each task, the return of the first minus that of the second, paired by run."""
    tables = [rows_of(final, key).pivot(index="seed", columns="task", values="score") for key in (first, second)]
    difference = (tables[0] - tables[1]).dropna(axis=1, how="all").dropna()
    return [paired(str(task), difference[task]) for task in difference]


def _sometimes(statement: str, word: str, differences: Sequence[Comparison]) -> _Question:
    """Claim that some task has a difference above 0; tests the clearest one, corrected for the number of tasks."""
    opposite = "better" if word == "worse" else "worse"
    cases = tuple(strongest(name, differences, sign) for name, sign in ((word, 1), (opposite, -1)))
    corrected = holm([one.p for one in differences])
    verdicts = {one.about: verdict_of(one, p) for one, p in zip(differences, corrected, strict=True)}
    up, down = (
        sorted(task for task, found in verdicts.items() if found == asked) for asked in ("holds", "does not hold")
    )
    measured = (
        f"{word} on {len(up)} of {len(differences)} test tasks{_listed(up)}, {opposite} on {len(down)}{_listed(down)} "
        "(return, differences within runs, corrected for the number of tasks)"
        if differences
        else "no run with both"
    )
    return _Question("Section 4.3", statement, measured, cases, sometimes=True)


def _listed(tasks: Sequence[str]) -> str:
    return f" ({'; '.join(tasks)})" if tasks else ""


def _coverage_claims(final: pd.DataFrame) -> list[_Question]:
    broad, gpi, own = (_normalised(final, key) for key in (*BROAD[:2], OWN))
    return [
        _Question(
            "Section 4.3",
            "with σ = 0.5 the generalisation of the structured UVFA (C = {w′}) improves considerably",
            f"hard tasks: σ = 0.5 {_shown(broad)}; σ = 0.1 {_shown(own)}",
            (unpaired("σ = 0.5 − σ = 0.1", broad, own),),
        ),
        _Question(
            "Section 4.3",
            "… almost matching that of GPI",
            f"hard tasks, σ = 0.5: C = {{w′}} {_shown(broad)}; C = M {_shown(gpi)}; with σ = 0.1, C = M "
            f"{_score(final, TRAIN)} (asked: above random, and {ALMOST:.0%} of C = M at σ = 0.5)",
            (paired("C = {w′}", broad), paired(f"C = {{w′}} − {ALMOST:.0%} of C = M", broad - ALMOST * gpi)),
        ),
    ]


def _reliability_claim(final: pd.DataFrame, single: pd.DataFrame) -> _Question:
    """Reliable means better than the best single policy of M, which needs no new behaviour."""
    difference = _difference(final, single, TRAIN)
    tasks = [_difference(final[final.task == task], single[single.task == task], TRAIN) for task in final.task.unique()]
    below = sum(_is_above(-runs) for runs in tasks)
    beside = f"best single policy of M {_score(single, TRAIN)}, difference {_shown(difference)}, "
    beside += f"below it on {below} of {len(tasks)} tasks" if len(difference) > 1 else "too few runs to compare"
    return _Question(
        "Section 4.3",
        "with limited coverage of the policy space (σ = 0.1), GPI over M provides a reliable generalisation",
        f"hard tasks: C = M {_score(final, TRAIN)}; {beside} (asked: above it)",
        (paired("C = M − best single policy", difference),),
    )


def _difference(final: pd.DataFrame, other: pd.DataFrame, key: Key) -> pd.Series:
    """The difference of two normalised scores, paired by run."""
    return (_normalised(final, key) - _normalised(other, key)).dropna()


def _regimes_claim(final: pd.DataFrame) -> _Question:
    shown, comparisons = [], []
    for label, key in (("σ = 0.1", TRAIN), ("σ = 0.5", BROAD[1])):
        train, hard = (_normalised(_on(final, name), key) for name in ("room-train", "room-hard"))
        shown.append(f"{label}: training tasks {_shown(train)}, hard tasks {_shown(hard)}")
        comparisons += [paired(f"{label}, training", train), paired(f"{label}, hard", hard)]
    return _Question(
        "Appendix C.2",
        "the algorithm can successfully learn and operate in both regimes, σ = 0.1 and σ = 0.5",
        f"C = M, {'; '.join(shown)} (asked: all above random)",
        tuple(comparisons),
    )


def _training_set_claims(final: pd.DataFrame) -> list[_Question]:
    statement = "trained on eight tasks, also with negative rewards, USFA generalises better, "
    return [
        _Question(
            "Appendix D.3",
            statement + _candidates(large),
            f"hard tasks: eight {_score(final, large)}; four {_score(final, small)}",
            (unpaired("eight − four", _normalised(final, large), _normalised(final, small)),),
        )
        for small, large in zip(USFA, LARGE, strict=True)
    ]


def default_rule(scores: pd.DataFrame) -> str:
    """The default rule of the scored agents: steady if they were trained with advantage learning, else cautious."""
    return GAP_RULE if GAP_RULE in set(scores.rule) else DEFAULT_RULE


def aside(scores: pd.DataFrame, yardstick: pd.DataFrame) -> str:
    """Further comparisons from the paper's figures, about which the paper makes no claim."""
    rule = default_rule(scores)
    hard, single, ours = (
        _on(_finals(scores[scores.rule == name], yardstick), "room-hard") for name in (PAPER_RULE, SINGLE, rule)
    )
    on_policy, off_policy = (_score(hard, key) for key in UVFAS)
    return (
        f"Beside the claims, on the hard tasks: a UVFA trained on-policy {on_policy}, off-policy {off_policy}; "
        f"SF&GPI, which learns the policies of M only, {_score(hard, BASELINES[0])}, USFA with C = M "
        f"{_score(hard, TRAIN)}. By the {rule} rule USFA with C = M has {_score(ours, TRAIN)} and with "
        f"C = M ∪ {{w′}} {_score(ours, BOTH)}; the best single policy of M in hindsight {_score(single, TRAIN)}."
    )


# --- numbers for claims: a series holds one number per run, indexed by seed ---


def gains(scores: pd.DataFrame, yardstick: pd.DataFrame) -> pd.DataFrame:
    """Add to scores their gain over the random policy, the oracle's gain, and the normalised score."""
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


def _is_above(runs: pd.Series) -> bool:
    """Whether the mean is above 0, by a separate test."""
    test = paired("", runs)
    return verdict_of(test, test.p) == "holds"


def _all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """Conjunction: does not hold if one does not hold; not decided if one is not decided, or there are none."""
    found = set(verdicts)
    if "does not hold" in found:
        return "does not hold"
    return "not decided" if "not decided" in found or not found else "holds"
