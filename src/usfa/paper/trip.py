"""Section 4.1 and Appendix B end to end: the Trip MDP."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from rich.console import Console

from usfa.agents import AgentFile, TrainedAgent, exact_sf_gpi, save_agent
from usfa.decisions import PAPER_RULE, Gpi
from usfa.environments import trip_mdp
from usfa.errors import InputError
from usfa.evaluation import bound_table, exact_scores, read_scores, score_table, summarise, write_table
from usfa.figures import save
from usfa.figures import trip as figures
from usfa.files import write_atomically
from usfa.functional import TabularMDP, optimal_return
from usfa.paper.trip_report import trip_report
from usfa.progress import progress_bar
from usfa.runs.config import TrainConfig
from usfa.runs.directory import OnExisting, RunDirectory
from usfa.runs.loading import load
from usfa.runs.presets import TRIP_VARIANTS, preset
from usfa.runs.training import train
from usfa.tasks import parse_task, task_set

__all__ = ["TripExperiment", "reproduce_trip"]

USFA_CANDIDATES = ("task", "sample:5", "train", "train+task")
BOUND_CANDIDATES = ("train", "task", "train+task")
EXACT = "sf-gpi-exact"
TRAINING_SET = "trip-train"
TEST_SETS = ("trip-directions", "trip-diagonal", "trip-train")


@dataclass(frozen=True)
class TripExperiment:
    """The numbers of Section 4.1 and Appendix B."""

    seeds: tuple[int, ...] = tuple(range(10))
    """A run for each."""
    episodes: int = 1000
    """Training per run."""
    places: int = 6
    """N: mixed places plus one."""
    exploration_cost: float = 0.05
    """ε: what looking around costs."""
    grid: int = 51
    """Points per side of the heat maps."""

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
        """The preset of a variant with this experiment's numbers."""
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
    """Train all methods, score them, draw every figure and write the report.

    `runs/` inside the directory has a run directory for each method; everything else is made from those.
    """
    with RunDirectory.opened(path, experiment, existing) as run:
        if not (path / "report.md").exists():
            _reproduce(experiment, run, console)
        return run


def _reproduce(experiment: TripExperiment, run: RunDirectory, console: Console | None) -> None:
    path = run.path
    for variant in TRIP_VARIANTS:
        train(experiment.config(variant), path / "runs" / variant, "resume", console, name=variant)
    mdp = trip_mdp(experiment.places, experiment.exploration_cost)
    _save_exact_agent(experiment, mdp, path / "runs" / EXACT)
    with progress_bar("figures and report", 4, "steps", console) as bar:
        learned = [read_scores(path / "runs" / variant / "scores.csv") for variant in TRIP_VARIANTS]
        scores = pd.concat([*learned, _exact_table(mdp, path)], ignore_index=True)
        bar.update(1)
        maps, bounds = _maps(experiment, mdp, path), _bounds(experiment, mdp, path)
        bar.update(2)
        summary = summarise(_with_gap(scores), ["agent", "candidates", "rule", "task_set", "snapshot"], "gap")
        by_paper = scores[scores.rule == PAPER_RULE], summary[summary.rule == PAPER_RULE]
        _draw(experiment, run, *by_paper, maps, bounds)
        bar.update(3)
        for name, table in {"scores": scores, "summary": summary, "maps": maps, "bounds": bounds}.items():
            write_table(path / f"{name}.csv", table)
        report = trip_report(mdp, scores, summary, maps, bounds)
        write_atomically(path / "report.md", report.encode())
        bar.update(4)


def _save_exact_agent(experiment: TripExperiment, mdp: TabularMDP, directory: Path) -> None:
    """SF&GPI from the true ψ of M, as an agent that can be loaded like the others."""
    actor, tables = exact_sf_gpi(mdp, torch.from_numpy(task_set(TRAINING_SET)))
    file = AgentFile(
        kind="sf-gpi-tables",
        spec=actor.spec,
        environment="trip",
        environment_arguments=experiment.environment_arguments,
        gamma=1.0,
        training_tasks=tuple(tuple(w) for w in task_set(TRAINING_SET).tolist()),
        policies="train",
        seeds=(0,),
    )
    save_agent(directory, file, {name: tensor[None] for name, tensor in tables.items()})


def _exact_table(mdp: TabularMDP, path: Path) -> pd.DataFrame:
    """The scores of SF&GPI with the true ψ: no seeds, no training."""
    agent = load(path / "runs" / EXACT)
    tables = []
    for name in TEST_SETS:
        w = task_set(name)
        labels = {"agent": EXACT, "candidates": "train", "rule": PAPER_RULE, "training_set": TRAINING_SET}
        labels |= {"policies": "train", "task_set": name}
        runs = {column: np.zeros(1, np.int64) for column in ("seed", "snapshot", "episodes", "frames")}
        optimal = optimal_return(mdp, torch.from_numpy(w)).numpy()
        scores = _scores_of_one(agent, mdp, w, "train", np.random.default_rng(0))[None]
        tables.append(score_table(scores, w, optimal, labels, runs))
    return pd.concat(tables, ignore_index=True)


def _scores_of_one(
    agent: TrainedAgent, mdp: TabularMDP, w: NDArray[np.float64], candidates: str, rng: np.random.Generator
) -> NDArray[np.float64]:
    """By Eq. 3, as in the paper."""
    sets = agent.candidates(w, candidates, rng).map(lambda values: values[None])
    return exact_scores(agent.actor, _stacked(agent), mdp, w, sets, Gpi())[0]


def _with_gap(scores: pd.DataFrame) -> pd.DataFrame:
    return scores.assign(gap=scores.optimal - scores.score)


def _grid(experiment: TripExperiment) -> NDArray[np.float64]:
    axis = np.linspace(0, 1, experiment.grid)
    return np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)


def _stacked(agent: TrainedAgent) -> dict[str, torch.Tensor]:
    return {name: tensor[None] for name, tensor in agent.parameters.items()}


def _maps(experiment: TripExperiment, mdp: TabularMDP, path: Path) -> pd.DataFrame:
    """Returns of every seed over the grid: agent, candidates, seed, w1, w2, score, optimal."""
    w = _grid(experiment)
    optimal = optimal_return(mdp, torch.from_numpy(w)).numpy()
    tables = []
    for variant, candidates in (*figures.MAP_METHODS, ("uvfa-off-policy", "task")):
        for seed in (0,) if variant == EXACT else experiment.seeds:
            agent = load(path / "runs" / variant, seed)
            score = _scores_of_one(agent, mdp, w, candidates, np.random.default_rng([seed, 2]))
            place = {"w1": w[:, 0], "w2": w[:, 1], "score": score, "optimal": optimal}
            tables.append(pd.DataFrame({"agent": variant, "candidates": candidates, "seed": seed, **place}))
    return pd.concat(tables, ignore_index=True)


def _bounds(experiment: TripExperiment, mdp: TabularMDP, path: Path) -> pd.DataFrame:
    """Proposition 1 for the first seed's USFA over the grid: both terms, the bound and the true gap."""
    agent = load(path / "runs" / "usfa", seed=experiment.seeds[0])
    w = _grid(experiment)
    tables = []
    for candidates in BOUND_CANDIDATES:
        z = agent.candidates(w, candidates, np.random.default_rng(0)).z
        place = pd.DataFrame({"candidates": candidates, "w1": w[:, 0], "w2": w[:, 1]})
        tables.append(pd.concat([place, bound_table(agent, mdp, w, z)], axis=1))
    return pd.concat(tables, ignore_index=True)


def _draw(
    experiment: TripExperiment,
    run: RunDirectory,
    scores: pd.DataFrame,
    summary: pd.DataFrame,
    maps: pd.DataFrame,
    bounds: pd.DataFrame,
) -> None:
    final = _with_gap(scores[(scores.snapshot == experiment.episodes) | (scores.agent == EXACT)])
    final = final[final.task_set == "trip-diagonal"]
    final = final.assign(w1=[parse_task(task, 2)[0] for task in final.task])
    save(figures.overview(summary, experiment.places, experiment.exploration_cost), run.figures / "gap.png")
    sample = maps[maps.seed.isin([experiment.seeds[0]]) | (maps.agent == EXACT)]
    save(figures.performance_maps(sample), run.figures / "performance_maps.png")
    save(figures.gap_maps(sample), run.figures / "gap_maps.png")
    save(figures.diagonal(summary, final), run.figures / "diagonal.png")
    save(figures.bound_maps(bounds, BOUND_CANDIDATES), run.figures / "bound_maps.png")
