"""Clusters that cannot be had: one sentence each, soon, and nothing left behind."""

import socket
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest

from usfa.cli import main
from usfa.cluster import ClusterConfig
from usfa.cluster.ray import connected, cpus_here
from usfa.errors import InputError


def sentence(*arguments, **options):
    with pytest.raises(InputError) as error, connected(ClusterConfig(*arguments, **options)):
        pass
    return str(error.value)


@pytest.fixture
def without_ray(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)


@pytest.fixture
def closed_port():
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        return server.getsockname()[1]


@pytest.mark.usefixtures("without_ray")
@pytest.mark.parametrize("cluster", ["local", "auto", "127.0.0.1:6379"])
def test_ray_is_missing(cluster):
    assert sentence(cluster) == "--cluster needs Ray, which is not installed; expected pip install 'usfa[ray]'."


def test_nobody_answers(monkeypatch, closed_port):
    monkeypatch.setattr("ray.init", lambda **_: pytest.fail("Ray was asked, which tries for minutes."))
    said = sentence(f"127.0.0.1:{closed_port}")
    assert said.startswith(f"--cluster is '127.0.0.1:{closed_port}', but there is no answer (")
    assert said.endswith("expected a cluster started with `ray start --head`, local, or another HOST:PORT.")


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"], ids=["silence", "http"])
def test_somebody_else_answers(monkeypatch, answer):
    """Ray itself would wait for minutes."""
    monkeypatch.setattr("usfa.cluster.ray.ANSWER_SECONDS", 0.2)

    def serve(server):
        with server.accept()[0] as connection:
            connection.sendall(answer)
            connection.recv(1000)
            time.sleep(0.5)

    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        threading.Thread(target=serve, args=[server], daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert sentence(address).startswith(f"--cluster is {address!r}, but the server there is not Ray; expected a")


@pytest.mark.parametrize("address", ["somewhere", "6379", ":6379", "host:port", "ray://host:10001", "host:", ""])
def test_an_address_that_is_none(address):
    expected = f"--cluster is {address!r}; expected local, auto, or the HOST:PORT of a Ray head node."
    assert sentence(address) == expected


def test_more_actors_than_cpus():
    cpus = cpus_here()
    assert sentence("local", cpus + 1) == (
        f"--actors is {cpus + 1}, but this machine has {cpus} CPUs; expected at most {cpus}, or less than 1 for "
        "--cpus-per-actor."
    )
    assert sentence("local", 3 * cpus, cpus_per_actor=0.5).startswith(
        f"--actors is {3 * cpus}, but this machine has {cpus} CPUs; expected at most {2 * cpus}, or less than 0.5"
    )


@pytest.mark.usefixtures("without_ray")
def test_the_command_line_says_it_before_anything_is_touched(tmp_path, capsys):
    words = ["train", "trip-usfa", "--cluster", "local", "--out", str(tmp_path / "run")]
    assert main(words) == 2
    assert capsys.readouterr().err == (
        "usfa: --cluster needs Ray, which is not installed; expected pip install 'usfa[ray]'.\n"
    )
    assert not (tmp_path / "run").exists()


def test_ray_is_not_imported_without_a_cluster():
    code = "import sys, usfa, usfa.cli.train, usfa.cluster; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
