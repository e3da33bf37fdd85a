import pytest
from playground_fakes import Running, Visitor, save_room_agent

from usfa.playground import Limits, Repertoire


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
