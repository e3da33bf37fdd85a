"""The ledger of trajectories: a file with a line for the end of each request, flushed to disk before each checkpoint.

    asked for = learned + stale + poisoned + lost + surplus + forgotten + under way

holds at all times, even after actors or the learner were killed, because the file is only appended to.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from usfa.errors import InputError
from usfa.files import LineFile, read_lines

__all__ = ["Account", "AccountError", "ActorId", "Entry", "Fate", "Ledger", "read_account"]

KEPT_CHECKPOINTS = 3  # a run has two, and a third while it is written
MOST_ASKED = 100_000  # requests in one line of the file

_NUMBERS = ("session", "resumed_at", "checkpoint", "asked", "sequence", "frames", "staleness", "updates")

Fate = Literal["learned", "stale", "poisoned", "lost", "surplus"]
"""Learned from; too old; malformed, or an exception in the actor; lost with its actor; arrived after the budget."""


class ActorId(NamedTuple):
    """One process of one actor. A replacement has the same number and the next incarnation."""

    session: int  # number of earlier starts of the learner
    actor: int
    incarnation: int  # replacements of this actor in this session

    def __str__(self) -> str:
        return f"{self.actor} (replacement {self.incarnation})" if self.incarnation else str(self.actor)


class Entry(NamedTuple):
    """The end of one trajectory."""

    actor: ActorId
    sequence: int  # counted from 1 for each process
    fate: Fate
    frames: int = 0  # of all runs; 0 if unknown
    staleness: int = 0  # rounds between the weights it was collected with and the weights that learned from it
    updates: int = 0  # of the learner, afterwards
    why: str = ""


class AccountError(RuntimeError):
    """The counts of trajectories are inconsistent: a bug in usfa, not an input error."""


class Account:
    """Sums over all trajectories. A trajectory is settled at most once, and only if it was requested."""

    def __init__(self) -> None:
        self.sessions = 0
        self.asked = 0
        self.trajectories: Counter[str] = Counter()  # by fate
        self.frames: Counter[str] = Counter()
        self._asked_of: dict[ActorId, int] = {}
        self._under_way: dict[ActorId, set[int]] = {}
        self._earlier_restarts = 0  # in earlier sessions
        self._learned: list[tuple[int, int]] = []  # (updates, frames) since the oldest checkpoint
        self._checkpoints: list[int] = []  # updates

    @property
    def under_way(self) -> int:
        return sum(map(len, self._under_way.values()))

    @property
    def open(self) -> list[tuple[ActorId, int]]:
        """Actor and sequence number of each trajectory under way."""
        return [(actor, sequence) for actor, sequences in self._under_way.items() for sequence in sorted(sequences)]

    @property
    def dropped(self) -> int:
        """Number of trajectories that ended without being learned from."""
        return sum(self.trajectories.values()) - self.trajectories["learned"]

    @property
    def restarts(self) -> int:
        """Number of replaced actors in all sessions."""
        return self._earlier_restarts + sum(actor.incarnation > 0 for actor in self._asked_of)

    def begin(self, updates: int) -> None:
        """Begin or resume at this update: later updates are forgotten, and trajectories under way are lost."""
        forgotten = [frames for when, frames in self._learned if when > updates]
        self._learned = [known for known in self._learned if known[0] <= updates]
        self._move("learned", "forgotten", len(forgotten), sum(forgotten))
        self.trajectories["lost"] += self.under_way
        self._under_way.clear()
        self._earlier_restarts = self.restarts
        self._asked_of.clear()
        self._checkpoints = [known for known in self._checkpoints if known <= updates]
        self.sessions += 1

    def checkpoint(self, updates: int) -> None:
        """Record a checkpoint, and forget single trajectories from before the oldest one."""
        self._checkpoints = [*self._checkpoints, updates][-KEPT_CHECKPOINTS:]
        if len(self._checkpoints) == KEPT_CHECKPOINTS:
            self._learned = [known for known in self._learned if known[0] > self._checkpoints[0]]

    def _move(self, source: str, target: str, trajectories: int, frames: int) -> None:
        self.trajectories[source] -= trajectories
        self.trajectories[target] += trajectories
        self.frames[source] -= frames
        self.frames[target] += frames

    def ask(self, actor: ActorId, up_to: int) -> None:
        """Record that trajectories of an actor were requested, up to this sequence number."""
        before = self._asked_of.get(actor, 0)
        if not before <= up_to <= before + MOST_ASKED:
            raise AccountError(f"Actor {actor} was asked for {up_to} trajectories after {before}.")
        self.asked += up_to - before
        self._asked_of[actor] = up_to
        self._under_way.setdefault(actor, set()).update(range(before + 1, up_to + 1))

    def settle(self, entry: Entry) -> None:
        """Record the end of a trajectory; raise AccountError if it is not under way."""
        under_way = self._under_way.get(entry.actor, set())
        if entry.sequence not in under_way:
            raise AccountError(f"Trajectory {entry.sequence} of actor {entry.actor} is not under way: {entry}.")
        under_way.remove(entry.sequence)
        self.trajectories[entry.fate] += 1
        self.frames[entry.fate] += entry.frames
        if entry.fate == "learned":
            self._learned.append((entry.updates, entry.frames))

    def apply(self, line: dict[str, Any]) -> None:
        """Apply one line of the file."""
        if "resumed_at" in line:
            self.begin(line["resumed_at"])
            return
        if "checkpoint" in line:
            self.checkpoint(line["checkpoint"])
            return
        actor = ActorId(*line["actor"])
        if "fate" in line:
            fields = {name: line[name] for name in Entry._fields if name in line}
            self.settle(Entry(**fields | {"actor": actor}))
        if "asked" in line:
            self.ask(actor, line["asked"])

    def check(self, learned_frames: int) -> None:
        """Raise AccountError if the sums are inconsistent, or differ from the learner's number of frames."""
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
    """The account and its file, updated together."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.account = read_account(path)
        self._file: LineFile | None = None

    def begin(self, updates: int) -> int:
        """Begin or resume at this update; return the number of the session."""
        self._file = LineFile(self._path)
        self._write({"session": self.account.sessions, "resumed_at": updates})
        return self.account.sessions - 1

    def ask(self, actor: ActorId, up_to: int, node: str, process: int) -> None:
        """Record a new actor, its node and process, and its first requests."""
        self._write({"actor": actor, "asked": up_to, "node": node, "process": process})

    def settle(self, entry: Entry, asked: int | None = None) -> None:
        """Record the end of a trajectory, and the last requested sequence number if its actor still runs."""
        line = {**entry._asdict(), "asked": asked}
        self._write({name: value for name, value in line.items() if value not in ("", None)})

    def _write(self, line: dict[str, Any]) -> None:
        assert self._file is not None
        self.account.apply(line)
        self._file.append(line)

    def checkpoint(self, updates: int) -> None:
        """Record a checkpoint and flush the file to disk; required before the checkpoint is written."""
        if self._file is not None:
            self._write({"checkpoint": updates})
            self._file.sync()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def read_account(path: Path) -> Account:
    """Read the account from a file; empty if the file does not exist. Raise InputError if the file was changed."""
    account, lines = Account(), read_lines(path)
    if lines.damaged:
        raise InputError(f"File {path} was changed: the checksum of line {lines.damaged[0]} does not match.")
    for line in lines.values:
        try:
            _check_numbers(line)
            account.apply(line)
        except (AccountError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise InputError(f"File {path} is not a ledger of trajectories: {error} in {str(line)[:200]}.") from error
    return account


def _check_numbers(line: dict[str, Any]) -> None:
    """Raise ValueError for numbers and fates that no version writes."""
    numbers = {name: line[name] for name in _NUMBERS if name in line}
    numbers |= {f"actor[{index}]": number for index, number in enumerate(line.get("actor", ()))}
    for name, number in numbers.items():
        if type(number) is not int or number < 0:
            raise ValueError(f"{name} is {number!r}")
    if line.get("fate", "lost") not in get_args(Fate):
        raise ValueError(f"fate is {line['fate']!r}")
