"""Ray: join a cluster or start one on this machine, and run actors on it."""

from __future__ import annotations

import importlib
import os
import re
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from usfa.cluster.actor import Actor, Job
from usfa.cluster.config import ClusterConfig
from usfa.cluster.ledger import ActorId
from usfa.cluster.messages import Weights
from usfa.cluster.remote_acting import Arrival
from usfa.errors import InputError, told

__all__ = ["RayFleet", "connected", "cpus_here"]

ANSWER_SECONDS = 5.0  # timeout of the first connection to a head node
SETTINGS_FRAME = 4  # of HTTP/2
FETCH_SECONDS = 600.0  # timeout for the transfer of a trajectory
PROBE_SECONDS = 5.0  # between two checks that the head node accepts connections
LOST_SECONDS = 20.0  # without a connection to the head node; after 60, Ray would end this process silently
LOOPBACK = "127.0.0.1"
STORE_BYTES = 2 * 2**30  # limit of shared memory on one machine; allocated on demand


@contextmanager
def connected(config: ClusterConfig) -> Iterator[None]:
    """Connect to a Ray cluster with enough CPUs for all actors; raise InputError if that fails.

    A connection from an earlier `ray.init` is used and kept.
    """
    assert config.cluster is not None
    if config.cluster == "local":
        _check_room(config, cpus_here(), "this machine")
        _keep_to_this_machine()
    ray = _imported()
    if ray.is_initialized():
        _check_room(config, ray.cluster_resources().get("CPU", 0.0), "the cluster")
        with _explained(ray):
            yield
        return
    _start_local(ray) if config.cluster == "local" else _join(ray, config.cluster)
    try:
        _check_room(config, ray.cluster_resources().get("CPU", 0.0), "the cluster")
        with _explained(ray):
            yield
    finally:
        ray.shutdown()


@contextmanager
def _explained(ray: Any) -> Iterator[None]:
    """Turn errors of Ray into an InputError of one sentence."""
    try:
        yield
    except ray.exceptions.RayError as error:
        raise InputError(f"Ray failed: {_cause(error)}; continue with --resume.") from error


def cpus_here() -> int:
    """Number of CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _imported() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise InputError("--cluster needs Ray, which is not installed; expected pip install 'usfa[ray]'.") from error


def _keep_to_this_machine() -> None:
    """Disable usage statistics, and make Ray listen on the loopback interface only. Ray reads both on import.

    Without the second setting Ray replaces 127.0.0.1 by the address of a network interface, and listens on all of them.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"


def _start_local(ray: Any) -> None:
    ray.init(
        address="local",
        num_cpus=cpus_here(),
        num_gpus=0,  # the GPU is for the learner
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
        object_store_memory=STORE_BYTES,
        job_config=_job_config(ray),
        _node_ip_address=LOOPBACK,
    )
    address = ray.util.get_node_ip_address()
    if address != LOOPBACK:
        ray.shutdown()
        raise InputError(
            f"Ray was imported before usfa and listens on {address}; call ray.init yourself, or import usfa first."
        )


def _job_config(ray: Any) -> Any:
    """Give actors the directories of this process's path only.

    Ray puts the working directory first on the path of actors. It may be a download, whose files must not be imported
    before the user names a module in it (see :mod:`usfa.registry`).
    """

    class OurPath(ray.job_config.JobConfig):  # type: ignore[misc]
        _py_driver_sys_path: list[str]  # the directories to add

        def _serialize(self) -> Any:
            ours = {os.path.abspath(folder) for folder in sys.path}
            self._py_driver_sys_path = [folder for folder in self._py_driver_sys_path if folder in ours]
            return super()._serialize()

    return OurPath()


def _join(ray: Any, address: str) -> None:
    if address != "auto":
        _check_answers(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error", job_config=_job_config(ray))
    except ConnectionError as error:
        if address == "auto":
            raise InputError(f"--cluster is 'auto', but no Ray cluster runs here; expected {_EXPECTED}.") from error
        raise InputError(
            f"--cluster is {address!r}, but the connection was refused; expected a Ray head node, and "
            "RAY_AUTH_MODE=token with its token if it requires one."
        ) from error
    except (RuntimeError, ValueError, OSError) as error:
        raise InputError(f"--cluster is {address!r}, but Ray cannot join it: {_first_line(error)}") from error


_EXPECTED = "a cluster started with `ray start --head`, local, or another HOST:PORT"


def _check_answers(address: str) -> None:
    """Raise InputError if no Ray head node answers within seconds; Ray itself retries for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise InputError(f"--cluster is {address!r}; expected local, auto, or the HOST:PORT of a Ray head node.")
    try:
        with socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS) as connection:
            speaks = os.environ.get("RAY_USE_TLS") == "1" or _speaks_http2(connection)
    except (OSError, OverflowError) as error:
        raise InputError(
            f"--cluster is {address!r}, but there is no answer ({error}); expected {_EXPECTED}."
        ) from error
    if not speaks:
        raise InputError(f"--cluster is {address!r}, but the server there is not Ray; expected {_EXPECTED}.")


def _speaks_http2(connection: socket.socket) -> bool:
    """Whether the server answers an HTTP/2 preface with its settings, as gRPC servers such as Ray's head do."""
    nothing_to_set = bytes([0, 0, 0, SETTINGS_FRAME, 0, 0, 0, 0, 0])
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + nothing_to_set)
    try:
        answer = connection.recv(len(nothing_to_set))
    except TimeoutError:
        return False
    return len(answer) > 3 and answer[3] == SETTINGS_FRAME


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def _check_room(config: ClusterConfig, cpus: float, where: str) -> None:
    most = int(cpus / config.cpus_per_actor)
    if config.actors > most:
        raise InputError(
            f"--actors is {config.actors}, but {where} has {cpus:g} CPUs; expected at most {most}, or less than "
            f"{config.cpus_per_actor:g} for --cpus-per-actor."
        )


# --- actors ---


class RayFleet:
    """One Ray actor per number. Requests use the newest weights; answers arrive in shared memory.

    Requires a connection to Ray, see :func:`connected`.
    """

    def __init__(self, cpus_per_actor: float) -> None:
        self._ray: Any = importlib.import_module("ray")  # imported late: Ray reads its settings on import
        # Never retry: the trajectory of a dead actor counts as lost, and a new one is requested.
        self._remote = self._ray.remote(num_cpus=cpus_per_actor, max_restarts=0, max_task_retries=0)(Actor)
        self._handles: dict[int, Any] = {}
        self._requests: dict[Any, tuple[ActorId, int]] = {}  # by object reference, oldest first
        self._weights: Any = None
        self._head = _Head(self._ray.get_runtime_context().gcs_address)

    def start(self, job: Job, actor: ActorId) -> None:
        before = self._handles.get(actor.actor)
        if before is not None:
            self._ray.kill(before)  # also if it hangs
            self._requests = {key: asked for key, asked in self._requests.items() if asked[0].actor != actor.actor}
        handle = self._handles[actor.actor] = self._remote.remote(job, actor)
        self._requests[handle.greet.remote()] = (actor, 0)

    def publish(self, weights: Weights) -> None:
        self._weights = self._ray.put(weights)

    def ask(self, actor: ActorId, sequence: int) -> None:
        answer = self._handles[actor.actor].collect.remote(self._weights)
        self._requests[answer] = (actor, sequence)

    def next(self, timeout: float) -> Arrival | None:
        self._head.check()
        answers, _ = self._ray.wait(list(self._requests), num_returns=1, timeout=timeout)
        return self._received(answers[0]) if answers else None

    def _received(self, answer: Any) -> Arrival:
        actor, sequence = self._requests.pop(answer)
        errors = self._ray.exceptions
        try:
            content = self._ray.get(answer, timeout=FETCH_SECONDS)
        except errors.RayTaskError as error:  # an exception in the actor, usually of its environment
            return Arrival(actor, sequence, fate="poisoned", why=told(error.cause))
        except errors.RayError as error:
            return Arrival(actor, sequence, fate="lost", why=_cause(error))
        return Arrival(actor, sequence, content) if sequence else Arrival(actor, sequence, greeting=content)

    def has_answer(self, actor: ActorId) -> bool:
        return self._answers([answer for answer, (asked, _) in self._requests.items() if asked == actor]) > 0

    @property
    def ready(self) -> int:
        return self._answers([answer for answer, (_, sequence) in self._requests.items() if sequence])

    def _answers(self, requests: list[Any]) -> int:
        """Number of requests that are answered."""
        if not requests:
            return 0
        return len(self._ray.wait(requests, num_returns=len(requests), timeout=0, fetch_local=False)[0])

    def close(self) -> None:
        for handle in self._handles.values():
            self._ray.kill(handle)
        self._handles.clear()
        self._requests.clear()


class _Head:
    """The head node. A minute after it is lost, Ray ends all processes, including the learner's."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = host.strip("[]"), int(port)
        self._probed = self._answered = time.monotonic()

    def check(self) -> None:
        """Raise InputError if the head node accepts no connections any more."""
        now = time.monotonic()
        if now < self._probed + PROBE_SECONDS:
            return
        try:
            socket.create_connection(self._address, timeout=PROBE_SECONDS).close()
            self._answered = now
        except OSError as error:
            if now > self._answered + LOST_SECONDS:
                raise InputError(
                    f"The head node of Ray at {self._address[0]}:{self._address[1]} is lost ({error}); start a cluster "
                    "again and continue with --resume."
                ) from error
        self._probed = time.monotonic()


def _cause(error: Exception) -> str:
    """Shorten a long message of Ray to the exception behind it, or to its first sentence."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Exception): ", line)]
    died = [line.partition(". ")[0] for line in lines if "died" in line or "dead" in line]
    return (raised[-1:] or died[-1:] or lines[:1] or [type(error).__name__])[0].rstrip(".")[:300]
