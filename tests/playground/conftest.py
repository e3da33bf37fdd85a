import pytest
from playground_fakes import Client, Running, save_room_agent

from usfa.playground import Catalogue, Limits


@pytest.fixture(scope="session")
def agent_paths(tmp_path_factory):
    """Directories of a USFA and a UVFA for the room, with random weights."""
    folder = tmp_path_factory.mktemp("agents")
    return [save_room_agent(folder / name, kind) for name, kind in (("small", "usfa"), ("small-uvfa", "uvfa"))]


@pytest.fixture(scope="session")
def catalogue(agent_paths):
    return Catalogue([*agent_paths, "trip"])


@pytest.fixture
def client(catalogue):
    client = Client(catalogue)
    yield client
    client.close()


@pytest.fixture
def serve(catalogue):
    """Start servers; they end with the test."""
    running = []

    def start(access=None, limits=None, port=0):
        running.append(Running(catalogue, access, limits, port))
        return running[-1]

    yield start
    for server in running:
        if server.thread.is_alive():
            server.stop()


@pytest.fixture
def server(serve):
    return serve(limits=Limits(messages_per_second=1e6, burst=10**6))
