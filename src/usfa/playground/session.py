"""One page's session: its players, task, speed and replies. Only the scheduler's thread touches it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from usfa.errors import InputError
from usfa.playground.catalogue import Catalogue
from usfa.playground.heatmap_worker import HeatmapWorker
from usfa.playground.heatmaps import HeatmapRequest, is_exact, quantities
from usfa.playground.outbox import Frame, Outbox, Pixels, pack
from usfa.playground.player import Player
from usfa.playground.protocol import (
    ClearRatings,
    ClientMessage,
    CurrentRule,
    Pause,
    Ping,
    Policies,
    Pong,
    Rate,
    Reset,
    SetCandidates,
    SetPicture,
    SetRule,
    SetSpeed,
    SetTask,
    Setup,
    ShowHeatmap,
    StepOnce,
    StopHeatmap,
)
from usfa.playground.ratings import Ratings
from usfa.playground.room_view import OracleRun, Oracles
from usfa.tasks import parse_task

__all__ = ["Clock", "Session"]

_END_SECONDS = 1.5  # the last state of a long episode stays visible for this time
_SMOOTH_BELOW = 20.0  # decisions per second; faster sessions need no frames in between
_TOLERANCE = 1e-4  # seconds; events due within this time are due now


class Session:
    """A page's session. The scheduler calls `handle` and `advance`, decides for the players, and calls `show`."""

    def __init__(self, catalogue: Catalogue, oracles: Oracles, heatmaps: HeatmapWorker, outbox: Outbox) -> None:
        self._catalogue, self._oracles, self._heatmaps, self.outbox = catalogue, oracles, heatmaps, outbox
        self.players: list[Player] = []
        self.clock = Clock(1.0, 1.0, paused=True)
        self._oracle_run: OracleRun | None = None
        self._starting = False  # the first frame of an episode has not been shown yet
        self._full_frame = False  # a frame with values is due
        self._picture_share: float | None = None  # a picture is due, at this share of the step

    def begin(self, setup: Setup, players: list[Player]) -> None:
        """Replace the players by those made for a setup."""
        self.close()
        self.players = players
        self.w = players[0].w
        self._picture_size, self._observation = setup.picture_size, setup.observation
        self.clock = Clock(players[0].view.rate, setup.speed, setup.paused)
        self.ratings = Ratings(len(self.w))
        self.outbox.send(self._catalogue.session_info(players, setup.seed))
        for index in range(len(players)):
            self._send_policies(index)
        self._begin_episode(setup.seed)

    def close(self) -> None:
        self._heatmaps.stop(self)
        for player in self.players:
            player.view.close()
        self.players = []

    def _begin_episode(self, seed: int) -> None:
        self.seed = seed
        self._tasks: list[NDArray[np.float64]] = []  # of every step, for an oracle that becomes ready late
        self._oracle_run = None
        for player in self.players:
            player.reset(seed)
        self._starting, self._full_frame, self._picture_share = True, True, 1.0

    # --- messages ---

    def handle(self, message: ClientMessage) -> None:
        """Handle any message but a setup, which the scheduler handles; InputError if the message is invalid."""
        if isinstance(message, Ping):
            self.outbox.send(Pong(message.id))
            return
        if not self.players:
            raise InputError("The session is not set up; expected a setup message first.")
        match message:
            case SetTask(w):
                self._set_task(parse_task(w, len(self.w)))
            case SetCandidates(index, candidates):
                self._player(index).set_candidates(candidates)
                self._send_policies(index)
                self._full_frame = True
            case SetRule(index, rule):
                self._player(index).set_rule(rule)
                self.outbox.send(CurrentRule(index, self.players[index].rule_name))
                self._full_frame = True
            case Pause(paused):
                self.clock.paused = paused
            case StepOnce():
                self.clock.once()
            case SetSpeed(factor):
                self.clock.speed = factor
            case Reset(seed):
                self._begin_episode(seed)
            case SetPicture(size, observation):
                self._picture_size, self._observation, self._picture_share = size, observation, 1.0
            case Rate(reward, steps, index):
                self._rate(self._player(index), reward, steps)
            case ClearRatings():
                self.ratings.clear()
                self.outbox.send(self.ratings.estimate(np.zeros(len(self.w))))
            case ShowHeatmap():
                self._heatmaps.submit(self, self._heatmap_request(message), self.outbox.send)
            case StopHeatmap():
                self._heatmaps.stop(self)

    def _set_task(self, w: NDArray[np.float64]) -> None:
        self.w = w
        for index, player in enumerate(self.players):
            player.set_task(w)
            if player.candidates != "train" and isinstance(player.candidates, str):
                self._send_policies(index)
        self._full_frame = True

    def _player(self, index: int) -> Player:
        if index >= len(self.players):
            raise InputError(f"There is no player {index}; expected one below {len(self.players)}.")
        return self.players[index]

    def _rate(self, player: Player, reward: float, steps: int) -> None:
        recent = player.recent[-steps:]
        estimate = self.ratings.add(np.sum(recent, axis=0) if recent else np.zeros(len(self.w)), reward)
        self.outbox.send(estimate)
        if estimate.w is not None:
            self._set_task(np.clip(estimate.w, -1.0, 1.0))

    def _heatmap_request(self, asked: ShowHeatmap) -> HeatmapRequest:
        player = self._player(asked.player)
        known = quantities(player.agent, player.view)
        if asked.quantity not in known or asked.x == asked.y or max(asked.x, asked.y) >= len(self.w):
            raise InputError(
                f"There is no map of {asked.quantity!r} over features {asked.x} and {asked.y}; expected two of "
                f"{len(self.w)} features, and one of {', '.join(known)}."
            )
        return HeatmapRequest(
            agent=self._catalogue.paths[player.name],
            environment=self._catalogue.environment,
            trust=self._catalogue.trust,
            player=asked.player,
            quantity=asked.quantity,
            x=asked.x,
            y=asked.y,
            w=tuple(self.w.tolist()),
            candidates=player.candidates,
            rule=player.rule_name,
            resolution=asked.resolution,
            episodes=0 if is_exact(player.agent, player.view) else asked.episodes,
            seed=self.seed,
        )

    def _send_policies(self, index: int) -> None:
        player = self.players[index]
        z = player.candidate_set.z.round(4).tolist()
        self.outbox.send(Policies(index, player.candidates, z, player.policy_names()))

    # --- time ---

    def advance(self, now: float, smooth: bool) -> None:
        """Act if a decision is due; `smooth` allows frames between decisions."""
        if not self.players or self._starting:
            return
        tick = self.clock.tick(now, smooth and not self._observation and self.players[0].view.smooth)
        if tick == "decide":
            self._act(now)
        elif tick == "arrive":
            self._full_frame, self._picture_share = True, 1.0

    def _act(self, now: float) -> None:
        if all(player.over for player in self.players):
            self._begin_episode((self.seed + 1) % 2**31)
            return
        for player in self.players:
            player.act()
        self._step_oracle()
        intermediate = self.clock.between_decisions
        self._full_frame, self._picture_share = not intermediate, 0.5 if intermediate else 1.0
        if all(player.over for player in self.players) and self.clock.rate > 5:
            self.clock.hold(now, _END_SECONDS)

    def _step_oracle(self) -> None:
        """Let the oracle act in its own room; once it is ready, it first repeats the steps so far."""
        self._tasks.append(self.w)
        rules = self.players[0].view.rules
        oracle = None if rules is None else self._oracles.get(rules)
        if oracle is None:
            return
        missed: Sequence[NDArray[np.float64]] = ()
        if self._oracle_run is None:
            self._oracle_run, missed = OracleRun(oracle, self.seed), self._tasks[:-1]
        for w in (*missed, self.w):
            self._oracle_run.step(w)

    # --- frames ---

    def show(self) -> None:
        """Send a frame if anything changed. All players have decided by now."""
        if not self.players or not (self._full_frame or self._picture_share is not None):
            return
        share, full = self._picture_share, self._full_frame
        self._picture_share, self._full_frame, self._starting = None, False, False
        run, best = self._oracle_run, self.players[0].view.optimum(self.w)
        frame = Frame(
            seed=self.seed,
            task=self.w.tolist(),
            players=[player.frame() if full else player.intermediate_frame(share or 1.0) for player in self.players],
            oracle=best if run is None else round(run.returned, 4),
            oracle_collected=None if run is None else run.collected.tolist(),
        )
        pictures = [None if share is None else self._picture(player, share) for player in self.players]
        self.outbox.show(pack(frame, pictures), intermediate=not full)

    def _picture(self, player: Player, share: float) -> Pixels | None:
        seen = player.view.observation_picture() if self._observation else None
        return player.view.picture(self._picture_size, share) if seen is None else seen


class Clock:
    """Decides at the multiples of its period, so that sessions of the same speed decide together.

    A smooth clock ticks twice per decision: when the players act, and when the page shows their arrival.
    """

    def __init__(self, rate: float, speed: float, paused: bool) -> None:
        self.rate, self.speed, self.paused = rate, speed, paused
        self._next = 0.0
        self._arrival: float | None = None
        self._once = False

    @property
    def period(self) -> float:
        """Seconds between decisions."""
        return 1 / (self.rate * self.speed)

    @property
    def between_decisions(self) -> bool:
        """Whether the arrival of the last decision is still due."""
        return self._arrival is not None

    def once(self) -> None:
        """Pause, but allow one more decision."""
        self.paused, self._once = True, True

    def hold(self, now: float, seconds: float) -> None:
        """Delay the next decision until `seconds` after `now`."""
        self._next = max(self._next, now + seconds)

    def tick(self, now: float, smooth: bool = False) -> Literal["decide", "arrive"] | None:
        """Return the event that is due now, if any, and schedule the next one."""
        if self._arrival is not None:
            if now < self._arrival - _TOLERANCE:
                return None
            self._arrival = None
            return "arrive"
        if self._once:
            self._once = False
            return "decide"
        if self.paused or now < self._next - _TOLERANCE:
            return None
        self._next = (math.floor(now / self.period + 0.01) + 1) * self.period
        if smooth and 1 / self.period <= _SMOOTH_BELOW:
            self._arrival = now + self.period / 2
        return "decide"

    def due(self) -> float | None:
        """The time of the next tick; None while paused."""
        if self._arrival is not None:
            return self._arrival
        if self._once:
            return 0.0
        return None if self.paused else self._next
