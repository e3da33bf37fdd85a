"""Learning in seconds: recurrent agents from pixels in a small room."""

from dataclasses import replace

import numpy as np
import pytest

from small_room import LEARNER, NETWORK, ROOM, SPEC, collected
from usfa.agents import AGENTS
from usfa.learning import Learner


@pytest.mark.parametrize(
    ("kind", "network", "config"),
    [
        ("usfa", NETWORK, LEARNER),
        pytest.param(
            "uvfa",
            replace(NETWORK, conditioning="inner-product"),
            replace(LEARNER, policies="train", policies_per_step=2, budget=60_000),
            marks=pytest.mark.long,
        ),
    ],
    ids=["usfa", "uvfa"],
)
def test_agents_learn_to_collect_what_their_task_wants(kind, network, config):
    """Who only learns to keep moving collects as much of both.

    Seen with seeds 0 to 3, at random 0.5 and 0.5: USFA 3.7 to 7.1 wanted and 2.2 to 4.9 more than others; UVFA 5.3 to
    6.8 and 1.5 to 2.0 more.
    """
    learner = Learner(AGENTS.make(kind, SPEC, network), config, ROOM, np.eye(2), (0,))
    random, _ = collected(learner, epsilon=1.0)
    untrained, others = collected(learner, epsilon=0.05)
    assert untrained < 2
    assert abs(untrained - others) < 0.5
    while not learner.done:
        learner.step()
    wanted, others = collected(learner, epsilon=0.05)
    assert wanted > 4 * random
    assert wanted > others + 0.8
