"""Visitors without a browser, agents without training, and a server in a thread."""

import json
import threading
import time

import torch

from usfa.agents import AgentFile, AgentSpec, make_agent, save_agent
from usfa.environments import ObservationSpec
from usfa.networks import NetworkConfig
from usfa.playground import Address, make_app
from usfa.playground.director import Director
from usfa.playground.protocol import encode
from usfa.playground.security import Door
from usfa.playground.server import make_server, url_of

SMALL = NetworkConfig(convolutions=((4, 6, 4), (4, 3, 2)), memory=8, trunk=(8,), embedding=(4,), head=(8,))


def save_room_agent(directory, kind="usfa", seed=0, **arguments):
    """An agent for a room of few pixels, with random weights."""
    spec = AgentSpec(ObservationSpec((24, 24, 3)), 8, 4)
    actor = make_agent(kind, spec, SMALL)
    weights = actor.initial_parameters(torch.Generator().manual_seed(seed))
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
    )
    save_agent(directory, file, {name: tensor[None] for name, tensor in weights.items()})
    return str(directory)


def unpack(packed):
    """A moment as the page sees it: the JSON, and the rest."""
    length = int.from_bytes(packed[:4], "little")
    return json.loads(packed[4 : 4 + length]), packed[4 + length :]


class Visitor:
    """A mailbox that keeps everything, with a director whose time is told to it."""

    def __init__(self, repertoire):
        self.notes, self.moments = [], []
        self.now = 0.0
        self.director = Director(repertoire)
        self.session = self.director.welcome(self)
        self._lock = threading.Lock()

    def note(self, note):
        with self._lock:
            self.notes.append(json.loads(encode(note)))

    def moment(self, packed, *, fleeting):
        self.moments.append({**unpack(packed)[0], "fleeting": fleeting})

    def say(self, message):
        self.director.tell(self.session, message)
        self.pass_time(0.0)

    def set_up(self, setup):
        """Say it and wait until it is done; a failure is a note."""
        before = len(self.notes)
        self.director.tell(self.session, setup)
        deadline = time.monotonic() + 60
        while len(self.notes) == before:
            assert time.monotonic() < deadline
            self.pass_time(0.0)
            time.sleep(0.005)

    def wait_for_oracle(self):
        """It is made in the background, in seconds that have nothing to do with the visitor's own clock."""
        oracles, rules = self.director._services.oracles, self.session.players[0].world.rules
        deadline = time.monotonic() + 120
        while oracles.get(rules) is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def pass_time(self, seconds):
        self.now += seconds
        self.director.turn(self.now)

    def decide(self, count=1):
        """So many decisions of the first player's world."""
        for _ in range(count):
            self.pass_time(self.session.clock.period)

    @property
    def last(self):
        """The last moment that tells everything."""
        return next(moment for moment in reversed(self.moments) if not moment["fleeting"])

    @property
    def player(self):
        return self.last["players"][0]

    def notes_of(self, kind):
        return [note for note in self.notes if note["type"] == kind]

    def close(self):
        self.director.stop()


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
