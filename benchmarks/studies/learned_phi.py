"""φ learned from scalar rewards, compared with the given φ; every step is saved in --out and can be resumed.

small  Trip and one-state with hidden φ: gap of USFA with the given and with the learned φ, in the true reward
infer  a new task from 200 rewarded random steps: true return with the inferred w, relative to the true w
room   the room from pixels and the four scalar rewards of M:
       1. φ from random walks; 2. a scout, an agent on it; 3. φ from transitions of scouts and random walks, a round
       for each of --steps; 4. agents on the learned and on the given φ, with the same frames, scored in the true reward
phi    the first three parts of room only
networks   after phi: three networks on the data of the last round
quality, missed   after phi: R² in new episodes; the error of φ by how much of a collected object was in view
single, view, infer-room   after room: true returns of the random policy and of the best of the policies of M alone;
       which collected objects were in view in the last H steps, from the true state; hard tasks of the room from the
       rewards of random walks

python benchmarks/studies/learned_phi.py small infer
python benchmarks/studies/learned_phi.py room quality missed single view infer-room --seeds 0 1 2
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from rich.console import Console

import usfa
from usfa.decisions import CandidateSet, Gpi
from usfa.environments import History, ObservationSpec, rewarded, source
from usfa.environments.room import OBJECTS, RoomBatch
from usfa.environments.room.drawing import NEAR
from usfa.environments.room.rules import ACTIONS, EYE, FIELD_OF_VIEW
from usfa.environments.room.textures import BOXES
from usfa.environments.room.yardstick import read_yardstick
from usfa.environments.tabular import one_state_mdp, trip_mdp
from usfa.evaluation import summarise, write_table
from usfa.evaluation.exact import decision_tables
from usfa.functional import TabularMDP, optimal_return, policy_return
from usfa.paper.report import markdown_table
from usfa.phi import (
    Behaviour,
    LeastSquares,
    NetworkFit,
    NoProgress,
    RandomActions,
    Transitions,
    collect,
    predict,
    read_transitions,
)
from usfa.phi.quality import r_squared
from usfa.runs import FeaturesConfig, RunDirectory, TrainConfig, preset
from usfa.runs.config import tasks_text
from usfa.runs.features import AgentActions
from usfa.tasks import format_task, parse_task, parse_tasks

Array = NDArray[np.float64]
LEARNERS = {"least squares": LeastSquares(), "network": NetworkFit(hidden=(64,), steps=2000)}
HIDDEN = {  # preset: the rewards that are observed instead of φ
    "trip-usfa": ("task:1,0", "task:0,1", "task:0.5,0.5"),
    "one-state-usfa": ("task:2", "task:1", "task:-1"),
}
WALK = (0.3, 0.02, 0.02, 0.02, 0.1, 0.1, 0.22, 0.22)
"""Probabilities of actions in the room: mostly forward, because objects collected while moving backwards are unseen."""
MIRRORED = tuple(
    next(index for index, b in enumerate(ACTIONS) if (b.forward, b.strafe, b.turn) == (a.forward, -a.strafe, -a.turn))
    for a in ACTIONS
)
"""Actions of the room with left and right swapped."""
FIRST_FIT = NetworkFit(convolutions=((16, 4, 2), (32, 3, 2), (32, 3, 1)), batch=128, mirrored_actions=MIRRORED)
"""Learner of φ of the room from random walks."""
FIT = NetworkFit(
    (1024, 512, 256), ((32, 4, 2), (32, 3, 2), (32, 3, 1)), batch=128, precision="bf16", mirrored_actions=MIRRORED
)
"""Learner of φ of the room in the later rounds."""
FIRST_SCOUT_SEED = 100
"""Scouts have seeds of their own, so that φ is learned from different agents, none of which is compared in the end."""


def translation(phi: usfa.LearnedPhi) -> Array:
    """A [D0, D] with ŵ = w·A: from tasks of the hidden φ to tasks of the learned one."""
    hidden = np.stack([parse_task(name.removeprefix("task:")) for name in phi.report.rewards])
    return np.linalg.lstsq(hidden, phi.tasks, rcond=None)[0].astype(np.float64)


# --- finite MDPs ---


def small(out: Path, seeds: tuple[int, ...], console: Console) -> pd.DataFrame:
    rows: list[tuple[object, ...]] = []
    for name, rewards in HIDDEN.items():
        config = replace(preset(name), seeds=seeds)
        rows += _gaps(name, "given", config, np.eye(config.tasks.shape[1]), out, console)
        for learner, object_ in LEARNERS.items():
            features = FeaturesConfig(config.environment, rewards, learner=object_, steps=2000)
            where = out / f"phi-{name}-{learner.replace(' ', '-')}"
            phi = usfa.learn_features(config=features, out=where, existing="resume", console=console)
            a = translation(phi)
            learned = replace(
                config,
                phi=phi.text,
                training_tasks=tasks_text(config.tasks @ a),
                evaluation=replace(config.evaluation, tasks=(), candidates=("task",)),
            )
            rows += _gaps(name, f"learned, {learner}", learned, a, out, console)
    table = pd.DataFrame(rows, columns=["preset", "phi", "candidates", "tasks", "seed", "gap"])
    table["task"] = "mean"
    found = summarise(
        table.rename(columns={"tasks": "test tasks"}), ["preset", "test tasks", "candidates", "phi"], "gap"
    )
    return found[["preset", "test tasks", "candidates", "phi", "mean", "low", "high", "runs"]]


def _gaps(
    name: str, phi: str, config: TrainConfig, a: Array, out: Path, console: Console
) -> Iterator[tuple[object, ...]]:
    """Mean gap of every seed to the optimum of the true reward."""
    where = out / f"{name}-{phi.replace(', ', '-').replace(' ', '-')}"
    run = usfa.train(config, where, existing="resume", console=console)
    mdp = trip_mdp() if config.environment == "trip" else one_state_mdp()
    for seed in config.seeds:
        agent = usfa.load(run.path, seed)
        for tasks in preset(name).evaluation.tasks:
            w = parse_tasks(tasks)
            optimal = optimal_return(mdp, torch.from_numpy(w)).numpy()
            for candidates in ("task", "train"):
                sets = agent.candidates(w @ a, candidates, np.random.default_rng(0))
                score = _true_scores(agent, mdp, w @ a, w, sets)
                yield name, phi, candidates, tasks, seed, float((optimal - score).mean())


def _true_scores(
    agent: usfa.TrainedAgent, mdp: TabularMDP, learned: Array, w: Array, sets: CandidateSet[Array]
) -> Array:
    """Exact return in the true reward of acting on tasks of the agent's φ."""
    policy = decision_tables(agent.actor, agent.network, mdp, learned, sets, Gpi())
    scores: Array = policy_return(mdp, policy, torch.from_numpy(w)).numpy()
    return scores


# --- a new task from 200 rewarded random steps ---


def infer(out: Path, seeds: tuple[int, ...], console: Console) -> pd.DataFrame:
    rows = []
    rng = np.random.default_rng(0)
    for name in HIDDEN:
        config, where = preset(name), out / f"{name}-learned-least-squares"
        phi = usfa.load_features(where)
        a = translation(phi)
        mdp = trip_mdp() if config.environment == "trip" else one_state_mdp()
        for number in range(20):
            w = rng.uniform(0 if name.startswith("trip") else -2, 2 if name.startswith("one") else 1, size=len(a))
            found = _inferred(phi, config.environment, w, number)
            for seed in seeds:
                agent = usfa.load(where, seed)
                scores = []
                for learned in (found, w @ a):
                    sets = agent.candidates(learned[None], "task", np.random.default_rng(0))
                    scores.append(float(_true_scores(agent, mdp, learned[None], w[None], sets)[0]))
                rows.append((name, format_task(w.round(3)), seed, *scores))
    return pd.DataFrame(rows, columns=["preset", "task", "seed", "inferred", "true"])


def _inferred(phi: usfa.LearnedPhi, environment: str, w: Array, seed: int) -> Array:
    """w from 200 random steps with the reward φ·w of the hidden φ."""
    inside = source(environment)
    with inside.opened() as env:
        spec = ObservationSpec.of(env.observation_space)
    texts = [f"task:{format_task(w)}"]
    act = RandomActions(np.random.default_rng([seed, 1]))
    data = collect(rewarded(inside, texts), texts, spec, act, 200, seed)
    return usfa.infer_task(predict(phi.model, data), data.rewards[:, 0]).w


# --- the room ---


def room(chosen: argparse.Namespace, console: Console) -> pd.DataFrame:
    """Score of agents on the learned and on the given φ, in the true reward, for each seed."""
    out, seeds, frames = chosen.out, tuple(chosen.seeds), chosen.frames
    phi, rows = _rounds(chosen, console), []
    for seed in seeds:
        for name, own in (("learned", phi.text), ("given", "reward")):
            path = out / f"{name}-{frames}-{seed}"
            config = replace(_room_config(chosen, frames, seed), phi=own)
            run = usfa.train(config, path, existing="resume", console=console)
            score = partial(_room_scores, run.path, name == "learned", seed, console)
            rows.append(_cached(out / f"scores-{name}-{frames}-{seed}.csv", score).assign(phi=name, seed=seed))
    means = pd.concat(rows).groupby(["tasks", "seed", "phi"]).score.mean().unstack("phi").reset_index()
    return means.assign(ratio=means.learned / means.given)


def phi(chosen: argparse.Namespace, console: Console) -> pd.DataFrame:
    """R² of each reward on the held-out fifth of the data, of the φ of the last round."""
    report = _rounds(chosen, console).report
    return pd.DataFrame({"reward": report.rewards, "r2": report.r2})


def _rounds(chosen: argparse.Namespace, console: Console) -> usfa.LearnedPhi:
    """Learn φ from random walks, then, in each further round, also from transitions of agents on the latest φ."""
    found, scouts = _room_phi(chosen, 0, [], console), []
    for index, frames in enumerate(chosen.scout_frames, 1):
        config = replace(_room_config(chosen, frames, FIRST_SCOUT_SEED + index), phi=found.text)
        path = chosen.out / f"scout-{index}"
        scouts.append(str(usfa.train(config, path, existing="resume", console=console).path))
        found = _room_phi(chosen, index, scouts, console)
    return found


def _last_phi(chosen: argparse.Namespace) -> usfa.LearnedPhi:
    return usfa.load_features(chosen.out / f"phi-{len(chosen.steps)}")


def _last_scout(chosen: argparse.Namespace) -> str:
    return f"scout-{len(chosen.steps) - 1}"


def _camera(chosen: argparse.Namespace) -> dict[str, Any]:
    """Arguments of the room."""
    return {"image_size": 42, "field_of_view": chosen.field_of_view}


def _room_config(chosen: argparse.Namespace, frames: int, seed: int) -> TrainConfig:
    base = preset("room-laptop")
    return replace(
        base,
        environment_arguments=_camera(chosen),
        learner=replace(base.learner, budget=frames),
        evaluation=replace(base.evaluation, snapshots=1, tasks=("room-train",), candidates=("train",), episodes=1),
        seeds=(seed,),
    )


def _room_scores(path: Path, learned: bool, seed: int, console: Console) -> pd.DataFrame:
    """Mean return of 20 episodes on each task, in the true reward."""
    agent, parts = usfa.load(path), []
    for tasks in ("room-train", "room-hard"):
        w = parse_tasks(tasks)
        rewards = [f"task:{format_task(task)}" for task in w] if learned else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the unexplained share, which is in the table
            table = usfa.evaluate(agent, w, "train", rewards=rewards, seed=seed, break_loops=False, console=console)
        parts.append(table.assign(tasks=tasks))
    return pd.concat(parts)


def _room_phi(chosen: argparse.Namespace, index: int, scouts: Sequence[str], console: Console) -> usfa.LearnedPhi:
    """φ of a round, from random walks and the scouts so far."""
    config = FeaturesConfig(
        "room",
        ("tasks:room-train",),
        environment_arguments=_camera(chosen),
        features=4,
        agent=",".join(scouts) or None,
        agent_share=chosen.scout_share,
        steps=chosen.steps[index],
        action_probabilities=WALK,
        repeat=0.75,
        history=chosen.history,
        learner=replace(FIT if scouts else FIRST_FIT, steps=chosen.updates[index]),
    )
    path = chosen.out / f"phi-{index + 1}"
    return usfa.learn_features(config=config, out=path, existing="resume", console=console)


def single(chosen: argparse.Namespace, console: Console) -> pd.DataFrame:
    """True returns of the random policy, and of the policies of M alone: for each task, the best of the four.

    A policy's mean count of collected objects gives its return on every task. The best is chosen by the same episodes.
    """
    table, rows = read_yardstick(), []
    units = parse_tasks("room-train")
    rewards = [f"task:{format_task(unit)}" for unit in units]
    for name, seed in itertools.product(("learned", "given"), chosen.seeds):
        agent, counts = usfa.load(chosen.out / f"{name}-{chosen.frames}-{seed}"), []
        for policy in agent.training_tasks:
            own = np.tile(policy, (len(units), 1))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                table_of = partial(usfa.evaluate, agent, own, "task", "follow", rewards=rewards, seed=seed)
                counts.append(table_of(console=console).score)
        for tasks in ("room-train", "room-hard"):
            best = (np.stack(counts) @ np.linalg.inv(units).T @ parse_tasks(tasks).T).max(axis=0).mean()
            random = table[(table.set == tasks) & (table.policy == "random")]["mean"].mean()
            rows.append((tasks, seed, name, best, random))
    return pd.DataFrame(rows, columns=["tasks", "seed", "phi", "best policy of M", "random policy"])


def quality(chosen: argparse.Namespace, console: Console) -> pd.DataFrame:
    """R² of each reward in new episodes: of random walks, of the last scout and of agents on φ."""
    phi = _last_phi(chosen)
    rows: list[tuple[object, ...]] = []
    for episodes, run in {"random walks": None, **_agents(chosen)}.items():
        act: Behaviour = RandomActions(np.random.default_rng([1000, 3]), WALK, 0.75)
        if run is not None:
            act = AgentActions([usfa.load(chosen.out / run)], act, 1000, share=1.0)
        data = _room_data(chosen, phi, phi.report.rewards, act, chosen.new_steps, 1000).thinned()
        rows += _explained(episodes, data, predict(phi.model, data) @ phi.tasks.T)
    unknown = float("nan")
    rows += [("held-out fifth", *row, unknown, unknown) for row in zip(phi.report.rewards, phi.report.r2, strict=True)]
    return pd.DataFrame(rows, columns=["episodes", "reward", "r2", "objects", "several at once"])


def _explained(episodes: str, data: Transitions, predicted: Array) -> Iterator[tuple[object, ...]]:
    """R² and number of objects of each reward, and the share of the rewarded error where several were collected."""
    error = (data.rewards - predicted) ** 2
    several = error[data.rewards.sum(axis=1) > 1].sum(axis=0) / error[data.rewards.any(axis=1)].sum(axis=0)
    found = r_squared(data, predicted)
    return zip(itertools.repeat(episodes), data.names, found, data.rewards.sum(axis=0), several, strict=False)


def networks(chosen: argparse.Namespace, console: Console) -> pd.DataFrame:
    """R² of each reward on held-out episodes of scouts, after 1,500 updates on the data of the last round."""
    phi = _last_phi(chosen)
    path = chosen.out / f"phi-{len(chosen.steps)}" / "data.npz"
    data = read_transitions(path, phi.model.spec.observation, phi.model.spec.actions, "room", phi.history)
    train, held = data.split()
    # The scouts' share of the 32 environments, whose episodes end together.
    scouted = np.diff(np.ceil(np.arange(33) * chosen.scout_share)).astype(np.bool_)
    held = held.rows(scouted[held.episode % 32]).thinned()
    rows = []
    for hidden in ((256,), (512, 256), (1024, 512, 256)):
        model = replace(FIT, hidden=hidden, steps=1500).fit(train, len(data.names), 0, NoProgress())
        rows.append((str(hidden), *r_squared(held, predict(model, held))))
    return pd.DataFrame(rows, columns=["hidden", *data.names])


def _room_data(
    chosen: argparse.Namespace, phi: usfa.LearnedPhi, texts: Sequence[str], act: Behaviour, steps: int, seed: int
) -> Transitions:
    inside = source("room", **_camera(chosen))
    with inside.opened() as env:
        spec = ObservationSpec.of(env.observation_space)
    return collect(rewarded(inside, texts), texts, spec, act, steps, seed, history=phi.history)


def view(chosen: argparse.Namespace, console: Console) -> pd.DataFrame:
    """Share of the collected objects of which a tenth was in view in one of the last H observations, by H and type.

    φ of H observations cannot express the rewards of the others. Uses the true state, which nothing is learned from.
    """
    rows = []
    for episodes, run in {"random walks": None, **_agents(chosen)}.items():
        act: Behaviour = RandomActions(np.random.default_rng(0), WALK, 0.75)
        if run is not None:
            act = AgentActions([usfa.load(chosen.out / run)], act, 0, share=1.0)
        objects = _collected_objects(chosen, act, 12)
        for history in (1, 2, 4, 6, 10):
            found = objects.seen[:history].max(axis=0) >= 0.1
            shares = [found[objects.kind == kind].mean() for kind in range(4)]
            rows.append((episodes, history, *shares, len(found)))
    return pd.DataFrame(rows, columns=["episodes", "H", *(kind.name for kind in OBJECTS[:4]), "collected"])


class _Collected(NamedTuple):
    """N objects that were collected, from the true state."""

    kind: NDArray[np.int64]  # [N]
    seen: Array  # [steps, N]  share of its area in view 0, 1, … steps before, even if another object hides it
    error: Array  # [N]  (r - φ·w)² of its reward; 0 without φ


def _collected_objects(
    chosen: argparse.Namespace, act: Behaviour, steps: int, phi: usfa.LearnedPhi | None = None
) -> _Collected:
    """Objects that are collected in an episode of 64 rooms, without those of the first steps."""
    batch = RoomBatch(64, seeds=range(64), **_camera(chosen))
    poses, places, errors = [batch.world.pose.copy()], [batch.world.objects.copy()], []
    past = History(1 if phi is None else phi.history, batch.observation)
    for _ in range(batch.rules.decisions):
        past.act(action := act(batch))
        rewards = batch.step(action).phi
        if phi is not None:
            found = phi.of_batch(past.observation, past.action, batch.next_observation, np.zeros((64, 0), np.float32))
            errors.append((rewards - found @ phi.tasks.T) ** 2)
            past.see(batch.observation, batch.first)
        poses.append(batch.world.pose.copy())
        places.append(batch.world.objects.copy())
    pose, place = np.stack(poses), np.stack(places)  # [T+1, B, 3], [T+1, B, K, 2]
    time, room, index = np.nonzero((place[1:] != place[:-1]).any(axis=-1))
    late = time >= steps
    time, room, index = time[late], room[late], index[late]
    kind = index // batch.rules.objects_per_type
    shares = []
    for back in range(steps):
        there = (place[time - back, room, index] == place[time, room, index]).all(axis=1)
        seen = _share_in_view(pose[time - back, room], place[time, room, index], kind, batch.field_of_view)
        shares.append(np.where(there, seen, 0.0))
    error = np.stack(errors)[time, room, kind] if errors else np.zeros(len(kind))
    return _Collected(kind, np.stack(shares), error)


def _share_in_view(pose: Array, place: Array, kind: NDArray[np.int64], field_of_view: float) -> Array:
    """Share of the area of objects [N, 2] that is within the view from poses [N, 3], also above and below."""
    x, y, heading = pose.T
    east, north = (place - np.stack([x, y], axis=1)).T
    depth = east * np.cos(heading) + north * np.sin(heading)
    right = east * np.sin(heading) - north * np.cos(heading)
    edge = np.maximum(depth, 0) * np.tan(np.radians(field_of_view) / 2)  # of the square image, from its centre
    width, lower, upper = BOXES[kind].T
    across = np.minimum(edge, right + width / 2) - np.maximum(-edge, right - width / 2)
    upright = np.minimum(EYE + edge, upper) - np.maximum(EYE - edge, lower)
    area = np.maximum(across, 0) / width * np.maximum(upright, 0) / (upper - lower)
    shares: Array = np.where(depth > NEAR, area, 0.0)
    return shares


def missed(chosen: argparse.Namespace, console: Console) -> pd.DataFrame:
    """Collected objects by how much of them was in view: their share, and the sum of their squared errors.

    In new episodes of the last scout and of agents on φ. φ sees the last H observations. Errors are
    relative to the number of objects, which is about the variance that R² divides by; those where nothing was collected
    are left out, and two objects of one type in one step both count the error of that step.
    """
    phi, rows = _last_phi(chosen), []
    for episodes, run in _agents(chosen).items():
        act: Behaviour = RandomActions(np.random.default_rng(0), WALK, 0.75)
        act = AgentActions([usfa.load(chosen.out / run)], act, 0, share=1.0)
        found = _collected_objects(chosen, act, phi.history, phi)
        now, before = found.seen[0], found.seen.max(axis=0)
        groups = {
            "a tenth or more of it, in s": now >= 0.1,
            "a tenth or more of it, earlier": (now < 0.1) & (before >= 0.1),
            "less": before < 0.1,
        }
        for kind, group in itertools.product(range(4), groups):
            own = found.kind == kind
            inside = own & groups[group]
            rows.append(
                (episodes, OBJECTS[kind].name, group, inside.sum() / own.sum(), found.error[inside].sum() / own.sum())
            )
    return pd.DataFrame(rows, columns=["episodes", "object", "in view", "share of objects", "error"])


def _agents(chosen: argparse.Namespace) -> dict[str, str]:
    """Runs of agents: the last scout, and the agents that were trained on the last φ since."""
    learned = {f"agent on φ, seed {seed}": f"learned-{chosen.frames}-{seed}" for seed in chosen.seeds}
    since = {name: run for name, run in learned.items() if (chosen.out / run).exists()}
    return {"scout": _last_scout(chosen), **since}


def infer_room(chosen: argparse.Namespace, console: Console) -> pd.DataFrame:
    """Zero-shot score on hard tasks with w inferred from the rewards of random walks, relative to the true w."""
    phi = _last_phi(chosen)
    agent = usfa.load(chosen.out / f"learned-{chosen.frames}-{chosen.seeds[0]}")
    w = parse_tasks("room-hard")
    rewards = [f"task:{format_task(task)}" for task in w]
    rows = []

    def mean_score(tasks: Array) -> float:
        play = partial(usfa.evaluate, agent, tasks, "train", rewards=rewards, episodes=5, seed=1, break_loops=False)
        return float(play(console=console).score.mean())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        true = mean_score(w @ translation(phi))
        for steps in (200, 1000, 3000, 10_000):
            tasks, met = [], 0
            for number, text in enumerate(rewards):
                act = RandomActions(np.random.default_rng([number, 1]), WALK, 0.75)
                data = _room_data(chosen, phi, (text,), act, steps, number)
                tasks.append(usfa.infer_task(predict(phi.model, data), data.rewards[:, 0], phi.noise).w)
                met += int((data.rewards != 0).sum())
            score = mean_score(np.stack(tasks))
            error = abs(np.stack(tasks) - w @ translation(phi)).max(axis=1).mean()
            rows.append((steps, met / len(w), error, score, true, score / true))
    return pd.DataFrame(rows, columns=["steps", "rewarded steps", "largest error of w", "inferred", "true", "ratio"])


def _cached(path: Path, make: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    """A table that is computed once."""
    if not path.exists():
        write_table(path, make())
    return pd.read_csv(path)


ROOM = {
    "room": room,
    "phi": phi,
    "networks": networks,
    "single": single,
    "quality": quality,
    "missed": missed,
    "view": view,
    "infer-room": infer_room,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", choices=["small", "infer", *ROOM])
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(10)))
    room_settings = parser.add_argument_group("room")
    room_settings.add_argument("--frames", type=int, default=500_000, help="of training")
    room_settings.add_argument("--history", type=int, default=4, help="H, observations that φ depends on")
    room_settings.add_argument(
        "--steps",
        type=int,
        nargs="+",
        default=[200_000, 400_000, 1_000_000, 2_400_000],
        help="of the data of φ, in each round",
    )
    room_settings.add_argument(
        "--updates",
        type=int,
        nargs="+",
        default=[3_000, 4_000, 10_000, 50_000],
        help="of the network of φ, in each round",
    )
    room_settings.add_argument(
        "--scout-frames",
        type=int,
        nargs="*",
        default=[500_000, 1_000_000, 1_000_000],
        help="of training on φ, between rounds",
    )
    room_settings.add_argument(
        "--field-of-view",
        type=float,
        default=110.0,
        help=f"in degrees; the room's own, {FIELD_OF_VIEW:g}, sees less of the objects that are collected",
    )
    room_settings.add_argument("--scout-share", type=float, default=0.9, help="of the data, after the first round")
    room_settings.add_argument("--new-steps", type=int, default=60_000, help="of each kind of new episodes")
    parser.add_argument("--out", type=Path, default=Path("runs/learned-phi"))
    chosen = parser.parse_args()
    rounds = len(chosen.steps)
    if (len(chosen.updates), len(chosen.scout_frames)) != (rounds, rounds - 1):
        parser.error(f"--steps has {rounds} rounds; expected as many --updates, and one less of --scout-frames.")
    first = chosen.out / "phi-1"
    if set(chosen.what) & set(ROOM) and (first / "config.json").exists():
        found = RunDirectory(first).config(FeaturesConfig).environment_arguments["field_of_view"]
        if found != chosen.field_of_view:
            parser.error(
                f"--field-of-view is {chosen.field_of_view:g}; expected {found}, as in {first}, or another --out."
            )
    console, seeds = Console(stderr=True), tuple(chosen.seeds)
    for what in chosen.what:
        if what in ROOM:
            table = ROOM[what](chosen, console)
        else:
            table = {"small": small, "infer": infer}[what](chosen.out, seeds, console)
        write_table(chosen.out / f"{what}.csv", table)
        if what == "infer":
            table = table.groupby("preset")[["inferred", "true"]].mean().reset_index()
            table = table.assign(ratio=table.inferred / table.true)
        print(markdown_table(table))


if __name__ == "__main__":
    main()
