"""Hand-made tables of the room experiment, for its figures and its report."""

from itertools import product

import pandas as pd

from usfa.evaluation import SCORE_COLUMNS
from usfa.tasks import format_task, task_set

SETS = ("room-train", "room-easy", "room-hard")
LEVELS = {
    ("usfa", "task"): 0.45,
    ("usfa", "train"): 0.60,
    ("usfa", "train+task"): 0.55,
    ("usfa-sigma-0.5", "task"): 0.60,
    ("usfa-sigma-0.5", "train"): 0.62,
    ("usfa-sigma-0.5", "train+task"): 0.62,
    ("usfa-8-tasks", "task"): 0.70,
    ("usfa-8-tasks", "train"): 0.75,
    ("usfa-8-tasks", "train+task"): 0.75,
    ("sf-gpi", "train"): 0.58,
    ("uvfa", "task"): 0.25,
    ("uvfa-off-policy", "task"): 0.30,
}
"""A normalised score for each method by Eq. 3 with which every claim about means holds."""
RULES = {"gpi": 0.0, "cautious": 0.05, "single": -0.1}
"""What the last snapshot has by each rule, beyond the level."""


def rules_of(key):
    """As training scores them: UVFAs have no rules, and a single policy is chosen where there are several."""
    agent, candidates = key
    return [
        rule
        for rule in RULES
        if rule == "gpi" or (not agent.startswith("uvfa") and (rule, candidates) != ("single", "task"))
    ]


def tasks_of(name):
    return [format_task(w) for w in task_set(name)]


def yardstick():
    """Random collects -1 or 1 an episode, the oracle 50 for each thing that it wants; nothing is gained on -1-100."""
    rows = []
    for name in (*SETS, "room-train-large"):
        for w in task_set(name):
            levels = {"oracle": 50 * float(w.clip(min=0).sum()), "random": -4.0 if w.sum() < 0 else 1.0}
            levels["greedy"] = levels["random"] + 0.3 * (levels["oracle"] - levels["random"])
            rows += [
                (name, format_task(w), policy, level, level - 1, level + 1, 50) for policy, level in levels.items()
            ]
    return pd.DataFrame(rows, columns=["set", "task", "policy", "mean", "low", "high", "episodes"])


def scores(levels=LEVELS, seeds=(0, 1, 2), snapshots=(0, 2_000_000, 4_000_000), spread=0.02, change=None):
    """Methods rise to their levels; seeds lie `spread` apart, the middle one at the level.

    Args:
        levels: normalised score after training by (agent, candidates).
        seeds: of the runs.
        snapshots: in frames.
        spread: between the normalised scores of two seeds.
        change: of the level by Eq. 3, from (key, task_set, task, seed).
    """
    known = {(task, policy): mean for _, task, policy, mean, *_ in yardstick().itertuples(index=False)}
    sets = [(name, task) for name in SETS for task in tasks_of(name)]
    rows = []
    for (key, level), seed, snapshot in product(levels.items(), seeds, snapshots):
        offset = spread * (seed - (len(seeds) - 1) / 2)
        for rule in rules_of(key) if snapshot == snapshots[-1] else ["gpi"]:
            labels = (*key, rule, "room-train", "gaussian:0.1", seed, snapshot, snapshot // 900, snapshot)
            for name, task in sets:
                extra = change(key, name, task, seed) if change and rule == "gpi" else RULES[rule]
                normalised = (level + extra + offset) * snapshot / snapshots[-1]
                random, oracle = known[task, "random"], known[task, "oracle"]
                score = random + normalised * (oracle - random)
                rows.append((*labels, name, task, score, float("nan"), normalised))
    return pd.DataFrame(rows, columns=[*SCORE_COLUMNS, "normalised"])


def training(agents=("usfa", "usfa-sigma-0.5", "usfa-8-tasks", "sf-gpi", "uvfa", "uvfa-off-policy"), seeds=(0, 1, 2)):
    """Returns that rise from 1 to 31 in a hundred steps; runs do not log at the same frames."""
    rows = [
        (agent, seed, task, 40_000 * step + 1000 * seed, 1 + 0.3 * step + seed)
        for agent in agents
        for seed in seeds
        for task in tasks_of("room-train-large" if agent == "usfa-8-tasks" else "room-train")
        for step in range(1, 101)
    ]
    return pd.DataFrame(rows, columns=["agent", "seed", "task", "frames", "score"])
