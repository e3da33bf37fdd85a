"""Actors in this process, which die, are late and send malformed trajectories on command."""

from operator import itemgetter

import numpy as np

from usfa.cluster.actor import Actor
from usfa.cluster.remote_acting import Arrival


def unchanged(arrived):
    return arrived


class FakeFleet:
    """Answers requests in the order they were made, or as `order` says.

    Args:
        spoil: called with every delivery, returns what arrives in its place.
        deaths: actors and numbers of the requests during which an actor dies.
        hung: actors and numbers of the requests that are never answered, nor those after them.
        order: picks the request to be answered next from the open ones.
        greet: called with every greeting, returns what arrives in its place.
    """

    def __init__(self, spoil=unchanged, deaths=(), order=itemgetter(0), greet=unchanged, hung=()):
        self.spoil, self.deaths, self.order, self.greet = spoil, set(deaths), order, greet
        self.hung = dict(hung)
        self.actors, self.dead, self.requests = {}, set(), []
        self.most_under_way, self.closed = 0, False

    def start(self, job, actor_id):
        for other in self.actors:
            if other.actor == actor_id.actor:
                self.dead.add(other)
        self.actors[actor_id] = self.make(job, actor_id)
        self.requests.append((actor_id, 0, None))

    def make(self, job, actor_id):
        return Actor(job, actor_id)

    def publish(self, weights):
        self.weights = weights._replace(arrays={name: x.copy() for name, x in weights.arrays.items()})

    def ask(self, actor_id, sequence):
        self.requests.append((actor_id, sequence, self.weights))
        self.most_under_way = max(self.most_under_way, self.ready)

    def answers(self, request):
        actor_id, sequence, _ = request
        return sequence < self.hung.get(actor_id, sequence + 1)

    def has_answer(self, actor_id):
        return any(request[0] == actor_id and self.answers(request) for request in self.requests)

    def next(self, timeout):
        answered = [request for request in self.requests if self.answers(request)]
        if not answered:
            return None
        request = self.order(answered)
        self.requests.remove(request)
        actor_id, sequence, weights = request
        if (actor_id, sequence) in self.deaths:
            self.dead.add(actor_id)
        if actor_id in self.dead:
            return Arrival(actor_id, sequence, fate="lost", why="it was killed")
        if not sequence:
            return Arrival(actor_id, sequence, greeting=self.greet(self.actors[actor_id].greet()))
        return Arrival(actor_id, sequence, self.spoil(copied(self.actors[actor_id].collect(weights))))

    @property
    def ready(self):
        return sum(sequence > 0 for _, sequence, _ in self.requests)

    def close(self):
        self.closed = True


def copied(delivery):
    """As Ray delivers: memory of its own, read-only."""
    arrays = {name: np.array(x) for name, x in delivery.arrays.items()}
    for x in arrays.values():
        x.flags.writeable = False
    return delivery._replace(arrays=arrays)
