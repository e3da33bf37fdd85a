"""The report on the room: Sections 4.2 and 4.3, Appendices C and D, claim by claim."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd

from usfa.figures.room import SETS
from usfa.paper.report import claims_section, markdown_table
from usfa.paper.room_claims import aside, room_claims
from usfa.paper.room_tables import behaviour_table, final_table, task_table
from usfa.runs.config import TrainConfig

__all__ = ["room_report", "settings_of"]


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
of one-minute episodes. Rules: gpi is Eq. 3, the paper's; cautious is our default; single is the best policy of C for
each task in hindsight, followed alone. Figures and claims are by Eq. 3.

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

{aside(scores, yardstick)}

## Learning

ε-greedy returns on the canonical tasks in the last tenth of training, from the worst to the best run:

{markdown_table(behaviour_table(training))}

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
0. Where the paper says "sometimes" or "can", tasks are counted on which one return is above the other in so many runs
as chance would give in less than 5 % of cases, or in all of few: the claim holds if such tasks are more than chance
would give (5 %, tasks taken as independent), and does not hold if there are none while the other side has more than
chance would give."""


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
            table = markdown_table(task_table(summary, yardstick, task_set, measure))
            sections.append(f"{title[0].upper()}{title[1:]}, {measure}:\n\n{table}")
    return "\n\n".join(sections)


def settings_of(configs: Mapping[str, TrainConfig]) -> dict[str, object]:
    """What a reader wants to know of the runs of all variants, in the paper's letters."""
    config = next(iter(configs.values()))
    learner, evaluation = config.learner, config.evaluation
    image = config.environment_arguments.get("image_size", "default")
    return {
        "frames per run": f"{learner.budget:,}",
        "image": f"{image}×{image}",
        "environments": learner.environments,
        "trajectory length": learner.trajectory_length,
        "updates per round": learner.updates_per_round,
        "past rounds learned again with each": f"{learner.reuse} of {learner.replay_capacity}" if learner.reuse else 0,
        "target network": f"of every {learner.target_every} updates" if learner.target_every else "none",
        "n_z": ", ".join(f"{one.learner.policies_per_step} ({name})" for name, one in configs.items()),
        "γ": learner.gamma,
        "λ": learner.lambda_,
        "ε in training": learner.epsilon,
        "learning rate (Adam, to 0)": learner.learning_rate,
        "evaluation episodes per task": evaluation.episodes,
        "ε in evaluation": evaluation.epsilon,
    }
