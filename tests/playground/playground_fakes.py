"""A client without a browser, agents without training, and a server in a thread."""

import json
import threading
import time

from usfa.agents import AGENTS, AgentFile, AgentSpec, save_agent
from usfa.environments import ObservationSpec
from usfa.networks import NetworkConfig
from usfa.playground import Address, make_app
from usfa.playground.protocol import encode
from usfa.playground.scheduler import Scheduler
from usfa.playground.security import Access
from usfa.playground.server import make_server, url_of

SMALL = NetworkConfig(convolutions=((4, 6, 4), (4, 3, 2)), memory=8, trunk=(8,), embedding=(4,), head=(8,))


def save_room_agent(directory, kind="usfa", seed=0, training=None, **arguments):
    """An agent for a room of few pixels, with random weights."""
    spec = AgentSpec(ObservationSpec((24, 24, 3)), 8, 4)
    actor = AGENTS.make(kind, spec, SMALL)
    weights = actor.make_network(seed).state_dict()
    file = AgentFile(
        kind=kind,
        spec=spec,
        environment="room",
        environment_arguments={"image_size": 24, **arguments},
        gamma=0.9,
        training_tasks=((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0)),
        policies="gaussian:0.1",
        seeds=(0,),
        network=SMALL,
        training=training or {},
    )
    save_agent(directory, file, {name: tensor[None] for name, tensor in weights.items()})
    return str(directory)


def unpack(packed):
    """A frame as the page receives it: the JSON, and the rest."""
    length = int.from_bytes(packed[:4], "little")
    return json.loads(packed[4 : 4 + length]), packed[4 + length :]


class Client:
    """An outbox that keeps everything, with a scheduler whose time the test sets."""

    def __init__(self, catalogue):
        self.messages, self.frames = [], []
        self.now = 0.0
        self.scheduler = Scheduler(catalogue)
        self.session = self.scheduler.connect(self)
        self._lock = threading.Lock()

    def send(self, message):
        with self._lock:
            self.messages.append(json.loads(encode(message)))

    def show(self, packed, *, intermediate):
        self.frames.append({**unpack(packed)[0], "intermediate": intermediate})

    def post(self, message):
        self.scheduler.handle(self.session, message)
        self.pass_time(0.0)

    def set_up(self, setup):
        """Post a setup and wait for the reply, which may be an error."""
        before = len(self.messages)
        self.scheduler.handle(self.session, setup)
        deadline = time.monotonic() + 60
        while len(self.messages) == before:
            assert time.monotonic() < deadline
            self.pass_time(0.0)
            time.sleep(0.005)

    def wait_for_oracle(self):
        """It is made in the background, independently of the time that the test sets."""
        oracles, rules = self.scheduler._oracles, self.session.players[0].view.rules
        deadline = time.monotonic() + 120
        while oracles.get(rules) is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def pass_time(self, seconds):
        self.now += seconds
        self.scheduler.run_due(self.now)

    def decide(self, count=1):
        """Let the time of `count` decisions pass."""
        for _ in range(count):
            self.pass_time(self.session.clock.period)

    @property
    def last(self):
        """The last full frame."""
        return next(frame for frame in reversed(self.frames) if not frame["intermediate"])

    @property
    def player(self):
        return self.last["players"][0]

    def messages_of(self, kind):
        return [message for message in self.messages if message["type"] == kind]

    def close(self):
        self.scheduler.stop()


class Running:
    """A real server on a free port, in a thread."""

    def __init__(self, catalogue, access=None, limits=None, port=0):
        self.access = access or Access()
        self.listener = Address(port=port).bind()
        self.port = self.listener.getsockname()[1]
        self.url = url_of(self.listener, Access())
        self.server = make_server(make_app(catalogue, self.access, limits), limits)
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
