"""Joining a Ray cluster, or starting one that only this machine can see."""

from __future__ import annotations

import importlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from usfa.cluster.config import ClusterConfig
from usfa.errors import InputError

__all__ = ["connected", "cpus_here"]

ANSWER_SECONDS = 5.0  # within which a head node accepts a connection, or there is none
SETTINGS_FRAME = 4  # of HTTP/2
LOOPBACK = "127.0.0.1"
STORE_BYTES = 2 * 2**30  # for trajectories on one machine; taken only as they come


@contextmanager
def connected(config: ClusterConfig) -> Iterator[None]:
    """A cluster with room for all actors; InputError says in one sentence why there is none.

    Who has already called `ray.init` keeps that connection.
    """
    assert config.cluster is not None
    if config.cluster == "local":
        _check_room(config, cpus_here(), "this machine")
        _keep_to_this_machine()
    ray = _imported()
    if ray.is_initialized():
        _check_room(config, ray.cluster_resources().get("CPU", 0.0), "the cluster")
        yield
        return
    _start_local(ray) if config.cluster == "local" else _join(ray, config.cluster)
    try:
        _check_room(config, ray.cluster_resources().get("CPU", 0.0), "the cluster")
        yield
    finally:
        ray.shutdown()


def cpus_here() -> int:
    """The CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _imported() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise InputError("--cluster needs Ray, which is not installed; expected pip install 'usfa[ray]'.") from error


def _keep_to_this_machine() -> None:
    """Read by Ray when it is imported: no usage statistics, and addresses that nobody else can reach.

    Without the second one Ray turns 127.0.0.1 into the address of a network card, and listens on all of them.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"


def _start_local(ray: Any) -> None:
    ray.init(
        address="local",
        num_cpus=cpus_here(),
        num_gpus=0,  # a GPU is the learner's
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
        object_store_memory=STORE_BYTES,
        _node_ip_address=LOOPBACK,
    )
    address = ray.util.get_node_ip_address()
    if address != LOOPBACK:
        ray.shutdown()
        raise InputError(
            f"Ray was imported before and listens on {address}; expected to start it, or to import usfa first."
        )


def _join(ray: Any, address: str) -> None:
    if address != "auto":
        _check_answers(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except ConnectionError as error:
        if address == "auto":
            raise InputError(f"--cluster is 'auto', but no Ray cluster is here; expected {_EXPECTED}.") from error
        raise InputError(
            f"--cluster is {address!r}, but it does not let us in; expected a Ray head node, and RAY_AUTH_MODE=token "
            "with its token if it wants one."
        ) from error
    except (RuntimeError, ValueError, OSError) as error:
        raise InputError(f"--cluster is {address!r}, but Ray cannot join it: {_first_line(error)}") from error


_EXPECTED = "one that `ray start --head` has started, local, or another HOST:PORT"


def _check_answers(address: str) -> None:
    """Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise InputError(f"--cluster is {address!r}; expected local, auto, or the HOST:PORT of a Ray head node.")
    try:
        with socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS) as connection:
            speaks = os.environ.get("RAY_USE_TLS") == "1" or _speaks_http2(connection)
    except (OSError, OverflowError) as error:
        raise InputError(
            f"--cluster is {address!r}, but nobody answers there ({error}); expected {_EXPECTED}."
        ) from error
    if not speaks:
        raise InputError(f"--cluster is {address!r}, but what answers there is not Ray; expected {_EXPECTED}.")


def _speaks_http2(connection: socket.socket) -> bool:
    """Whether a greeting is answered as every gRPC server does, of which Ray's head is one: with its settings."""
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
