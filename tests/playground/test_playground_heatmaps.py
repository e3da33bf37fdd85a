import queue
import time
from contextlib import closing
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

import usfa
from usfa.agents import AGENTS, save_agent
from usfa.environments import RoomBatch, RoomRules, make, source, trip_mdp
from usfa.environments.room.oracle import Oracle, random_policy
from usfa.environments.room.yardstick import is_standard_room
from usfa.errors import InputError
from usfa.evaluation import bound_table
from usfa.networks import NetworkConfig
from usfa.playground.catalogue import make_view
from usfa.playground.heatmap_worker import HeatmapWorker
from usfa.playground.heatmaps import HeatmapRequest, _yardsticks, heatmap, quantities


def request_for(
    agent="trip",
    environment=None,
    quantity="score",
    w=(0.0, 0.0),
    candidates="task",
    rule="cautious",
    resolution=5,
    episodes=2,
):
    return HeatmapRequest(
        agent=agent,
        environment=environment,
        trust=False,
        player=0,
        quantity=quantity,
        x=0,
        y=1,
        w=w,
        candidates=candidates,
        rule=rule,
        resolution=resolution,
        episodes=episodes,
        seed=0,
    )


def final(request, agent):
    *_, last = heatmap(request, agent)
    assert last.progress == 1
    return last.values


def test_scores_of_an_mdp_are_those_of_evaluate():
    values = final(request_for(), usfa.load("trip"))
    table = usfa.evaluate(usfa.load("trip"), [[1.0, -0.5], [-0.5, 1.0]], "task")
    assert values[1, 4] == pytest.approx(table.score[0])  # rows along y: food −0.5, coffee 1
    assert values[4, 1] == pytest.approx(table.score[1])
    gap = final(request_for(quantity="gap"), usfa.load("trip"))
    assert gap[1, 4] == pytest.approx(table.gap[0])


def test_normalised_scores_of_an_mdp_are_shares_of_the_optimum():
    agent = usfa.load("trip")
    score, gap, normalised = (final(request_for(quantity=name), agent) for name in ("score", "gap", "normalised"))
    optimum = score + gap
    np.testing.assert_array_equal(np.isnan(normalised), optimum < 1e-9)
    assert np.isnan(normalised[2, 2])  # w = 0
    known = optimum > 1e-9
    np.testing.assert_allclose(normalised[known], score[known] / optimum[known])


def test_other_features_in_the_room_have_no_oracle():
    yardstick = _yardsticks(request_for(quantity="normalised"), source("room"), "learned:0")(
        np.array([[3.0, 4.0]]), [0]
    )
    assert yardstick.normalised(np.array([10.0])).tolist() == [2.0]
    assert is_standard_room("room", {}, "reward")
    assert not is_standard_room("room", {}, "learned:0")


def test_normalised_scores_in_the_room_are_0_for_the_random_policy_and_1_for_the_oracle(catalogue, agent_paths):
    request = request_for(agent_paths[0], w=(0.0, 0.0, 0.5, -0.25), resolution=3, quantity="normalised")
    agent = catalogue["small"]
    rules, layouts = RoomRules(), np.repeat([0, 1], 9)
    rooms = {name: RoomBatch(18, rules, seeds=layouts.tolist(), image_size=8) for name in ("random", "oracle")}
    policies, w = {"random": random_policy(0), "oracle": Oracle(rules)}, np.tile(request.tasks, (2, 1))
    scores = heatmap(replace(request, quantity="score"), agent)
    *_, (partial, score) = islice(zip(heatmap(request, agent), scores, strict=False), 30)
    means = {}
    for name, batch in rooms.items():
        for _ in range(30):
            batch.move(policies[name].act(batch.world, w))
        means[name] = (batch.world.collected * w).sum(axis=1).reshape(2, 3, 3).mean(axis=0)
    apart = means["oracle"] > means["random"] + 1e-9
    assert apart.sum() > 4
    expected = (score.values - means["random"]) / (means["oracle"] - means["random"])
    np.testing.assert_allclose(partial.values[apart], expected[apart])
    assert np.isnan(partial.values[~apart]).all()


def test_scores_without_an_oracle_are_divided_by_the_length_of_the_task(tmp_path):
    agent = recurrent_trip(tmp_path)
    score, normalised = (final(request_for(quantity=name, resolution=3), agent) for name in ("score", "normalised"))
    assert np.isnan(normalised[1, 1])  # w = 0
    assert normalised[2, 2] == pytest.approx(score[2, 2] / 2**0.5)


def test_scores_are_by_the_rule_and_bounds_by_eq_3():
    agent = usfa.load("trip")
    scores = {rule: final(request_for(candidates="train", rule=rule), agent) for rule in ("gpi", "follow")}
    for rule, values in scores.items():
        table = usfa.evaluate(agent, [[1.0, -0.5], [0.5, 1.0]], "train", rules=rule)
        assert [values[1, 4], values[4, 3]] == pytest.approx(table.score.tolist())
    assert (scores["gpi"] != scores["follow"]).any()
    bounds = [final(request_for(quantity="bound", candidates="train", rule=rule), agent) for rule in scores]
    np.testing.assert_array_equal(*bounds)
    assert request_for(rule="follow").empty("").rule == "follow"


def test_distance_is_to_the_nearest_policy():
    values = final(request_for(quantity="distance", candidates="train"), usfa.load("trip"))
    assert values[2, 4] == values[4, 2] == 0  # the training tasks 10 and 01
    assert values[0, 0] == pytest.approx(np.hypot(2, 1))
    assert (final(request_for(quantity="distance"), usfa.load("trip")) == 0).all()


def test_the_bound_is_the_sum_of_its_terms_and_holds():
    agent, terms = usfa.load("trip"), ("distance-term", "approximation-term", "bound")
    first, second, bound = (final(request_for(quantity=name, candidates="train"), agent) for name in terms)
    np.testing.assert_allclose(first + second, bound)
    request = request_for(candidates="train")
    z = agent.candidates(request.tasks, "train", np.random.default_rng(0)).z
    assert (bound_table(agent, trip_mdp(), request.tasks, z).gap.to_numpy() <= bound.ravel() + 1e-6).all()


def test_scores_of_the_room_grow_while_one_watches(catalogue, agent_paths):
    request = request_for(agent_paths[0], w=(0.0, 0.0, 0.5, -0.25), resolution=3)
    assert (request.tasks[:, 2:] == [0.5, -0.25]).all()
    progress = []
    for partial in heatmap(request, catalogue["small"]):
        assert partial.values.shape == (3, 3)
        progress.append(partial.progress)
        if len(progress) == 20:
            break
    np.testing.assert_allclose(progress, np.arange(1, 21) / 900)


def recurrent_trip(tmp_path):
    """An agent with a memory, so that its scores in the Trip MDP come from episodes."""
    plain, network = usfa.load("trip").file, NetworkConfig(memory=4, trunk=(8,), embedding=(8,), head=(8,))
    actor = AGENTS.make("usfa", plain.spec, network)
    weights = actor.make_network().state_dict()
    file = replace(plain, network=network, seeds=(0,))
    save_agent(tmp_path / "agent", file, {name: tensor[None] for name, tensor in weights.items()})
    return usfa.load(tmp_path / "agent")


def test_an_agent_with_a_memory_is_tried_out_even_where_there_are_tables(tmp_path):
    agent = recurrent_trip(tmp_path)
    with closing(make_view(agent)) as view:
        assert quantities(agent, view).keys() == {"score", "normalised", "distance"}
    values = final(request_for(resolution=3), agent)
    assert values[0, 2] == pytest.approx(played(agent, make("trip"), [1.0, -1.0]))


def played(agent, env, w):
    """The return of an episode, step by step."""
    policy = agent.policy(w)
    observation, info = env.reset(seed=0)
    total, ended = 0.0, False
    while not ended:
        observation, phi, terminated, truncated, info = env.step(policy(observation, info["action_mask"]))
        total += float(phi @ w)
        ended = terminated or truncated
    return total


# --- the process ---


@pytest.fixture(scope="module")
def worker():
    worker = HeatmapWorker()
    yield worker
    worker.close()


def received(messages, kind="heatmap", timeout=120):
    message = messages.get(timeout=timeout)
    assert type(message).__struct_config__.tag == kind, message
    return message


def test_maps_come_from_a_process_with_progress_and_can_be_stopped(worker, agent_paths):
    messages, owner = queue.SimpleQueue(), object()
    worker.submit(owner, request_for(), messages.put)
    assert received(messages).message == "Waiting for the worker."
    done = received(messages)
    assert done.progress == 1
    assert done.values == final(request_for(), usfa.load("trip")).round(4).tolist()
    long = request_for(agent_paths[0], w=(0.0,) * 4, resolution=25)
    worker.submit(owner, long, messages.put)
    received(messages)
    assert received(messages).progress < 1
    worker.submit(owner, request_for(quantity="gap"), messages.put)  # in place of the long one
    while (message := received(messages)).quantity != "gap" or message.progress < 1:
        pass


def test_a_process_that_dies_is_told_and_replaced(worker):
    messages, owner = queue.SimpleQueue(), object()
    worker.submit(owner, request_for(), messages.put)
    while received(messages).progress < 1:
        pass
    while worker._current is not None:
        time.sleep(0.01)
    worker._process.kill()
    worker.submit(owner, request_for(), messages.put)
    received(messages)
    assert "died" in received(messages, "error").message
    worker.submit(owner, request_for(), messages.put)
    while received(messages).progress < 1:
        pass


def test_what_cannot_be_mapped_is_received(worker):
    messages = queue.SimpleQueue()
    worker.submit(object(), request_for(environment="no_such_module:Env-v0"), messages.put)
    received(messages)
    assert "no_such_module" in received(messages, "error").message


@pytest.mark.parametrize("named", [{"environment": "no_such_module:Env-v0"}, {"phi": "os:system"}])
def test_an_agents_file_imports_nothing_without_trust(named):
    agent = usfa.load("trip")
    agent.file = replace(agent.file, **named)
    with pytest.raises(InputError, match="--trust"):
        next(heatmap(request_for(), agent))


def test_who_names_the_environment_does_not_vouch_for_the_files_phi():
    agent = usfa.load("trip")
    agent.file = replace(agent.file, phi="os:system")
    with pytest.raises(InputError, match="--trust"):
        next(heatmap(request_for(environment="trip"), agent))
