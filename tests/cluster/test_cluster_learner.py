"""The learner of a cluster, with actors in this process: what it learns, drops, counts and says."""

import itertools
import json
import re
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
import torch

from fake_fleet import FakeFleet
from small_room import LEARNER, NETWORK, ROOM, SPEC
from usfa.agents import AGENTS
from usfa.cluster import ClusterConfig, read_account
from usfa.cluster.actor import Actor
from usfa.cluster.ledger import ActorId
from usfa.cluster.remote_acting import GIVE_UP_AFTER, ClusterActing
from usfa.errors import Diverged, InputError
from usfa.learning import Learner, Rollout
from usfa.learning.draws import Seeds
from usfa.runs import build_agent, preset

CONFIG = preset("trip-usfa")
SETTINGS = replace(CONFIG.learner, environments=2, trajectory_length=3, budget=60, budget_unit="frames", replay_ratio=0)
SEEDS = (0, 1)


@pytest.fixture
def make_learner(tmp_path):
    """Makes learners that keep their accounts in `tmp_path`, and closes their files in the end."""
    made = []

    def make(fleet, settings=SETTINGS, said=None, **options):
        cluster = ClusterConfig("local", **{"actors": 2, "in_flight": 2, **options})
        where = (build_agent(CONFIG), settings, CONFIG.environments, CONFIG.tasks, SEEDS)
        report_problem = None if said is None else said.append
        acting = ClusterActing(cluster, fleet, tmp_path / "trajectories.jsonl", report_problem)
        made.append(Learner(*where, acting=acting))
        return made[-1]

    yield make
    for learner in made:
        learner.acting._ledger.close()


def finished(learner):
    while not learner.done:
        learner.step()
    learner.close()
    return learner


def fates(path):
    lines = [json.loads(line) for line in (path / "trajectories.jsonl").read_text().splitlines()]
    return [(ActorId(*line["actor"]), line["sequence"], line["fate"]) for line in lines if "fate" in line]


# --- the same update ---


class TwinFleet(FakeFleet):
    """One actor with the random streams of the learner of one process."""

    def make(self, job, actor_id):
        actor = Actor(job, actor_id)
        streams = [Seeds(seed, job.config.environments) for seed in job.seeds]
        worlds = [seed for stream in streams for seed in stream.environments]
        batch = job.environments.batch(worlds, job.config.gamma)
        actor._rngs = [stream.behaviour for stream in streams]
        actor._rollout = Rollout(job.agent, actor._network, batch, job.config.trajectory_length)
        return actor


@pytest.mark.parametrize("change", [{}, {"updates_per_round": 2, "clip": 0.1}, {"target_every": 2}])
def test_one_actor_without_delay_is_the_learner_of_one_process_to_the_bit(make_learner, change):
    settings = replace(SETTINGS, **change)
    single = Learner(build_agent(CONFIG), settings, CONFIG.environments, CONFIG.tasks, SEEDS)
    cluster = make_learner(TwinFleet(), settings, actors=1, in_flight=1)
    while not single.done:
        expected, found = single.step(), cluster.step()
        assert np.array_equal(expected.loss, found.loss)
        assert np.array_equal(expected.episode_phi, found.episode_phi)
    assert cluster.done
    assert single.updates == cluster.updates
    for name, x in single.network.state.items():
        assert torch.equal(x, cluster.network.state[name])


def test_the_same_holds_for_a_recurrent_agent_from_pixels(tmp_path):
    agent = AGENTS.make("usfa", SPEC, NETWORK)
    where = (agent, LEARNER, ROOM, np.eye(2), SEEDS)
    single = Learner(*where)
    turns = ClusterConfig("local", actors=1, in_flight=1)
    acting = ClusterActing(turns, TwinFleet(), tmp_path / "trajectories.jsonl")
    with closing(Learner(*where, acting=acting)) as cluster:
        for _ in range(5):
            assert np.array_equal(single.step().loss, cluster.step().loss)
    for name, x in single.network.state.items():
        assert torch.equal(x, cluster.network.state[name])


def test_past_trajectories_are_reused(make_learner):
    learner = finished(make_learner(FakeFleet(), replace(SETTINGS, replay_ratio=3, replay_capacity=5)))
    assert learner.replay.added == learner.rounds


def test_no_two_actors_see_the_same_worlds(make_learner):
    fleet = FakeFleet(deaths={(ActorId(0, 0, 0), 2)})
    finished(make_learner(fleet))
    draws = [actor._rngs[0].bit_generator.state["state"]["inc"] for actor in fleet.actors.values()]
    assert len(draws) == len(set(draws)) == 3


# --- bounds ---


@pytest.mark.parametrize("in_flight", [1, 3])
def test_trajectories_under_way_are_bounded(make_learner, in_flight):
    fleet = FakeFleet()
    learner = make_learner(fleet, in_flight=in_flight)
    learner.step()
    assert learner.acting.account.under_way == fleet.most_under_way == 2 * in_flight
    finished(learner)
    assert fleet.most_under_way == 2 * in_flight
    assert fleet.closed


def test_staleness_is_what_was_learned_in_between(make_learner):
    learner = make_learner(FakeFleet())
    for _ in range(8):
        learner.step()
    report = learner.acting.report()
    assert report["stalest"] == 3  # all others that were under way: 2 actors with 2 each
    assert report["staleness"] == pytest.approx((0 + 1 + 2 + 3 * 5) / 8)


def test_what_is_too_stale_is_dropped_and_asked_for_again(tmp_path, make_learner):
    """The second actor is heard when it greets, and then only every seventh time."""
    heard = []

    def order(requests):
        heard.append(1)
        late = len(heard) % 7 == 0
        return next((r for r in requests if r[1] == 0 or (r[0].actor == 1) == late), requests[0])

    learner = finished(make_learner(FakeFleet(order=order), staleness=3))
    stale = [line for line in fates(tmp_path) if line[2] == "stale"]
    assert stale
    assert {actor.actor for actor, _, _ in stale} == {1}
    assert learner.acting.account.frames["stale"] == 12 * len(stale)
    assert learner.acting.account.dropped == len(stale) + learner.acting.account.trajectories["surplus"]


# --- faults ---


def test_an_actor_that_dies_is_replaced_and_every_trajectory_is_accounted_for(tmp_path, make_learner):
    deaths = {(ActorId(0, 0, 0), 2), (ActorId(0, 0, 1), 1), (ActorId(0, 1, 0), 3)}
    said = []
    learner = finished(make_learner(FakeFleet(deaths=deaths), said=said))
    account = read_account(tmp_path / "trajectories.jsonl")
    assert account.restarts == 3
    assert account.trajectories["lost"] == 6  # each took its other request along
    assert account.under_way == 0
    account.check(int(learner.frames.sum()))
    assert "A trajectory of actor 0 is lost: it was killed." in said
    assert len(set(fates(tmp_path))) == len(fates(tmp_path)) == account.asked


@pytest.mark.parametrize("at", [0, 1], ids=["in its first moment", "in its first trajectory"])
def test_an_actor_that_cannot_live_ends_the_run_in_one_sentence(at, make_learner):
    deaths = {(ActorId(0, 1, incarnation), at) for incarnation in range(GIVE_UP_AFTER)}
    with pytest.raises(InputError) as error:
        finished(make_learner(FakeFleet(deaths=deaths), replace(SETTINGS, budget=10_000)))
    assert str(error.value) == "Actor 1 failed 5 times in a row; the last time: it was killed."


def poison(when, name="phi", value=np.nan):
    """Deliveries of the first actor with these numbers arrive poisoned."""

    def spoil(delivery):
        if delivery.actor.actor or delivery.sequence not in when:
            return delivery
        array = np.array(delivery.arrays[name])
        array.flat[0] = value
        return delivery._replace(arrays=delivery.arrays | {name: array})

    return spoil


def test_poisoned_trajectories_are_dropped_counted_and_reported(tmp_path, make_learner):
    said = []
    learner = finished(make_learner(FakeFleet(poison({2, 4})), said=said))
    assert [line for line in fates(tmp_path) if line[2] == "poisoned"] == [
        (ActorId(0, 0, 0), 2, "poisoned"),
        (ActorId(0, 0, 0), 4, "poisoned"),
    ]
    assert said == ["A trajectory of actor 0 is poisoned: phi is not finite."] * 2
    assert learner.acting.account.restarts == 0
    assert learner.acting.account.frames["poisoned"] == 2 * 12
    learner.check_parameters()


def test_nothing_but_poison_ends_the_run(make_learner):
    learner = make_learner(FakeFleet(poison(range(100), "w")), replace(SETTINGS, budget=10_000))
    with pytest.raises(InputError, match=r"^Actor 0 failed 5 times in a row; the last time: w is not finite\.$"):
        finished(learner)


def test_a_trajectory_under_another_name_is_not_learned_from(tmp_path, make_learner):
    """As if an old answer came again."""

    def spoil(delivery):
        return delivery._replace(sequence=1) if delivery.sequence == 3 else delivery

    finished(make_learner(FakeFleet(spoil)))
    assert {line for line in fates(tmp_path) if line[1] == 3} >= {(ActorId(0, 0, 0), 3, "poisoned")}


@pytest.mark.parametrize("name", ["usfa", "torch", "python"])
def test_other_versions_on_another_node_are_one_sentence(make_learner, name):
    def greet(greeting):
        return greeting._replace(versions=greeting.versions._replace(**{name: "0.0"}), node="blade-7")

    learner = make_learner(FakeFleet(greet=greet))
    here = getattr(learner.acting._versions, name)
    with pytest.raises(InputError) as error:
        learner.step()
    expected = f"Actor 0 on node blade-7 has {name} 0.0, the learner {here}; expected the same on all nodes."
    assert str(error.value) == expected


# --- hung actors ---


@pytest.fixture
def clock(monkeypatch):
    """Five seconds pass whenever somebody looks at it."""
    seconds = itertools.count(step=5)
    monkeypatch.setattr("usfa.cluster.remote_acting.time.monotonic", lambda: float(next(seconds)))


def test_a_hung_actor_is_reported_and_replaced(tmp_path, make_learner, clock):
    said = []
    learner = finished(
        make_learner(FakeFleet(hung={ActorId(0, 1, 0): 2}), replace(SETTINGS, budget=300), said, patience=50.0)
    )
    assert re.fullmatch(r"A trajectory of actor 1 is lost: it has not answered for \d\d seconds\.", said[0])
    assert len(said) == 1
    account = read_account(tmp_path / "trajectories.jsonl")
    assert account.restarts == 1
    assert account.trajectories["lost"] == 2
    account.check(int(learner.frames.sum()))


def test_actors_that_all_hang_end_the_run(make_learner, clock):
    hung = {ActorId(0, actor, incarnation): 1 for actor in (0, 1) for incarnation in range(GIVE_UP_AFTER)}
    with pytest.raises(
        InputError, match=r"^Actor \d failed 5 times in a row; .* it has not answered for \d+ seconds\.$"
    ):
        finished(make_learner(FakeFleet(hung=hung), patience=50.0))


def test_actors_that_never_start_end_the_run(make_learner, clock):
    said, hung = [], {ActorId(0, actor, incarnation): 0 for actor in (0, 1) for incarnation in (0, 1, 2)}
    with pytest.raises(InputError, match=r"^No trajectory arrived for 600 seconds from 2 actors; expected nodes with"):
        finished(make_learner(FakeFleet(hung=hung), said=said))


def test_an_actor_that_does_not_start_is_started_again(make_learner, clock):
    said = []
    fleet = FakeFleet(hung={ActorId(0, 1, 0): 0})
    finished(make_learner(fleet, replace(SETTINGS, budget=900), said=said))
    assert re.fullmatch(r"Actor 1 has not started for 6\d\d seconds; has Ray free CPUs\?", said[0])
    assert ActorId(0, 1, 1) in fleet.actors


@pytest.mark.parametrize("longest", [0.0, 1.0, 100.0])
def test_patience_follows_the_longest_trajectory(make_learner, longest):
    acting = make_learner(FakeFleet()).acting
    acting._longest = longest
    assert acting._patience == {0.0: 600, 1.0: 60, 100.0: 1000}[longest]


def test_a_finished_run_does_not_wait_for_a_hung_actor(tmp_path, make_learner, clock):
    learner = make_learner(FakeFleet(hung={ActorId(0, 1, 0): 4}))
    finished(learner)
    account = read_account(tmp_path / "trajectories.jsonl")
    assert account.under_way == 0
    assert account.trajectories["lost"] == 2
    account.check(int(learner.frames.sum()))


def test_a_learner_killed_while_it_closed_ends_when_resumed(tmp_path, make_learner):
    """The run is done, and its ledger has trajectories under way that no process will deliver."""
    killed = make_learner(FakeFleet())
    while not killed.done:
        killed.step()
    tensors, values = killed.state()
    assert read_account(tmp_path / "trajectories.jsonl").under_way == 3
    resumed = make_learner(FakeFleet())
    resumed.load_state({name: x.clone() for name, x in tensors.items()}, json.loads(json.dumps(values)))
    finished(resumed)
    account = read_account(tmp_path / "trajectories.jsonl")
    assert account.under_way == 0
    assert account.trajectories["lost"] == 3
    account.check(int(resumed.frames.sum()))


def test_a_diverging_run_says_so(make_learner, monkeypatch):
    """The frames of its last trajectory are counted by the learner only."""
    learner = make_learner(FakeFleet())
    learner.step()
    monkeypatch.setattr("usfa.learning.learner.LARGEST_LOSS", -1.0)
    with pytest.raises(Diverged), closing(learner):
        learner.step()


def test_a_ledger_of_another_run_is_one_sentence(tmp_path, make_learner):
    killed = make_learner(FakeFleet())
    killed.step()
    tensors, values = killed.state()
    (tmp_path / "trajectories.jsonl").unlink()
    resumed = make_learner(FakeFleet())
    resumed.load_state({name: x.clone() for name, x in tensors.items()}, json.loads(json.dumps(values)))
    with pytest.raises(InputError, match=r"^The ledger of trajectories does not fit the checkpoint: The account has 0"):
        resumed.step()


# --- the end, and going on ---


def test_what_is_under_way_at_the_end_is_surplus(make_learner):
    learner = finished(make_learner(FakeFleet()))
    assert learner.acting.account.trajectories == {"learned": 10, "surplus": 3, "lost": 0, "forgotten": 0}
    assert learner.acting.account.frames["surplus"] == 3 * 12


def test_a_run_that_is_stopped_loses_what_is_under_way(tmp_path, make_learner):
    learner = make_learner(FakeFleet())
    learner.step()
    learner.close()
    assert read_account(tmp_path / "trajectories.jsonl").trajectories["lost"] == 4


def test_a_killed_learner_goes_on_from_its_state(tmp_path, make_learner):
    killed = make_learner(FakeFleet())
    for _ in range(2):
        killed.step()
    tensors, values = killed.state()
    tensors = {name: x.clone() for name, x in tensors.items()}
    killed.step()
    resumed = make_learner(FakeFleet())
    resumed.load_state(tensors, json.loads(json.dumps(values)))
    finished(resumed)
    account = read_account(tmp_path / "trajectories.jsonl")
    assert (account.trajectories["forgotten"], account.trajectories["lost"]) == (1, 4)
    assert account.frames["learned"] == resumed.frames.sum() == 2 * 60
    assert {actor.session for actor, _, _ in fates(tmp_path)} == {0, 1}


def test_runs_go_on_as_they_were_begun(make_learner):
    single = Learner(build_agent(CONFIG), SETTINGS, CONFIG.environments, CONFIG.tasks, SEEDS)
    cluster = make_learner(FakeFleet())
    with pytest.raises(
        InputError, match=r"^The run was started without --cluster; expected to resume it without --cluster\.$"
    ):
        cluster.load_state(*single.state())
    with pytest.raises(InputError, match=r"^The run was started with --cluster; expected to resume it with"):
        single.load_state(*cluster.state())


# --- seeing it ---


def test_the_report_says_how_it_goes(make_learner):
    learner = make_learner(FakeFleet(poison({1})))
    for _ in range(4):
        learner.step()
    report = learner.acting.report()
    json.dumps(report)
    assert report["frames_per_second"] == pytest.approx(sum(report["actors"]))
    assert len(report["actors"]) == 2
    assert report["queue"] == 4
    assert report["trajectories"]["poisoned"] == 1
    assert 0 <= report["waiting"] <= 1
    assert learner.acting.note.startswith("actors ")
    assert learner.acting.note.endswith("queue 4, restarts 0, dropped 1")
    assert learner.acting.report()["frames_per_second"] == 0  # counted anew


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"actors": 0}, "--actors is 0; expected at least 1."),
        ({"in_flight": 0}, "--in-flight is 0; expected at least 1."),
        ({"staleness": -1}, "--staleness is -1; expected at least 0."),
        ({"patience": 0.0}, "--patience is 0.0; expected a positive number of seconds."),
        ({"cpus_per_actor": 0.0}, "--cpus-per-actor is 0.0; expected a positive number."),
        (
            {"cluster": None, "actors": 2},
            "--actors is 2, but there is no --cluster; expected local, auto or HOST:PORT.",
        ),
    ],
)
def test_settings_that_cannot_be(setting, sentence):
    with pytest.raises(InputError) as error:
        ClusterConfig(**{"cluster": "local", **setting})
    assert str(error.value) == sentence


def test_settings_are_said_as_flags():
    assert ClusterConfig().flags == ""
    assert ClusterConfig("local", 4).flags == "--cluster local --actors 4"
    assert (ClusterConfig("local", 1).requests, ClusterConfig("local", 4).requests) == (2, 1)
    assert ClusterConfig("local", 2, patience=5.0).flags == "--cluster local --actors 2 --patience 5.0"
    assert ClusterConfig("auto", 4, 3, 7, cpus_per_actor=0.5).flags == (
        "--cluster auto --actors 4 --in-flight 3 --staleness 7 --cpus-per-actor 0.5"
    )
