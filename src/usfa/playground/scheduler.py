"""The one thread that advances all sessions: it handles messages, decides for all players together and sends frames.

Nothing else touches a session, so only the queue of messages has to be thread-safe. Slow work (making environments,
heat maps, oracles) runs elsewhere; players come back through the queue.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from usfa.errors import InputError
from usfa.playground.catalogue import Catalogue
from usfa.playground.heatmap_worker import HeatmapWorker
from usfa.playground.outbox import Outbox
from usfa.playground.player import Player, decide
from usfa.playground.protocol import ClientMessage, ErrorMessage, Setup
from usfa.playground.room_view import Oracles
from usfa.playground.session import Session

__all__ = ["Scheduler"]

log = logging.getLogger(__name__)
_MAX_SMOOTH_SESSIONS = 4  # with more sessions no frames are sent between decisions
_MAX_SLEEP = 0.5  # seconds


class Scheduler:
    """Runs all sessions in its own thread; other threads may add, message and remove sessions."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._executor = ThreadPoolExecutor(2, thread_name_prefix="setup")
        self._oracles, self._heatmaps = Oracles(self._executor), HeatmapWorker()
        self._sessions: list[Session] = []
        self._preparing: set[Session] = set()
        self._next_setup: dict[Session, Setup] = {}
        self._inbox: deque[tuple[Session, Callable[[], None]]] = deque()
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="scheduler", daemon=True)

    # --- for other threads ---

    def start(self) -> None:
        if self._catalogue.first_rules is not None:
            self._oracles.get(self._catalogue.first_rules)  # start making it before the first user arrives
        self._thread.start()

    def stop(self) -> None:
        """End the thread and close all sessions."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)
        for session in self._sessions:
            session.close()
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._heatmaps.close()

    def connect(self, outbox: Outbox) -> Session:
        """Add a session, which has no players before its first setup."""
        session = Session(self._catalogue, self._oracles, self._heatmaps, outbox)
        self._post(session, partial(self._sessions.append, session))
        return session

    def handle(self, session: Session, message: ClientMessage) -> None:
        if isinstance(message, Setup):
            self._post(session, partial(self._prepare, session, message))
        else:
            self._post(session, partial(session.handle, message))

    def disconnect(self, session: Session) -> None:
        self._post(session, partial(self._remove, session))

    def _post(self, session: Session, action: Callable[[], None]) -> None:
        self._inbox.append((session, action))
        self._wake.set()

    # --- the scheduler's own thread ---

    def _run(self) -> None:
        while not self._stopping:
            self._wake.clear()
            self.run_due(time.monotonic())
            self._wake.wait(self._sleep_seconds())

    def run_due(self, now: float) -> None:
        """Do everything that is due."""
        while self._inbox:
            session, action = self._inbox.popleft()
            self._guarded(session, action)
        self._decide()  # again where a message changed something, so that no player acts on an outdated decision
        smooth = len(self._sessions) <= _MAX_SMOOTH_SESSIONS
        for session in self._sessions:
            self._guarded(session, session.advance, now, smooth, fatal=True)
        self._decide()
        for session in self._sessions:
            self._guarded(session, session.show, fatal=True)

    def _sleep_seconds(self) -> float:
        due = [when for session in self._sessions if (when := session.clock.due()) is not None]
        return min(max(min(due, default=float("inf")) - time.monotonic(), 0.0), _MAX_SLEEP)

    def _remove(self, session: Session) -> None:
        session.close()
        self._sessions.remove(session)
        self._next_setup.pop(session, None)

    def _prepare(self, session: Session, setup: Setup) -> None:
        """Make players in the background, one setup at a time per session; only the last of waiting setups counts."""
        if session in self._preparing:
            self._next_setup[session] = setup
            return
        self._preparing.add(session)
        self._executor.submit(self._make_players, session, setup)

    def _make_players(self, session: Session, setup: Setup) -> None:
        try:
            result: list[Player] | Exception = self._catalogue.make_players(setup)
        except Exception as error:
            result = error
        self._post(session, partial(self._begin, session, setup, result))

    def _begin(self, session: Session, setup: Setup, result: list[Player] | Exception) -> None:
        self._preparing.discard(session)
        newer = self._next_setup.pop(session, None)
        if newer is not None:
            self._prepare(session, newer)
        if isinstance(result, Exception):
            if newer is None:
                raise result
        elif newer is None and session in self._sessions:
            session.begin(setup, result)
        else:
            for player in result:
                player.view.close()

    def _decide(self) -> None:
        undecided = [(session, player) for session in self._sessions for player in session.players]
        undecided = [(session, player) for session, player in undecided if player.needs_decision]
        try:
            decide([player for _, player in undecided])
        except Exception:  # decide one by one, to find the player that causes it
            for session, player in undecided:
                self._guarded(session, decide, [player], fatal=True)

    def _guarded(self, session: Session, action: Callable[..., Any], *arguments: Any, fatal: bool = False) -> None:
        """Keep an error within its session; close the session after an unexpected or `fatal` one."""
        try:
            action(*arguments)
        except InputError as error:
            session.outbox.send(ErrorMessage(str(error)))
            if fatal:
                session.close()
        except Exception:
            log.exception("A session failed.")
            session.outbox.send(ErrorMessage("Something went wrong on the server; choose an agent again."))
            session.close()
