"""Acting on a cluster: collect trajectories from actors in the order of their arrival."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from torch import Tensor

from usfa.cluster.actor import Job
from usfa.cluster.config import ClusterConfig
from usfa.cluster.ledger import Account, AccountError, ActorId, Entry, Fate, Ledger
from usfa.cluster.messages import Delivery, Greeting, Versions, Weights, delivery_layout, pack_weights, problem, unpack
from usfa.errors import InputError
from usfa.learning import Acting, Collected, Learner

__all__ = ["Arrival", "ClusterActing", "Fleet"]

GIVE_UP_AFTER = 5  # failures of one actor in a row
LISTEN_SECONDS = 1.0  # between two checks of Ctrl-C and of hung actors
START_SECONDS = 600.0  # for the first trajectory, and for new actors; new nodes need minutes to start
SHORTEST_PATIENCE = 60.0  # seconds
END_SECONDS = 10.0  # without an answer, after the budget is used up


class Arrival(NamedTuple):
    """The answer to a request: a delivery, or the reason for a failure. The greeting of a new actor has sequence 0."""

    actor: ActorId
    sequence: int
    delivery: Delivery | None = None
    greeting: Greeting | None = None
    fate: Fate = "learned"
    why: str = ""


class Fleet(Protocol):
    """The actors, on Ray or elsewhere."""

    def start(self, job: Job, actor: ActorId) -> None:
        """Start an actor, and stop an earlier one with the same number; the first answer is a greeting."""
        ...

    def publish(self, weights: Weights) -> None:
        """Copy the weights; later requests act with them."""
        ...

    def ask(self, actor: ActorId, sequence: int) -> None:
        """Request a trajectory; an actor handles its requests one after the other."""
        ...

    def next(self, timeout: float) -> Arrival | None:
        """Wait for an answer to any request; None if none comes within `timeout` seconds."""
        ...

    def has_answer(self, actor: ActorId) -> bool:
        """Whether an answer of this actor has arrived and waits for :meth:`next`."""
        ...

    @property
    def ready(self) -> int:
        """Number of answers that :meth:`next` would return at once."""
        ...

    def close(self) -> None: ...


class _Learned(NamedTuple):
    """Measurements of one trajectory that was learned from."""

    actor: int
    frames: int
    staleness: int
    bytes: int
    acting: float  # seconds
    learning: float  # seconds
    publishing: float  # seconds


class _Traffic:
    """Statistics of the traffic between actors and learner since the last report."""

    def __init__(self, actors: int) -> None:
        self._actors = actors
        self.note = ""
        self._clear()

    def _clear(self) -> None:
        self._started = time.perf_counter()
        self.waited = 0.0  # seconds in which the learner was idle
        self.learned: list[_Learned] = []

    def report(self, account: Account, queue: int) -> dict[str, Any]:
        """Means since the last report, and the current account, as JSON values."""
        elapsed = time.perf_counter() - self._started
        frames = Counter[int]()
        for one in self.learned:
            frames[one.actor] += one.frames
        per_actor = [frames[actor] / elapsed for actor in range(self._actors)]
        staleness = self._mean("staleness")
        self.note = (
            f"actors {min(per_actor):,.0f} to {max(per_actor):,.0f} frames/s, staleness {staleness:.1f}, "
            f"queue {queue}, restarts {account.restarts}, dropped {account.dropped}"
        )
        line = {
            "frames_per_second": sum(per_actor),
            "actors": per_actor,
            "staleness": staleness,
            "stalest": max((one.staleness for one in self.learned), default=0),
            "queue": queue,
            "waiting": self.waited / elapsed,
            "seconds_to_act": self._mean("acting"),
            "seconds_to_learn": self._mean("learning"),
            "seconds_to_publish": self._mean("publishing"),
            "bytes": self._mean("bytes"),
            "restarts": account.restarts,
            "trajectories": dict(account.trajectories),
        }
        self._clear()
        return line

    def _mean(self, field: str) -> float:
        return float(np.mean([getattr(one, field) for one in self.learned])) if self.learned else 0.0


class _ActorState:
    """The learner's view of an actor."""

    def __init__(self, actor: ActorId) -> None:
        self.id = actor
        self.asked = 0
        self.failures = 0  # since the last good trajectory, also of earlier processes
        self.greeted = False
        self.heard = time.monotonic()  # time of its start or last answer


class ClusterActing(Acting):
    """Collects trajectories from a fleet of actors.

    A trajectory of an actor is the same as one round of :class:`usfa.learning.LocalActing`. Each actor has a fixed
    number of open requests, and a new one is made only when one is settled. This bounds memory and staleness, however
    slow the learner is.
    """

    def __init__(
        self, cluster: ClusterConfig, fleet: Fleet, ledger: Path, report_problem: Callable[[str], None] | None = None
    ) -> None:
        self._cluster = cluster
        self._fleet = fleet
        self._ledger = Ledger(ledger)
        self._report_problem = report_problem or (lambda _: None)
        self._versions = Versions.here()
        self._actors: list[_ActorState] = []
        self._current: Arrival | None = None  # with the trajectory of the current round
        self._taken_at, self._staleness_now = 0.0, 0
        self._longest = 0.0  # seconds to collect a trajectory
        self._updates = 0
        self.traffic = _Traffic(cluster.actors)

    # --- a round ---

    def collect(self, learner: Learner) -> tuple[Collected, Tensor]:
        """Wait for the next valid trajectory; drop and count everything else that arrives."""
        if not self._actors:
            self._begin(learner)
        while True:
            started = time.perf_counter()
            arrival = self._next()
            self.traffic.waited += time.perf_counter() - started
            if arrival.greeting is not None:
                self._welcome(arrival.actor, arrival.greeting)
                continue
            fate, why = self._judge(learner, arrival)
            if fate == "learned":
                assert arrival.delivery is not None
                self._current, self._taken_at = arrival, time.perf_counter()
                self._staleness_now = _staleness(learner, arrival)
                return unpack(arrival.delivery, learner.device)
            self._drop(learner, arrival, fate, why)

    def _next(self) -> Arrival:
        """Wait for an answer, or until an actor counts as hung."""
        started = time.monotonic()
        while time.monotonic() < started + START_SECONDS:
            arrival = self._hung() or self._fleet.next(LISTEN_SECONDS)
            if arrival is not None and arrival.actor == self._actors[arrival.actor.actor].id:
                self._actors[arrival.actor.actor].heard = time.monotonic()
                return arrival
        raise InputError(
            f"No trajectory arrived for {START_SECONDS:.0f} seconds from {len(self._actors)} actors; expected nodes "
            "with free CPUs (`ray status` shows them)."
        )

    def _hung(self) -> Arrival | None:
        """A failed arrival for an actor that has not answered for too long; None if there is no such actor.

        An actor that has not sent its greeting may be waiting for a free CPU, so it is started again without a failure.
        """
        now = time.monotonic()
        for actor in self._actors:
            silence = now - actor.heard
            if silence < self._patience or self._fleet.has_answer(actor.id):
                continue
            if actor.greeted:
                sequence = min((number for asked, number in self.account.open if asked == actor.id), default=0)
                why = f"it has not answered for {silence:.0f} seconds"
                return Arrival(actor.id, sequence, fate="lost", why=why)
            if silence > START_SECONDS:
                self._report_problem(f"Actor {actor.id} has not started for {silence:.0f} seconds; has Ray free CPUs?")
                self._start_again(actor)
        return None

    @property
    def _patience(self) -> float:
        """Seconds after which an actor that does not answer counts as hung."""
        if self._cluster.patience is not None:
            return self._cluster.patience
        return max(SHORTEST_PATIENCE, 10 * self._longest) if self._longest else START_SECONDS

    def learned(self, learner: Learner) -> None:
        """Publish the new weights, and request another trajectory."""
        learned_at, staleness = time.perf_counter(), self._staleness_now
        assert self._current is not None
        delivery = self._current.delivery
        assert delivery is not None
        if not learner.done:
            self._fleet.publish(pack_weights(learner.rounds, learner.network.state, learner.share_done))
        self._updates, self._longest = learner.updates, max(self._longest, delivery.seconds)
        actor, frames = delivery.actor.actor, int(delivery.frames.sum())
        self._actors[actor].failures = 0
        self._settle(_entry(learner, self._current, "learned", staleness), again=not learner.done)
        seconds = (delivery.seconds, learned_at - self._taken_at, time.perf_counter() - learned_at)
        self.traffic.learned.append(_Learned(actor, frames, staleness, delivery.nbytes, *seconds))

    def _begin(self, learner: Learner) -> None:
        """Start the actors. Called in the first round, when a resumed run has loaded its state."""
        self._layout = delivery_layout(learner.agent, learner.config, len(learner.seeds))
        session = self._ledger.begin(learner.updates)
        self._updates = learner.updates
        try:
            self.account.check(int(learner.frames.sum()))
        except AccountError as error:
            raise InputError(f"The ledger of trajectories does not fit the checkpoint: {error}") from error
        self._fleet.publish(pack_weights(learner.rounds, learner.network.state, learner.share_done))
        self._job = Job(
            learner.agent,
            learner.config,
            learner.environments,
            learner.training_tasks,
            learner.seeds,
            learner.precision,
        )
        self._actors = [_ActorState(ActorId(session, number, 0)) for number in range(self._cluster.actors)]
        for actor in self._actors:
            self._fleet.start(self._job, actor.id)

    def _welcome(self, actor_id: ActorId, greeting: Greeting) -> None:
        """Send a new actor its first requests, with the newest weights; raise InputError if its versions differ."""
        for name, here, there in zip(Versions._fields, self._versions, greeting.versions, strict=True):
            if here != there:
                raise InputError(
                    f"Actor {actor_id} on node {greeting.node} has {name} {there}, the learner {here}; "
                    "expected the same on all nodes."
                )
        actor = self._actors[actor_id.actor]
        actor.asked, actor.greeted = 0, True
        for _ in range(self._cluster.requests):
            self._ask(actor)
        self._ledger.ask(actor_id, actor.asked, greeting.node, greeting.process)

    def _ask(self, actor: _ActorState) -> None:
        actor.asked += 1
        self._fleet.ask(actor.id, actor.asked)

    def _judge(self, learner: Learner, arrival: Arrival) -> tuple[Fate, str]:
        """The fate of an arrival, and the reason if it is dropped."""
        delivery = arrival.delivery
        if delivery is None:
            return arrival.fate, arrival.why
        if (delivery.actor, delivery.sequence) != (arrival.actor, arrival.sequence):
            return "poisoned", f"it is number {delivery.sequence} of actor {delivery.actor}"
        wrong = problem(delivery, self._layout, learner.agent.spec.actions)
        if wrong:
            return "poisoned", wrong
        return ("learned" if _staleness(learner, arrival) <= self._cluster.stalest else "stale"), ""

    def _drop(self, learner: Learner, arrival: Arrival, fate: Fate, why: str) -> None:
        if fate != "stale":
            self._note_failure(arrival, fate, why)
        if arrival.delivery is not None:
            self._settle(_entry(learner, arrival, fate, _staleness(learner, arrival), why), again=True)
        else:
            self._replace(learner, arrival, fate, why)

    def _note_failure(self, arrival: Arrival, fate: Fate, why: str) -> None:
        what = f"A trajectory of actor {arrival.actor}" if arrival.sequence else f"Actor {arrival.actor}"
        self._report_problem(f"{what} is {fate}: {why}.")
        actor = self._actors[arrival.actor.actor]
        actor.failures += 1
        if actor.failures >= GIVE_UP_AFTER:
            raise InputError(f"Actor {actor.id.actor} failed {actor.failures} times in a row; the last time: {why}.")

    def _settle(self, entry: Entry, again: bool) -> None:
        """Record the end of a trajectory, and request another one if `again` is set."""
        actor = self._actors[entry.actor.actor]
        if again:
            self._ask(actor)
        self._ledger.settle(entry, actor.asked)

    def _replace(self, learner: Learner, failed: Arrival, fate: Fate, why: str) -> None:
        """Settle the failed request of an actor, and its other open requests as lost; start a replacement."""
        for actor_id, sequence in self.account.open:
            if actor_id == failed.actor:
                own: Fate = fate if sequence == failed.sequence else "lost"
                self._ledger.settle(Entry(actor_id, sequence, own, updates=learner.updates, why=why))
        self._start_again(self._actors[failed.actor.actor])

    def _start_again(self, actor: _ActorState) -> None:
        actor.id = actor.id._replace(incarnation=actor.id.incarnation + 1)
        actor.greeted, actor.heard = False, time.monotonic()
        self._fleet.start(self._job, actor.id)

    # --- the end ---

    def close(self, learner: Learner) -> None:
        """Stop the actors. A finished run waits briefly for open requests; those still open are recorded as lost."""
        try:
            if self._actors:
                if learner.done:
                    self._count_surplus(learner)
                    self.account.check(int(learner.frames.sum()))
                for actor, sequence in self.account.open:
                    entry = Entry(actor, sequence, "lost", updates=learner.updates, why="the learner stopped")
                    self._ledger.settle(entry)
            elif learner.done and self.account.under_way:  # an earlier process was killed while it waited for these
                self._ledger.begin(learner.updates)
        finally:
            self._fleet.close()
            self._ledger.close()

    def _count_surplus(self, learner: Learner) -> None:
        deadline = time.monotonic() + END_SECONDS
        while self.account.under_way and time.monotonic() < deadline:
            arrival = self._fleet.next(LISTEN_SECONDS)
            if arrival is not None and (arrival.actor, arrival.sequence) in self.account.open:
                fate: Fate = arrival.fate if arrival.delivery is None else "surplus"
                self._ledger.settle(_entry(learner, arrival, fate, _staleness(learner, arrival), arrival.why))
                deadline = time.monotonic() + END_SECONDS

    # --- reports ---

    @property
    def account(self) -> Account:
        """Sums over all trajectories."""
        return self._ledger.account

    def report(self) -> dict[str, Any]:
        return self.traffic.report(self.account, self._fleet.ready)

    @property
    def note(self) -> str:
        return self.traffic.note

    # --- saving ---

    def state(self) -> tuple[dict[str, Tensor], Any]:  # without the episodes of actors
        self._ledger.checkpoint(self._updates)
        return {}, {}

    def load_state(self, tensors: dict[str, Tensor], values: Any) -> None:
        if "environments" in values:
            raise InputError("The run was started without --cluster; expected to resume it without --cluster.")


def _staleness(learner: Learner, arrival: Arrival) -> int:
    """Rounds between the weights of a trajectory and those of the learner; 0 without a trajectory."""
    return 0 if arrival.delivery is None else learner.rounds - arrival.delivery.version


def _entry(learner: Learner, arrival: Arrival, fate: Fate, staleness: int, why: str = "") -> Entry:
    frames = 0 if arrival.delivery is None else int(np.sum(arrival.delivery.frames))
    return Entry(arrival.actor, arrival.sequence, fate, frames, staleness, learner.updates, why)
