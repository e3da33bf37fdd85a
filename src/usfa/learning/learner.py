"""Algorithm 1: draw w, draw z, act, remember, loss, optimiser, target.

Several training runs, one for each seed, are computed in parallel: tensors have a leading axis R. With trajectories of
one step this is the paper's Algorithm 1, line by line.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from usfa.agents import Agent
from usfa.environments import EnvironmentSource
from usfa.errors import Diverged, InputError
from usfa.learning.config import LearnerConfig
from usfa.learning.draws import CurrentTasks, Draws, Seeds
from usfa.learning.layout import Layout, defect, layout_of, optimizer_layout, trajectory_layout
from usfa.learning.replay import join, make_replay, part
from usfa.learning.rollout import Collected, Rollout
from usfa.networks import Network, Precision, Runs, autocast, over_runs
from usfa.trajectory import Trajectory

__all__ = ["Acting", "Learner", "LocalActing", "Update"]

MOST_ROWS = 1000
"""Largest number of rows per update for which all runs are computed at once. For three runs this takes as long as one
after the other on Trip (160 rows) and deep-sea-treasure (1728), and half as long again on fruit-tree (1728, with more
outputs). For more runs with few rows it is much faster."""
LARGEST_LOSS = 1e6  # in units of output_scale²; training does not recover from larger losses
LARGEST_PHI = 1e4  # in units of output_scale; a larger φ explains a loss that is too large


class Update(NamedTuple):
    """The outcome of one round of updates."""

    loss: NDArray[np.float32]  # [R]     mean over the round, in units of output_scale²
    gradient: NDArray[np.float32]  # [R]     norm before clipping, mean over the round
    episode_phi: NDArray[np.float64]  # [K, D]  Σφ of each finished episode
    episode_environment: NDArray[np.int64]  # [K]     index of its environment, 0 to R·B-1


class Learner:
    """Trains one agent for each seed, in parallel and independently."""

    def __init__(
        self,
        agent: Agent,
        config: LearnerConfig,
        environments: EnvironmentSource,
        training_tasks: NDArray[np.float64],
        seeds: Sequence[int],
        device: torch.device | None = None,
        precision: Precision = "fp32",
        acting: Acting | None = None,
    ) -> None:
        """Make the networks, and the environments unless `acting` has its own.

        Args:
            agent: network, loss and values.
            config: settings.
            environments: source of the environments.
            training_tasks: M, [K, D].
            seeds: one for each run.
            device: of the networks; by default the CPU.
            precision: of convolutions and matrix products.
            acting: collects the trajectories; by default a :class:`LocalActing`.
        """
        self.agent = agent
        self.config = config
        self.environments = environments
        self.training_tasks = training_tasks
        self.seeds = tuple(seeds)
        self.device = device or torch.device("cpu")
        self.precision = precision
        self.draws = Draws(config, training_tasks, self.device)
        streams = [Seeds(seed, config.environments) for seed in self.seeds]
        self.rngs = [stream.behaviour for stream in streams]
        self.network = self._initial_networks()
        has_target = config.target_every is not None or config.ema is not None
        self.target = self.network.copy() if has_target else None
        self.optimizer = agent.optimizer(self.network.trained, config.learning_rate)
        self._learning_rates = [group["lr"] for group in self.optimizer.param_groups]
        self.replay = make_replay(config)
        self.updates = 0
        self.frames = np.zeros(len(self.seeds), np.int64)
        self.episodes = np.zeros(len(self.seeds), np.int64)
        self.largest_phi = 0.0  # |φ| so far, in this process
        self.now: Callable[[], float] = time.monotonic  # clock that times the rounds
        self.seconds = 0.0  # spent in rounds; scoring and saving between them do not count
        self.acting = acting or LocalActing(self, [stream.environments for stream in streams])
        self._loss = over_runs(self._loss_of_one_run, self.network, *([self.target] if self.target else []))

    def _initial_networks(self) -> Runs:
        weights = [Seeds(seed, self.config.environments).weights for seed in self.seeds]
        networks = [self.agent.make_network(seed).to(self.device) for seed in weights]
        return Runs(networks, at_once=self.config.rows_per_update <= MOST_ROWS)

    # --- Algorithm 1 ---

    def step(self) -> Update:
        """Algorithm 1, lines 3-12, for every run and environment at once."""
        started = self.now()
        collected, z = self.acting.collect(self)  # lines 3-8: draw w, draw z, act
        trajectory, z = self._remember(collected.trajectory, z)
        parts = self.config.updates_per_round
        done = [self._update(part(trajectory, k, parts), own_z) for k, own_z in enumerate(z.chunk(parts, dim=1))]
        self.frames += collected.frames
        self.episodes += collected.episodes
        losses = [own for own, _ in done]
        self.replay.learned(losses)
        loss = torch.stack([_mean_of_run(own) for own in losses]).mean(dim=0).cpu().numpy()
        gradient = torch.stack([norm for _, norm in done]).mean(dim=0).cpu().numpy()
        self.largest_phi = max(self.largest_phi, float(collected.trajectory.phi.abs().max()))
        self._check(loss)
        self.acting.learned(self)
        self.seconds += self.now() - started
        return Update(loss, gradient, collected.episode_phi, collected.episode_environment)

    def _remember(self, fresh: Trajectory, z: Tensor) -> tuple[Trajectory, Tensor]:
        """Join the new trajectory with replayed ones, for which new policies are drawn."""
        if not self.config.replay_ratio:
            return fresh, z
        self.replay.add(fresh)
        past = self.replay.sample(self.config.replay_ratio, self.rngs)
        return join(fresh, past), torch.cat([z, self.draws.policies(past.w, self.rngs)], dim=1)

    def _update(self, trajectory: Trajectory, z: Tensor) -> tuple[Tensor, Tensor]:
        """Algorithm 1, lines 9-11: loss, optimiser, target.

        Returns: the losses [R], or [R, B] if there is one for each trajectory, and the norms of gradients [R].
        """
        with autocast(self.device, self.precision):
            loss: Tensor = self._loss(trajectory, z)
        self.optimizer.zero_grad()
        _mean_of_run(loss).sum().backward()
        norm = self._clip()
        self._optimise()
        self.updates += 1
        self._renew_target()
        return loss.detach(), norm

    def _loss_of_one_run(self, network: Network, *rest: Any) -> Tensor:
        """The agent's loss in units of output_scale².

        The limit of the loss, clip and Adam's ε are absolute numbers; in these units they suit rewards of any size.
        """
        *target, trajectory, z = rest
        loss = self.agent.loss(network, trajectory, z, self.config.loss, target[0] if target else None)
        if self.config.loss.per_trajectory and loss.dim() == 0:
            raise InputError(
                f"The loss of {type(self.agent).__name__} is one number, but priority_exponent is "
                f"{self.config.priority_exponent}; expected a loss for each trajectory, [B], if "
                "settings.per_trajectory is set, or a priority_exponent of 0."
            )
        return loss if self._scale == 1 else loss / self._scale**2

    @property
    def _scale(self) -> float:
        return self.agent.network_config.output_scale

    def _clip(self) -> Tensor:
        """Clip the gradient of every run to the maximum norm; return the norms before clipping, [R]."""
        norms = []
        for gradients in self.network.gradients():
            of_each = torch.stack([torch.linalg.vector_norm(gradient.flatten(1), dim=1) for gradient in gradients])
            norms.append(torch.linalg.vector_norm(of_each, dim=0))
            if self.config.clip is not None:
                factor = self.config.clip / norms[-1].clamp(min=self.config.clip)
                for gradient in gradients:
                    gradient *= factor.view(-1, *[1] * (gradient.dim() - 1))
        return torch.cat(norms)

    def _optimise(self) -> None:
        """Make a step of the optimiser, with learning rates that fall linearly to 0 over the budget of each run.

        A parameter group has one learning rate for all runs. Where runs differ, each moves only a share of the way to
        its new weights, which is equivalent to a smaller learning rate.
        """
        remaining = np.clip(1 - self.progress / self.config.budget, 0, 1)
        largest = float(remaining.max())
        for group, learning_rate in zip(self.optimizer.param_groups, self._learning_rates, strict=True):
            group["lr"] = learning_rate * largest
        if (remaining == largest).all():
            self.optimizer.step()
            return
        before = {name: tensor.clone() for name, tensor in self.network.state.items()}
        self.optimizer.step()
        self.network.lerp(before, self._per_run(1 - remaining / largest))

    @torch.no_grad()
    def _renew_target(self) -> None:
        if self.target is None:
            return
        if self.config.ema is not None:
            share = np.where(self.progress < self.config.budget, self.config.ema, 0.0)
            self.target.lerp(self.network.state, self._per_run(share))
        elif self.updates % (self.config.target_every or 1) == 0:
            self.target.load(self.network.state)

    def _per_run(self, values: NDArray[np.float64]) -> Tensor:
        return torch.from_numpy(values).float().to(self.device)

    # --- checks and progress ---

    def _check(self, losses: NDArray[np.float32]) -> None:
        for seed, loss in zip(self.seeds, losses.tolist(), strict=True):
            if not loss <= LARGEST_LOSS:  # also true for NaN
                raise Diverged(f"The loss of seed {seed} is {loss:g} after {self.updates} updates; {self._remedy}")

    @property
    def _remedy(self) -> str:
        if self.largest_phi <= LARGEST_PHI * self._scale:
            return "try a lower learning_rate, or set clip"
        return (
            f"an entry of φ was {self.largest_phi:g}, but network.output_scale, the expected size of returns, is "
            f"{self._scale:g}: correct the reward of the environment, or set network.output_scale"
        )

    def check_parameters(self) -> None:
        """Raise Diverged if any weight is not finite."""
        for name, x in self.network.state.items():
            if not bool(x.isfinite().all()):
                raise Diverged(f"The parameter {name} is not finite after {self.updates} updates; {self._remedy}")

    @torch.no_grad()
    def change(self) -> NDArray[np.float64]:
        """Change of the weights of every run since the start, relative to their initial norm, [R]."""

        def joined(runs: Runs) -> Tensor:
            return torch.cat([x.reshape(len(self.seeds), -1).double() for x in runs.state.values()], dim=1)

        before, now = joined(self._initial_networks()), joined(self.network)
        change: NDArray[np.float64] = ((now - before).norm(dim=1) / before.norm(dim=1)).cpu().numpy()
        return change

    @property
    def best(self) -> Runs:
        """Networks to act with after training: the moving average if there is one."""
        return self.target if self.target is not None and self.config.ema is not None else self.network

    @property
    def rounds(self) -> int:
        """Number of calls of :meth:`step`."""
        return self.updates // self.config.updates_per_round

    @property
    def progress(self) -> NDArray[np.int64]:
        """Progress of every run in the unit of the budget, [R]; the whole budget once the time limit is reached."""
        if self.config.budget_unit == "seconds":
            done = np.full(len(self.seeds), int(self.seconds))
        else:
            done = self.episodes if self.config.budget_unit == "episodes" else self.frames
        if self.config.time_limit is None:
            return done
        return np.maximum(done, int(self.config.budget * min(1.0, self.seconds / self.config.time_limit)))

    @property
    def share_done(self) -> NDArray[np.float64]:
        """Share of the budget that every run has used, 0 to 1, [R]."""
        return np.minimum(1.0, self.progress / self.config.budget)

    @property
    def done(self) -> bool:
        """Whether every run has used up its budget. Weights of a run do not change after its budget."""
        return bool((self.progress >= self.config.budget).all())

    def close(self) -> None:
        """Release the environments."""
        self.acting.close(self)

    # --- saving ---

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Complete state for resuming: tensors, and JSON values."""
        acting_tensors, acting_values = self.acting.state()
        replayed, added = self.replay.state()
        optimizer_tensors, optimizer_values = _flat(self.optimizer.state_dict()["state"])
        groups = {
            "network": self.network.state,
            "target": self.target.state if self.target is not None else {},
            "optimizer": optimizer_tensors,
            "replay": {} if self.done else replayed,  # no longer needed
            "acting": acting_tensors,
        }
        tensors = {f"{group}/{name}": x for group, members in groups.items() for name, x in members.items()}
        values = {
            "updates": self.updates,
            "seconds": self.seconds if self.config.counts_time else 0.0,  # otherwise equal runs save equal bytes
            "optimizer": optimizer_values,
            "replayed": added,
            "precision": self.precision,
            "frames": self.frames.tolist(),
            "episodes": self.episodes.tolist(),
            "rngs": [rng.bit_generator.state for rng in self.rngs],
            "acting": acting_values,
        }
        return tensors, values

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Restore a state from :meth:`state`; training continues identically to the bit."""
        groups: dict[str, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            group, _, member = name.partition("/")
            groups.setdefault(group, {})[member] = tensor
        self._check_saved(groups, values)
        self.acting.load_state(groups.get("acting", {}), values["acting"])
        self.network.load(groups["network"])
        if self.target is not None:
            self.target.load(groups["target"])
        optimizer = self.optimizer.state_dict()
        optimizer["state"] = _nested(groups.get("optimizer", {}), values["optimizer"])
        self.optimizer.load_state_dict(optimizer)
        self.replay.load_state(groups.get("replay", {}), values["replayed"], self.device)
        self.updates = values["updates"]
        self.seconds = values.get("seconds", 0.0)
        self.precision = values["precision"]
        self.frames[:] = values["frames"]
        self.episodes[:] = values["episodes"]
        for rng, state in zip(self.rngs, values["rngs"], strict=True):
            rng.bit_generator.state = state

    def _check_saved(self, groups: dict[str, dict[str, Tensor]], values: dict[str, Any]) -> None:
        """Raise ValueError for a state that would fail later, in the middle of training."""
        for name in ("updates", "replayed"):
            if type(values[name]) is not int or values[name] < 0:
                raise ValueError(f"{name} is {values[name]!r}; expected a whole number from 0")
        seconds = values.get("seconds", 0.0)
        if not isinstance(seconds, float) or not 0 <= seconds < float("inf"):
            raise ValueError(f"seconds is {seconds!r}; expected a number from 0")
        if values["precision"] not in get_args(Precision):
            raise ValueError(f"precision is {values['precision']!r}; expected one of {get_args(Precision)}")
        for group, layout in self._layouts(groups, values["replayed"]).items():
            wrong = defect(groups[group], layout)
            if wrong:
                raise ValueError(f"in {group}, {wrong}")

    def _layouts(self, groups: dict[str, dict[str, Tensor]], replayed: int) -> dict[str, Layout]:
        """The expected layouts of the saved groups of tensors.

        Optimisers have no state for unused parameters, and may have more state than after their first step.
        """
        layouts = {"network": layout_of(self.network.state)}
        if self.target is not None:
            layouts["target"] = layout_of(self.target.state)
        if "optimizer" in groups:
            used = {name.partition("/")[0] for name in groups["optimizer"]}
            own = optimizer_layout(self.agent, self.network.trained, self.config.learning_rate)
            wanted = {name: one for name, one in own.items() if name.partition("/")[0] in used}
            layouts["optimizer"] = layout_of(groups["optimizer"]) | wanted
        if "replay" in groups:
            layouts["replay"] = self.replay.layout(
                trajectory_layout(self.agent, self.config, len(self.seeds)), replayed
            )
        return layouts


def _mean_of_run(loss: Tensor) -> Tensor:
    """The loss of every run, [R], from losses of runs [R] or of trajectories [R, B]."""
    return loss if loss.dim() == 1 else loss.mean(dim=1)


def _flat(state: dict[int, dict[str, Any]]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The state of an optimiser as tensors and JSON values, both by "index/name"."""
    members = {f"{index}/{name}": value for index, own in state.items() for name, value in own.items()}
    tensors = {name: value for name, value in members.items() if isinstance(value, Tensor)}
    return tensors, {name: value for name, value in members.items() if name not in tensors}


def _nested(tensors: dict[str, Tensor], values: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """The inverse of :func:`_flat`."""
    state: dict[int, dict[str, Any]] = {}
    for path, value in {**tensors, **values}.items():
        index, _, name = path.partition("/")
        state.setdefault(int(index), {})[name] = value
    return state


class Acting(ABC):
    """The part of Algorithm 1 that collects trajectories, in this process or in others."""

    @abstractmethod
    def collect(self, learner: Learner) -> tuple[Collected, Tensor]:
        """Collect the next trajectory; return it and the policies z [R, B, N, D] to learn about."""

    def learned(self, learner: Learner) -> None:  # noqa: B027
        """Called after the updates with the trajectory."""

    @abstractmethod
    def close(self, learner: Learner) -> None: ...

    def report(self) -> dict[str, Any]:
        """Measurements since the last report, as JSON values for the log."""
        return {}

    @property
    def note(self) -> str:
        """Text to show next to the progress bar."""
        return ""

    @abstractmethod
    def state(self) -> tuple[dict[str, Tensor], Any]: ...

    @abstractmethod
    def load_state(self, tensors: dict[str, Tensor], values: Any) -> None: ...


class LocalActing(Acting):
    """Acts in this process, in the environments of all runs, ε-greedily by GPI."""

    def __init__(self, learner: Learner, seeds: Sequence[Sequence[int]]) -> None:
        """Make the environments, from a sequence of seeds for every run."""
        config = learner.config
        batch = learner.environments.batch([seed for run in seeds for seed in run], config.gamma)
        self.rollout = Rollout(
            learner.agent,
            learner.network,
            batch,
            config.trajectory_length,
            learner.device,
            config.repeat_exponent,
            config.repeat_share,
        )
        self.tasks = CurrentTasks(learner.draws, config, len(seeds), batch.features, learner.device)

    def collect(self, learner: Learner) -> tuple[Collected, Tensor]:
        w = self.tasks.next(learner.rngs)  # line 3
        z = learner.draws.policies(w, learner.rngs)  # lines 4-5
        epsilons = learner.config.epsilons(learner.share_done)
        with autocast(learner.device, learner.precision):
            collected = self.rollout.collect(w, z, epsilons, learner.rngs)  # lines 6-8
        self.tasks.ended(collected.episode_environment)
        return collected, z

    def close(self, learner: Learner) -> None:
        self.rollout.batch.close()

    def state(self) -> tuple[dict[str, Tensor], Any]:
        return self._tensors(), {"environments": self.rollout.batch.state()}

    def _tensors(self) -> dict[str, Tensor]:
        return {**self.rollout.tensors(), **{f"task.{name}": x for name, x in self.tasks.tensors().items()}}

    def load_state(self, tensors: dict[str, Tensor], values: Any) -> None:
        if "environments" not in values:
            raise InputError("The run was started with --cluster; expected to resume it with --cluster.")
        for name, tensor in self._tensors().items():
            tensor.copy_(tensors[name])
        self.rollout.batch.load_state(values["environments"])
