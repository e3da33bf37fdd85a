import errno
import io
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request

import pandas as pd
import pytest
from websockets.sync.client import connect

from fake_agents import untrained
from usfa.agents import save_agent
from usfa.cli import COMMANDS, main
from usfa.cli.tables import print_table
from usfa.cli.train import Train
from usfa.decisions import RULES
from usfa.environments import ENVIRONMENTS
from usfa.errors import InputError
from usfa.evaluation import evaluate
from usfa.files import read_json, write_json
from usfa.runs import PRESETS, SHIPPED_AGENTS, load, preset
from usfa.runs.settings import _nearest_divisor
from usfa.tasks import SPREAD_SETS, TASK_SETS, format_task, task_set
from usfa.version import __version__

pytestmark = pytest.mark.usefixtures("undrawn")

SMALL = ["--seeds", "0", "1", "--learner.budget", "10", "--learner.replay-ratio", "1", "--evaluation.snapshots", "2"]


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    return tmp_path


@pytest.fixture
def run(desk, tiny_run):
    """A copy of a finished run, to spoil."""
    return shutil.copytree(tiny_run.path, desk / "run")


def contents(directory):
    return {path: path.read_bytes() if path.is_file() else None for path in directory.rglob("*")}


def refusal(capsys, directory, words):
    """The one sentence that bad input ends with; nothing on disk may change."""
    before = contents(directory)
    assert main([str(word) for word in words]) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith("usfa: ")
    assert "Traceback" not in captured.out
    assert contents(directory) == before
    return line.removeprefix("usfa: ")


# --- the working directory ---

SHADOWS = ("bottleneck", "dill", "mo_gymnasium", "numexpr", "pyarrow", "pytz")
"""Packages that ours, or those we use, import if they are there."""


@pytest.fixture
def download(tmp_path):
    """A directory from elsewhere, in which every module leaves a trace when it is imported."""
    for name in SHADOWS:
        (tmp_path / f"{name}.py").write_text(f"open('{name}.ran', 'w').close()")
    return tmp_path


@pytest.mark.parametrize("as_module", [False, True])
def test_files_of_the_working_directory_are_not_run(as_module, download, tmp_path_factory):
    program = ["-m", "usfa"]
    if not as_module:  # a console script: Python puts its directory on the path, not the working directory
        script = tmp_path_factory.mktemp("bin") / "usfa"
        script.write_text("import sys; from usfa.cli import main; sys.exit(main())")
        program = [str(script)]
    words = [sys.executable, *program, "check-env", "mistyped-v0"]  # looks among the ids of MO-Gymnasium
    done = subprocess.run(words, cwd=download, capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr.startswith("usfa: Unknown environment 'mistyped-v0'")
    assert not list(download.glob("*.ran"))


def test_the_working_directory_joins_the_path_when_a_named_module_is_found_in_it(own, desk, capsys):
    assert main(["list"]) == 0
    assert main(["evaluate", "trip", "--task", "1,0", "--rule", "fake_agents:NoSuchRule"]) == 2  # is elsewhere
    assert str(desk) not in sys.path
    assert main(["check-env", "own_module:Own", "--steps", "5"]) == 0
    assert sys.path[-1] == str(desk)
    capsys.readouterr()


# --- help and lists ---


@pytest.mark.parametrize(
    ("words", "example"),
    [
        ([], "usfa train trip-usfa --seeds 0 1 2"),
        (["--help"], "usfa reproduce trip"),
        (["train", "--help"], "usfa train trip-usfa"),
        (["reproduce", "--help"], "usfa reproduce trip"),
        (["list", "--help"], "usfa list"),
    ],
)
def test_help_shows_an_example(desk, capsys, words, example):
    assert main(words) == 0
    assert example in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "example"),
    [
        (["train", "trip-usfa", "--help"], "usfa train trip-usfa --resume"),
        (["evaluate", "--help"], "usfa evaluate trip --task 0.7,0.7"),
        (["play", "--help"], "usfa play trip"),
        (["watch", "--help"], "--steps"),
        (["reproduce", "trip", "--help"], "usfa reproduce trip --seeds 0 1 2"),
        (["reproduce", "one-state", "--help"], "usfa reproduce one-state"),
        (["check-env", "--help"], "usfa check-env minecart-v0"),
    ],
)
def test_help_of_a_command_with_settings_shows_an_example(desk, capsys, words, example):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 0
    assert example in capsys.readouterr().out


HELP = [[name, "--help"] for name in COMMANDS]


def test_lists_help_and_wrong_options_do_not_wait_for_torch():
    """A process of its own, in which torch is not imported yet; lines fit the terminal."""
    words = [["list"], *HELP, ["evaluate", "trip", "--tsk", "1,0"], ["watch"]]
    code = f"""
import sys
from usfa.cli import main
for words in {words!r}:
    try:
        main(words)
    except SystemExit:
        pass
print({{"torch", "pandas"}} & set(sys.modules), file=sys.stderr)
"""
    environment = os.environ | {"COLUMNS": "80"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == [
        "usfa: Unknown option --tsk (did you mean --task?); see usfa evaluate --help.",
        "usfa: Missing: ENVIRONMENT, --task; see usfa watch --help.",
        "set()",
    ]
    listed = done.stdout.partition("usage:")[0]
    assert max(len(line) for line in listed.splitlines()) <= 80


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"usfa {__version__}\n"


@pytest.mark.parametrize(("own", "then"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_threads_do_not_spin_unless_told_to(own, then):
    """A process of its own: torch must not be there yet, and nothing of this may stay."""
    code = "import os, sys, usfa.cli; usfa.cli.main(['--version']); "
    code += "print(os.environ['OMP_WAIT_POLICY'], 'torch' in sys.modules)"
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    environment |= {"OMP_WAIT_POLICY": own} if own else {}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1:] == [f"{then} False"]


def test_list_names_everything(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    kinds = ["train+task", "sample:N", "minecart-v0", "module:Class"]
    for name in [*PRESETS, *ENVIRONMENTS, *TASK_SETS, *SPREAD_SETS, *SHIPPED_AGENTS, *kinds]:
        assert name in out
    rules = out[out.index("decision rules (--rule)") :].splitlines()[1 : 1 + len(RULES)]
    assert [line.strip().split(maxsplit=1) for line in rules] == [[name, about] for name, about in RULES.items()]


# --- commands that work ---


def test_evaluate_a_shipped_agent_on_negative_tasks(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["evaluate", "trip", "--task", "-1,0.5", "1-1", "--candidates", "task", "1,0;-0.5,0.5"]) == 0
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines() if line.startswith(("task ", "1,0;"))]
    assert [row[:3] for row in rows] == [
        ["task", "cautious", "-1,0.5"],
        ["1,0;-0.5,0.5", "cautious", "-1,0.5"],
        ["1,0;-0.5,0.5", "single", "-1,0.5"],  # the best of several
        ["task", "cautious", "1-1"],
        ["1,0;-0.5,0.5", "cautious", "1-1"],
        ["1,0;-0.5,0.5", "single", "1-1"],
    ]
    assert all(float(row[3]) <= float(row[4]) for row in rows)


@pytest.mark.parametrize(
    ("words", "rules"),
    [
        (["--rule", "gpi"], ["gpi"]),
        (["--rule", "follow", "single", "cautious:0.5"], ["follow", "single", "cautious:0.5"]),
        (["--candidates", "task", "--rule", "single", "gpi"], ["single", "gpi"]),
        (["--candidates", "task"], ["cautious"]),
        (["--candidates", "sample:1"], ["cautious"]),
        (["--candidates", "1,0"], ["cautious"]),
        (["--candidates", "sample:2"], ["cautious", "single"]),
        ([], ["cautious", "single"]),
    ],
)
def test_evaluate_by_rules(capsys, tmp_path, words, rules):
    """As the function does; by default with the best single policy beside the agent's rule, if there are several."""
    assert main(["evaluate", "trip", "--task", "0.3,0.9", *words, "--csv"]) == 0
    (tmp_path / "table.csv").write_text(capsys.readouterr().out)
    table = pd.read_csv(tmp_path / "table.csv")
    assert table.rule.tolist() == rules
    candidates = words[1] if "--candidates" in words else None
    expected = evaluate(load("trip"), "0.3,0.9", candidates, rules)
    assert table.candidates.tolist() == expected.candidates.tolist()
    assert table.score.tolist() == pytest.approx(expected.score.tolist(), abs=1e-12)


def test_evaluate_a_uvfa_by_its_one_rule(capsys, desk):
    save_agent(
        desk / "agent",
        (agent := untrained("uvfa")).file,
        {name: x[None] for name, x in agent.network.state_dict().items()},
    )
    assert main(["evaluate", "agent", "--task", "0.3,0.9", "--csv"]) == 0
    assert [line.split(",")[:2] for line in capsys.readouterr().out.splitlines()[1:]] == [["task", "gpi"]]


def test_evaluate_the_room_tells_of_tasks_with_dislikes(capsys, monkeypatch):
    """They have a row of their own, for every rule, under the row of their set."""
    monkeypatch.setenv("COLUMNS", "200")

    def played(agent, task, candidates, rules, **_):
        names = [format_task(w) for w in task_set(task)]
        rows = [(candidates, rule, name, 10.0, 0.0, math.nan, math.nan) for rule in rules for name in names]
        return pd.DataFrame(rows, columns=["candidates", "rule", "task", "score", "std", "optimal", "gap"])

    monkeypatch.setattr("usfa.cli.evaluate.evaluate", played)
    assert main(["evaluate", "room", "--task", "room-hard", "--rule", "gpi", "follow"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("train ")]
    assert [row[1:3] for row in rows[:16]] == [
        [rule, format_task(w)] for rule in ("gpi", "follow") for w in task_set("room-hard")
    ]
    assert [" ".join(row[1:]).split(" 10.0")[0] for row in rows[16:]] == [
        "gpi room-hard",
        "follow room-hard",
        "gpi room-hard, with dislikes",
        "follow room-hard, with dislikes",
    ]


def test_evaluate_prints_csv(capsys, tiny_run, tmp_path):
    assert main(["evaluate", str(tiny_run.path), "--task", "trip-train", "--seed", "1", "--csv"]) == 0
    (tmp_path / "table.csv").write_text(capsys.readouterr().out)
    table = pd.read_csv(tmp_path / "table.csv", dtype={"task": str})
    assert list(table.columns) == ["candidates", "rule", "task", "score", "std", "optimal", "gap"]
    assert table.task.tolist() == ["10", "01"] * 2
    assert table.rule.tolist() == ["cautious"] * 2 + ["single"] * 2
    assert table.candidates.unique().tolist() == ["train+task"]


def test_train_resume_and_again_from_its_config(desk, capsys):
    assert main(["train", "trip-usfa", *SMALL, "--out", "run"]) == 0
    assert "usfa evaluate run --task" in capsys.readouterr().out
    before = contents(desk)
    assert main(["train", "trip-usfa", *SMALL, "--out", "run", "--resume"]) == 0
    assert contents(desk) == before
    for config in ("run/config.json", "run/agent/config.json"):  # the latter is what the model card names
        assert main(["train", config, "--out", "again", "--overwrite"]) == 0
        assert (desk / "again" / "scores.csv").read_bytes() == (desk / "run" / "scores.csv").read_bytes()
    assert main(["train", "trip-usfa", "--seeds", "5", *SMALL[3:], "--out", "run", "--overwrite"]) == 0
    assert json.loads((desk / "run" / "config.json").read_text())["seeds"] == [5]


def test_a_config_of_another_name_is_the_one_that_is_read(desk, tiny_run, capsys):
    config = json.loads((tiny_run.path / "config.json").read_text())
    config["learner"]["budget"], config["evaluation"]["snapshots"] = 5, 1
    (desk / "short.json").write_text(json.dumps(config))
    told = refusal(capsys, desk, ["train", "short.json", "--out", "run"])
    assert "short.json was changed" in told
    assert "If you edited it, delete its entry 'checksum'." in told
    del config["checksum"]
    (desk / "short.json").write_text(json.dumps(config))
    assert main(["train", "short.json", "--out", "run"]) == 0
    assert json.loads((desk / "run" / "config.json").read_text())["learner"]["budget"] == 5


@pytest.mark.parametrize("frames", [["--frames", "12"], ["--frames=12"]])
def test_frames_are_short_for_a_budget_of_frames(desk, capsys, frames):
    words = ["train", "trip-usfa", "--seeds", "0", *frames, "--evaluation.snapshots", "1", "--out", "run"]
    assert main(words) == 0
    learner = json.loads((desk / "run" / "config.json").read_text())["learner"]
    assert (learner["budget"], learner["budget_unit"]) == (12, "frames")


def test_fewer_frames_have_snapshots_as_far_apart():
    config = preset("room-laptop")
    apart = config.learner.budget // config.evaluation.snapshots
    for snapshots in (1, 2, 3):
        short = Train(config, frames=snapshots * apart).resolved
        assert short.milestones == tuple(apart * k for k in range(snapshots + 1))
    assert Train(config, frames=10).resolved.milestones == (0, 10)
    assert Train(config).resolved == config


def test_the_default_directory_has_the_name_of_the_preset(desk, capsys):
    assert (
        main(["train", "one-state-usfa", "--seeds", "0", "--learner.budget", "5", "--evaluation.snapshots", "1"]) == 0
    )
    assert (desk / "runs" / "one-state-usfa" / "scores.csv").exists()


@pytest.mark.parametrize(
    "settings",
    [
        ["--learner.epsilon", "1"],  # a frame later there may be no more episodes than before
        ["--learner.environments", "4"],  # one update jumps over several snapshots
    ],
)
def test_snapshots_at_the_same_count_do_not_confuse_the_summary(desk, capsys, settings):
    frames = ["--learner.budget-unit", "frames", "--learner.budget", "3", "--evaluation.snapshots", "3"]
    assert main(["train", "trip-usfa", "--seeds", "0", "1", *settings, *frames, "--out", "run"]) == 0
    assert "mean gap to the optimum" in capsys.readouterr().out


OWN = """
import gymnasium as gym, numpy as np

class Own(gym.Env):
    observation_space, action_space = gym.spaces.Discrete(3), gym.spaces.Discrete(2)
    reward_space = gym.spaces.Box(-1, 1, (2,))
    def __init__(self, last=3):
        self.last = last
    def reset(self, *, seed=None, options=None):
        self.at = 0
        return self.at, {}
    def step(self, action):
        self.at += 1
        return self.at % 3, np.array([1.0, action]), self.at == self.last, False, {}

class Broken(Own):
    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, 1.0, *rest

def phi(observation, action, next_observation):
    return [next_observation, action, 1.0]
"""


@pytest.fixture
def own(desk, monkeypatch):
    """A module in the working directory, which is not on the path."""
    (desk / "own_module.py").write_text(OWN)
    monkeypatch.delitem(sys.modules, "own_module", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("COLUMNS", "200")


def test_check_an_environment(own, capsys):
    assert main(["check-env", "own_module:Own", "--steps", "50"]) == 0
    *findings, summary, following = capsys.readouterr().out.splitlines()
    words = "Observations: table of 3 states: one-hot; A = 2 actions, D = 2 features of φ."
    assert findings[0].rstrip().split(maxsplit=2) == ["note", "spaces", words]
    assert summary == "own_module:Own: no errors."
    assert following.startswith("Next: ")
    assert following.endswith(" train own_module:Own")


def test_check_an_environment_with_arguments_and_phi(own, capsys):
    words = ["--environment-arguments", "last", "2", "--phi", "own_module:phi", "--seed", "3", "--steps", "20"]
    assert main(["check-env", "own_module:Own", *words]) == 0
    out = capsys.readouterr().out
    assert "D = 3 features" in out
    assert "train own_module:Own --phi own_module:phi --environment-arguments last 2" in out


def test_arguments_of_an_environment_are_added_to_those_it_has_and_may_be_repeated_to_resume(own, desk, capsys):
    words = ["train", "own_module:Own", "--learner.budget", "300", "--evaluation.episodes", "1", "--out", "run"]
    words += ["--environment-arguments", "last"]
    assert main([*words, "2"]) == 0
    assert json.loads((desk / "run" / "config.json").read_text())["environment_arguments"] == {"last": 2}
    following = capsys.readouterr().out.split(" evaluate ")[1].split()
    assert main(["evaluate", *following, "--episodes", "1"]) == 0
    assert main([*words, "2", "--resume"]) == 0
    assert "environment_arguments" in refusal(capsys, desk, [*words, "3", "--resume"])


def test_check_a_broken_environment(own, capsys):
    assert main(["check-env", "own_module:Broken"]) == 1
    out = capsys.readouterr().out
    assert out.split(maxsplit=2)[:2] == ["error", "phi"]
    assert "own_module:Broken: 1 error." in out
    assert "Next" not in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["own_module:Other"], "The module 'own_module' has no 'Other'; expected one of Own, Broken."),
        (["tripp"], "did you mean 'trip'?"),
        (["trip", "--arguments", "plaices", "3"], "Environment 'trip' cannot be made with {'plaices': 3}"),
        (["trip", "--steps", "0"], "steps is 0"),
        (["trip", "--phi", "inof"], "phi is 'inof'; expected 'reward', 'info'"),
        (["trip", "--arguments", "phi", "info"], "--arguments has an entry phi; expected it as --phi."),
    ],
)
def test_check_what_is_not_there(own, desk, capsys, words, sentence):
    assert sentence in refusal(capsys, desk, ["check-env", *words])


# --- input that is refused ---


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["evaluate", "trip", "--task", "1,0,0"], "Task '1,0,0' has 3 entries; expected 2"),
        (["evaluate", "trip", "--task", "1,0", "100"], "Task '100' has 3 entries; expected 2"),
        (["evaluate", "trip", "--task", "nan,1"], "Task 'nan,1' holds NaN or infinity"),
        (["evaluate", "trip", "--task", "1,-inf"], "Task '1,-inf' holds NaN or infinity"),
        (["evaluate", "trip", "--task", "one,two"], "Task 'one,two' is not a vector"),
        (["evaluate", "trip", "--task", ""], "Task '' is not a vector"),
        (["evaluate", "trip", "--task", "trip-direction"], "did you mean 'trip-directions'?"),
        (["evaluate", "trip", "--task", "1,0", "--candidates", "trian"], "did you mean 'train'?"),
        (["evaluate", "trip", "--task", "1,0", "--candidates", ""], "Unknown candidate set ''"),
        (["evaluate", "trip", "--task", "1,0", "--candidates", "sample:0"], "needs a size from 1"),
        (["evaluate", "trip", "--task", "1,0", "--candidates", "1,0,0"], "has 3 entries; expected 2"),
        (["evaluate", "trip", "--task", "1,0", "--rule", "gpy"], "Unknown rule 'gpy': did you mean 'gpi'?"),
        (["evaluate", "trip", "--task", "1,0", "--rule", "gpi", ""], "Unknown rule ''"),
        (
            ["evaluate", "trip", "--task", "1,0", "--rule", "cautious:abc"],
            "The rule is 'cautious:abc'; expected a number",
        ),
        (["evaluate", "trip", "--task", "1,0", "--rule", "follow:2"], "expected 'follow', which has no setting."),
        (["evaluate", "trip", "--task", "1,0", "--seed", "7"], "has no seed 7; expected one of [0]"),
        (["evaluate", "trip", "--task", "1,0", "--episodes", "0"], "episodes is 0"),
        (["evaluate", "trip", "--task", "1,0", "--epsilon", "1.5"], "epsilon is 1.5; expected a number from 0 to 1"),
        (["evaluate", "tripp", "--task", "1,0"], "did you mean 'trip'?"),
        (["evaluate", "runs/none", "--task", "1,0"], "Run directory runs/none does not exist."),
        (["train"], "A preset is missing; expected one of trip-usfa"),
        (["train", "--seeds", "1"], "A preset is missing"),
        (["train", "trip-usf"], "Unknown preset or environment 'trip-usf': did you mean 'trip-usfa'?"),
        (["train", "CartPole"], "Unknown preset or environment 'CartPole': did you mean 'CartPole-v1'?"),
        (["train", "none/config.json"], "File none/config.json cannot be read"),
        (["train", "trip-usfa", "--training-tasks", "simplex:5"], "expected simplex:N,D (both from 2) with at most"),
        (["train", "trip-usfa", "--seeds", "1", "--seeds", "2"], "--seeds was given 2 times; expected it once, with"),
        (["train", "trip-usfa", "--training-tasks", "1,0,0"], "'1,0,0' have 3 entries; expected 2"),
        (["train", "trip-usfa", "--training-tasks", "1,nan"], "holds NaN or infinity"),
        (["train", "trip-usfa", "--environment", "trpi"], "Unknown environment 'trpi': did you mean 'trip'?"),
        (["train", "trip-usfa", "--environment-arguments", "plaices", "3"], "plaices"),
        (["train", "trip-usfa", "--environment-arguments", "places", "0"], "places is 0; expected at least 1."),
        (["train", "trip-usfa", "--seeds", "1", "1"], "seeds are (1, 1); expected one or more different"),
        (["train", "trip-usfa", "--learner.epsilon", "2"], "epsilon is 2.0; expected a number from 0 to 1."),
        (["train", "trip-usfa", "--learner.budget", "0"], "budget is 0; expected at least 1."),
        (["train", "trip-usfa", "--learner.policies", "boks:0,1"], "'boks:0,1' is not one of gaussian:VARIANCE"),
        (
            ["train", "trip-usfa", "--learner.tasks", "fix"],
            "learner.tasks is 'fix'; expected resampled, fixed, or",
        ),
        (["train", "trip-usfa", "--evaluation.snapshots", "0"], "snapshots is 0; expected 1 to 1000"),
        (["train", "trip-usfa", "--checkpoint-every", "0"], "checkpoint_every is 0; expected at least 1."),
        (["train", "trip-usfa", "--resume", "--overwrite"], "--resume and --overwrite were both given"),
        (["reproduce", "tripp"], "Unknown experiment 'tripp': did you mean 'trip'?"),
        (["reproduce", "trip", "--grid", "1"], "grid is 1; expected at least 2"),
        (["reproduce", "trip", "--places", "0"], "places is 0; expected at least 1."),
        (["reproduce", "one-state", "--test-task", "1"], "test_task is 1.0; expected a number from -2"),
        (["reproduce", "one-state", "--gamma", "1"], "gamma is 1.0; expected 0 ≤ gamma < 1"),
        (["trian"], "Unknown command 'trian': did you mean 'train'?"),
        (["list", "presets"], "`usfa list` was given 'presets'; expected nothing."),
    ],
)
def test_bad_input_is_one_sentence(desk, capsys, words, sentence):
    assert sentence in refusal(capsys, desk, words)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["train", "trip-usfa", *SMALL, "--evaluation.candidates", "trian"], "did you mean 'train'?"),
        (["train", "trip-usfa", *SMALL, "--evaluation.tasks", "1,0,0"], "has 3 entries; expected 2"),
        (
            ["train", "trip-uvfa", *SMALL, "--evaluation.candidates", "train"],
            "is 'train'; expected 'task'",
        ),
        (["train", "trip-usfa", *SMALL, "--evaluation.rules", "gpy"], "Unknown rule 'gpy': did you mean 'gpi'?"),
        (["train", "trip-usfa", *SMALL, "--evaluation.final-rules", "single", "single"], "expected each once"),
        (["train", "trip-usfa", *SMALL, "--evaluation.epsilon", "2"], "epsilon"),
        (["train", "trip-usfa", *SMALL, "--evaluation.episodes", "0"], "episodes"),
    ],
)
def test_what_only_the_evaluation_needs_is_checked_before_training(desk, capsys, words, sentence):
    assert sentence in refusal(capsys, desk, words)


@pytest.mark.parametrize("what", ["trip", "one-state"])
@pytest.mark.parametrize(
    ("words", "sentence"),
    [(["--episodes", "0"], "is 0; expected at least 1"), (["--seeds", "1", "1"], "seeds are (1, 1)")],
)
def test_experiments_check_their_numbers_before_they_write(desk, capsys, what, words, sentence):
    assert sentence in refusal(capsys, desk, ["reproduce", what, *words])


def test_a_directory_that_holds_a_run_is_kept(desk, run, capsys):
    said = refusal(capsys, desk, ["train", "trip-usfa", "--out", run])
    advice = "continue it with --resume, replace it with --overwrite, or choose another --out."
    assert said == f"Directory {run} already holds a run; {advice}"


def test_resume_wants_the_same_settings(desk, run, capsys):
    said = refusal(capsys, desk, ["train", run / "config.json", "--out", run, "--resume", "--learner.epsilon", "0.25"])
    assert "another configuration (different: learner.epsilon was 0.5, now 0.25); expected the same to resume" in said


@pytest.mark.parametrize("flag", ["--overwrite", "--resume"])
def test_a_directory_with_other_files_is_kept(desk, capsys, flag):
    (desk / "thesis").mkdir()
    (desk / "thesis" / "chapter.txt").write_text("years of work")
    assert "thesis" in refusal(capsys, desk, ["train", "trip-usfa", *SMALL, "--out", "thesis", flag])


def test_a_file_in_the_place_of_a_directory_is_kept(desk, capsys):
    (desk / "notes").write_text("mine")
    assert "notes is a file" in refusal(capsys, desk, ["train", "trip-usfa", *SMALL, "--out", "notes", "--overwrite"])


def test_torn_config_of_a_run(desk, run, capsys):
    whole = (run / "config.json").read_text()
    (run / "config.json").write_text(whole[: len(whole) // 2])
    assert "config.json is torn or not JSON" in refusal(capsys, desk, ["evaluate", run, "--task", "1,0"])
    assert "config.json is torn or not JSON" in refusal(capsys, desk, ["train", "trip-usfa", "--out", run, "--resume"])


def test_run_of_another_version(desk, run, capsys):
    write_json(run / "config.json", read_json(run / "config.json") | {"format": 99, "version": "9.9"})
    expected = f"has format 99 (usfa 9.9); usfa {__version__} reads format 2."
    assert expected in refusal(capsys, desk, ["evaluate", run, "--task", "1,0"])
    assert expected in refusal(capsys, desk, ["train", "trip-usfa", "--out", run, "--overwrite"])


def test_torn_weights(desk, run, capsys):
    weights = run / "agent" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    assert "weights.safetensors is torn or was changed" in refusal(capsys, desk, ["evaluate", run, "--task", "1,0"])


def test_unfinished_run(desk, run, capsys):
    shutil.rmtree(run / "agent")
    assert "is not finished and has no agent yet" in refusal(capsys, desk, ["evaluate", run, "--task", "1,0"])


def test_directory_of_an_experiment_names_its_runs(desk, run, capsys):
    (desk / "trip" / "runs").mkdir(parents=True)
    run.rename(desk / "trip" / "runs" / "usfa")
    assert "holds several runs; expected one of" in refusal(capsys, desk, ["evaluate", "./trip", "--task", "1,0"])
    assert main(["evaluate", "trip", "--task", "1,0"]) == 0  # the shipped agent


@pytest.mark.parametrize(
    "words",
    [
        ["train", "trip-usfa", "--learner.epsilon", "much"],
        ["train", "trip-usfa", "--no-such-setting"],
        ["evaluate", "trip"],
        ["evaluate"],
        ["reproduce", "trip", "--seeds", "x"],
    ],
)
def test_words_that_do_not_parse_are_one_sentence(desk, capsys, words):
    line = refusal(capsys, desk, words)
    assert line.endswith(" --help.")
    assert line.startswith(
        ("Unknown option --no-such-setting;", "--learner.epsilon is 'much'", "--seeds is 'x'", "Missing: ")
    )
    assert contents(desk) == {}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("train trip-ufsa", "Unknown preset or environment 'trip-ufsa': did you mean 'trip-usfa'?"),
        ("train room-lap", "did you mean 'room-laptop'?"),
        ("train foo-v0", "Unknown environment 'foo-v0': known are one-state, room, room-doom, trip."),
        ("train trip-usfa --gamma 1", "Unknown option --gamma (did you mean --learner.gamma?); see"),
        (
            "train trip-usfa --training-tasks 10 01",
            "Unexpected '01' after --training-tasks, which takes no more values",
        ),
        ("train trip-usfa --learner.epsilon much", "--learner.epsilon is 'much', not a number; see"),
        ("train trip-usfa --seeds x y", "--seeds is 'x y', not whole numbers; see"),
        ("watch room --task 11 --policy orcl", "--policy is 'orcl', not one of random, greedy, oracle; see"),
        ("watch room --task", "--task has no value; see"),
        ("watch room --task 11 --arguments a", "--arguments is 'a', not pairs of a name and a value; see"),
        ("evaluate trip --seed x --task 1,0", "--seed is 'x', not a whole number; see"),
        ("evaluate trip --task 1,0 --csv=1", "--csv takes no value, but is '1'; see usfa evaluate --help."),
        ("evaluate", "Missing: RUN, --task; see usfa evaluate --help."),
        ("evalute trip", "did you mean 'evaluate'?"),
    ],
)
def test_typing_errors_are_one_sentence_that_says_what_was_meant(desk, capsys, words, sentence):
    assert sentence in refusal(capsys, desk, words.split())


def test_tasks_are_shown_as_they_were_typed(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["evaluate", "trip", "--task", "0.70,.7", "1,0;.5,-0.50", "trip-train", "--candidates", "task"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("<usfa agent for trip, trained on 10, 01, seed 0>: exact returns")  # on one line
    assert [line.split()[2] for line in out[2:]] == ["0.70,.7", "1,0", ".5,-0.50", "10", "01"]


SIX = "1,0,0,0;0,1,0,0;0,0,1,0;0,0,0,1;1,1,0,0;0,0,1,1"


@pytest.mark.parametrize(
    ("flags", "environments", "updates", "told"),
    [
        ([], 66, 12, ["environments is 66 instead of 64", "updates_per_round is 12 instead of 16"]),
        (["--learner.environments", "60"], 60, 15, ["updates_per_round is 15 instead of 16"]),
        (["--learner.updates-per-round", "16"], 72, 16, ["environments is 72 instead of 64"]),
    ],
)
def test_numbers_that_must_divide_one_another_are_chosen_to_fit(
    desk, capsys, monkeypatch, flags, environments, updates, told
):
    def train(config, *_, **__):
        assert (config.learner.environments, config.learner.updates_per_round) == (environments, updates)
        raise InputError("enough")

    monkeypatch.setattr("usfa.cli.train.train", train)
    assert main(["train", "room-laptop", "--training-tasks", SIX, *flags]) == 2
    *lines, last = capsys.readouterr().err.splitlines()
    assert last == "usfa: enough"
    assert [line.partition(",")[0] for line in lines] == [f"learner.{number}" for number in told]


@pytest.mark.parametrize(
    ("number", "wanted", "nearest"), [(132, 16, 12), (12, 5, 4), (20, 9, 10), (7, 100, 7), (9, 3, 3)]
)
def test_the_nearest_divisor(number, wanted, nearest):
    assert _nearest_divisor(number, wanted) == nearest


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["train", "one-state-usfa", "--learner.gamma", "0.5"], "expected 0.9, the discount in the tables of"),
        (["train", "trip-usfa", "--evaluation.tasks", "1,0;1,0"], "hold a task twice"),
        (["train", "trip-usfa", "--evaluation.candidates", "task", "task"], "expected each once"),
        (["train", "trip-usfa", "--resume"], "runs/trip-usfa does not exist; expected a run to resume"),
        (["evaluate", "trip", "--task"], "RUN or --task is missing"),
        (["evaluate", "--task", "1,0"], "RUN or --task is missing"),
        (["train", "trip-usfa", "--out", "/proc/nowhere/run"], "cannot be used"),
    ],
)
def test_more_bad_input_is_one_sentence(desk, capsys, words, sentence):
    assert sentence in refusal(capsys, desk, words)


def test_a_file_may_not_import_code(desk, run, capsys, monkeypatch):
    (desk / "payload.py").write_text("raise SystemExit('the payload ran')")
    monkeypatch.syspath_prepend(desk)
    for config in (run / "config.json", run / "agent" / "config.json"):
        write_json(config, read_json(config) | {"environment": "payload:Foo-v0"})
    assert "would import and run the module 'payload'" in refusal(capsys, desk, ["evaluate", run, "--task", "1,0"])
    words = ["train", run / "config.json", "--out", "again"]
    assert "would import and run the module 'payload'" in refusal(capsys, desk, words)


def test_a_file_may_not_choose_a_function(desk, run, capsys):
    for config in (run / "config.json", run / "agent" / "config.json"):
        write_json(config, read_json(config) | {"phi": "os:system"})
    sentence = "The file names the function 'os:system' for φ, which would be run; set trust (--trust)"
    assert sentence in refusal(capsys, desk, ["evaluate", run, "--task", "1,0"])
    assert sentence in refusal(capsys, desk, ["train", run / "config.json", "--out", "again"])
    assert sentence in refusal(capsys, desk, ["train", "trip-usfa", "--out", run, "--resume"])


def test_phi_is_not_an_argument_of_the_environment(desk, run, capsys):
    words = ["train", "trip-usfa", "--environment-arguments", "phi", "info"]
    assert "environment_arguments has an entry phi" in refusal(capsys, desk, words)
    config = run / "agent" / "config.json"
    write_json(config, read_json(config) | {"environment_arguments": {"phi": "os:system"}})
    assert "environment_arguments have an entry phi" in refusal(capsys, desk, ["evaluate", run, "--task", "1,0"])


def test_train_on_an_environment_of_ones_own(own, desk, capsys):
    words = ["--environment", "own_module:Own", "--training-tasks", "1,0,0;0,1,0", "--phi", "own_module:phi"]
    words += [*SMALL, "--learner.gamma", "0.9", "--evaluation.tasks", "0,-1,0", "--out", "run"]
    assert main(["train", "trip-usfa", *words]) == 0
    assert "own_module:Own: table of 3 states: one-hot" in capsys.readouterr().err
    assert "own_module:phi" in refusal(capsys, desk, ["evaluate", "run", "--task", "0,-1,0"])
    assert main(["evaluate", "run", "--task", "0,-1,0", "--episodes", "2", "--trust"]) == 0


def test_train_an_environment_by_its_name(own, desk, capsys):
    words = ["--env", "own_module:Own", "--phi", "own_module:phi", "--learner.gamma", "0.9", "--frames", "200"]
    words += ["--evaluation.episodes", "1"]
    assert main(["train", *words]) == 0
    written = capsys.readouterr()
    assert "own_module:Own: table of 3 states: one-hot" in written.err
    config = json.loads((desk / "runs" / "own_module-Own" / "config.json").read_text())
    assert (config["training_tasks"], config["phi"]) == ("corners:3", "own_module:phi")
    assert config["learner"]["tasks"] == "task|simplex"  # few steps
    assert main(["train", *words, "--resume"]) == 0


def test_help_of_an_environment_shows_its_settings(own, desk, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["train", "own_module:Own", "--phi", "own_module:phi", "--help"])
    assert ended.value.code == 0
    assert "corners:3" in capsys.readouterr().out


def test_resume_does_not_take_another_run_for_the_one_that_was_named(desk, run, capsys):
    said = refusal(capsys, desk, ["train", "trip-uvfa", "--out", run, "--resume"])
    assert f"The run in {run} trains usfa in trip; trip-uvfa is uvfa in trip. Expected the name and the flags" in said


def test_resume_takes_the_settings_of_the_run(desk, run, capsys):
    before = (run / "scores.csv").read_bytes()
    assert main(["train", "trip-usfa", "--out", str(run), "--resume"]) == 0
    assert (run / "scores.csv").read_bytes() == before


# --- play ---


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--host", "0.0.0.0"], "expected 127.0.0.1, or --allow-remote"),
        (["--port", "70000"], "The port is 70000; expected 0 to 65535."),
        (["--sessions", "0"], "The limit sessions is 0"),
        (["nobody"], "Unknown agent or run directory 'nobody'"),
        (["trip", "--environment", "nowhere"], "Unknown environment 'nowhere'"),
        (["trip", "--environment", "room"], "the agent expected (2,), 8 and 2."),
    ],
)
def test_play_refuses_in_a_sentence(desk, capsys, words, sentence):
    assert sentence in refusal(capsys, desk, ["play", *words, "--no-browser"])


def test_play_serves_the_room_until_it_is_interrupted(desk):
    command = [sys.executable, "-m", "usfa", "play", "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        url = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())[0]
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert b"usfa" in answer.read()
        with connect(url.replace("http", "ws") + "socket", origin=url.rstrip("/"), open_timeout=60) as socket:
            agents = json.loads(socket.recv(60))["agents"]
            assert [agent["name"] for agent in agents] == ["room", "trip", "room-uvfa"]
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 0


# --- hostile settings and file systems ---


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("--threads 1000000000", "threads is 1000000000; expected at most 1024."),
        (f"--seeds {10**40}", "expected at most 10,000 numbers below 2^63."),
        ("--evaluation.snapshots 1000000000", "snapshots is 1000000000; expected at most 10,000."),
        (f"--learner.budget {10**30}", "expected at most 9,007,199,254,740,992."),
        ("--learner.policies-per-step 1000000000", "policies_per_step is 1000000000; expected at most 10,000."),
        ("--learner.replay-ratio 1000000000", "replay_ratio is 1000000000; expected 0 to 1,000."),
        ("--network.trunk 1000000000", "expected at most 100 widths up to 65,536."),
    ],
)
def test_absurd_settings_are_one_sentence(desk, capsys, flags, sentence):
    assert sentence in refusal(capsys, desk, ["train", "trip-usfa", *flags.split()])


@pytest.mark.parametrize("rng", ["-1", str(10**40)])
def test_absurd_random_seeds_are_one_sentence(desk, capsys, rng):
    assert f"--rng is {rng}; expected a whole number" in refusal(
        capsys, desk, ["evaluate", "trip", "--rng", rng, "--task", "1,0"]
    )


def test_narrow_terminals_break_texts_but_no_numbers(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "48")
    row = {"candidates": "train+task", "rule": "own_module:A" + "n" * 30, "score": 12345.6789, "gap": 0.12345}
    print_table(pd.DataFrame([row]), "title")
    first, *rest = capsys.readouterr().out.splitlines()[2:]
    assert first.split() == ["train+task", "own_module:Ann", "12345.67890", "0.12345"]
    assert "".join(line.strip() for line in rest) == "n" * 28


def test_paths_with_brackets_are_shown_as_they_are(desk, capsys):
    assert main(["train", "trip-usfa", *SMALL, "--out", "a[/]b[bold]"]) == 0
    assert "evaluate a[/]b[bold] --task" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("encoding", "errors", "phi"),
    [("latin-1", "strict", r"\u03c6"), ("ascii", "surrogateescape", r"\u03c6"), ("utf-8", "strict", "φ")],
)
def test_output_is_escaped_where_the_terminal_cannot_show_it(desk, monkeypatch, encoding, errors, phi):
    terminal = io.TextIOWrapper(io.BytesIO(), encoding, errors)
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr("usfa.cli.list_.run", lambda _: print("φ of \udcff"))  # a file name that is not UTF-8
    assert main(["list"]) == 0
    terminal.flush()
    assert terminal.buffer.getvalue().decode(encoding) == rf"{phi} of \udcff" + "\n"


@pytest.mark.parametrize(
    ("number", "reason"),
    [(errno.EROFS, "Read-only file system"), (errno.EFBIG, "File too large"), (errno.EIO, "Input/output")],
)
def test_errors_of_the_operating_system_are_one_sentence(desk, capsys, monkeypatch, number, reason):
    def failing(*_):
        raise OSError(number, os.strerror(number), "somewhere")

    monkeypatch.setattr("usfa.cli.list_.run", failing)
    assert f"somewhere cannot be used: {reason}" in refusal(capsys, desk, ["list"])


def test_names_that_are_too_long_and_links_to_nothing_are_one_sentence(desk, capsys):
    assert "File name too long" in refusal(capsys, desk, ["train", "trip-usfa", *SMALL, "--out", "a" * 300])
    (desk / "link").symlink_to("nowhere")
    assert "link is a link to nothing" in refusal(capsys, desk, ["train", "trip-usfa", *SMALL, "--out", "link"])
