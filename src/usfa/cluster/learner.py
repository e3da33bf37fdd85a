"""The learner of a cluster: takes trajectories as they come, and updates as the learner of one process does."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from usfa.agents import Agent
from usfa.cluster.collector import Job
from usfa.cluster.config import ClusterConfig
from usfa.cluster.ledger import Account, Entry, Fate, Ledger, Life
from usfa.cluster.parcel import Delivery, Greeting, Versions, Weights, layout_of, pack_weights, problem, unpack
from usfa.cluster.traffic import Traffic
from usfa.environments import EnvironmentSource
from usfa.errors import InputError
from usfa.learning import Improver, LearnerConfig, Update

__all__ = ["Arrival", "ClusterLearner", "Fleet"]

GIVE_UP_AFTER = 5  # failures of one actor in a row: the next would not be better


class Arrival(NamedTuple):
    """What came of a request: a delivery, or why there is none. The greeting of a new actor has the number 0."""

    life: Life
    sequence: int
    delivery: Delivery | None = None
    greeting: Greeting | None = None
    fate: Fate = "learned"  # the best that can become of it
    why: str = ""


class Fleet(Protocol):
    """The actors, wherever they are."""

    def start(self, job: Job, life: Life) -> None:
        """An actor, in the place of the one that had this number before; its greeting will arrive."""
        ...

    def publish(self, weights: Weights) -> None:
        """What the following requests act with. A copy is made."""
        ...

    def ask(self, life: Life, sequence: int) -> None:
        """Request a trajectory; an actor works on one after the other."""
        ...

    def next(self) -> Arrival:
        """Wait for an answer to any request."""
        ...

    @property
    def ready(self) -> int:
        """Answers that wait for :meth:`next`."""
        ...

    def close(self) -> None: ...


class _Actor:
    """What the learner remembers of an actor."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.asked = 0
        self.failures = 0  # since the last good trajectory, also of earlier lives


class ClusterLearner(Improver):
    """Trains one agent for each seed, all at once, from the trajectories of a fleet of actors.

    A trajectory of an actor is what one round of the one-process learner collects, and is learned from in the same
    way. At any time each actor has a fixed number of requests: more are not made before one is settled, so that memory
    and staleness are bounded however slow the learner is.
    """

    def __init__(
        self,
        agent: Agent,
        config: LearnerConfig,
        environments: EnvironmentSource,
        training_tasks: NDArray[np.float64],
        seeds: Sequence[int],
        cluster: ClusterConfig,
        fleet: Fleet,
        ledger: Path,
        device: torch.device | None = None,
        report_problem: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(agent, config, training_tasks, seeds, device)
        self._environments = environments
        self._cluster = cluster
        self._fleet = fleet
        self._ledger = Ledger(ledger)
        self._tell = report_problem or (lambda _: None)
        self._layout = layout_of(agent, config, len(self.seeds))
        self._versions = Versions.here()
        self._actors: list[_Actor] = []
        self.traffic = Traffic(cluster.actors)

    # --- a round ---

    def step(self) -> Update:
        """Take the next good trajectory and learn from it; whatever else arrives is dropped and counted."""
        if not self._actors:
            self._begin()
        while True:
            started = time.perf_counter()
            arrival = self._fleet.next()
            self.traffic.waited += time.perf_counter() - started
            if arrival.greeting is not None:
                self._welcome(arrival.life, arrival.greeting)
                continue
            fate, why = self._judge(arrival)
            if fate == "learned":
                assert arrival.delivery is not None
                return self._take(arrival.delivery)
            self._drop(arrival, fate, why)

    def _begin(self) -> None:
        """Start the actors; only now is it known where a resumed run goes on."""
        self._session = self._ledger.begin(self.updates)
        self._ledger.account.check(int(self.frames.sum()))
        self._fleet.publish(pack_weights(self.rounds, self.parameters))
        self._actors = [_Actor(Life(self._session, number, 0)) for number in range(self._cluster.actors)]
        for actor in self._actors:
            self._start(actor)

    def _start(self, actor: _Actor) -> None:
        job = Job(self.agent, self.config, self._environments, self.training_tasks, self.seeds, self.precision)
        self._fleet.start(job, actor.life)

    def _welcome(self, life: Life, greeting: Greeting) -> None:
        """Give a new actor its first requests, with the newest weights: while it started, others went on."""
        for name, here, there in zip(Versions._fields, self._versions, greeting.versions, strict=True):
            if here != there:
                raise InputError(
                    f"Actor {life} on node {greeting.node} has {name} {there}, the learner {here}; "
                    "expected the same on all nodes."
                )
        actor = self._actors[life.actor]
        actor.asked = 0
        for _ in range(self._cluster.requests):
            self._ask(actor)
        self._ledger.ask(life, actor.asked, greeting.node, greeting.process)

    def _ask(self, actor: _Actor) -> None:
        actor.asked += 1
        self._fleet.ask(actor.life, actor.asked)

    def _judge(self, arrival: Arrival) -> tuple[Fate, str]:
        """What is to become of it, and why if it is not learned from."""
        delivery = arrival.delivery
        if delivery is None:
            return arrival.fate, arrival.why
        if (delivery.life, delivery.sequence) != (arrival.life, arrival.sequence):
            return "poisoned", f"it is number {delivery.sequence} of actor {delivery.life}"
        wrong = problem(delivery, self._layout, self.agent.spec.actions)
        if wrong:
            return "poisoned", wrong
        return ("learned" if self._staleness(delivery) <= self._cluster.stalest else "stale"), ""

    def _staleness(self, delivery: Delivery) -> int:
        return self.rounds - delivery.version

    def _take(self, delivery: Delivery) -> Update:
        staleness = self._staleness(delivery)
        started = time.perf_counter()
        update = self.learn(*unpack(delivery, self.device))
        learned = time.perf_counter()
        if not self.done:
            self._fleet.publish(pack_weights(self.rounds, self.parameters))
        self._actors[delivery.life.actor].failures = 0
        self._settle(self._entry(delivery, "learned", staleness), again=not self.done)
        self.traffic.add(delivery, staleness, learned - started, time.perf_counter() - learned)
        return update

    def _entry(self, delivery: Delivery, fate: Fate, staleness: int, why: str = "") -> Entry:
        frames = int(np.sum(delivery.frames))
        return Entry(delivery.life, delivery.sequence, fate, frames, staleness, self.updates, why)

    def _drop(self, arrival: Arrival, fate: Fate, why: str) -> None:
        if fate != "stale":
            self._note_failure(arrival, fate, why)
        if arrival.delivery is None:
            if arrival.sequence:
                self._settle(Entry(arrival.life, arrival.sequence, fate, updates=self.updates, why=why), again=False)
            self._replace(arrival.life)
        else:
            entry = self._entry(arrival.delivery, fate, self._staleness(arrival.delivery), why)
            self._settle(entry._replace(life=arrival.life, sequence=arrival.sequence), again=True)

    def _note_failure(self, arrival: Arrival, fate: Fate, why: str) -> None:
        what = f"A trajectory of actor {arrival.life}" if arrival.sequence else f"Actor {arrival.life}"
        self._tell(f"{what} is {fate}: {why}.")
        actor = self._actors[arrival.life.actor]
        actor.failures += arrival.life == actor.life  # a death is one failure, however many requests it takes along
        if actor.failures >= GIVE_UP_AFTER:
            raise InputError(f"Actor {actor.life.actor} failed {actor.failures} times in a row; the last time: {why}.")

    def _settle(self, entry: Entry, again: bool) -> None:
        """Ask for another in its place, if the actor still lives, then write both down."""
        actor = self._actors[entry.life.actor]
        if again and actor.life == entry.life:
            self._ask(actor)
        self._ledger.settle(entry, actor.asked if actor.life == entry.life else None)

    def _replace(self, dead: Life) -> None:
        actor = self._actors[dead.actor]
        if actor.life == dead:  # else it is replaced already: all its requests fail, one by one
            actor.life = dead._replace(incarnation=dead.incarnation + 1)
            self._start(actor)

    # --- the end ---

    def close(self) -> None:
        """Let the actors go. A run that is done waits for what is under way, so that every frame is counted."""
        try:
            while self.done and self.account.under_way:
                self._settle_last(self._fleet.next())
            for life, sequence in self.account.open:
                self._ledger.settle(Entry(life, sequence, "lost", updates=self.updates, why="the learner stopped"))
            if self._actors:
                self.account.check(int(self.frames.sum()))
        finally:
            self._fleet.close()
            self._ledger.close()

    def _settle_last(self, arrival: Arrival) -> None:
        if not arrival.sequence:
            return
        if arrival.delivery is None:
            entry = Entry(arrival.life, arrival.sequence, arrival.fate, updates=self.updates, why=arrival.why)
        else:
            entry = self._entry(arrival.delivery, "surplus", self._staleness(arrival.delivery))
        self._ledger.settle(entry)

    # --- seeing it ---

    @property
    def account(self) -> Account:
        """What became of every trajectory."""
        return self._ledger.account

    def report(self) -> dict[str, Any]:
        return self.traffic.report(self.account, self._fleet.ready)

    @property
    def note(self) -> str:
        return self.traffic.note

    # --- saving ---

    @property
    def saves_exactly(self) -> bool:
        """Episodes are the actors', who are not asked."""
        return True

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        self._ledger.sync()
        return super().state()

    def load_state(self, tensors: dict[str, Tensor], counters: dict[str, Any]) -> None:
        if "environments" in counters:
            raise InputError("The run was begun without --cluster; expected the same to go on with it.")
        super().load_state(tensors, counters)
