"""Appendix A: an MDP with one state, three training tasks and two ways to generalise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from rich.console import Console

from usfa.decisions import PAPER_RULE
from usfa.environments import one_state_mdp
from usfa.errors import InputError
from usfa.figures import one_state as figures
from usfa.functional import (
    TabularMDP,
    gpi_policy,
    optimal_policy,
    optimal_return,
    policy_return,
    successor_features,
)
from usfa.paper.experiment import train_in_turn, write_results
from usfa.paper.report import Claim, claims_section, holds_if, markdown_table
from usfa.runs.config import TrainConfig
from usfa.runs.directory import OnExisting, RunDirectory
from usfa.runs.loading import load
from usfa.runs.presets import preset
from usfa.tasks import format_task, task_set

__all__ = ["OneStateExperiment", "reproduce_one_state"]

VARIANTS = {"usfa": "one-state-usfa", "uvfa": "one-state-uvfa"}
TRAINING_SET = "one-state-train"


@dataclass(frozen=True)
class OneStateExperiment:
    """The settings that Appendix A leaves open."""

    seeds: tuple[int, ...] = tuple(range(10))
    """Random seeds; one run for each."""
    episodes: int = 1000
    """Training episodes per run."""
    test_task: float = -0.2
    """w'; below 0, so that its optimal policy is that of the third training task: stay."""
    gamma: float = 0.9
    """Discount factor."""

    def __post_init__(self) -> None:
        if not -2 <= self.test_task < 0:
            raise InputError(
                f"test_task is {self.test_task}; expected a number from -2 to below 0, where staying wins."
            )
        for variant in VARIANTS:
            self.config(variant)
        one_state_mdp(self.gamma)

    def config(self, variant: str) -> TrainConfig:
        base = preset(VARIANTS[variant])
        grid = ";".join(format_task([w]) for w in self.grid)
        return replace(
            base,
            seeds=self.seeds,
            environment_arguments={"gamma": self.gamma},
            learner=replace(base.learner, budget=self.episodes, gamma=self.gamma),
            evaluation=replace(base.evaluation, tasks=(grid,), snapshots=min(base.evaluation.snapshots, self.episodes)),
        )

    @property
    def grid(self) -> NDArray[np.float64]:
        """Tasks from -2 to 2, including w'."""
        return np.union1d(np.round(np.linspace(-2, 2, 41), 10), [self.test_task])


def reproduce_one_state(
    experiment: OneStateExperiment,
    path: Path,
    existing: OnExisting = "refuse",
    console: Console | None = None,
) -> RunDirectory:
    """Solve the MDP exactly, train a UVFA and a USFA on M, draw the figures and write the report."""
    with RunDirectory.opened(path, experiment, existing) as run:
        if not (path / "report.md").exists():
            _reproduce(experiment, run, console)
        return run


def _reproduce(experiment: OneStateExperiment, run: RunDirectory, console: Console | None) -> None:
    runs = run.path / "runs"
    scores = train_in_turn(runs, {variant: experiment.config(variant) for variant in VARIANTS}, console)
    mdp = one_state_mdp(experiment.gamma)
    values, evaluations = _values(experiment, mdp, runs / "uvfa"), _evaluations(experiment, mdp)
    returns = _returns(experiment, scores)
    drawn = {
        "generalisation": figures.generalisation(values, evaluations, experiment.test_task),
        "returns": figures.returns(returns),
    }
    tables = {"scores": scores, "values": values, "evaluations": evaluations}
    write_results(run, tables, drawn, _report(experiment, mdp, values, evaluations, returns))


def _values(experiment: OneStateExperiment, mdp: TabularMDP, uvfa: Path) -> pd.DataFrame:
    """Optimal values and those of the fitted UVFA over the grid: seed, w, optimal, uvfa."""
    grid = experiment.grid
    optimal = optimal_return(mdp, torch.from_numpy(grid[:, None])).numpy()
    tables = []
    for seed in experiment.seeds:
        agent = load(uvfa, seed)
        fitted = [float(agent.q_values(0, [w]).max()) for w in grid]
        tables.append(pd.DataFrame({"seed": seed, "w": grid, "optimal": optimal, "uvfa": fitted}))
    return pd.concat(tables, ignore_index=True)


def _evaluations(experiment: OneStateExperiment, mdp: TabularMDP) -> pd.DataFrame:
    """The exact value on w' of the optimal policy of each training task: z, value, trusted."""
    training = torch.from_numpy(task_set(TRAINING_SET))
    worth = policy_return(mdp, optimal_policy(mdp, training), torch.tensor([experiment.test_task]))
    trusted = torch.arange(len(worth)) == worth.argmax()
    return pd.DataFrame({"z": training[:, 0].numpy(), "value": worth.numpy(), "trusted": trusted.numpy()})


def _returns(experiment: OneStateExperiment, scores: pd.DataFrame) -> pd.DataFrame:
    names = {("uvfa", "task"): "UVFA", ("usfa", "task"): "USFA, C = {w′}", ("usfa", "train"): "USFA, C = M"}
    final = scores[(scores.snapshot == experiment.episodes) & (scores.rule == PAPER_RULE)]
    methods = [names[key] for key in zip(final.agent, final.candidates, strict=True)]
    return final.assign(method=methods, w=final.task.astype(float))[["method", "seed", "w", "score", "optimal"]]


def _exact_gpi_loss(mdp: TabularMDP, training: NDArray[np.float64], grid: NDArray[np.float64]) -> float:
    """The largest loss on the grid of GPI with the exact ψ of the training tasks."""
    w = torch.from_numpy(grid[:, None])
    psi = successor_features(mdp, optimal_policy(mdp, torch.from_numpy(training[:, None])))
    policy = gpi_policy(mdp, psi.expand(len(w), *psi.shape), w)
    return float((optimal_return(mdp, w) - policy_return(mdp, policy, w)).max())


def _report(
    experiment: OneStateExperiment,
    mdp: TabularMDP,
    values: pd.DataFrame,
    evaluations: pd.DataFrame,
    returns: pd.DataFrame,
) -> str:
    losses = returns.assign(gap=returns.optimal - returns.score).groupby(["method", "seed"]).gap.mean()
    table = losses.groupby("method").agg(["mean", "std", "max"]).reset_index()
    table.columns = pd.Index(["method", "mean gap over w ∈ [-2, 2]", "std over seeds", "worst seed"])
    return f"""# One-state MDP: Appendix A

Training tasks M = {{2, 1, -1}}, test task w′ = {experiment.test_task:g}, γ = {experiment.gamma:g},
{len(experiment.seeds)} seeds of {experiment.episodes} episodes. Actions are chosen by GPI, Eq. 3 (rule gpi).

{markdown_table(table)}

![Two ways to generalise](figures/generalisation.png)
![Zero-shot returns](figures/returns.png)

## The paper's claims

{claims_section(_claims(experiment, mdp, values, evaluations, losses))}
"""


def _claims(
    experiment: OneStateExperiment,
    mdp: TabularMDP,
    values: pd.DataFrame,
    evaluations: pd.DataFrame,
    losses: pd.Series,
) -> list[Claim]:
    grid = experiment.grid
    policies = {tuple(p) for p in optimal_policy(mdp, torch.from_numpy(grid[grid != 0][:, None])).tolist()}
    guess = values[np.isclose(values.w, experiment.test_task)].uvfa
    trusted = evaluations[evaluations.trusted].iloc[0]
    rng = np.random.default_rng(0)
    pairs = np.stack([rng.uniform(0.01, 2, 100), rng.uniform(-2, -0.01, 100)], axis=-1)
    worst_pair = max(_exact_gpi_loss(mdp, pair, grid) for pair in pairs)
    usfa, uvfa = losses["USFA, C = M"], losses["UVFA"]
    return [
        _claim(
            "there are only two optimal policies (for w > 0 leave, else stay)",
            f"{len(policies)} found over the grid",
            len(policies) == 2,
        ),
        _claim(
            "the UVFA's estimate typically does not recover Q*_{w′} = 0",
            f"estimates at w′ from {guess.min():.3f} to {guess.max():.3f}, mean {guess.mean():.3f}",
            bool((guess.abs() > 0.01).mean() > 0.5),
        ),
        _claim(
            "GPI trusts the policy of w₃, and with perfect SFs its value is optimal",
            f"trusted: z = {trusted.z:g}, value {trusted.value:g}",
            trusted.z == -1 and trusted.value == 0,
        ),
        _claim(
            "any trained points with one positive and one negative w generalise perfectly by GPI",
            f"largest loss over 100 random pairs and {len(grid)} tasks: {worst_pair:.2g}",
            worst_pair < 1e-12,
        ),
        _claim(
            "an approach that relies on UVFA generalisation alone may struggle",
            f"mean gap over tasks, mean of seeds: UVFA {uvfa.mean():.4f}, USFA with C = M {usfa.mean():.4f}",
            bool(uvfa.mean() > usfa.mean()),
        ),
    ]


def _claim(statement: str, measured: str, holds: bool) -> Claim:
    return Claim("Appendix A", statement, measured, holds_if(holds))
