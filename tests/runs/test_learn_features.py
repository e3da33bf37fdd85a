"""`usfa learn-features`, `usfa train --phi`, and the share of rewards that φ cannot express."""

import io
import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import usfa
from usfa.cli import main
from usfa.environments import known_phi, learned, source
from usfa.errors import InputError
from usfa.evaluation import exact_mdp
from usfa.phi import Laplacian, NetworkFit, RandomActions, RewardsPhi
from usfa.playground.catalogue import make_view
from usfa.runs import FeaturesConfig, RunDirectory
from usfa.runs.features import AgentActions

REWARDS = ("--rewards", "tasks:trip-train,task:0.5,0.5", "--steps", "400")


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    """A finished run of learn-features, for Trip."""
    path = tmp_path_factory.mktemp("features") / "trip"
    assert main(["learn-features", "trip", *REWARDS, "--out", str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def run(features, tiny_config, tmp_path_factory):
    """A run that was trained with that φ, which is gone afterwards."""
    copy = tmp_path_factory.mktemp("gone") / "phi"
    shutil.copytree(features, copy)
    config = replace(tiny_config, phi=str(copy), seeds=(0,))
    done = usfa.train(config, tmp_path_factory.mktemp("runs") / "run", console=None)
    shutil.rmtree(copy)
    return done


@pytest.mark.parametrize(
    "wrong",
    [
        ("trip", "--rewards", "tasks:trip-train", "--agent", "nowhere"),
        ("no-such-environment", "--rewards", "reward"),
        ("trip", "--rewards", "tasks:trip-train", "--steps", "1000000000"),
        ("trip", "--data", "nowhere.npz"),
    ],
)
def test_wrong_settings_leave_no_run_and_replace_none(features, wrong, tmp_path, capsys):
    command = ["learn-features", *wrong]
    assert main([*command, "--out", str(tmp_path / "new")]) == 2
    assert not (tmp_path / "new").exists()
    kept = shutil.copytree(features, tmp_path / "kept")
    before = {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()}
    assert main([*command, "--out", str(kept), "--overwrite"]) == 2
    assert {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()} == before
    assert "Traceback" not in capsys.readouterr().err


def test_the_directory_holds_everything(features):
    names = {path.relative_to(features).as_posix() for path in features.rglob("*") if path.is_file()}
    assert names == {
        *("config.json", "manifest.json", "data.npz", "phi.json", "phi.safetensors", "quality.csv"),
        *(f"figures/{name}.{end}" for name in ("quality", "responses") for end in ("png", "pdf")),
    }
    assert usfa.load_features(features).features == 2


def test_a_finished_run_is_not_learned_again_and_nothing_is_replaced(features, capsys):
    before = (features / "phi.json").read_bytes()
    assert main(["learn-features", "trip", *REWARDS, "--out", str(features)]) == 2
    assert "already holds a run" in capsys.readouterr().err
    assert main(["learn-features", "trip", *REWARDS, "--out", str(features), "--resume"]) == 0
    assert (features / "phi.json").read_bytes() == before


def test_agents_are_self_contained(run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run.agent, copy)
    agent = usfa.load(copy)
    assert agent.file.phi.startswith("learned:")
    table = usfa.evaluate(agent, [[1, 0], [0.5, 0.5], [0.2, 0.9]])
    assert (table.gap < 0.3).all()  # exact, from tables of the learned φ
    assert (table.unexplained[:2] < 1e-9).all()
    assert np.isnan(table.unexplained[2])  # φ was not learned from this task
    exported = usfa.export(copy, tmp_path / "export")
    assert {"phi.json", "phi.safetensors"} <= {path.name for path in exported.iterdir()}


@pytest.fixture
def as_in_a_new_process(monkeypatch):
    """No φ is known."""
    monkeypatch.setattr(learned, "_KNOWN", {})


def test_the_phi_beside_an_agent_must_be_its_own(run, tmp_path, as_in_a_new_process):
    copy = tmp_path / "copy"
    shutil.copytree(run.agent, copy)
    usfa.learn_features("trip", "task:1,1", steps=200, console=None).save(copy)
    with pytest.raises(InputError, match=r"^The φ in .* is 'learned:\w+'; expected 'learned:\w+', as in config.json"):
        usfa.load(copy)


def test_a_run_is_read_again_from_its_own_phi(run):
    found = run.config(usfa.TrainConfig)
    assert known_phi(found.phi).text == found.phi
    assert usfa.load_features(run.path).text == found.phi
    usfa.train(found, run.path, existing="resume", console=None)


def test_the_same_scores_as_with_the_given_phi(run, tiny_config, tiny_run):
    """The learned φ equals the given one up to rounding, so that learning takes the same course."""
    columns = ["candidates", "rule", "task_set", "task", "snapshot"]
    own = run.read_scores().set_index(columns).score
    given = tiny_run.read_scores().query("seed == 0").set_index(columns).score
    first = own[own.index.get_level_values("snapshot") == 0]
    np.testing.assert_allclose(first, given[first.index], atol=1e-4)
    assert abs(own.mean() - given.mean()) < 0.1


def test_settings_for_an_environment_with_a_learned_phi(features):
    config = usfa.settings_for("trip", phi=usfa.load_features(features))
    np.testing.assert_allclose(config.tasks, [[1, 0], [0, 1], [0.5, 0.5]], atol=1e-6)
    assert config.phi.startswith("learned:")


def test_scores_in_rewards_tell_what_phi_cannot_express(run):
    agent = usfa.load(run.path)
    with pytest.warns(UserWarning, match=r"^φ cannot express \d+% of 10 \(expected at most 10%\): scores in φ·w are"):
        table = usfa.evaluate(agent, [[1, 0], [0, 1]], rewards=["task:-1,0.5", "task:0,1"], episodes=2)
    assert table.unexplained[0] > 0.5
    assert table.unexplained[1] < 1e-6
    assert table.score[1] == pytest.approx(1, abs=0.4)
    with pytest.raises(InputError, match=r"^There are 1 rewards for 2 tasks; expected one for each\.$"):
        usfa.evaluate(agent, [[1, 0], [0, 1]], rewards="task:1,0")


def test_each_task_has_its_reward_on_the_command_line(run, capsys):
    words = ["evaluate", str(run.path), "--task", "1,0", "01;11", "--episodes", "1", "--csv", "--rewards"]
    assert main([*words, "task:1,0", "task:0,1", "task:1,1"]) == 0
    table = pd.read_csv(io.StringIO(capsys.readouterr().out), dtype={"task": str})
    assert table.task.unique().tolist() == ["10", "01", "11"]
    assert table.unexplained.max() < 1e-6  # NaN where an episode never gave the reward
    assert main([*words, "task:1,0"]) == 2
    assert "There are 1 rewards for 3 tasks; expected one for each." in capsys.readouterr().err


def test_resuming_runs_only_functions_that_the_user_named(features, tmp_path, capsys):
    path = tmp_path / "copy"
    shutil.copytree(features, path)
    changed(path / "phi.json", model="linear", settings={"rich": "received:f", "inputs": 1})
    assert main(["learn-features", "trip", *REWARDS, "--out", str(path), "--resume"]) == 2
    assert "names the function 'received:f', which would be run" in capsys.readouterr().err


def test_a_run_is_not_resumed_with_other_data(features, tmp_path):
    data, out = tmp_path / "data.npz", tmp_path / "run"
    shutil.copy(features / "data.npz", data)
    phi = usfa.learn_features("trip", data=data, out=out, console=None)
    assert usfa.learn_features("trip", data=data, out=out, existing="resume", console=None).text == phi.text
    data.write_bytes(data.read_bytes() + b"\0")
    with pytest.raises(InputError, match=r"^File .* was changed since the run in .* began; expected the same file"):
        usfa.learn_features("trip", data=data, out=out, existing="resume", console=None)


def test_an_agent_acts_in_every_second_environment():
    agent = usfa.load("trip")
    behaviour = AgentActions([agent], RandomActions(np.random.default_rng(0)), seed=0)
    batch = source("trip").batch(list(range(8)), 1.0)
    w = agent.training_tasks[np.arange(8) // 2 % len(agent.training_tasks)]
    rewards = np.array([(batch.step(behaviour(batch)).phi * w).sum(axis=1) for _ in range(100)]).mean(axis=0)
    assert rewards[::2].min() > rewards[1::2].max()


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(("share", "acting"), [(0.75, [0, 1, 2, 4, 5, 6]), (1.0, range(8)), (0.25, [0, 4])])
def test_agents_act_in_a_share_of_the_environments(share, acting, count):
    """The others always take action 3, which an agent never takes in 30 steps but by chance."""
    agents = [usfa.load("trip") for _ in range(count)]
    behaviour = AgentActions(agents, lambda batch: np.full(len(batch), 3), seed=0, share=share)
    batch = source("trip").batch(list(range(8)), 1.0)
    others = np.ones(8, np.bool_)
    for _ in range(30):
        action = behaviour(batch)
        others &= action == 3
        batch.step(np.where(np.take_along_axis(batch.legal, action[:, None], 1)[:, 0], action, batch.legal.argmax(1)))
    assert np.flatnonzero(~others).tolist() == list(acting)


def test_data_is_collected_with_an_agent():
    phi = usfa.learn_features("trip", "tasks:trip-train", agent="trip,trip", steps=400, console=None)
    np.testing.assert_allclose(phi.tasks, np.eye(2), atol=1e-6)


def height(observation, action, next_observation):
    return float(action == 0)


def effort(observation, action, next_observation):
    return float(action)


@pytest.fixture(scope="module")
def run_with_functions(tiny_config, tmp_path_factory):
    """A run whose φ is computed by functions of the user."""
    phi = usfa.learn_features("trip", [height, effort], learner="rewards", steps=200, console=None)
    learner = replace(tiny_config.learner, budget=8)
    evaluation = replace(tiny_config.evaluation, tasks=("trip-train",), snapshots=1, episodes=2)  # there are no tables
    config = replace(tiny_config, phi=phi, seeds=(0,), learner=learner, evaluation=evaluation)
    return usfa.train(config, tmp_path_factory.mktemp("functions") / "run", console=None)


def test_a_run_with_functions_as_rewards_is_read_and_resumed(run_with_functions):
    config = run_with_functions.config(usfa.TrainConfig)
    assert known_phi(config.phi).rewards == (f"{__name__}:height", f"{__name__}:effort")
    usfa.train(config, run_with_functions.path, existing="resume", console=None)
    assert usfa.load(run_with_functions.path).file.phi == config.phi


@pytest.mark.parametrize(("learner", "ending"), [("rewards", " --trust"), ("least-squares", "")])
def test_the_next_command_trusts_functions_that_phi_calls(learner, ending, tmp_path, capsys):
    rewards, out = f"{__name__}:height,{__name__}:effort", str(tmp_path / "phi")
    words = ["--rewards", rewards, "--steps", "200", "--learner", learner, "--out", out]
    assert main(["learn-features", "trip", *words]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith(f" train trip --phi {out}{ending}")


def changed(path, **fields):
    """Change fields of a JSON file, without its checksum."""
    found = json.loads(path.read_text()) | fields
    found.pop("checksum", None)
    path.write_text(json.dumps(found))


def test_another_process_needs_trust_for_functions_of_phi(
    run_with_functions, tmp_path, monkeypatch, capsys, as_in_a_new_process
):
    """Also `usfa evaluate` in a directory that holds the module that a received agent names."""
    copy = tmp_path / "copy"
    shutil.copytree(run_with_functions.agent, copy)
    (tmp_path / "received.py").write_text("open('ran', 'w').close()\ndef height(*_): return 1.0\neffort = height\n")
    monkeypatch.chdir(tmp_path)
    genuine = usfa.load_features(copy, trust=True)
    names = ("received:height", "received:effort")
    forged = usfa.LearnedPhi(RewardsPhi(genuine.model.spec, names), genuine.report).text
    monkeypatch.setattr(learned, "_KNOWN", {})
    changed(copy / "config.json", phi=forged)
    for rewards in (list(names), dict.fromkeys(names, 0)):
        changed(copy / "phi.json", settings={"rewards": rewards})
        assert main(["evaluate", str(copy), "--task", "1,0"]) == 2
        assert re.search(r"would be run; set trust|expected a list of texts", capsys.readouterr().err)
        assert not (tmp_path / "ran").exists()


ROOM = {"image_size": 12, "side": 4.0, "types": 2, "objects_per_type": 4, "decisions": 10, "clearance": 0.6}


@pytest.mark.parametrize(
    "settings",
    [
        {"rewards": ("tasks:trip-train",), "learner": NetworkFit(hidden=(16,), steps=600, batch=32), "steps": 300},
        {"learner": Laplacian(hidden=(16,), steps=600, batch=32), "steps": 300},
        {
            "environment": "room",
            "rewards": ("task:1,0", "task:0,1"),
            "environment_arguments": ROOM,
            "learner": NetworkFit((8,), ((4, 4, 2),), steps=600, batch=8),
            "steps": 2000,
        },
    ],
    ids=["rewards", "without rewards", "observations on the disk"],
)
@pytest.mark.filterwarnings("ignore:φ with 2 features cannot express")
def test_a_killed_run_continues_to_the_same_phi(tmp_path, monkeypatch, settings):
    config = FeaturesConfig(**{"environment": "trip", "features": 2} | settings)
    whole = usfa.learn_features(config=config, console=None)
    save = RunDirectory.save_checkpoint
    monkeypatch.setattr("usfa.phi.store.MOST_MEMORY", 100_000)

    def stop_after_saving(self, *arguments):
        save(self, *arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(RunDirectory, "save_checkpoint", stop_after_saving)
    with pytest.raises(KeyboardInterrupt):
        usfa.learn_features(config=config, out=tmp_path / "run", console=None)
    monkeypatch.undo()
    assert (tmp_path / "run" / "data.frames").exists() == (config.environment == "room")
    assert usfa.learn_features(config=config, out=tmp_path / "run", existing="resume", console=None).text == whole.text


def test_phi_without_rewards(tmp_path):
    learner = 'laplacian{"steps": 20, "hidden": [16]}'
    path = tmp_path / "run"
    assert main(["learn-features", "CartPole-v1", "--learner", learner, "--features", "3", "--out", str(path),
                 "--steps", "300"]) == 0  # fmt: skip
    phi = usfa.load_features(path)
    assert (phi.features, phi.rewards) == (3, ())
    env = usfa.make("CartPole-v1", phi=phi)
    env.reset(seed=0)
    _, features, *_, info = env.step(0)
    assert features.shape == (3,)
    assert info["scalar_reward"] == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "rewards and data are missing; expected one of them, or a learner without rewards, such as laplacian."),
        (["--rewards", "colour"], "A reward is 'colour'; expected reward, info:KEY, task:1,0, tasks:NAME, or module:"),
        (["--rewards", "task:1,0,0"], "Task [1. 0. 0.] has 3 entries; expected 2, one per feature."),
        (["--rewards", "no_module:speed"], "The module 'no_module' of the reward 'no_module:speed' cannot be imported"),
        (
            ["--rewards", "info:speed", "--steps", "100"],
            "A step has no info['speed'], which the reward 'info:speed' na",
        ),
        (
            ["--rewards", "task:10", "--features", "2"],
            "features is 2, but there are 1 rewards, which determine as many",
        ),
        (["--rewards", "task:0,0", "--steps", "200"], "The reward 'task:0,0' is 0 in all"),
        (["--data", "missing.npz"], "File missing.npz cannot be read: No such file or directory."),
        (["--data", "x.npz", "--rewards", "task:10"], "rewards and data were both given; expected one of them"),
        (["--data", "x.npz", "--learner", "rewards"], "learner is 'rewards', which needs them at every step"),
        (["--rewards", "task:10", "--learner", "magic"], "Unknown learner of φ 'magic'"),
        (["--rewards", "task:10", "--steps", "5"], "steps is 5; expected at least 100."),
        (["--rewards", "task:10", "--agent-share", "0"], "agent_share is 0.0; expected a number above 0, at most 1."),
    ],
)
def test_bad_input_is_one_sentence(words, sentence, tmp_path, capsys):
    assert main(["learn-features", "trip", *words, "--out", str(tmp_path / "run")]) == 2
    assert sentence in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "run").exists()


def test_frames_of_refused_rewards_are_removed(tmp_path, monkeypatch):
    """Observations that do not fit into memory are on disk before the rewards are known to be of no use."""
    monkeypatch.setattr("usfa.phi.store.MOST_MEMORY", 10_000)
    arguments = {"image_size": 12, "side": 5.0, "decisions": 20}
    with pytest.raises(InputError, match=r"The reward 'task:0,0,0,0' is 0 in all"):
        usfa.learn_features(
            "room", "task:0,0,0,0", steps=200, environment_arguments=arguments, out=tmp_path / "run", console=None
        )
    assert not (tmp_path / "run").exists()


def test_a_directory_without_phi_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"^phi is 'nowhere'; expected .* or the directory of a learned φ\.$"):
        usfa.TrainConfig("trip", "trip-train", phi="nowhere")
    with pytest.raises(InputError, match=r"holds no learned φ; expected one of usfa learn-features\.$"):
        usfa.TrainConfig("trip", "trip-train", phi=str(tmp_path))
    with pytest.raises(InputError, match=r"^phi is 'learned:0', which is not loaded; load it first"):
        usfa.make("trip", phi="learned:0")


def test_the_playground_shows_the_learned_phi(run):
    view = make_view(usfa.load(run.path))
    assert [feature.name for feature in view.features] == ["10", "01"]
    phi = view.step(0).phi
    np.testing.assert_allclose(phi, [1, 0], atol=1e-6)
    phi = usfa.learn_features("trip", "task:1,1", steps=200, console=None)
    env = usfa.make("trip", phi=phi)
    assert exact_mdp(env).features == 1  # tables of the learned φ


def test_environments_with_a_learned_phi_are_sent_to_other_processes(features):
    cloudpickle = pytest.importorskip("cloudpickle")
    environments = cloudpickle.loads(cloudpickle.dumps(source("trip", phi=usfa.load_features(features))))
    batch = environments.batch([0, 1], 1.0)
    np.testing.assert_allclose(batch.step(np.array([0, 6])).phi, [[1, 0], [0, 1]], atol=1e-6)
