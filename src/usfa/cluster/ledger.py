"""What became of every trajectory that was ever asked for: one line each, on disk before the next checkpoint.

    asked for = learned + stale + poisoned + lost + surplus + forgotten + under way

holds at every moment, also after actors or the learner were killed, because the file is only appended to.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any, Literal, NamedTuple, TextIO

__all__ = ["Account", "AccountError", "Entry", "Fate", "Ledger", "Life", "read_account"]

Fate = Literal["learned", "stale", "poisoned", "lost", "surplus"]
"""Learned from; too old; not what a trajectory looks like; gone with its actor; came when the budget was used up."""


class Life(NamedTuple):
    """One process of one actor. What is started in its place is the next incarnation, and no two have one name."""

    session: int  # how often the learner was started before
    actor: int
    incarnation: int  # how often this actor was replaced in this session

    def __str__(self) -> str:
        return f"{self.actor} ({self.incarnation + 1}. life)" if self.incarnation else str(self.actor)


class Entry(NamedTuple):
    """The end of one trajectory."""

    life: Life
    sequence: int  # counted from 1 in every life
    fate: Fate
    frames: int = 0  # of all runs; 0 where nobody knows
    staleness: int = 0  # rounds between the weights it was made with and those it met
    updates: int = 0  # of the learner, afterwards
    why: str = ""


class AccountError(RuntimeError):
    """Trajectories do not add up. This is never the user's fault."""


class Account:
    """The sums, and the rules: what is settled was asked for, and is settled once."""

    def __init__(self) -> None:
        self.sessions = 0
        self.asked = 0
        self.trajectories: Counter[str] = Counter()  # by fate
        self.frames: Counter[str] = Counter()
        self._asked_of: dict[Life, int] = {}
        self._under_way: dict[Life, set[int]] = {}
        self._learned: list[tuple[int, int]] = []  # updates and frames, for a session that begins before them

    @property
    def under_way(self) -> int:
        return sum(map(len, self._under_way.values()))

    @property
    def open(self) -> list[tuple[Life, int]]:
        """Which they are."""
        return [(life, sequence) for life, sequences in self._under_way.items() for sequence in sorted(sequences)]

    @property
    def dropped(self) -> int:
        """Everything that ended without being learned from."""
        return sum(self.trajectories.values()) - self.trajectories["learned"]

    @property
    def restarts(self) -> int:
        """Actors that were started in the place of others, in all sessions."""
        return sum(life.incarnation > 0 for life in self._asked_of)

    def begin(self, updates: int) -> None:
        """A learner begins, or goes on, at this update: later ones never happened, and no old actor lives."""
        forgotten = [frames for when, frames in self._learned if when > updates]
        self._learned = [known for known in self._learned if known[0] <= updates]
        self._move("learned", "forgotten", len(forgotten), sum(forgotten))
        self.trajectories["lost"] += self.under_way
        self._under_way.clear()
        self.sessions += 1

    def _move(self, source: str, target: str, trajectories: int, frames: int) -> None:
        self.trajectories[source] -= trajectories
        self.trajectories[target] += trajectories
        self.frames[source] -= frames
        self.frames[target] += frames

    def ask(self, life: Life, up_to: int) -> None:
        """The trajectories of a life up to this number are asked for."""
        before = self._asked_of.get(life, 0)
        self.asked += up_to - before
        self._asked_of[life] = up_to
        self._under_way.setdefault(life, set()).update(range(before + 1, up_to + 1))

    def settle(self, entry: Entry) -> None:
        """AccountError if this trajectory was not asked for or is settled already."""
        under_way = self._under_way.get(entry.life, set())
        if entry.sequence not in under_way:
            raise AccountError(f"Trajectory {entry.sequence} of actor {entry.life} is not under way: {entry}.")
        under_way.remove(entry.sequence)
        self.trajectories[entry.fate] += 1
        self.frames[entry.fate] += entry.frames
        if entry.fate == "learned":
            self._learned.append((entry.updates, entry.frames))

    def apply(self, line: dict[str, Any]) -> None:
        """What a line of the file says."""
        if "resumed_at" in line:
            self.begin(line["resumed_at"])
            return
        life = Life(*line["life"])
        if "fate" in line:
            fields = {name: line[name] for name in Entry._fields if name in line}
            self.settle(Entry(**fields | {"life": life}))
        if "asked" in line:
            self.ask(life, line["asked"])

    def check(self, learned_frames: int) -> None:
        """AccountError unless everything adds up, and the learner has learned from what the account says."""
        settled = sum(self.trajectories.values())
        if self.asked != settled + self.under_way:
            raise AccountError(
                f"{self.asked} trajectories were asked for, {settled} settled, {self.under_way} under way."
            )
        if self.frames["learned"] != learned_frames:
            raise AccountError(
                f"The account has {self.frames['learned']} frames learned, the learner {learned_frames}."
            )

    def __str__(self) -> str:
        fates = [f"{count:,} {fate}" for fate, count in sorted(self.trajectories.items()) if count]
        under_way = [f"{self.under_way:,} under way"] if self.under_way else []
        return f"{self.asked:,} trajectories asked for = {' + '.join([*fates, *under_way]) or '0'}"


class Ledger:
    """The account and its file, which always says the same."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.account = read_account(path)
        self._file: TextIO | None = None

    def begin(self, updates: int) -> int:
        """A learner goes on at this update; returns the number of its session."""
        torn = self._path.exists() and not self._path.read_bytes().endswith(b"\n")
        self._file = self._path.open("a")
        if torn:
            self._file.write("\n")  # what a power cut left stays a line of its own
        self._write({"session": self.account.sessions, "resumed_at": updates})
        return self.account.sessions - 1

    def ask(self, life: Life, up_to: int, node: str, process: int) -> None:
        """A new life, where it is lived, and its first trajectories."""
        self._write({"life": life, "asked": up_to, "node": node, "process": process})

    def settle(self, entry: Entry, asked: int | None = None) -> None:
        """The end of a trajectory, and the last number that is asked of its life by now, if that goes on."""
        line = {**entry._asdict(), "asked": asked}
        self._write({name: value for name, value in line.items() if value not in ("", None)})

    def _write(self, line: dict[str, Any]) -> None:
        assert self._file is not None
        self.account.apply(line)
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def sync(self) -> None:
        """Before a checkpoint: what it has learned from must be on disk first."""
        if self._file is not None:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def read_account(path: Path) -> Account:
    """The account in a file; of nothing if there is none. Torn lines, after a power cut, were never written."""
    account = Account()
    if path.exists():
        for text in path.read_text("utf-8").splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue
            account.apply(line)
    return account
