"""The one thread that moves all worlds: it reads what visitors say, lets all think together, and shows the result.

Nothing else touches a session, so that nothing needs a lock but the queue of messages. What takes long (making worlds,
heat maps, oracles) is done elsewhere, and worlds come back as a message.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

from usfa.errors import InputError
from usfa.playground.cast import Cast, make_cast
from usfa.playground.ghost import Oracles
from usfa.playground.player import Player
from usfa.playground.protocol import Failure, Message, Setup
from usfa.playground.repertoire import Repertoire
from usfa.playground.session import Mailbox, Services, Session
from usfa.playground.thoughts import think
from usfa.playground.worker import HeatmapWorker

__all__ = ["Director"]

log = logging.getLogger(__name__)
_SMOOTH_FOR = 4  # sessions at most; with more visitors there are no pictures between decisions
_LONGEST_NAP = 0.5  # seconds


@dataclass(frozen=True)
class _Built:
    """What became of a setup."""

    result: Cast | Exception


class Director:
    """Visitors come, speak and go from any thread; the director does the rest in its own."""

    def __init__(self, repertoire: Repertoire) -> None:
        self._builders = ThreadPoolExecutor(2, thread_name_prefix="builder")
        self._services = Services(repertoire, Oracles(self._builders), HeatmapWorker())
        self._sessions: list[Session] = []
        self._building: set[Session] = set()
        self._next_setup: dict[Session, Setup] = {}
        self._inbox: deque[tuple[Session, Message | _Built | Literal["come", "go"]]] = deque()
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="director", daemon=True)

    # --- for other threads ---

    def start(self) -> None:
        rules = self._services.repertoire.opening_rules
        if rules is not None:
            self._services.oracles.get(rules)  # is made while the first visitor is on the way
        self._thread.start()

    def stop(self) -> None:
        """End everything; sessions are closed."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)
        for session in self._sessions:
            session.close()
        self._builders.shutdown(wait=False, cancel_futures=True)
        self._services.heatmaps.close()

    def welcome(self, mailbox: Mailbox) -> Session:
        """A session for a new visitor, who has not chosen anything yet."""
        session = Session(self._services, mailbox)
        self._post(session, "come")
        return session

    def tell(self, session: Session, message: Message) -> None:
        """A visitor says something."""
        self._post(session, message)

    def goodbye(self, session: Session) -> None:
        self._post(session, "go")

    def _post(self, session: Session, message: Message | _Built | Literal["come", "go"]) -> None:
        self._inbox.append((session, message))
        self._wake.set()

    # --- the director's own thread ---

    def _run(self) -> None:
        while not self._stopping:
            self._wake.clear()
            self.turn(time.monotonic())
            self._wake.wait(self._nap())

    def turn(self, now: float) -> None:
        """Everything that is due."""
        while self._inbox:
            session, message = self._inbox.popleft()
            self._guarded(session, self._read, session, message)
        self._think()  # anew, where something was changed: nobody acts on an old thought
        smooth = len(self._sessions) <= _SMOOTH_FOR
        for session in self._sessions:
            self._guarded(session, session.advance, now, smooth, fatal=True)
        self._think()
        for session in self._sessions:
            self._guarded(session, session.show, fatal=True)

    def _nap(self) -> float:
        due = [when for session in self._sessions if (when := session.clock.due()) is not None]
        return min(max(min(due, default=float("inf")) - time.monotonic(), 0.0), _LONGEST_NAP)

    def _read(self, session: Session, message: Message | _Built | Literal["come", "go"]) -> None:
        match message:
            case "come":
                self._sessions.append(session)
            case "go":
                session.close()
                self._sessions.remove(session)
                self._next_setup.pop(session, None)
            case Setup():
                self._build(session, message)
            case _Built(result):
                self._take(session, result)
            case _:
                session.handle(message)

    def _build(self, session: Session, setup: Setup) -> None:
        """In the background, one at a time for each session; of those that wait only the last counts."""
        if session in self._building:
            self._next_setup[session] = setup
            return
        self._building.add(session)
        self._builders.submit(self._make_cast, session, setup)

    def _make_cast(self, session: Session, setup: Setup) -> None:
        try:
            self._post(session, _Built(make_cast(self._services.repertoire, setup)))
        except Exception as error:
            self._post(session, _Built(error))

    def _take(self, session: Session, result: Cast | Exception) -> None:
        self._building.discard(session)
        newer = self._next_setup.pop(session, None)
        if isinstance(result, Exception) and newer is None:
            raise result
        if isinstance(result, Cast):
            if newer is None and session in self._sessions:
                session.begin(result)
            else:
                result.close()
        if newer is not None:
            self._build(session, newer)

    def _think(self) -> None:
        asking = [(session, player) for session in self._sessions for player in session.players if player.must_think]
        if not asking:
            return
        try:
            _think_about([player for _, player in asking])
        except Exception:  # somebody's question is bad: find out whose
            for session, player in asking:
                self._guarded(session, _think_about, [player], fatal=True)

    def _guarded(self, session: Session, action: Callable[..., Any], *arguments: Any, fatal: bool = False) -> None:
        """What goes wrong in a session stays in it; where it could not go on, it is emptied."""
        try:
            action(*arguments)
        except InputError as error:
            session.mailbox.note(Failure(str(error)))
            if fatal:
                session.close()
        except Exception:
            log.exception("A session failed.")
            session.mailbox.note(Failure("Something went wrong on the server; choose an agent again."))
            session.close()


def _think_about(players: list[Player]) -> None:
    for player, thought in zip(players, think([player.question() for player in players]), strict=True):
        player.thought = thought
