"""Section 4.1 and Appendix B: the Trip MDP."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.console import Console

from usfa.agents import AGENT_FILES, AgentFile, TrainedAgent, exact_sf_gpi, save_agent
from usfa.decisions import PAPER_RULE, Gpi
from usfa.environments import trip_mdp
from usfa.errors import InputError
from usfa.evaluation import bound_table, exact_scores, score_table, summarise
from usfa.figures import trip as figures
from usfa.figures.style import EXACT
from usfa.functional import TabularMDP, optimal_return
from usfa.paper.experiment import train_in_turn, write_results
from usfa.paper.trip_report import trip_report
from usfa.progress import progress_bar
from usfa.runs.config import TrainConfig
from usfa.runs.directory import OnExisting, RunDirectory
from usfa.runs.loading import load
from usfa.runs.presets import TRIP_VARIANTS, preset
from usfa.tasks import parse_task, task_set

__all__ = ["TripExperiment", "reproduce_trip"]

USFA_CANDIDATES = ("task", "sample:5", "train", "train+task")
BOUND_CANDIDATES = ("train", "task", "train+task")
TRAINING_SET = "trip-train"
TEST_SETS = ("trip-directions", "trip-diagonal", "trip-train")


@dataclass(frozen=True)
class TripExperiment:
    """The settings of Section 4.1 and Appendix B."""

    seeds: tuple[int, ...] = tuple(range(10))
    """Random seeds; one run for each."""
    episodes: int = 1000
    """Training episodes per run."""
    places: int = 6
    """N: number of mixed places plus one."""
    exploration_cost: float = 0.05
    """ε: cost of exploring."""
    grid: int = 51
    """Points per side of the maps over the task space."""

    def __post_init__(self) -> None:
        if self.grid < 2:
            raise InputError(f"grid is {self.grid}; expected at least 2 points per side.")
        for variant in TRIP_VARIANTS:
            self.config(variant)
        trip_mdp(self.places, self.exploration_cost)

    @property
    def environment_arguments(self) -> dict[str, int | float | str]:
        return {"places": self.places, "exploration_cost": self.exploration_cost}

    def config(self, variant: str) -> TrainConfig:
        """The preset of a variant with this experiment's settings."""
        base = preset(TRIP_VARIANTS[variant])
        evaluation = base.evaluation
        if variant == "usfa":
            evaluation = replace(evaluation, candidates=USFA_CANDIDATES)
        return replace(
            base,
            seeds=self.seeds,
            environment_arguments=self.environment_arguments,
            learner=replace(base.learner, budget=self.episodes),
            evaluation=replace(evaluation, snapshots=min(evaluation.snapshots, self.episodes)),
        )


def reproduce_trip(
    experiment: TripExperiment, path: Path, existing: OnExisting = "refuse", console: Console | None = None
) -> RunDirectory:
    """Train and score all methods, draw the figures and write the report.

    `runs/` in the directory holds a run directory for each method; all other files are derived from those.
    """
    with RunDirectory.opened(path, experiment, existing) as run:
        if not (path / "report.md").exists():
            _reproduce(experiment, run, console)
        return run


def _reproduce(experiment: TripExperiment, run: RunDirectory, console: Console | None) -> None:
    runs = run.path / "runs"
    mdp = trip_mdp(experiment.places, experiment.exploration_cost)
    learned = train_in_turn(runs, {variant: experiment.config(variant) for variant in TRIP_VARIANTS}, console)
    run.claim(*(f"runs/{EXACT[0]}/{name}" for name in AGENT_FILES))
    _save_exact_agent(experiment, mdp, runs / EXACT[0])
    with progress_bar("figures and report", 4, "steps", console) as bar:
        scores = pd.concat([learned, _exact_table(mdp, runs)], ignore_index=True)
        gaps = scores.assign(gap=scores.optimal - scores.score)
        summary = summarise(gaps, ["agent", "candidates", "rule", "task_set", "snapshot"], "gap")
        bar.update(1)
        maps, bounds = _maps(experiment, mdp, runs), _bounds(experiment, mdp, runs)
        bar.update(2)
        drawn = _figures(experiment, gaps[gaps.rule == PAPER_RULE], summary[summary.rule == PAPER_RULE], maps, bounds)
        bar.update(3)
        tables = {"scores": scores, "summary": summary, "maps": maps, "bounds": bounds}
        write_results(run, tables, drawn, trip_report(mdp, scores, summary, maps, bounds))
        bar.update(4)


def _save_exact_agent(experiment: TripExperiment, mdp: TabularMDP, directory: Path) -> None:
    """Save SF&GPI with the exact ψ of M as an agent that can be loaded like the others."""
    actor, tables = exact_sf_gpi(mdp, torch.from_numpy(task_set(TRAINING_SET)))
    file = AgentFile(
        kind=f'sf-gpi-tables{{"policies": {actor.policies}}}',
        spec=actor.spec,
        environment="trip",
        environment_arguments=experiment.environment_arguments,
        gamma=1.0,
        training_tasks=tuple(tuple(w) for w in task_set(TRAINING_SET).tolist()),
        policies="train",
        seeds=(0,),
    )
    save_agent(directory, file, {name: tensor[None] for name, tensor in tables.state_dict().items()})


def _exact_table(mdp: TabularMDP, runs: Path) -> pd.DataFrame:
    """Scores of SF&GPI with the exact ψ, which needs neither seeds nor training."""
    agent = load(runs / EXACT[0])
    tables = []
    for name in TEST_SETS:
        w = task_set(name)
        labels = {"agent": EXACT[0], "candidates": EXACT[1], "rule": PAPER_RULE, "training_set": TRAINING_SET}
        labels |= {"policies": "train", "task_set": name}
        counts = {column: np.zeros(1, np.int64) for column in ("seed", "snapshot", "episodes", "frames")}
        optimal = optimal_return(mdp, torch.from_numpy(w)).numpy()
        scores = _scores(agent, mdp, w, EXACT[1], np.random.default_rng(0))[None]
        tables.append(score_table(scores, w, optimal, labels, counts))
    return pd.concat(tables, ignore_index=True)


def _scores(
    agent: TrainedAgent, mdp: TabularMDP, w: NDArray[np.float64], candidates: str, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Exact returns of one agent by Eq. 3, as in the paper."""
    return exact_scores(agent.actor, agent.network, mdp, w, agent.candidates(w, candidates, rng), Gpi())


def _grid(experiment: TripExperiment) -> NDArray[np.float64]:
    axis = np.linspace(0, 1, experiment.grid)
    return np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)


def _maps(experiment: TripExperiment, mdp: TabularMDP, runs: Path) -> pd.DataFrame:
    """Returns of every seed over the task space: agent, candidates, seed, w1, w2, score, optimal."""
    w = _grid(experiment)
    optimal = optimal_return(mdp, torch.from_numpy(w)).numpy()
    tables = []
    for variant, candidates in (*figures.MAPS, ("uvfa-off-policy", "task")):
        for seed in (0,) if variant == EXACT[0] else experiment.seeds:
            agent = load(runs / variant, seed)
            score = _scores(agent, mdp, w, candidates, np.random.default_rng([seed, 2]))
            returns = {"w1": w[:, 0], "w2": w[:, 1], "score": score, "optimal": optimal}
            tables.append(pd.DataFrame({"agent": variant, "candidates": candidates, "seed": seed, **returns}))
    return pd.concat(tables, ignore_index=True)


def _bounds(experiment: TripExperiment, mdp: TabularMDP, runs: Path) -> pd.DataFrame:
    """Proposition 1 for the first seed's USFA over the task space: both terms, the bound and the true gap."""
    agent = load(runs / "usfa", seed=experiment.seeds[0])
    w = _grid(experiment)
    tables = []
    for candidates in BOUND_CANDIDATES:
        z = agent.candidates(w, candidates, np.random.default_rng(0)).z
        place = pd.DataFrame({"candidates": candidates, "w1": w[:, 0], "w2": w[:, 1]})
        tables.append(pd.concat([place, bound_table(agent, mdp, w, z)], axis=1))
    return pd.concat(tables, ignore_index=True)


def _figures(
    experiment: TripExperiment,
    gaps: pd.DataFrame,
    summary: pd.DataFrame,
    maps: pd.DataFrame,
    bounds: pd.DataFrame,
) -> dict[str, Figure]:
    final = gaps[(gaps.snapshot == experiment.episodes) | (gaps.agent == EXACT[0])]
    final = final[final.task_set == "trip-diagonal"]
    final = final.assign(w1=[parse_task(task, 2)[0] for task in final.task])
    sample = maps[(maps.seed == experiment.seeds[0]) | (maps.agent == EXACT[0])]
    return {
        "gap": figures.overview(summary, experiment.places, experiment.exploration_cost),
        "performance_maps": figures.performance_maps(sample),
        "gap_maps": figures.gap_maps(sample),
        "diagonal": figures.diagonal(summary, final),
        "bound_maps": figures.bound_maps(bounds, BOUND_CANDIDATES),
    }
