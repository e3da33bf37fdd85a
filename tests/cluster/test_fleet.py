"""What the fleet makes of Ray's answers, with a stand-in for Ray."""

from types import SimpleNamespace

import pytest

from usfa.cluster.acting import Arrival
from usfa.cluster.ledger import ActorId
from usfa.cluster.ray import RayFleet
from usfa.errors import InputError

ACTOR = ActorId(0, 3, 0)


class RayActorError(Exception):
    pass


class RayTaskError(Exception):
    def __init__(self, cause):
        self.cause = cause


class FakeRay:
    """Answers are functions to call; those of actors that do not exist never come."""

    exceptions = SimpleNamespace(
        RayActorError=RayActorError,
        RayTaskError=RayTaskError,
        ObjectLostError=OSError,
        OutOfMemoryError=MemoryError,
        GetTimeoutError=TimeoutError,
    )

    def wait(self, answers, *, num_returns, timeout, fetch_local=True):
        ready = [answer for answer in answers if answer is not None]
        return ready[:num_returns], []

    def get(self, answer, timeout):
        return answer()


@pytest.fixture
def fleet():
    fleet = object.__new__(RayFleet)
    fleet._ray, fleet._requests, fleet._handles = FakeRay(), {}, {3: None}
    return fleet


def fails(error):
    def answer():
        raise error

    return answer


def test_answers_come_with_the_names_of_their_requests(fleet):
    fleet._requests[lambda: "greeting"] = (ACTOR, 0)
    fleet._requests[lambda: "trajectory"] = (ACTOR, 7)
    assert fleet.ready == 1
    assert fleet.next() == Arrival(ACTOR, 0, greeting="greeting")
    assert fleet.next() == Arrival(ACTOR, 7, "trajectory")
    assert fleet.ready == 0


KILLED = """The actor died unexpectedly before finishing this task.
	class_name: Actor
The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: many words."""
RAISED = """The actor died because of an error raised in its creation task, ray::Actor.__init__()
  File "somewhere", line 1
ModuleNotFoundError: No module named 'usfa'"""


@pytest.mark.parametrize(
    ("error", "fate", "why"),
    [
        (RayActorError(KILLED), "lost", "The actor is dead because its worker process has died"),
        (RayActorError(RAISED), "lost", "ModuleNotFoundError: No module named 'usfa'"),
        (RayActorError(""), "lost", "RayActorError"),
        (OSError("The object is gone. Its node left."), "lost", "The object is gone. Its node left"),
        (RayTaskError(InputError("The reward is nan.")), "poisoned", "The reward is nan"),
    ],
)
def test_failures_have_a_fate_and_a_reason(fleet, error, fate, why):
    fleet._requests[fails(error)] = (ACTOR, 2)
    assert fleet.next() == Arrival(ACTOR, 2, fate=fate, why=why)


def test_mistakes_of_our_own_are_not_hidden(fleet):
    fleet._requests[fails(RayTaskError(KeyError("oops")))] = (ACTOR, 2)
    with pytest.raises(RayTaskError):
        fleet.next()


def test_patience_ends(fleet, monkeypatch):
    monkeypatch.setattr("usfa.cluster.ray.PATIENCE_SECONDS", 0.1)
    fleet._requests[None] = (ACTOR, 1)
    with pytest.raises(InputError, match=r"^No trajectory arrived for 0 seconds from 1 actors; expected nodes with"):
        fleet.next()
