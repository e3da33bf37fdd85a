"""The scoring that all racers of benchmarks/race share, against that of the library."""

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from usfa.environments import EnvironmentSource
from usfa.evaluation.episodes import episode_batch, vector_returns
from usfa.experiments import build_agent, settings_for
from usfa.tasks import spread_over_simplex

RACING = Path(__file__).parents[1] / "benchmarks" / "race" / "racing.py"
pytestmark = pytest.mark.filterwarnings("ignore")  # what MO-Gymnasium warns of


@pytest.fixture(scope="module")
def racing():
    pytest.importorskip("mo_gymnasium")
    spec = importlib.util.spec_from_file_location("racing", RACING)
    module = sys.modules["racing"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["racing"]


def contest_of(racing, **changes):
    given = {
        "environment": "deep-sea-treasure-v0",
        "arguments": {},
        "gamma": 0.9,
        "preferences": spread_over_simplex(30, 2).tolist(),
        "seconds": 0.2,
        "points": 4,
        "episodes": 1,
        "step_limit": 40,
    }
    return racing.Contest(**given | changes)


def test_expected_utility_is_that_of_the_library(racing):
    contest = contest_of(racing)
    config = settings_for("deep-sea-treasure-v0")
    agent = build_agent(config)
    parameters = agent.initial_parameters(torch.Generator().manual_seed(3))
    w, rng = np.array(contest.preferences), np.random.default_rng(0)
    batch = episode_batch(EnvironmentSource(contest.make), w, w[:, None], 1, rng)
    found = vector_returns(agent, parameters, *batch, 0.0, rng, contest.gamma)

    def act(seen, tasks):
        present = agent.at_start(torch.from_numpy(agent.spec.observation.encode(seen)))
        own = torch.from_numpy(tasks).float()
        with torch.no_grad():
            return agent.act(parameters, present, own, own[:, None])[0].numpy()

    expected = np.einsum("kd,kd->k", found.discounted, w)
    assert np.ptp(expected) > 0.1  # the preferences are served differently
    assert racing.expected_utility(contest, act, 0) == pytest.approx(expected.mean(), abs=1e-5)


def test_the_clock_stands_still_while_a_racer_is_scored(racing, monkeypatch):
    """A clock of our own: a step takes a second of twenty, scoring a thousand."""
    now = [100.0]
    monkeypatch.setattr(racing, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(racing, "expected_utility", lambda *_: now.__setitem__(0, now[0] + 1000) or 0.5)
    scorer = racing.Scorer(contest_of(racing, seconds=20, points=4), None, 0, began=100.0)
    for steps in range(20):
        scorer.look(steps, 2 * steps)
        now[0] += 1
    with pytest.raises(racing.TimeIsUp):
        scorer.look(20, 40)
    assert scorer.rows == [(seconds, seconds, 2 * seconds, 0.5) for seconds in (0, 5, 10, 15, 20)]
