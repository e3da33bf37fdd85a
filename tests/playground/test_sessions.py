"""A session without threads or sockets; the test sets the time."""

import numpy as np
import pytest
from playground_fakes import Client

from usfa.playground import Catalogue
from usfa.playground.protocol import (
    ClearRatings,
    Pause,
    Ping,
    PlayerChoice,
    Rate,
    Reset,
    SetCandidates,
    SetPicture,
    SetRule,
    SetSpeed,
    SetTask,
    Setup,
    ShowHeatmap,
    StepOnce,
)
from usfa.playground.session import Clock

ROOM, UVFA, TRIP = PlayerChoice("small"), PlayerChoice("small-uvfa"), PlayerChoice("trip")


def test_a_setup_is_answered_with_session_info_policies_and_a_frame(client):
    client.set_up(Setup([ROOM], task=[1, 1, -1, 0], seed=4))
    (info,) = client.messages_of("session")
    assert info["kind"] == "room"
    assert info["task"] == [1, 1, -1, 0]
    assert info["presets"][0]["name"] == "Trained on, M"
    assert info["players"][0]["quantities"].keys() == {"score", "normalised", "distance"}
    (policies,) = client.messages_of("policies")
    assert policies["names"] == ["1000", "0100"]
    client.pass_time(0)
    assert client.last["seed"] == 4
    assert client.last["players"][0]["decision"]["trusted"] in {0, 1}


def test_without_a_task_the_first_training_task_is_done(client):
    client.set_up(Setup([ROOM]))
    assert client.messages_of("session")[0]["task"] == [1, 0, 0, 0]


def test_time_passes_by_decisions_with_pictures_in_between(client):
    client.set_up(Setup([ROOM]))
    for _ in range(6):
        client.pass_time(1 / 30)
    steps = [(frame["players"][0]["step"], frame["intermediate"]) for frame in client.frames]
    assert steps == [(0, False), (1, True), (1, False), (2, True), (2, False), (3, True), (3, False)]
    assert "decision" not in client.frames[1]["players"][0]
    assert all("picture" in frame["players"][0] for frame in client.frames)


def test_a_new_task_is_decided_on_at_once_and_in_the_same_state(client):
    client.set_up(Setup([ROOM], task=[1, 0, 0, 0], paused=True))
    client.pass_time(0)
    before = client.player
    client.post(SetTask([0, -1, 0, 1]))
    after = client.player
    assert (after["step"], after["position"]) == (before["step"], before["position"])
    assert after["decision"]["q"] != before["decision"]["q"]
    assert client.last["task"] == [0, -1, 0, 1]
    assert "picture" not in after  # nothing new to see
    client.post(SetTask([1, 0, 0, 0]))
    assert client.player["decision"] == before["decision"]


def test_the_action_shown_is_the_action_taken(client):
    client.set_up(Setup([ROOM], paused=True))
    client.pass_time(0)
    player = client.session.players[0]
    taken, step = [], player.view.step
    player.view.step = lambda action: taken.append(action) or step(action)
    shown = []
    for _ in range(12):
        shown.append(client.player["decision"]["action"])
        client.post(StepOnce())
    assert taken == shown


def test_returns_use_the_task_of_each_step(client):
    client.set_up(Setup([ROOM], task=[1, 0, 0, 0], paused=True))
    player = client.session.players[0]
    step = player.view.step
    player.view.step = lambda action: step(action)._replace(phi=np.array([1.0, 2.0, 0.0, 0.0]))
    client.post(StepOnce())
    client.post(SetTask([0, 0.5, 0, 0]))
    client.post(StepOnce())
    assert client.player["returned"] == 1 + 1
    assert client.player["collected"] == [2, 4, 0, 0]


def test_pause_step_and_speed(client):
    client.set_up(Setup([TRIP], paused=True))
    client.pass_time(10)
    assert client.player["step"] == 0
    client.post(StepOnce())
    assert client.player["step"] == 1
    client.post(Pause(False))
    client.post(SetSpeed(4))
    assert client.session.clock.period == pytest.approx(1 / 6)


def test_a_seed_is_a_layout_and_episodes_go_on_with_the_next(client):
    client.set_up(Setup([TRIP], seed=5, paused=True))
    client.post(Reset(9))
    assert (client.last["seed"], client.player["step"]) == (9, 0)
    for _ in range(4):
        client.post(StepOnce())
        if client.player.get("over"):
            break
    assert "decision" not in client.player
    client.post(StepOnce())
    assert (client.last["seed"], client.player["step"]) == (10, 0)


def test_the_same_seed_plays_the_same_episode(client):
    client.set_up(Setup([ROOM], paused=True, picture_size=64))
    runs = []
    for _ in range(2):
        client.post(Reset(3))
        for _ in range(10):
            client.post(StepOnce())
        runs.append(client.player["position"])
    assert runs[0] == runs[1]


def test_two_players_begin_in_the_same_layout(client):
    client.set_up(Setup([ROOM, UVFA], task=[0, 1, 0, 0], seed=2, paused=True))
    client.pass_time(0)
    one, two = client.last["players"]
    assert one["position"] == two["position"]
    assert one["decision"]["psi"] is not None
    assert two["decision"]["psi"] is None
    for _ in range(5):
        client.post(StepOnce())
    one, two = client.last["players"]
    assert one["step"] == two["step"] == 5


def test_the_shipped_agents_play_side_by_side():
    client = Client(Catalogue(["room", "room-uvfa"]))
    try:
        client.set_up(
            Setup([PlayerChoice("room"), PlayerChoice("room-uvfa")], task=[1, 1, 0, 0], seed=1, picture_size=64)
        )
        client.decide(90)
        one, two = client.last["players"]
        assert one["position"]["pose"] != two["position"]["pose"]
        assert one["returned"] == one["collected"][0] + one["collected"][1] > 0  # it has learned something
    finally:
        client.close()


def test_an_agent_against_itself_with_another_candidate_set(client):
    choices = [PlayerChoice("small", "task"), PlayerChoice("small", "train")]
    client.set_up(Setup(choices, task=[-1, 1, 0, 0], paused=True))
    client.pass_time(0)
    assert [message["z"] for message in client.messages_of("policies")] == [
        [[-1, 1, 0, 0]],
        [[1, 0, 0, 0], [0, 1, 0, 0]],
    ]
    assert [len(player["decision"]["values"]) for player in client.last["players"]] == [1, 2]


def test_one_may_wait_for_the_other(client):
    """Trips take one or two steps; who is done waits until both are."""
    client.set_up(Setup([TRIP, PlayerChoice("trip", "task")], task=[1, 0], paused=True))
    one, two = client.session.players
    one.over = True
    client.post(StepOnce())
    assert one.steps == 0
    assert two.steps == 1


def test_candidates_can_be_changed_and_follow_the_task(client):
    client.set_up(Setup([ROOM], task=[1, 0, 0, 0], paused=True))
    client.post(SetCandidates(0, "sample:5"))
    first = np.array(client.messages[-1]["z"])
    client.post(SetTask([0, 1, 0, 0]))
    moved = np.array(client.messages[-1]["z"])
    np.testing.assert_allclose(moved - first, np.tile([-1, 1, 0, 0], (5, 1)), atol=1e-3)  # the same noise around w
    client.post(SetCandidates(0, [[1, 0, 0, 0], [0, 0, 0, -1]]))
    assert client.messages[-1]["candidates"] == [[1, 0, 0, 0], [0, 0, 0, -1]]
    assert len(client.player["decision"]["values"]) == 2
    assert client.player["step"] == 0


def test_the_rule_is_chosen_by_name_and_decides_from_then_on(client):
    client.set_up(Setup([ROOM], task=[-1, 1, 0, 0], paused=True))
    (card,) = client.messages_of("session")[0]["players"]
    assert (card["rule"], card["rule_choices"]) == ("cautious", ["cautious", "steady", "gpi", "follow"])
    client.pass_time(0)
    decisions = {}
    for rule in ("gpi", "follow", "cautious", "cautious:0.50"):
        client.post(SetRule(0, rule))
        decisions[client.messages[-1]["rule"]] = client.player["decision"]
        assert client.player["step"] == 0
    assert [message["rule"] for message in client.messages_of("rule")] == ["gpi", "follow", "cautious", "cautious:0.5"]
    assert decisions["gpi"]["values"] != decisions["cautious"]["values"]
    assert decisions["follow"]["values"] == decisions["cautious"]["values"]
    assert not decisions["follow"]["improved"]


def test_how_many_steps_improved_is_counted_anew_in_every_episode(client):
    client.set_up(Setup([PlayerChoice("small", rule="gpi")], task=[-1, 1, 0, 0], paused=True, picture_size=64))
    (card,) = client.messages_of("session")[0]["players"]
    assert (card["rule"], card["default_rule"]) == ("gpi", "cautious")
    client.pass_time(0)
    improved = 0
    for _ in range(12):
        improved += client.player["decision"]["improved"]
        client.post(StepOnce())
        assert client.player.get("improved", 0) == improved
    client.post(Reset(1))
    assert "improved" not in client.player  # 0 is not sent


def test_an_agent_against_itself_by_two_rules(client):
    choices = [PlayerChoice("small", rule="gpi"), PlayerChoice("small", rule="cautious")]
    client.set_up(Setup(choices, task=[-1, 1, 0, 0], seed=3, paused=True))
    client.pass_time(0)
    assert [card["rule"] for card in client.messages_of("session")[0]["players"]] == ["gpi", "cautious"]
    one, two = client.last["players"]
    assert one["position"] == two["position"]
    assert one["decision"]["values"] != two["decision"]["values"]


def test_a_heat_map_is_by_the_players_rule(client):
    client.set_up(Setup([TRIP], paused=True))
    client.post(SetRule(0, "follow"))
    client.post(ShowHeatmap(0, 1, "gap", resolution=3))
    assert client.messages_of("heatmap")[0]["rule"] == "follow"


@pytest.mark.parametrize(("agent", "episodes"), [(ROOM, 5), (TRIP, 0)])
def test_a_heat_map_tells_its_episodes_and_the_page_knows_the_training_tasks(client, agent, episodes):
    """Values of an MDP are exact."""
    client.set_up(Setup([agent], paused=True))
    player = client.messages_of("session")[0]["players"][0]
    assert player["exact"] == (episodes == 0)
    assert player["training_tasks"][0] == client.messages_of("session")[0]["presets"][0]["tasks"][0][1]
    client.post(ShowHeatmap(0, 1, "score", resolution=3, episodes=5))
    assert client.messages_of("heatmap")[0]["episodes"] == episodes


def test_a_uvfa_has_no_rules_to_choose_from(client):
    client.set_up(Setup([UVFA], paused=True))
    assert client.messages_of("session")[0]["players"][0]["rule_choices"] == []
    client.pass_time(0)
    assert client.player["decision"]["psi"] is None
    assert len(client.player["decision"]["values"]) == 1
    assert not client.player["decision"]["improved"]


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (SetTask([1, 2, 3]), "has 3 entries; expected 4"),
        (SetCandidates(1, "task"), "no player 1"),
        (SetCandidates(0, "everything"), "candidate set"),
        (SetCandidates(0, "sample:9999"), "sample:5 or sample:30"),
        (SetCandidates(0, [[1, 2]]), "expected [N, 4]"),
        (SetRule(1, "gpi"), "no player 1"),
        (SetRule(0, "folow"), "Unknown rule 'folow': did you mean 'follow'?"),
        (SetRule(0, "os:system"), "Unknown rule 'os:system'"),
        (SetRule(0, "single"), "only for evaluations"),
        (SetRule(0, "cautious:nan"), "expected a number from 0"),
        (Rate(1.0, 5, player=1), "no player 1"),
        (ShowHeatmap(0, 0, "score"), "two of 4 features"),
        (ShowHeatmap(0, 9, "score"), "two of 4 features"),
        (ShowHeatmap(0, 1, "bound"), "one of score, normalised, distance"),
    ],
)
def test_what_cannot_be_done_changes_nothing(client, message, sentence):
    client.set_up(Setup([ROOM], paused=True))
    client.pass_time(0)
    before = client.last
    client.post(message)
    assert sentence in client.messages[-1]["message"]
    client.post(SetTask([1, 0, 0, 0]))
    assert client.player["decision"] == before["players"][0]["decision"]


@pytest.mark.parametrize(
    ("setup", "sentence"),
    [
        (Setup([PlayerChoice("nobody")]), "Unknown agent 'nobody'"),
        (Setup([PlayerChoice("../../etc")]), "Unknown agent"),
        (Setup([ROOM, TRIP]), "expected the same for both"),
        (Setup([ROOM], task=[1.0]), "expected 4"),
        (Setup([PlayerChoice("small-uvfa", "train")]), "cannot have the candidates"),
        (Setup([PlayerChoice("small", rule="greedy")]), "Unknown rule 'greedy'"),
        (Setup([PlayerChoice("small", rule="single")]), "only for evaluations"),
    ],
)
def test_a_failed_setup_leaves_the_session_unchanged(client, setup, sentence):
    client.set_up(Setup([TRIP], paused=True))
    client.set_up(setup)
    assert sentence in client.messages[-1]["message"]
    client.post(StepOnce())
    assert client.last["players"][0]["step"] == 1


def test_before_a_setup_there_is_nothing_but_a_pong(client):
    client.post(Ping(7))
    assert client.messages == [{"type": "pong", "id": 7}]
    client.post(StepOnce())
    assert "set up" in client.messages[-1]["message"]


def test_the_view_has_the_size_that_was_asked_for(client):
    client.set_up(Setup([ROOM], picture_size=160, paused=True))
    client.pass_time(0)
    assert client.frames[-1]["players"][0]["picture"]["width"] == 160
    client.post(SetPicture(200))
    assert client.frames[-1]["players"][0]["picture"]["width"] == 200
    client.post(SetPicture(200, observation=True))
    assert client.frames[-1]["players"][0]["picture"] | {"length": 0} == {
        "start": 0,
        "length": 0,
        "type": "image/png",
        "width": 24,
        "height": 24,
    }


def test_ratings_move_the_task_and_report_what_is_unknown(client):
    client.set_up(Setup([ROOM], task=[1, 0, 0, 0], paused=True))
    player = client.session.players[0]
    client.post(Rate(1.0, 15))
    assert "was not used" in client.messages[-1]["message"]
    player.recent = [np.array([0.0, 1.0, 0.0, 0.0])]
    client.post(Rate(1.0, 15))
    (rated,) = [message for message in client.messages_of("estimate") if message["ratings"] == 1]
    assert rated["w"][1] > 0.8
    assert rated["std"][1] < 0.4 < rated["std"][0] == 1.0
    assert client.last["task"] == rated["w"]
    client.post(ClearRatings())
    assert client.messages[-1]["ratings"] == 0
    assert client.last["task"] == rated["w"]


def test_the_oracle_acts_in_the_same_layout(client):
    client.set_up(Setup([ROOM], task=[1, 1, 1, 1], seed=1, picture_size=64, speed=4))
    client.decide(10)
    client.wait_for_oracle()  # whenever it is ready, it catches up
    for _ in range(390):
        client.decide()
        if client.last.get("oracle"):
            break
    assert client.last["oracle"] == sum(client.last["oracle_collected"]) > 0


def test_an_error_in_a_session_does_not_affect_others(client, catalogue):
    client.set_up(Setup([ROOM], paused=True))
    other = type(client)(catalogue)
    try:
        other.scheduler, mine = client.scheduler, other.scheduler
        mine.stop()
        other.session = client.scheduler.connect(other)
        other.set_up(Setup([ROOM]))
        client.session.players[0].view.picture = lambda *_: 1 / 0
        client.post(SetPicture(100))
        assert "went wrong" in client.messages[-1]["message"]
        assert client.session.players == []
        other.decide(3)
        assert other.player["step"] >= 1
    finally:
        client.scheduler.disconnect(other.session)


def test_disconnecting_during_a_setup_leaves_nothing_behind(client):
    client.scheduler.handle(client.session, Setup([ROOM]))
    client.scheduler.disconnect(client.session)
    for _ in range(200):
        client.pass_time(0.01)
    assert client.scheduler._sessions == []
    assert client.session.players == []


# --- the clock ---


def test_a_clock_decides_at_multiples_of_its_period():
    clock = Clock(10, 1, paused=False)
    decided = [now for now in np.arange(0, 1, 0.01) if clock.tick(float(now)) == "decide"]
    np.testing.assert_allclose(decided, np.arange(0, 1, 0.1), atol=0.011)


def test_a_smooth_clock_arrives_half_a_period_later():
    clock = Clock(10, 1, paused=False)
    ticks = [(round(float(now), 2), tick) for now in np.arange(0, 0.2, 0.01) if (tick := clock.tick(float(now), True))]
    assert [tick for _, tick in ticks] == ["decide", "arrive", "decide", "arrive"]
    assert ticks[1][0] - ticks[0][0] == pytest.approx(0.05, abs=0.011)


def test_a_fast_clock_is_not_smooth():
    clock = Clock(15, 4, paused=False)
    assert clock.tick(0.0, smooth=True) == "decide"
    assert not clock.between_decisions


def test_a_late_clock_does_not_catch_up():
    clock = Clock(10, 1, paused=False)
    assert clock.tick(5.0) == "decide"
    assert clock.tick(5.01) is None


def test_a_paused_clock_waits_and_can_be_pushed():
    clock = Clock(10, 1, paused=True)
    assert clock.tick(1.0) is None
    assert clock.due() is None
    clock.once()
    assert clock.tick(1.0) == "decide"
    assert clock.tick(9.0) is None
