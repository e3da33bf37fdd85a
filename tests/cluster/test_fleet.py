"""What the fleet makes of Ray's answers, with a stand-in for Ray."""

import socket
from types import SimpleNamespace

import pytest

from usfa.cluster.ledger import ActorId
from usfa.cluster.ray import RayFleet, _explained, _Head
from usfa.cluster.remote_acting import Arrival
from usfa.errors import InputError

ACTOR = ActorId(0, 3, 0)


class RayError(Exception):
    pass


class RayActorError(RayError):
    pass


class RayTaskError(RayError):
    def __init__(self, cause):
        self.cause = cause


class FakeRay:
    """Answers are functions to call; those of actors that do not exist never come."""

    exceptions = SimpleNamespace(
        RayError=RayError,
        RayTaskError=RayTaskError,
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
    fleet._head = SimpleNamespace(check=lambda: None)
    return fleet


def fails(error):
    def answer():
        raise error

    return answer


def test_answers_come_with_the_names_of_their_requests(fleet):
    fleet._requests[lambda: "greeting"] = (ACTOR, 0)
    fleet._requests[lambda: "trajectory"] = (ACTOR, 7)
    assert fleet.ready == 1
    assert fleet.next(1.0) == Arrival(ACTOR, 0, greeting="greeting")
    assert fleet.next(1.0) == Arrival(ACTOR, 7, "trajectory")
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
        (RayError("The object is gone. Its node left."), "lost", "The object is gone. Its node left"),
        (RayTaskError(InputError("The reward is nan.")), "poisoned", "The reward is nan"),
        (RayTaskError(KeyError("oops")), "poisoned", "KeyError: 'oops'"),
    ],
)
def test_failures_have_a_fate_and_a_reason(fleet, error, fate, why):
    fleet._requests[fails(error)] = (ACTOR, 2)
    assert fleet.next(1.0) == Arrival(ACTOR, 2, fate=fate, why=why)


def test_what_does_not_come_is_not_waited_for(fleet):
    fleet._requests[None] = (ACTOR, 1)
    assert fleet.next(0.1) is None
    assert not fleet.has_answer(ACTOR)
    fleet._requests[lambda: "trajectory"] = (ACTOR, 2)
    assert fleet.has_answer(ACTOR)
    assert not fleet.has_answer(ACTOR._replace(incarnation=1))


def test_a_lost_head_node_is_one_sentence(monkeypatch):
    """While it answers nothing happens; a short interruption is forgiven."""
    now = [0.0]
    monkeypatch.setattr("usfa.cluster.ray.time.monotonic", lambda: now[0])
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        head = _Head(f"127.0.0.1:{port}")
        now[0] = 100.0
        head.check()
    now[0] = 110.0
    head.check()
    now[0] = 121.0
    with pytest.raises(
        InputError, match=rf"^The head node of Ray at 127\.0\.0\.1:{port} is lost \(.*\); .* continue with --resume\.$"
    ):
        head.check()


def test_errors_of_ray_are_one_sentence():
    with (
        pytest.raises(InputError, match=r"^Ray failed: The object is gone; continue with --resume\.$"),
        _explained(FakeRay()),
    ):
        raise RayError("The object is gone.")
