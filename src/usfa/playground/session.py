"""One visitor: their players, their task, their pace, and what they are told. Only the director's thread touches it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from usfa.errors import InputError
from usfa.playground.cast import Cast, scene_of
from usfa.playground.clock import Clock
from usfa.playground.frames import Moment, pack
from usfa.playground.ghost import Ghost, Oracles
from usfa.playground.heatmaps import HeatmapRequest
from usfa.playground.player import Player
from usfa.playground.protocol import (
    Candidates,
    ChooseCandidates,
    ChooseRule,
    Forget,
    Message,
    Note,
    Pause,
    Ping,
    Policies,
    Pong,
    Rate,
    Reset,
    RuleChosen,
    SetSpeed,
    SetTask,
    SetView,
    ShowHeatmap,
    StepOnce,
    StopHeatmap,
)
from usfa.playground.repertoire import Repertoire, quantities
from usfa.playground.teaching import Teaching
from usfa.playground.worker import HeatmapWorker
from usfa.playground.worlds import MdpWorld
from usfa.tasks import parse_task

__all__ = ["Mailbox", "Services", "Session"]

_CURTAIN = 1.5  # seconds that the end of a long episode stays on stage


class Mailbox(Protocol):
    """Where a visitor's mail is put, from any thread."""

    def note(self, note: Note) -> None:
        """Arrives for certain, in order."""
        ...

    def moment(self, packed: bytes, *, fleeting: bool) -> None:
        """Replaces a moment that was not sent yet; a fleeting one does not."""
        ...


@dataclass(frozen=True)
class Services:
    """What all sessions share."""

    repertoire: Repertoire
    oracles: Oracles
    heatmaps: HeatmapWorker


class Session:
    """A visitor's stage. The director calls `handle` and `advance`, lets the players think, and calls `show`."""

    def __init__(self, services: Services, mailbox: Mailbox) -> None:
        self._services, self.mailbox = services, mailbox
        self.players: list[Player] = []
        self._names: list[str] = []
        self.clock = Clock(1.0, 1.0, paused=True)
        self._view, self._eyes = 336, False
        self._ghost: Ghost | None = None
        self._opening = False
        self._tell = False  # something besides the picture is new
        self._picture: float | None = None  # a picture is due, at this share of the way

    # --- beginnings and ends ---

    def begin(self, cast: Cast) -> None:
        """A new cast takes the stage."""
        self.close()
        setup = cast.setup
        self.players, self._names = cast.players, cast.names
        self.w, self.seed = self.players[0].w, setup.seed
        self._view, self._eyes = setup.view, setup.eyes
        self.clock = Clock(self.players[0].world.rate, setup.speed, setup.paused)
        self.teaching = Teaching(len(self.w))
        self.mailbox.note(scene_of(cast, self._services.repertoire))
        for index in range(len(self.players)):
            self._tell_policies(index)
        self._begin_episode(setup.seed)

    def close(self) -> None:
        self._services.heatmaps.stop(self)
        for player in self.players:
            player.world.close()
        self.players = []

    def _begin_episode(self, seed: int) -> None:
        self.seed = seed
        self._tasks: list[NDArray[np.float64]] = []  # of every step, for an oracle that joins late
        self._ghost = None
        for player in self.players:
            player.reset(seed)
        self._opening, self._tell, self._picture = True, True, 1.0

    # --- what the visitor says ---

    def handle(self, message: Message) -> None:
        """Everything but a setup, which becomes a cast first. InputError if it cannot be done."""
        if isinstance(message, Ping):
            self.mailbox.note(Pong(message.id))
            return
        if not self.players:
            raise InputError("Nothing is set up yet; expected a setup first.")
        match message:
            case SetTask(w):
                self.set_task(parse_task(w, len(self.w)))
            case ChooseCandidates(player, candidates):
                self._choose(player, candidates)
            case ChooseRule(player, rule):
                self._choose_rule(player, rule)
            case Pause(paused):
                self.clock.paused = paused
            case StepOnce():
                self.clock.once()
            case SetSpeed(factor):
                self.clock.speed = factor
            case Reset(seed):
                self._begin_episode(seed)
            case SetView(size, eyes):
                self._view, self._eyes, self._picture = size, eyes, 1.0
            case Rate(reward, steps, player):
                self._rate(self._player(player), reward, steps)
            case Forget():
                self.teaching.forget()
                self.mailbox.note(self.teaching.estimate(np.zeros(len(self.w))))
            case ShowHeatmap():
                self._services.heatmaps.submit(self, self._heatmap(message), self.mailbox.note)
            case StopHeatmap():
                self._services.heatmaps.stop(self)

    def set_task(self, w: NDArray[np.float64]) -> None:
        self.w = w
        for index, player in enumerate(self.players):
            player.set_task(w)
            if player.candidates != "train" and isinstance(player.candidates, str):
                self._tell_policies(index)
        self._tell = True

    def _player(self, index: int) -> Player:
        if index >= len(self.players):
            raise InputError(f"There is no player {index}; expected one below {len(self.players)}.")
        return self.players[index]

    def _choose(self, index: int, candidates: Candidates) -> None:
        self._player(index).choose(candidates)
        self._tell_policies(index)
        self._tell = True

    def _choose_rule(self, index: int, rule: str) -> None:
        player = self._player(index)
        player.choose_rule(rule)
        self.mailbox.note(RuleChosen(index, player.rule))
        self._tell = True

    def _rate(self, player: Player, reward: float, steps: int) -> None:
        recent = player.recent[-steps:]
        rated = self.teaching.rate(np.sum(recent, axis=0) if recent else np.zeros(len(self.w)), reward)
        self.mailbox.note(rated)
        if rated.w is not None:
            self.set_task(np.clip(rated.w, -1.0, 1.0))

    def _heatmap(self, asked: ShowHeatmap) -> HeatmapRequest:
        player = self._player(asked.player)
        known = quantities(player.agent, player.world)
        if asked.quantity not in known or asked.x == asked.y or max(asked.x, asked.y) >= len(self.w):
            raise InputError(
                f"There is no map of {asked.quantity!r} over features {asked.x} and {asked.y}; expected two of "
                f"{len(self.w)} features, and one of {', '.join(known)}."
            )
        repertoire = self._services.repertoire
        return HeatmapRequest(
            agent=repertoire.paths[self._names[asked.player]],
            environment=repertoire.environment,
            trust=repertoire.trust,
            player=asked.player,
            quantity=asked.quantity,
            x=asked.x,
            y=asked.y,
            w=tuple(self.w.tolist()),
            candidates=player.candidates,
            rule=player.rule,
            resolution=asked.resolution,
            seed=self.seed,
        )

    # --- time passes ---

    def advance(self, now: float, smooth: bool) -> None:
        """Let the worlds move if it is time; `smooth` allows pictures between decisions."""
        if not self.players or self._opening:  # the first moment of an episode is shown before anything moves
            return
        tick = self.clock.tick(now, smooth and not self._eyes and self.players[0].world.smooth)
        if tick == "decide":
            self._decide(now)
        elif tick == "arrive":
            self._tell, self._picture = True, 1.0

    def _decide(self, now: float) -> None:
        if all(player.over for player in self.players):
            self._begin_episode((self.seed + 1) % 2**31)
            return
        for player in self.players:
            player.act()
        self._walk_ghost()
        on_the_way = self.clock.on_the_way
        self._tell, self._picture = not on_the_way, 0.5 if on_the_way else 1.0
        if all(player.over for player in self.players) and self.clock.rate > 5:
            self.clock.hold(now, _CURTAIN)

    def _walk_ghost(self) -> None:
        self._tasks.append(self.w)
        rules = self.players[0].world.rules
        oracle = None if rules is None else self._services.oracles.get(rules)
        if oracle is None:
            return
        if self._ghost is None:
            self._ghost = Ghost(oracle, self.seed)
            for w in self._tasks[:-1]:
                self._ghost.act(w)
        self._ghost.act(self.w)

    # --- what the visitor is told ---

    def show(self) -> None:
        """Send what is new. Everyone has thought by now."""
        if not self.players or not (self._tell or self._picture is not None):
            return
        share, tell = self._picture, self._tell
        self._picture, self._tell, self._opening = None, False, False
        moment = Moment(
            seed=self.seed,
            task=self.w.tolist(),
            players=[player.moment() if tell else player.between(share or 1.0) for player in self.players],
            oracle=self._yardstick(),
            oracle_collected=None if self._ghost is None else self._ghost.collected.tolist(),
        )
        pictures = [None if share is None else self._look(player, share) for player in self.players]
        self.mailbox.moment(pack(moment, pictures), fleeting=not tell)

    def _yardstick(self) -> float | None:
        world = self.players[0].world
        if isinstance(world, MdpWorld):
            return world.optimum(self.w)
        return None if self._ghost is None else round(self._ghost.returned, 4)

    def _look(self, player: Player, share: float) -> NDArray[np.uint8] | None:
        seen = player.world.eyes() if self._eyes else None
        return player.world.picture(self._view, share) if seen is None else seen

    def _tell_policies(self, index: int) -> None:
        player = self.players[index]
        self.mailbox.note(Policies(index, player.candidates, player.z.round(4).tolist(), player.policy_names()))
