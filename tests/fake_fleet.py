"""Actors in this very process, which die, dawdle and send nonsense on command."""

from operator import itemgetter

import numpy as np

from usfa.cluster.collector import Collector
from usfa.cluster.learner import Arrival
from usfa.cluster.parcel import Weights


def unchanged(arrived):
    return arrived


class FakeFleet:
    """Answers requests in the order they were made, or as `order` says.

    Args:
        spoil: called with every delivery, returns what arrives in its place.
        deaths: lives and numbers of the requests during which an actor dies.
        order: picks the request to be answered next from the open ones.
        greet: called with every greeting, returns what arrives in its place.
    """

    def __init__(self, spoil=unchanged, deaths=(), order=itemgetter(0), greet=unchanged):
        self.spoil, self.deaths, self.order, self.greet = spoil, set(deaths), order, greet
        self.collectors, self.dead, self.requests = {}, set(), []
        self.most_under_way, self.closed = 0, False

    def start(self, job, life):
        for other in self.collectors:
            if other.actor == life.actor:
                self.dead.add(other)
        self.collectors[life] = self.make(job, life)
        self.requests.append((life, 0, None))

    def make(self, job, life):
        return Collector(job, life)

    def publish(self, weights):
        self.weights = Weights(weights.version, {name: x.copy() for name, x in weights.arrays.items()})

    def ask(self, life, sequence):
        self.requests.append((life, sequence, self.weights))
        self.most_under_way = max(self.most_under_way, self.ready)

    def next(self):
        request = self.order(self.requests)
        self.requests.remove(request)
        life, sequence, weights = request
        if (life, sequence) in self.deaths:
            self.dead.add(life)
        if life in self.dead:
            return Arrival(life, sequence, fate="lost", why="it was killed")
        if not sequence:
            return Arrival(life, sequence, greeting=self.greet(self.collectors[life].greet()))
        return Arrival(life, sequence, self.spoil(copied(self.collectors[life].collect(weights))))

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
