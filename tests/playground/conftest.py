import threading
import time

import pytest
from playground_fakes import Visitor, save_room_agent

from usfa.playground import Address, Limits, Repertoire, make_app
from usfa.playground.security import Door
from usfa.playground.server import make_server, url_of


@pytest.fixture(scope="session")
def agent_paths(tmp_path_factory):
    """Directories of a USFA and a UVFA for the room, as untrained as can be."""
    folder = tmp_path_factory.mktemp("agents")
    return [save_room_agent(folder / name, kind) for name, kind in (("small", "usfa"), ("small-uvfa", "uvfa"))]


@pytest.fixture(scope="session")
def repertoire(agent_paths):
    return Repertoire([*agent_paths, "trip"])


@pytest.fixture
def visitor(repertoire):
    visitor = Visitor(repertoire)
    yield visitor
    visitor.close()


class Running:
    """A real server on a free port, in a thread."""

    def __init__(self, repertoire, door=None, limits=None, port=0):
        self.door = door or Door()
        self.listener = Address(port=port).bind()
        self.port = self.listener.getsockname()[1]
        self.url = url_of(self.listener, Door())
        self.server = make_server(make_app(repertoire, self.door, limits))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.listener]}, daemon=True)
        self.thread.start()
        deadline = time.monotonic() + 30
        while not self.server.started:
            assert time.monotonic() < deadline
            assert self.thread.is_alive()
            time.sleep(0.01)

    def stop(self):
        self.server.should_exit = True
        self.thread.join(20)
        self.listener.close()
        assert not self.thread.is_alive()


@pytest.fixture
def serve(repertoire):
    """Start servers; they end with the test."""
    running = []

    def start(door=None, limits=None, port=0):
        running.append(Running(repertoire, door, limits, port))
        return running[-1]

    yield start
    for server in running:
        if server.thread.is_alive():
            server.stop()


@pytest.fixture
def server(serve):
    return serve(limits=Limits(messages_per_second=1e6, burst=10**6))
