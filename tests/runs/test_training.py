import errno
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from usfa.agents import TrainedAgent
from usfa.cli import main
from usfa.decisions import Accuracy
from usfa.errors import Diverged, InputError, Interrupted
from usfa.evaluation import accuracy_of, evaluate, read_scores
from usfa.learning import Learner
from usfa.runs import Callback, EvaluationConfig, RunDirectory, load, preset, train
from usfa.runs.scoring import measure_accuracy
from usfa.runs.training import build_agent
from usfa.tasks import task_set

TRAIN = (
    *("train", "trip-usfa", "--seeds", "0", "1", "--learner.budget", "120"),
    *("--evaluation.snapshots", "3", "--checkpoint-every", "20"),
)
RESULTS = ("scores.csv", "agent/weights.safetensors", "agent/config.json", "agent/README.md")


def results(path):
    return {name: (path / name).read_bytes() for name in RESULTS}


def small(config, **learner):
    """A config that trains in a blink."""
    return replace(
        config,
        seeds=(0, 1),
        learner=replace(config.learner, **{"budget": 12, "replay_ratio": 2, "replay_capacity": 8, **learner}),
        evaluation=replace(config.evaluation, snapshots=2),
        checkpoint_every=5,
    )


# --- what a run leaves behind ---


def test_a_run_leaves_all_its_files(tiny_run, tiny_config):
    files = {str(path.relative_to(tiny_run.path)) for path in tiny_run.path.rglob("*") if path.is_file()}
    snapshots = {f"checkpoints/snapshot-{milestone:010d}.usfa" for milestone in (0, 10, 20, 30, 40)}
    states = {name for name in files if name.startswith("checkpoints/state-")}
    assert files == {"config.json", "manifest.json", "metrics.jsonl", *RESULTS, *snapshots, *states}
    assert len(states) == 1
    assert tiny_run.config(type(tiny_config)) == tiny_config


def test_scores_have_every_snapshot_seed_candidate_set_and_task(tiny_run):
    scores = read_scores(tiny_run.scores)
    key = ["candidates", "rule", "seed", "episodes", "task_set", "task"]
    each = 2 * (51 + 51 + 2)  # seeds, tasks
    assert scores.groupby("rule").size().to_dict() == {"gpi": 5 * 2 * each, "cautious": 2 * each, "single": each}
    assert not scores.duplicated(key).any()
    assert sorted(scores.episodes.unique()) == [0, 10, 20, 30, 40]
    assert scores.agent.unique().tolist() == ["usfa"]
    assert (scores.score <= scores.optimal + 1e-9).all()
    assert (scores.frames >= scores.episodes).all()


def test_final_rules_are_for_the_last_snapshot(tiny_run):
    """And the best single policy is told where there are several to choose from."""
    others = read_scores(tiny_run.scores).query("rule != 'gpi'")
    assert others.snapshot.unique().tolist() == [40]
    assert others.query("rule == 'single'").candidates.unique().tolist() == ["sample:5"]
    assert others.query("rule == 'cautious'").candidates.unique().tolist() == ["task", "sample:5"]


def test_rules_can_be_chosen(tmp_path, tiny_config):
    """One that is among the final rules as well is scored once."""
    evaluation = replace(
        tiny_config.evaluation, rules=("follow", "cautious:2"), final_rules=("gpi", "follow"), tasks=("1,1",)
    )
    config = small(replace(tiny_config, evaluation=evaluation))
    scores = read_scores(train(config, tmp_path / "run").scores)
    assert scores.groupby("rule").snapshot.unique().map(list).to_dict() == {
        "follow": [0, 6, 12],
        "cautious:2": [0, 6, 12],
        "gpi": [12],
    }
    assert not scores.duplicated(["candidates", "rule", "seed", "snapshot", "task"]).any()


@pytest.mark.parametrize(
    ("rules", "final_rules", "sentence"),
    [
        ((), ("gpi",), r"^evaluation\.rules is empty; expected at least one decision rule, such as 'gpi'\.$"),
        (("gpi",), ("cautious", "cautious"), r"^evaluation\.final_rules is .*; expected each once\.$"),
        (("cautious", "cautious:1.0"), (), r"^evaluation\.rules is .*; expected each once\.$"),
        (("gpy",), (), r"^Unknown rule 'gpy': did you mean 'gpi'\?"),
        (("gpi",), ("cautious:-1",), r"^The rule is 'cautious:-1'; expected a number from 0 after the colon"),
    ],
)
def test_rules_are_checked_before_anything_is_learned(tiny_config, rules, final_rules, sentence):
    with pytest.raises(InputError, match=sentence):
        replace(tiny_config.evaluation, rules=rules, final_rules=final_rules)


# --- accuracy ---


def test_an_accuracy_for_each_seed(tiny_run, tiny_config):
    """As measured again from the file; 40 episodes teach little, and the two runs are wrong in different ways."""
    agents = [load(tiny_run.path, seed) for seed in (0, 1)]
    assert [agent.accuracy for agent in agents] == list(agents[0].file.accuracy)
    assert agents[0].accuracy != agents[1].accuracy
    for agent in agents:
        assert agent.accuracy == accuracy_of(agent)
        assert len(agent.accuracy.step_error) == 2
        assert min(agent.accuracy.step_error) > 0


def test_accuracy_is_that_of_the_trained_and_not_of_the_first_parameters(tiny_run, tiny_config):
    agent = load(tiny_run.path)
    first, _ = tiny_run.load_snapshot(0)
    untrained = TrainedAgent(agent.file, {name: x[0] for name, x in first.items()}, 0)
    assert accuracy_of(untrained) != agent.accuracy


def test_accuracy_is_measured_with_a_twentieth_of_the_frames(tmp_path, tiny_config, monkeypatch):
    asked = []

    def measure(agent, network, environments, learned, gamma, frames, rng):
        asked.append((learned, gamma, frames, rng.bit_generator.state))
        return Accuracy((0.1, 0.2), ((0.0, frames / 100),))

    monkeypatch.setattr("usfa.runs.scoring.measured_accuracy", measure)
    run = train(small(tiny_config, budget=80), tmp_path / "run")
    _, counters = run.load_snapshot(80)
    assert [frames for _, _, frames, _ in asked] == [frames // 20 for frames in counters["frames"]]
    assert [accuracy.optimism for accuracy in load(run.path).file.accuracy] == [
        ((0.0, frames // 20 / 100),) for frames in counters["frames"]
    ]
    assert all(gamma == tiny_config.learner.gamma for _, gamma, _, _ in asked)
    assert asked[0][3] != asked[1][3]
    learned = asked[0][0]
    assert learned.training_tasks.tolist() == [[1, 0], [0, 1]]
    assert learned.distance(np.array([[0.5, 0.5], [1.0, 3.0]])).tolist() == [0, 2]


def test_a_uvfa_has_no_accuracy_and_one_rule(tmp_path):
    run = train(small(preset("trip-uvfa")), tmp_path / "run")
    assert load(run.path).file.accuracy == ()
    assert read_scores(run.scores).rule.unique().tolist() == ["gpi"]


def test_metrics_are_a_line_for_every_20_updates(tiny_run):
    lines = [json.loads(line) for line in tiny_run.metrics.read_text().splitlines()]
    assert [line["updates"] for line in lines] == [20 * (k + 1) for k in range(len(lines))]
    assert len(lines) >= 2
    for line in lines:
        assert line["loss"] > 0
        assert line["frames"] >= line["episodes"] > 0
        assert len(line["episode_phi"]) == 2


def test_model_card_tells_the_final_scores(tiny_run):
    scores = read_scores(tiny_run.scores)
    of_set = scores[(scores.episodes == 40) & (scores.candidates == "sample:5") & (scores.task_set == "trip-diagonal")]
    card = (tiny_run.agent / "README.md").read_text()
    for rule in ("gpi", "cautious", "single"):
        last = of_set[of_set.rule == rule]
        assert f"| score, C = sample:5, {rule}, tasks trip-diagonal | {last.score.mean():.5f} |" in card
        gap = (last.optimal - last.score).mean()
        assert f"| gap, C = sample:5, {rule}, tasks trip-diagonal | {gap:.5f} |" in card


def test_the_agent_tells_its_frames_as_the_mean_over_seeds(tiny_run):
    last = read_scores(tiny_run.scores).query("episodes == 40")
    frames = last.groupby("seed").frames.first()
    assert frames[0] != frames[1]
    assert load(tiny_run.path).file.frames == round(frames.mean())


def test_the_agent_tells_the_precision_that_was_measured(tmp_path, monkeypatch, tiny_config):
    monkeypatch.setattr("usfa.runs.training.choose_precision", lambda work: "bf16")
    config = replace(small(tiny_config), precision="auto")
    assert load(train(config, tmp_path / "run").path).file.training["precision"] == "bf16"


def test_the_agent_is_the_last_snapshot(tiny_run):
    parameters, _ = tiny_run.load_snapshot(40)
    for seed, index in ((0, 0), (1, 1)):
        agent = load(tiny_run.path, seed)
        for name, tensor in agent.network.state_dict().items():
            assert torch.equal(tensor, parameters[name][index])


def test_snapshots_differ_and_the_first_is_before_training(tiny_run, tiny_config):
    agent = build_agent(tiny_config)
    learner = Learner(agent, tiny_config.learner, tiny_config.environments, tiny_config.tasks, tiny_config.seeds)
    first, counters = tiny_run.load_snapshot(0)
    assert counters == {"frames": [0, 0], "episodes": [0, 0]}
    for name, tensor in learner.network.state.items():
        assert torch.equal(first[name], tensor)
    later, counters = tiny_run.load_snapshot(20)
    assert counters["episodes"] == [20, 20]
    assert any(not torch.equal(first[name], later[name]) for name in first)


def test_training_leaves_the_threads_of_torch_alone(tmp_path, tiny_config):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        train(replace(small(tiny_config), threads=1), tmp_path / "run")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", ["trip-uvfa", "one-state-usfa"])
def test_other_agents_and_environments_train(tmp_path, name):
    config = small(preset(name))
    run = train(config, tmp_path / "run", name="mine")
    scores = read_scores(run.scores)
    assert scores.agent.unique().tolist() == ["mine"]
    tasks = scores.groupby("task_set").task.nunique().sum()
    by_paper = scores[scores.rule == "gpi"]
    assert len(by_paper) == 3 * 2 * len(config.evaluation.candidates) * tasks
    sets = {"cautious": len(config.evaluation.candidates), "single": len(config.evaluation.candidates) - 1}
    expected = {rule: 2 * count * tasks for rule, count in sets.items()} if config.agent == "usfa" else {}
    assert scores[scores.rule != "gpi"].groupby("rule").size().to_dict() == expected


def test_frames_can_be_the_budget(tmp_path, tiny_config):
    config = small(tiny_config, budget_unit="frames", trajectory_length=2, environments=2)
    scores = read_scores(train(config, tmp_path / "run").scores)
    assert sorted(scores.frames.unique()) == [0, 8, 12]  # 4 frames per update; the milestones are 0, 6, 12


def test_tasks_that_do_not_fit_the_environment_leave_nothing(tmp_path, tiny_config):
    config = replace(tiny_config, training_tasks="1,0,0")
    with pytest.raises(InputError, match=r"^The training tasks '1,0,0' have 3 entries; expected 2, the number of"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("milestone", "candidates", "rule"),
    [
        (0, "task", "gpi"),
        (0, "sample:5", "gpi"),
        (40, "task", "gpi"),
        (40, "task", "cautious"),
        (40, "sample:5", "gpi"),
        (40, "sample:5", "cautious"),
        (40, "sample:5", "single"),
    ],
)
@pytest.mark.parametrize("tasks", ["trip-directions", "trip-diagonal", "trip-train"])
def test_scores_are_those_of_the_frozen_agents(tiny_run, milestone, candidates, rule, tasks):
    """Also of those before the last, with candidates that follow the seed of the run."""
    scores = read_scores(tiny_run.scores)
    scores = scores[scores.rule == rule]
    chosen = (scores.snapshot == milestone) & (scores.candidates == candidates) & (scores.task_set == tasks)
    parameters, _ = tiny_run.load_snapshot(milestone)
    for run, seed in enumerate((0, 1)):
        agent = TrainedAgent(load(tiny_run.path).file, {name: x[run] for name, x in parameters.items()}, seed)
        z = agent.candidates(task_set(tasks), candidates, np.random.default_rng([seed, 1])).z
        found = scores[chosen & (scores.seed == seed)]
        for task, score, own in zip(found.task, found.score, z, strict=True):
            assert score == pytest.approx(evaluate(agent, task, own, rule).score[0])


# --- training that goes wrong ---


def diverging(config, checkpoint_every):
    return replace(small(config, learning_rate=30.0, budget=100_000), checkpoint_every=checkpoint_every)


def test_a_run_that_diverges_keeps_its_last_good_state(tmp_path, tiny_config):
    config = diverging(tiny_config, checkpoint_every=1)
    with pytest.raises(Diverged) as error:
        train(config, tmp_path / "run")
    said = re.fullmatch(
        r"The loss of seed [01] is \S+ after (\d+) updates; try a lower learning_rate, or set clip\. "
        r"The state at update (\d+) is kept\.",
        str(error.value),
    )
    went_wrong, kept = map(int, said.groups())
    assert kept == went_wrong - 1
    states = sorted(path.name for path in (tmp_path / "run" / "checkpoints").glob("state-*"))
    assert states[-1] == f"state-{kept:010d}.usfa"
    tensors, values = RunDirectory(tmp_path / "run").load_checkpoint()
    assert values["learner"]["updates"] == kept
    finite = (x.isfinite().all() for name, x in tensors.items() if x.is_floating_point() and "reward" not in name)
    assert all(finite)
    assert not (tmp_path / "run" / "scores.csv").exists()
    assert not (tmp_path / "run" / "agent").exists()


def test_a_run_that_diverges_at_once_has_saved_nothing(tmp_path, tiny_config):
    with pytest.raises(Diverged, match=r"; try a lower learning_rate, or set clip\. Nothing was saved yet\.$"):
        train(diverging(tiny_config, checkpoint_every=100_000), tmp_path / "run")


def test_a_state_that_is_not_finite_is_not_saved(tmp_path, tiny_config, monkeypatch):
    """Not even if the loss says nothing."""
    step = Learner.step

    def poisoned(self):
        update = step(self)
        if self.updates == 7:
            with torch.no_grad():
                self.network.state["output.bias"][1, 0] = torch.inf
        return update

    monkeypatch.setattr(Learner, "step", poisoned)
    config = replace(small(tiny_config), checkpoint_every=1)
    with pytest.raises(
        Diverged, match=r"^The parameter output\.bias is not finite after 7 updates; .* update 6 is kept"
    ):
        train(config, tmp_path / "run")
    assert RunDirectory(tmp_path / "run").load_checkpoint()[1]["learner"]["updates"] == 6


def test_divergence_is_one_sentence_on_the_command_line(tmp_path, capsys):
    words = ["train", "trip-usfa", "--seeds", "0", "--learner.learning-rate", "30", "--checkpoint-every", "1"]
    assert main([*words, "--out", str(tmp_path / "run")]) == 2
    line = capsys.readouterr().err.strip().splitlines()[-1]  # behind the progress bar
    assert re.search(r"^usfa: The loss of seed 0 is .* The state at update \d+ is kept\.$", line)


# --- what is logged ---


def logged_updates(monkeypatch):
    """A list that grows with the learners' updates."""
    step, found = Learner.step, []

    def watched(self):
        found.append(step(self))
        return found[-1]

    monkeypatch.setattr(Learner, "step", watched)
    return found


def test_fixed_tasks_have_their_returns_in_the_log(tmp_path, tiny_config, monkeypatch):
    """A mean over the episodes of each task in twenty rounds, of all runs and environments that have it."""
    found = logged_updates(monkeypatch)
    config = small(tiny_config, tasks="fixed", environments=4, updates_per_round=2, replay_ratio=0, budget=120)
    config = replace(config, training_tasks="1,0;0.5,-1")
    run = train(config, tmp_path / "run")
    lines = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    assert len(lines) == len(found) // 20 >= 2
    for number, line in enumerate(lines):
        returns = {"10": [], "0.5,-1": []}
        for update in found[20 * number : 20 * (number + 1)]:
            for phi, environment in zip(update.episode_phi, update.episode_environment, strict=True):
                if environment in {0, 2, 4, 6}:
                    returns["10"].append(phi[0])
                else:
                    returns["0.5,-1"].append(0.5 * phi[0] - phi[1])
        assert line["returns"] == {task: pytest.approx(sum(each) / len(each)) for task, each in returns.items()}
        assert line["updates"] == 40 * (number + 1)
        assert line["gradient"] == pytest.approx(
            sum(float(update.gradient.mean()) for update in found[20 * number : 20 * (number + 1)]) / 20
        )


def test_other_tasks_have_no_returns_of_their_own_in_the_log(tiny_run):
    assert {json.loads(line)["returns"] for line in tiny_run.metrics.read_text().splitlines()} == {None}


# --- precision ---


def choose(precision, asked):
    """A stand-in for the measurement, which does the work once with each."""

    def chosen(work):
        work("fp32")
        work("bf16")
        asked.append(precision)
        return precision

    return chosen


def test_the_measured_precision_is_that_of_the_whole_run(tmp_path, tiny_config, monkeypatch):
    """And measuring does not disturb the run: it is the one that was told so."""
    asked = []
    monkeypatch.setattr("usfa.runs.training.choose_precision", choose("bf16", asked))
    weights = {}
    for precision in ("auto", "bf16", "fp32"):
        run = train(replace(small(tiny_config), precision=precision), tmp_path / precision)
        weights[precision] = (run.agent / "weights.safetensors").read_bytes()
    assert asked == ["bf16"]
    assert weights["auto"] == weights["bf16"] != weights["fp32"]


def test_a_resumed_run_keeps_its_precision(tmp_path, tiny_config, monkeypatch):
    """Measured again it might be another, and the run would not be the same."""
    config = replace(small(tiny_config), precision="auto")
    asked = []
    monkeypatch.setattr("usfa.runs.training.choose_precision", choose("bf16", asked))
    undisturbed = train(config, tmp_path / "undisturbed")
    train_with_power_cut(monkeypatch, config, tmp_path / "run", 7)
    monkeypatch.setattr("usfa.runs.training.choose_precision", choose("fp32", asked))
    train(config, tmp_path / "run", "resume")
    assert asked == ["bf16", "bf16"]
    assert results(tmp_path / "run") == results(undisturbed.path)


# --- interrupted and resumed ---


class PowerCut(Exception):
    pass


def train_with_power_cut(monkeypatch, config, path, after):
    """Training that fails after so many updates."""
    step = Learner.step

    def failing(self):
        if self.updates == after:
            raise PowerCut
        return step(self)

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "step", failing)
        with pytest.raises(PowerCut):
            train(config, path)


@pytest.mark.parametrize("after", [3, 15, 29, 44])
def test_resume_after_a_failure_gives_the_same_bytes(tmp_path, monkeypatch, tiny_config, tiny_run, after):
    """Before the first checkpoint, at one, in between, and close to the end."""
    train_with_power_cut(monkeypatch, tiny_config, tmp_path / "run", after)
    train(tiny_config, tmp_path / "run", "resume")
    assert results(tmp_path / "run") == results(tiny_run.path)


def test_an_environment_that_cannot_be_saved_resumes_in_the_middle_of_its_episodes(tmp_path, tiny_config):
    """Ctrl-C between two checkpoints saves a third, and nothing differs from an uninterrupted run."""

    class CtrlC(Callback):
        def on_round(self, training):
            if training.learner.rounds == 7:
                signal.raise_signal(signal.SIGINT)

    config = small(tiny_config, budget=40, trajectory_length=2)
    quick = EvaluationConfig(final_rules=(), snapshots=2, episodes=2, measure_errors=False)
    config = replace(config, environment="fake_environments:Walk", evaluation=quick)
    train(config, tmp_path / "undisturbed")
    with pytest.raises(Interrupted, match=r"^Stopped after \d+ updates; the same command with --resume continues\.$"):
        train(config, tmp_path / "run", callbacks=[CtrlC()])
    train(config, tmp_path / "run", "resume")
    assert results(tmp_path / "run") == results(tmp_path / "undisturbed")


def test_metrics_of_a_resumed_run_have_no_line_twice(tmp_path, monkeypatch, tiny_config, tiny_run):
    train_with_power_cut(
        monkeypatch, tiny_config, tmp_path / "run", 43
    )  # the line of update 40 comes after the checkpoint of update 30
    with (tmp_path / "run" / "metrics.jsonl").open("a") as metrics:
        metrics.write('{"updates": 43, "los')  # torn
    run = train(tiny_config, tmp_path / "run", "resume")
    expected = [json.loads(line)["updates"] for line in tiny_run.metrics.read_text().splitlines()]
    assert [json.loads(line)["updates"] for line in run.metrics.read_text().splitlines()] == expected


@pytest.mark.parametrize("part", ["measure_accuracy", "score_snapshots"])
def test_what_is_trained_is_not_trained_again_when_scoring_fails(tmp_path, monkeypatch, tiny_config, tiny_run, part):
    def failing(*_):
        raise PowerCut

    with monkeypatch.context() as patch:
        patch.setattr(f"usfa.runs.training.{part}", failing)
        with pytest.raises(PowerCut):
            train(tiny_config, tmp_path / "run")
    monkeypatch.setattr(Learner, "step", failing)
    train(tiny_config, tmp_path / "run", "resume")
    assert results(tmp_path / "run") == results(tiny_run.path)


# --- a full disk ---


def test_a_disk_without_room_for_the_run_is_said_before_anything_is_learned(tmp_path, monkeypatch, tiny_config):
    """Past trajectories are most of a state: three states of 2 runs with 20 one-step trajectories of 2 numbers here."""
    monkeypatch.setattr("usfa.files.shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    monkeypatch.setattr(RunDirectory, "opened", lambda path, *_: nullcontext(RunDirectory(path)))  # writes a little
    (tmp_path / "run").mkdir()
    wanted = []
    for capacity in (20, 200_000):
        config = small(tiny_config, replay_capacity=capacity)
        with pytest.raises(
            InputError, match=r"^The disk of .* has 0\.0 MiB left; expected at least .* continue with --resume\.$"
        ) as error:
            train(config, tmp_path / "run")
        wanted.append(float(re.search(r"at least (\d+\.\d)", str(error.value)).group(1)))
    past = 1.1 * 3 * 2 * 200_000 * 2 * 2 * 4 / 2**20
    assert wanted[1] - wanted[0] == pytest.approx(past, rel=0.01)


def test_what_is_on_the_disk_already_is_not_asked_for_again(tmp_path, monkeypatch, tiny_config, tiny_run):
    """Half of what a whole run needs is enough for the second half of it."""
    config = small(tiny_config, replay_capacity=2000)
    asked = []
    monkeypatch.setattr("usfa.runs.training.require_space", lambda _, size: asked.append(size))
    train_with_power_cut(monkeypatch, config, tmp_path / "run", 10)
    held = RunDirectory(tmp_path / "run").bytes_of_checkpoints
    train(config, tmp_path / "run", "resume")
    assert held > 0
    assert asked == [asked[0], asked[0] - held]
    (tmp_path / "run" / "scores.csv").unlink()
    with pytest.warns(UserWarning, match=r"scores\.csv cannot be read: .* It is made again\.$"):
        train(config, tmp_path / "run", "resume")  # only scoring is left
    assert len(asked) == 2


def test_a_disk_that_fills_up_later_is_one_sentence(tmp_path, monkeypatch, tiny_config):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(RunDirectory, "save_checkpoint", full)
    with pytest.raises(
        InputError,
        match=r"^A file could not be written: No space left on device; .* Nothing was saved yet\.$",
    ):
        train(tiny_config, tmp_path / "run")


def test_failure_between_agent_and_scores_is_made_good(tmp_path, monkeypatch, tiny_config, tiny_run):
    def full_disk(*_):
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(RunDirectory, "write", full_disk)
        with pytest.raises(OSError, match="No space"):
            train(tiny_config, tmp_path / "run")
    train(tiny_config, tmp_path / "run", "resume")
    assert results(tmp_path / "run") == results(tiny_run.path)


def test_a_torn_checkpoint_costs_time_only(tmp_path, monkeypatch, tiny_config, tiny_run):
    train_with_power_cut(monkeypatch, tiny_config, tmp_path / "run", 40)
    newest = max((tmp_path / "run" / "checkpoints").glob("state-*"))
    assert newest.name == "state-0000000030.usfa"
    newest.write_bytes(newest.read_bytes()[:1000])
    with pytest.warns(UserWarning, match=r"is torn .* The checkpoint before it is used\.$"):
        train(tiny_config, tmp_path / "run", "resume")
    assert results(tmp_path / "run") == results(tiny_run.path)


def test_resume_while_some_runs_wait_for_others_at_a_snapshot(tmp_path, monkeypatch, tiny_config, tiny_run):
    """Runs reach a milestone at different updates; the parameters of the early ones are in the checkpoint."""
    config, path = replace(tiny_config, checkpoint_every=1), tmp_path / "run"
    reached = {seed: _updates_until(tiny_config, seed, 20) for seed in (0, 1)}
    between = max(reached.values()) - 1
    assert between >= min(reached.values())
    train_with_power_cut(monkeypatch, config, path, between)
    run = train(config, path, "resume")
    assert run.scores.read_bytes() == tiny_run.scores.read_bytes()


def _updates_until(config, seed, episodes):
    learner = Learner(build_agent(config), config.learner, config.environments, config.tasks, config.seeds)
    while learner.episodes[config.seeds.index(seed)] < episodes:
        learner.step()
    return learner.updates


def test_a_finished_run_keeps_one_state_without_its_past(tmp_path, monkeypatch, tiny_config, tiny_run):
    def states(path):
        tensors, _ = RunDirectory(path).load_checkpoint()
        return len(list((path / "checkpoints").glob("state-*"))), any(name.startswith("replay/") for name in tensors)

    assert states(tiny_run.path) == (1, False)
    train_with_power_cut(monkeypatch, tiny_config, tmp_path / "run", 35)
    assert states(tmp_path / "run") == (2, True)


def test_resume_of_a_finished_run_does_nothing(tiny_config, tiny_run, monkeypatch):
    before = {path: path.stat().st_mtime_ns for path in tiny_run.path.rglob("*")}
    monkeypatch.setattr(Learner, "step", lambda _: pytest.fail("it trained again"))
    train(tiny_config, tiny_run.path, "resume")
    assert {path: path.stat().st_mtime_ns for path in tiny_run.path.rglob("*")} == before


# --- damaged results ---


@pytest.fixture
def copied_run(tmp_path, tiny_run):
    shutil.copytree(tiny_run.path, tmp_path / "run")
    return RunDirectory(tmp_path / "run")


@pytest.mark.parametrize("damage", ["missing", "torn"])
def test_a_lost_snapshot_costs_its_rows_only(tmp_path, monkeypatch, tiny_config, tiny_run, damage):
    def lose(*arguments):
        path = tmp_path / "run" / "checkpoints" / "snapshot-0000000020.usfa"
        path.unlink() if damage == "missing" else path.write_bytes(path.read_bytes()[:99])
        return measure_accuracy(*arguments)

    monkeypatch.setattr("usfa.runs.training.measure_accuracy", lose)
    with pytest.warns(UserWarning, match=r"^The scores lack snapshot 20: .*snapshot-0000000020\.usfa"):
        run = train(tiny_config, tmp_path / "run")
    expected = read_scores(tiny_run.scores).query("snapshot != 20").reset_index(drop=True)
    pd.testing.assert_frame_equal(read_scores(run.scores), expected, check_exact=True)
    assert (run.agent / "config.json").read_bytes() == (tiny_run.agent / "config.json").read_bytes()


def test_without_the_last_snapshot_there_is_still_an_agent(tmp_path, monkeypatch, tiny_config, tiny_run):
    def lose(*arguments):
        for path in (tmp_path / "run" / "checkpoints").glob("snapshot-*"):
            path.unlink()
        return measure_accuracy(*arguments)

    monkeypatch.setattr("usfa.runs.training.measure_accuracy", lose)
    with (
        pytest.warns(UserWarning, match=r"^The scores lack snapshot"),
        pytest.raises(InputError, match=r"has no intact snapshot to score; its agent is in "),
    ):
        train(tiny_config, tmp_path / "run")
    weights = (tmp_path / "run" / "agent" / "weights.safetensors").read_bytes()
    assert weights == (tiny_run.agent / "weights.safetensors").read_bytes()
    assert load(tmp_path / "run").file.scores == {}


def test_the_agent_is_saved_before_anything_is_measured(tmp_path, monkeypatch, tiny_config, tiny_run):
    def failing(*_):
        raise PowerCut

    monkeypatch.setattr("usfa.runs.training.measure_accuracy", failing)
    with pytest.raises(PowerCut):
        train(tiny_config, tmp_path / "run")
    assert load(tmp_path / "run").file.accuracy == ()
    weights = (tmp_path / "run" / "agent" / "weights.safetensors").read_bytes()
    assert weights == (tiny_run.agent / "weights.safetensors").read_bytes()


@pytest.mark.parametrize("lost", ["agent", "scores.csv"])
def test_a_repair_that_fails_leaves_an_agent(copied_run, monkeypatch, tiny_config, tiny_run, lost):
    def failing(*_):
        raise PowerCut

    path = copied_run.path / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    monkeypatch.setattr("usfa.runs.training.measure_accuracy", failing)
    with pytest.warns(UserWarning, match=r" It is made again\.$"), pytest.raises(PowerCut):
        train(tiny_config, copied_run.path, "resume")
    weights = (copied_run.agent / "weights.safetensors").read_bytes()
    assert weights == (tiny_run.agent / "weights.safetensors").read_bytes()


@pytest.mark.parametrize("name", ["agent/weights.safetensors", "agent/config.json", "scores.csv"])
@pytest.mark.parametrize("damage", ["missing", "torn"])
def test_resume_repairs_the_results_of_a_finished_run(copied_run, monkeypatch, tiny_config, tiny_run, name, damage):
    path = copied_run.path / name
    path.unlink() if damage == "missing" else path.write_bytes(path.read_bytes()[:-9])
    monkeypatch.setattr(Learner, "step", lambda _: pytest.fail("it trained again"))
    with pytest.warns(UserWarning, match=rf"{path.name}.* It is made again\.$"):
        train(tiny_config, copied_run.path, "resume")
    assert results(copied_run.path) == results(tiny_run.path)


@pytest.mark.parametrize("waiting", [[None], [30, 40, 50]])
def test_snapshots_that_the_settings_do_not_have_are_refused(tmp_path, monkeypatch, tiny_config, waiting):
    train_with_power_cut(monkeypatch, tiny_config, tmp_path / "run", 15)
    run = RunDirectory(tmp_path / "run")
    tensors, values = run.load_checkpoint()
    values["snapshots"]["waiting"] = waiting
    run.save_checkpoint(values["learner"]["updates"], tensors, values)
    with pytest.raises(InputError, match=r"does not fit its configuration: ValueError: snapshots .* are waiting"):
        train(tiny_config, tmp_path / "run", "resume")


def test_what_cannot_be_repaired_is_one_sentence(copied_run, tiny_config):
    (copied_run.agent / "weights.safetensors").unlink()
    for path in (copied_run.path / "checkpoints").glob("state-*"):
        path.unlink()
    with pytest.raises(InputError, match=r"There is no checkpoint to make it again from\.$"):
        train(tiny_config, copied_run.path, "resume")


# --- real processes and real signals ---


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    path = tmp_path_factory.mktemp("undisturbed") / "run"
    assert main([*TRAIN, "--out", str(path)]) == 0
    return path


def disturbed(path, number):
    """Start a training process, send it a signal after its first checkpoint; its exit code and last words."""
    words = [sys.executable, "-m", "usfa", *TRAIN, "--out", str(path)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while not list((path / "checkpoints").glob("state-*.usfa")):
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert not (path / "scores.csv").exists(), "the run was over before the signal"
    return process.returncode, said


def test_kill_9_and_resume_give_the_same_bytes(tmp_path, undisturbed):
    path = tmp_path / "run"
    code, _ = disturbed(path, signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert main([*TRAIN, "--out", str(path), "--resume"]) == 0
    assert results(path) == results(undisturbed)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["by ctrl-c", "by the system"])
def test_a_stopped_run_says_how_to_go_on_and_resume_gives_the_same_bytes(tmp_path, undisturbed, number):
    path = tmp_path / "run"
    code, said = disturbed(path, number)
    assert code == 130
    line = said.strip().splitlines()[-1]  # behind the progress bars
    assert re.fullmatch(r"usfa: Stopped after \d+ updates; .* --resume continues\.", line)
    assert main([*TRAIN, "--out", str(path), "--resume"]) == 0
    assert results(path) == results(undisturbed)
