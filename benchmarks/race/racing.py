"""What all racers share: the clock that stops while they are scored, the scoring itself, and the table they write.

It is imported by processes of two different environments, so that it needs nothing but NumPy and MO-Gymnasium. Seconds
are those of the process: every racer has one thread, and other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TextIO

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import mo_gymnasium  # noqa: F401  (registers its environments)

Array = NDArray[np.float64]


class Player(Protocol):
    """Acts greedily in K episodes side by side, as a racer's own library would.

    Ended episodes keep their last observation, and their actions have no effect.
    """

    def begin(self, w: Array) -> None:
        """Begin K episodes with preferences w [K, D]."""

    def act(self, seen: NDArray[Any]) -> NDArray[np.int64]:
        """Return the actions [K] for observations [K, ...]."""

    def add(self, phi: Array, ended: NDArray[np.bool_]) -> None:
        """Receive the rewards [K, D] of these actions, and which episodes have ended, [K]."""


@dataclass
class Memoryless:
    """A player whose actions depend on nothing but the observation and the preference."""

    policy: Callable[[NDArray[Any], Array], NDArray[np.int64]]
    """Actions [K] for observations [K, ...] and preferences [K, D]."""

    def begin(self, w: Array) -> None:
        self._w = w

    def act(self, seen: NDArray[Any]) -> NDArray[np.int64]:
        return self.policy(seen, self._w)

    def add(self, phi: Array, ended: NDArray[np.bool_]) -> None:
        pass


NOTHING = 1e-4
"""A discount that ends an episode in scoring: what comes later does not count."""

COLUMNS = ("race", "environment", "algorithm", "seed", "seconds", "steps", "played", "utility")
"""`steps` are those that are learned from; `played` also counts those by which a racer tries out what it knows.

A race by steps counts those that are learned from, as the papers of the peers do. GPI-LS plays several times as many
to choose its next preference.
"""


@dataclass(frozen=True)
class Contest:
    """What is raced for: a JSON file, so that every racer gets the same."""

    environment: str
    arguments: dict[str, Any]
    gamma: float
    preferences: list[list[float]]  # [K, D], which no racer trains on in particular
    seconds: float  # of training, scoring not counted; in a race by steps, the most that a racer may take
    steps: int | None  # learned from in a race by steps; None in a race by time
    points: int  # how often a racer is scored
    episodes: int  # per preference and scoring
    step_limit: int  # episodes without an end of their own are cut here, in training and in scoring
    minutes: float | None = None  # of a race by time with another time than usual

    @property
    def race(self) -> str:
        if self.steps is not None:
            return f"{self.steps} steps"
        return "time" if self.minutes is None else f"{self.minutes:g} minutes"

    def make(self) -> Any:
        limit = {"max_episode_steps": self.step_limit}
        return gym.make(self.environment, disable_env_checker=True, **limit, **self.arguments)


def expected_utility(contest: Contest, player: Player, seed: int) -> float:
    """The mean over preferences of the discounted utility of greedy episodes, all of them side by side.

    Some environments draw from NumPy's global generator. It is seeded here, and afterwards as it was.
    """
    before = np.random.get_state()  # noqa: NPY002
    np.random.seed(seed)  # noqa: NPY002
    try:
        return _mean_utility(contest, player, seed)
    finally:
        np.random.set_state(before)  # noqa: NPY002


def _mean_utility(contest: Contest, player: Player, seed: int) -> float:
    w = np.tile(np.array(contest.preferences), (contest.episodes, 1))
    envs = [contest.make() for _ in w]
    observations = [env.reset(seed=seed + index)[0] for index, env in enumerate(envs)]
    utility, discount, ended = np.zeros(len(w)), 1.0, np.zeros(len(w), np.bool_)
    player.begin(w)
    while not ended.all() and discount > NOTHING:
        actions, phi = player.act(np.stack(observations)), np.zeros(w.shape)
        for index in np.flatnonzero(~ended):
            observations[index], phi[index], terminated, truncated, _ = envs[index].step(int(actions[index]))
            ended[index] = terminated or truncated
        player.add(phi, ended)
        utility += discount * np.einsum("kd,kd->k", phi, w)
        discount *= contest.gamma
    for env in envs:
        env.close()
    return float(utility.mean())


class TimeIsUp(Exception):
    """The race is over."""


@dataclass
class Scorer:
    """Scores a racer at even distances of its training time, which stands still meanwhile."""

    contest: Contest
    player: Player
    seed: int
    began: float  # time.process_time() before the racer was made; moves on while it is scored
    algorithm: str
    table: Path  # where the scores are written
    others: Mapping[str, Player] = field(default_factory=dict)
    """Other ways to act with the same weights, by the name of their row; scored once, at the end."""
    rows: list[tuple[float, int, int, float]] = field(default_factory=list)
    _due: float = 0.0
    _paused: bool = False

    @property
    def seconds(self) -> float:
        return time.process_time() - self.began

    def look(self, steps: int, played: int) -> None:
        """Call often; raises TimeIsUp after the last scoring."""
        if self._paused:  # an algorithm tries something out while it is scored
            return
        done, total = self.seconds, self.contest.seconds
        if self.contest.steps is not None:
            done, total = steps, self.contest.steps
        over = done >= total or self.seconds >= self.contest.seconds
        if done < self._due and not over:
            return
        self.score(steps, played)
        apart = total / self.contest.points
        self._due = (done // apart + 1) * apart  # one score if several points were passed
        if over:
            raise TimeIsUp

    def score(self, steps: int, played: int) -> None:
        before, self._paused = time.process_time(), True
        utility = self._utility(self.player)
        self.rows.append((before - self.began, steps, played, utility))
        self.report()
        self.write()
        self.began += time.process_time() - before
        self._paused = False

    def report(self) -> None:
        """Print the last score, and how much of the race is done."""
        seconds, steps, played, utility = self.rows[-1]
        done, total = (seconds, self.contest.seconds) if self.contest.steps is None else (steps, self.contest.steps)
        print(
            f"{self.contest.environment}, {self.algorithm}, seed {self.seed}: {min(done / total, 1):4.0%}, "
            f"{steps:,} steps, {played:,} played, {seconds:.0f} s, utility {utility:.3f}",
            file=sys.stderr,
            flush=True,
        )

    def write(self) -> None:
        """Write the scores so far beside the table, so that a racer that is stopped leaves them."""
        with self._unfinished.open("w", newline="") as file:
            csv.writer(file).writerow(COLUMNS)
            for row in self.rows:
                self._write(file, self.algorithm, row)

    def _write(self, file: TextIO, algorithm: str, row: tuple[float, int, int, float]) -> None:
        seconds, steps, played, utility = row
        racer = [self.contest.race, self.contest.environment, algorithm, self.seed]
        csv.writer(file).writerow([*racer, f"{seconds:.2f}", steps, played, f"{utility:.6g}"])

    def finish(self) -> None:
        """Score `others`, then rename the finished table into place."""
        with self._unfinished.open("a", newline="") as file:
            for name, player in self.others.items():
                self._write(file, name, (*self.rows[-1][:-1], self._utility(player)))
        self._unfinished.replace(self.table)

    def _utility(self, player: Player) -> float:
        return expected_utility(self.contest, player, 1000 + self.seed)

    @property
    def _unfinished(self) -> Path:
        return self.table.with_suffix(".unfinished")


def arguments() -> tuple[Contest, str, int, Path]:
    """The contest, the algorithm, the seed and the table to write, from the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("contest", type=Path)
    parser.add_argument("algorithm")
    parser.add_argument("seed", type=int)
    parser.add_argument("out", type=Path)
    words = parser.parse_args()
    return Contest(**json.loads(words.contest.read_text())), words.algorithm, words.seed, words.out
