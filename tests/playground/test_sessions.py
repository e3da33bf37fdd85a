"""A visitor's session, with the time in our hands: no thread, no socket."""

import numpy as np
import pytest
from playground_fakes import Visitor

from usfa.playground import Repertoire
from usfa.playground.clock import Clock
from usfa.playground.protocol import (
    ChooseCandidates,
    ChooseRule,
    Forget,
    Pause,
    Ping,
    PlayerChoice,
    Rate,
    Reset,
    SetSpeed,
    SetTask,
    Setup,
    SetView,
    ShowHeatmap,
    StepOnce,
)

ROOM, UVFA, TRIP = PlayerChoice("small"), PlayerChoice("small-uvfa"), PlayerChoice("trip")


def test_a_setup_is_answered_with_the_scene_the_policies_and_a_moment(visitor):
    visitor.set_up(Setup([ROOM], task=[1, 1, -1, 0], seed=4))
    (scene,) = visitor.notes_of("scene")
    assert scene["kind"] == "room"
    assert scene["task"] == [1, 1, -1, 0]
    assert scene["presets"][0]["name"] == "Trained on, M"
    assert scene["players"][0]["quantities"].keys() == {"score", "distance"}
    (policies,) = visitor.notes_of("policies")
    assert policies["names"] == ["1000", "0100"]
    visitor.pass_time(0)
    assert visitor.last["seed"] == 4
    assert visitor.last["players"][0]["thought"]["trusted"] in {0, 1}


def test_without_a_task_the_first_training_task_is_done(visitor):
    visitor.set_up(Setup([ROOM]))
    assert visitor.notes_of("scene")[0]["task"] == [1, 0, 0, 0]


def test_time_passes_by_decisions_with_pictures_in_between(visitor):
    visitor.set_up(Setup([ROOM]))
    for _ in range(6):
        visitor.pass_time(1 / 30)
    steps = [(moment["players"][0]["step"], moment["fleeting"]) for moment in visitor.moments]
    assert steps == [(0, False), (1, True), (1, False), (2, True), (2, False), (3, True), (3, False)]
    assert "thought" not in visitor.moments[1]["players"][0]
    assert all("picture" in moment["players"][0] for moment in visitor.moments)


def test_a_new_task_is_thought_about_at_once_and_in_the_same_state(visitor):
    visitor.set_up(Setup([ROOM], task=[1, 0, 0, 0], paused=True))
    visitor.pass_time(0)
    before = visitor.player
    visitor.say(SetTask([0, -1, 0, 1]))
    after = visitor.player
    assert (after["step"], after["place"]) == (before["step"], before["place"])
    assert after["thought"]["q"] != before["thought"]["q"]
    assert visitor.last["task"] == [0, -1, 0, 1]
    assert "picture" not in after  # nothing new to see
    visitor.say(SetTask([1, 0, 0, 0]))
    assert visitor.player["thought"] == before["thought"]


def test_the_action_shown_is_the_action_taken(visitor):
    visitor.set_up(Setup([ROOM], paused=True))
    visitor.pass_time(0)
    player = visitor.session.players[0]
    taken, step = [], player.world.step
    player.world.step = lambda action: taken.append(action) or step(action)
    shown = []
    for _ in range(12):
        shown.append(visitor.player["thought"]["action"])
        visitor.say(StepOnce())
    assert taken == shown


def test_returns_count_the_task_of_each_moment(visitor):
    visitor.set_up(Setup([ROOM], task=[1, 0, 0, 0], paused=True))
    player = visitor.session.players[0]
    step = player.world.step
    player.world.step = lambda action: step(action)._replace(phi=np.array([1.0, 2.0, 0.0, 0.0]))
    visitor.say(StepOnce())
    visitor.say(SetTask([0, 0.5, 0, 0]))
    visitor.say(StepOnce())
    assert visitor.player["returned"] == 1 + 1
    assert visitor.player["collected"] == [2, 4, 0, 0]


def test_pause_step_and_speed(visitor):
    visitor.set_up(Setup([TRIP], paused=True))
    visitor.pass_time(10)
    assert visitor.player["step"] == 0
    visitor.say(StepOnce())
    assert visitor.player["step"] == 1
    visitor.say(Pause(False))
    visitor.say(SetSpeed(4))
    assert visitor.session.clock.period == pytest.approx(1 / 6)


def test_a_seed_is_a_layout_and_episodes_go_on_with_the_next(visitor):
    visitor.set_up(Setup([TRIP], seed=5, paused=True))
    visitor.say(Reset(9))
    assert (visitor.last["seed"], visitor.player["step"]) == (9, 0)
    for _ in range(4):
        visitor.say(StepOnce())
        if visitor.player.get("over"):
            break
    assert "thought" not in visitor.player
    visitor.say(StepOnce())
    assert (visitor.last["seed"], visitor.player["step"]) == (10, 0)


def test_the_same_seed_plays_the_same_episode(visitor):
    visitor.set_up(Setup([ROOM], paused=True, view=64))
    runs = []
    for _ in range(2):
        visitor.say(Reset(3))
        for _ in range(10):
            visitor.say(StepOnce())
        runs.append(visitor.player["place"])
    assert runs[0] == runs[1]


def test_two_players_begin_in_the_same_layout(visitor):
    visitor.set_up(Setup([ROOM, UVFA], task=[0, 1, 0, 0], seed=2, paused=True))
    visitor.pass_time(0)
    one, two = visitor.last["players"]
    assert one["place"] == two["place"]
    assert one["thought"]["psi"] is not None
    assert two["thought"]["psi"] is None
    for _ in range(5):
        visitor.say(StepOnce())
    one, two = visitor.last["players"]
    assert one["step"] == two["step"] == 5


def test_the_shipped_agents_play_side_by_side():
    visitor = Visitor(Repertoire(["room", "room-uvfa"]))
    try:
        visitor.set_up(Setup([PlayerChoice("room"), PlayerChoice("room-uvfa")], task=[1, 1, 0, 0], seed=1, view=64))
        visitor.decide(90)
        one, two = visitor.last["players"]
        assert one["place"]["pose"] != two["place"]["pose"]
        assert one["returned"] == one["collected"][0] + one["collected"][1] > 0  # it has learned something
    finally:
        visitor.close()


def test_an_agent_against_itself_with_another_candidate_set(visitor):
    choices = [PlayerChoice("small", "task"), PlayerChoice("small", "train")]
    visitor.set_up(Setup(choices, task=[-1, 1, 0, 0], paused=True))
    visitor.pass_time(0)
    assert [note["z"] for note in visitor.notes_of("policies")] == [[[-1, 1, 0, 0]], [[1, 0, 0, 0], [0, 1, 0, 0]]]
    assert [len(player["thought"]["values"]) for player in visitor.last["players"]] == [1, 2]


def test_one_may_wait_for_the_other(visitor):
    """Trips take one or two steps; who is done waits until both are."""
    visitor.set_up(Setup([TRIP, PlayerChoice("trip", "task")], task=[1, 0], paused=True))
    one, two = visitor.session.players
    one.over = True
    visitor.say(StepOnce())
    assert one.steps == 0
    assert two.steps == 1


def test_candidates_can_be_changed_and_follow_the_task(visitor):
    visitor.set_up(Setup([ROOM], task=[1, 0, 0, 0], paused=True))
    visitor.say(ChooseCandidates(0, "sample:5"))
    first = np.array(visitor.notes[-1]["z"])
    visitor.say(SetTask([0, 1, 0, 0]))
    moved = np.array(visitor.notes[-1]["z"])
    np.testing.assert_allclose(moved - first, np.tile([-1, 1, 0, 0], (5, 1)), atol=1e-3)  # the same noise around w
    visitor.say(ChooseCandidates(0, [[1, 0, 0, 0], [0, 0, 0, -1]]))
    assert visitor.notes[-1]["candidates"] == [[1, 0, 0, 0], [0, 0, 0, -1]]
    assert len(visitor.player["thought"]["values"]) == 2
    assert visitor.player["step"] == 0


def test_the_rule_is_chosen_by_name_and_decides_from_then_on(visitor):
    visitor.set_up(Setup([ROOM], task=[-1, 1, 0, 0], paused=True))
    (card,) = visitor.notes_of("scene")[0]["players"]
    assert (card["rule"], card["rules"]) == ("cautious", ["cautious", "gpi", "follow"])
    visitor.pass_time(0)
    thoughts = {}
    for rule in ("gpi", "follow", "cautious", "cautious:0.50"):
        visitor.say(ChooseRule(0, rule))
        thoughts[visitor.notes[-1]["rule"]] = visitor.player["thought"]
        assert visitor.player["step"] == 0
    assert [note["rule"] for note in visitor.notes_of("rule")] == ["gpi", "follow", "cautious", "cautious:0.5"]
    assert thoughts["gpi"]["values"] != thoughts["cautious"]["values"]
    assert thoughts["follow"]["values"] == thoughts["cautious"]["values"]
    assert not thoughts["follow"]["improved"]


def test_how_many_steps_improved_is_counted_anew_in_every_episode(visitor):
    visitor.set_up(Setup([PlayerChoice("small", rule="gpi")], task=[-1, 1, 0, 0], paused=True, view=64))
    visitor.pass_time(0)
    improved = 0
    for _ in range(12):
        improved += visitor.player["thought"]["improved"]
        visitor.say(StepOnce())
        assert visitor.player.get("improved", 0) == improved
    visitor.say(Reset(1))
    assert "improved" not in visitor.player  # 0 is not sent


def test_an_agent_against_itself_by_two_rules(visitor):
    choices = [PlayerChoice("small", rule="gpi"), PlayerChoice("small", rule="cautious")]
    visitor.set_up(Setup(choices, task=[-1, 1, 0, 0], seed=3, paused=True))
    visitor.pass_time(0)
    assert [card["rule"] for card in visitor.notes_of("scene")[0]["players"]] == ["gpi", "cautious"]
    one, two = visitor.last["players"]
    assert one["place"] == two["place"]
    assert one["thought"]["values"] != two["thought"]["values"]


def test_a_heat_map_is_by_the_players_rule(visitor):
    visitor.set_up(Setup([TRIP], paused=True))
    visitor.say(ChooseRule(0, "follow"))
    visitor.say(ShowHeatmap(0, 1, "gap", resolution=3))
    assert visitor.notes_of("heatmap")[0]["rule"] == "follow"


def test_a_uvfa_has_no_rules_to_choose_from(visitor):
    visitor.set_up(Setup([UVFA], paused=True))
    assert visitor.notes_of("scene")[0]["players"][0]["rules"] == []
    visitor.pass_time(0)
    assert visitor.player["thought"]["psi"] is None
    assert len(visitor.player["thought"]["values"]) == 1
    assert not visitor.player["thought"]["improved"]


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (SetTask([1, 2, 3]), "has 3 entries; expected 4"),
        (ChooseCandidates(1, "task"), "no player 1"),
        (ChooseCandidates(0, "everything"), "candidate set"),
        (ChooseCandidates(0, "sample:9999"), "sample:5 or sample:30"),
        (ChooseCandidates(0, [[1, 2]]), "expected [N, 4]"),
        (ChooseRule(1, "gpi"), "no player 1"),
        (ChooseRule(0, "folow"), "Unknown rule 'folow': did you mean 'follow'?"),
        (ChooseRule(0, "os:system"), "Unknown rule 'os:system'"),
        (ChooseRule(0, "single"), "nothing acts by it"),
        (ChooseRule(0, "cautious:nan"), "expected a number from 0"),
        (Rate(1.0, 5, player=1), "no player 1"),
        (ShowHeatmap(0, 0, "score"), "two of 4 features"),
        (ShowHeatmap(0, 9, "score"), "two of 4 features"),
        (ShowHeatmap(0, 1, "bound"), "one of score, distance"),
    ],
)
def test_what_cannot_be_done_changes_nothing(visitor, message, sentence):
    visitor.set_up(Setup([ROOM], paused=True))
    visitor.pass_time(0)
    before = visitor.last
    visitor.say(message)
    assert sentence in visitor.notes[-1]["says"]
    visitor.say(SetTask([1, 0, 0, 0]))
    assert visitor.player["thought"] == before["players"][0]["thought"]


@pytest.mark.parametrize(
    ("setup", "sentence"),
    [
        (Setup([PlayerChoice("nobody")]), "Unknown agent 'nobody'"),
        (Setup([PlayerChoice("../../etc")]), "Unknown agent"),
        (Setup([ROOM, TRIP]), "expected the same for both"),
        (Setup([ROOM], task=[1.0]), "expected 4"),
        (Setup([PlayerChoice("small-uvfa", "train")]), "cannot have the candidates"),
        (Setup([PlayerChoice("small", rule="greedy")]), "Unknown rule 'greedy'"),
        (Setup([PlayerChoice("small", rule="single")]), "nothing acts by it"),
    ],
)
def test_a_setup_that_fails_leaves_the_stage_as_it_was(visitor, setup, sentence):
    visitor.set_up(Setup([TRIP], paused=True))
    visitor.set_up(setup)
    assert sentence in visitor.notes[-1]["says"]
    visitor.say(StepOnce())
    assert visitor.last["players"][0]["step"] == 1


def test_before_a_setup_there_is_nothing_but_a_pong(visitor):
    visitor.say(Ping(7))
    assert visitor.notes == [{"type": "pong", "id": 7}]
    visitor.say(StepOnce())
    assert "set up" in visitor.notes[-1]["says"]


def test_the_view_has_the_size_that_was_asked_for(visitor):
    visitor.set_up(Setup([ROOM], view=160, paused=True))
    visitor.pass_time(0)
    assert visitor.moments[-1]["players"][0]["picture"]["width"] == 160
    visitor.say(SetView(200))
    assert visitor.moments[-1]["players"][0]["picture"]["width"] == 200
    visitor.say(SetView(200, eyes=True))
    assert visitor.moments[-1]["players"][0]["picture"] | {"length": 0} == {
        "start": 0,
        "length": 0,
        "type": "image/png",
        "width": 24,
        "height": 24,
    }


def test_marks_move_the_task_and_say_what_is_unknown(visitor):
    visitor.set_up(Setup([ROOM], task=[1, 0, 0, 0], paused=True))
    player = visitor.session.players[0]
    visitor.say(Rate(1.0, 15))
    assert "say nothing" in visitor.notes[-1]["says"]
    player.recent = [np.array([0.0, 1.0, 0.0, 0.0])]
    visitor.say(Rate(1.0, 15))
    (rated,) = [note for note in visitor.notes_of("rated") if note["ratings"] == 1]
    assert rated["w"][1] > 0.8
    assert rated["std"][1] < 0.4 < rated["std"][0] == 1.0
    assert visitor.last["task"] == rated["w"]
    visitor.say(Forget())
    assert visitor.notes[-1]["ratings"] == 0
    assert visitor.last["task"] == rated["w"]


def test_an_oracle_walks_along_in_the_same_layout(visitor):
    visitor.set_up(Setup([ROOM], task=[1, 1, 1, 1], seed=1, view=64, speed=4))
    visitor.decide(10)
    visitor.wait_for_oracle()  # whenever it is ready, it catches up
    for _ in range(390):
        visitor.decide()
        if visitor.last.get("oracle"):
            break
    assert visitor.last["oracle"] == sum(visitor.last["oracle_collected"]) > 0


def test_when_a_session_breaks_the_others_go_on(visitor, repertoire):
    visitor.set_up(Setup([ROOM], paused=True))
    other = type(visitor)(repertoire)
    try:
        other.director, mine = visitor.director, other.director
        mine.stop()
        other.session = visitor.director.welcome(other)
        other.set_up(Setup([ROOM]))
        visitor.session.players[0].world.picture = lambda *_: 1 / 0
        visitor.say(SetView(100))
        assert "went wrong" in visitor.notes[-1]["says"]
        assert visitor.session.players == []
        other.decide(3)
        assert other.player["step"] >= 1
    finally:
        visitor.director.goodbye(other.session)


def test_who_leaves_while_a_world_is_made_leaves_nothing_behind(visitor):
    visitor.director.tell(visitor.session, Setup([ROOM]))
    visitor.director.goodbye(visitor.session)
    for _ in range(200):
        visitor.pass_time(0.01)
    assert visitor.director._sessions == []
    assert visitor.session.players == []


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
    assert not clock.on_the_way


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
