from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from PIL import Image

from fake_agents import untrained
from usfa.agents import AgentSpec, Policy, save_agent
from usfa.cli import main
from usfa.environments import ObservationSpec, register
from usfa.errors import InputError
from usfa.figures.films import MapOfRoom, contact_sheet
from usfa.runs.watch import Watch, watch


@pytest.mark.parametrize("policy", ["random", "oracle", "greedy"])
def test_a_film_and_a_sheet_of_the_room(tmp_path, policy):
    request = Watch(task="1,1,-1,0", policy=policy, steps=6, size=84, out=tmp_path / "film.gif")
    film, sheet = watch("room", request)
    with Image.open(film) as picture:
        assert picture.format == "GIF"
        assert picture.n_frames == 3  # every second frame
        assert picture.size == (2 * 84, 84 + 62)
    with Image.open(sheet) as picture:
        assert picture.size == (3 * 2 * 84, 2 * (84 + 62))


@pytest.mark.parametrize(("rule", "shown"), [(None, "cautious"), ("gpi", "gpi"), ("follow", "follow")])
def test_films_tell_whom_the_rule_trusts(tmp_path, monkeypatch, rule, shown):
    """After every step, as the policy decides it."""
    told, expected, call = [], [], Policy.__call__

    def compose(view, plan, lines, size):
        told.append(lines)
        return np.zeros((size, size, 3), np.uint8)

    def deciding(self, observation, legal=None):
        action = call(self, observation, legal)
        verb = "improves on" if self.decision.improved else "follows"
        expected.append(f"{shown}   {verb} {('1000', '0100', '0010', '0001')[int(self.decision.policy)]}")
        return action

    monkeypatch.setattr("usfa.runs.watch.compose", compose)
    monkeypatch.setattr(Policy, "__call__", deciding)
    watch("room", Watch("1,-1,0,0", agent="room", rule=rule, steps=12, size=42, seed=3, out=tmp_path / "film.gif"))
    assert len(told) == 12
    for (_, status, collected), decided in zip(told, expected, strict=True):
        assert status.endswith(f"   {decided}")
        assert collected.startswith("collected  ")
    if shown != "cautious":
        assert any("improves on" in decided for decided in expected) == (shown == "gpi")


def test_a_film_without_an_agent_tells_of_no_rule(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(
        "usfa.runs.watch.compose",
        lambda view, plan, lines, size: told.append(lines[1]) or np.zeros((size, size, 3), np.uint8),
    )
    watch("room", Watch(task="1000", policy="random", steps=2, size=42, out=tmp_path / "film.gif"))
    assert told == ["random   1 steps   return 0.0", "random   2 steps   return 0.0"]


def test_nothing_is_replaced_without_a_word(tmp_path):
    request = Watch(task="1000", policy="random", steps=2, size=42, out=tmp_path / "film.gif")
    (tmp_path / "film.png").write_text("precious")
    with pytest.raises(InputError, match=r"film\.png already exists; replace it with --overwrite, or choose another"):
        watch("room", request)
    assert (tmp_path / "film.png").read_text() == "precious"
    watch("room", replace(request, overwrite=True))
    with pytest.raises(InputError, match=r"film\.gif is a file; expected a directory for the film\.$"):
        watch("room", replace(request, out=tmp_path / "film.gif" / "film.gif"))


def test_films_are_called_by_what_they_show():
    assert Watch(task="1,-1").path("room") == Path("runs/watch-room-oracle-1,-1.gif")
    assert Watch(task="11", agent="runs/mine/").path("garden:Garden") == Path("runs/watch-garden-Garden-mine-11.gif")


def test_agents_of_other_environments_and_environments_without_pictures():
    with pytest.raises(InputError, match=r"^The agent 'trip' is for 'trip' with 2 features; 'room' has 4\.$"):
        watch("room", Watch(task="1000", agent="trip"))
    with pytest.raises(InputError, match=r"^The environment 'trip' has no pictures to film; expected one that renders"):
        watch("trip", Watch(task="10", agent="trip"))


def test_same_seed_same_film(tmp_path):
    films = []
    for name in ("a", "b", "c"):
        request = Watch(
            task="1000", policy="random", steps=4, size=42, seed=int(name == "c"), out=tmp_path / f"{name}.gif"
        )
        films.append(watch("room", request)[0].read_bytes())
    assert films[0] == films[1] != films[2]


def test_the_map_has_the_agent_and_the_objects_where_they_are():
    plan = MapOfRoom(
        side=10.0,
        walls=np.zeros((1, 1), np.bool_),
        objects=np.array([[2.0, 8.0]]),
        colours=[(255, 0, 0)],
        path=np.zeros((0, 2)),
        pose=(8.0, 2.0, 0.0),
    )
    picture = np.asarray(plan.draw(100))
    assert picture[20, 20].tolist() == [255, 0, 0]  # y is up: 8 m of 10 is near the top
    assert picture[80, 80].tolist() == [255, 255, 255]
    assert picture[50, 50].tolist() == picture[20, 80].tolist()


def test_sheets_go_from_left_to_right():
    frames = [np.full((2, 3, 3), shade, np.uint8) for shade in (10, 20, 30)]
    sheet = contact_sheet(frames, columns=2)
    assert sheet.shape == (4, 6, 3)
    assert (sheet[0, 0, 0], sheet[0, 5, 0], sheet[2, 0, 0], sheet[2, 5, 0]) == (10, 20, 30, 255)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"out": "film.avi"}, "expected a name that ends in .gif or .mp4"),
        ({"steps": 0}, "steps is 0; expected 1 to 100000"),
        ({"size": 7}, "size is 7; expected 42 to 1024"),
    ],
)
def test_requests_are_checked(tmp_path, settings, sentence):
    if "out" in settings:
        settings = {"out": tmp_path / settings["out"]}
    with pytest.raises(InputError, match=sentence):
        Watch(task="1000", **settings)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["watch", "room", "--task", "1,0"], "Task '1,0' has 2 entries; expected 4"),
        (["watch", "trip", "--task", "1,0"], "The oracle works only in the environment 'room'"),
        (["watch", "rom", "--task", "1,0", "--policy", "random"], "did you mean 'room'?"),
        (["watch", "room", "--task", "1000", "--agent", "nobody"], "Unknown agent or run directory 'nobody'"),
        (["watch", "room", "--task", "1000", "--candidates", "task"], "candidates is 'task', but there is no agent"),
        (
            ["watch", "room", "--task", "1000", "--rule", "gpi"],
            "rule is 'gpi', but there is no agent; expected one with",
        ),
        (
            ["watch", "room", "--task", "1000", "--agent", "room", "--rule", "gpy"],
            "Unknown rule 'gpy': did you mean 'gpi'?",
        ),
        (["watch", "room", "--task", "1000", "--agent", "room", "--rule", "single"], "only for evaluations"),
        (["watch"], "Missing: ENVIRONMENT, --task; see usfa watch --help"),
    ],
)
def test_bad_input_is_one_sentence(tmp_path, monkeypatch, capsys, words, sentence):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert sentence in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.gif"))


def test_mp4_without_its_extra_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr("usfa.runs.watch.importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'usfa\[video\]', or use \.gif\.$"):
        watch("room", Watch(task="1000", out=tmp_path / "film.mp4"))


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("field_of_view", "wide", "expected a number."),
        ("field_of_view", None, "expected a number."),
        ("field_of_view", float("nan"), "expected 20 to 150 degrees."),
        ("image_size", "84.5", "expected a whole number."),
        ("image_size", 84.5, "expected a whole number."),
        ("image_size", float("inf"), "expected a whole number."),
    ],
)
def test_cameras_that_cannot_be(tmp_path, name, value, sentence):
    with pytest.raises(InputError, match=rf"{name} is {value!r}; {sentence}$"):
        watch("room", Watch(task="1000", out=tmp_path / "film.gif", arguments={name: value}))


def test_variants_of_the_room_by_their_arguments(tmp_path):
    arguments = {"types": 2, "layout": "...../.###./...../.#.../....."}
    film, _ = watch("room", Watch(task="11", steps=3, size=42, arguments=arguments, out=tmp_path / "film.gif"))
    assert film.exists()
    with pytest.raises(InputError, match="unknown field 'colour'"):
        watch("room", Watch(task="11", arguments={"colour": 1}, out=tmp_path / "other.gif"))


def test_other_environments_that_render_are_filmed_without_a_map(tmp_path):
    request = Watch(task="1000", policy="random", steps=2, size=84, out=tmp_path / "film.gif")
    film, _ = watch("room-doom", request)
    with Image.open(film) as picture:
        assert picture.size == (84, 84 + 62)


def test_a_film_ends_with_the_episode(tmp_path):
    arguments = {"decisions": 3, "respawn": False, "image_size": 42}
    request = Watch(task="1000", policy="random", steps=50, size=42, arguments=arguments, out=tmp_path / "film.gif")
    film, _ = watch("room", request)
    with Image.open(film) as picture:
        assert picture.n_frames == 2  # frames 1 and 3


def test_mp4(tmp_path):
    pytest.importorskip("imageio_ffmpeg", reason="a film in .mp4 needs imageio-ffmpeg")
    film, _ = watch("room", Watch(task="1000", policy="random", steps=4, size=84, out=tmp_path / "film.mp4"))
    assert film.read_bytes()[4:8] == b"ftyp"


def test_the_command_line_knows_truth_from_text(tmp_path, capsys):
    words = ["watch", "room", "--task", "1000", "--policy", "random", "--steps", "2", "--size", "42"]
    assert main([*words, "--arguments", "respawn", "False", "--out", str(tmp_path / "film.gif")]) == 0


class Lamp(gym.Env):
    """φ is in its info."""

    observation_space = gym.spaces.Discrete(2)
    action_space = gym.spaces.Discrete(2)
    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012 (as Gymnasium has it)

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return action, 1.0, False, False, {"vector_reward": np.array([1.0, 0.0])}

    def render(self):
        return np.zeros((20, 20, 3), np.uint8)


@pytest.mark.parametrize(("phi", "given"), [("info", None), ("features:of_lamp", "info")])
def test_an_agent_is_filmed_with_the_phi_it_was_trained_with_or_with_that_of_the_request(tmp_path, phi, given):
    film, _ = watch("lamp", lamp_request(tmp_path, phi, given))
    assert film.exists()


def test_an_agents_file_does_not_choose_a_function_for_phi(tmp_path):
    with pytest.raises(InputError, match=r"^The agent's φ is the function 'features:of_lamp'; pass it as --phi"):
        watch("lamp", lamp_request(tmp_path, "features:of_lamp", None))


def lamp_request(tmp_path, phi, given):
    register("lamp", Lamp)
    agent = untrained(environment="lamp", spec=AgentSpec(ObservationSpec((2,), 2), 2, 2))
    save_agent(
        tmp_path / "agent",
        replace(agent.file, phi=phi),
        {name: x[None] for name, x in agent.network.state_dict().items()},
    )
    return Watch(task="1,0", agent=str(tmp_path / "agent"), phi=given, steps=2, size=42, out=tmp_path / "film.gif")
