"""The budget rule: steps, time or both become settings; time spent survives a resume."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fake_environments
from usfa.cli import main
from usfa.environments import EnvironmentSource
from usfa.errors import InputError
from usfa.evaluation import measuring_steps
from usfa.learning import Learner, learner
from usfa.runs import budget, build_agent, settings, settings_for
from usfa.runs.budget import SCORING_SHARE, Costs, measured_costs, plan, updates_per_step
from usfa.runs.settings import _IMAGES

FAST = Costs(step=1e-5, acting=1e-5, update=1e-3, episode=50)
SLOW = Costs(step=0.005, acting=1e-4, update=0.01, episode=50)


@pytest.fixture
def usual(monkeypatch):
    """The default settings of an environment."""
    monkeypatch.setattr(settings, "RANDOM_STEPS", 50)
    return settings_for("fake_environments:Walk")


def transitions(learner):
    """Per update."""
    return learner.trajectories_per_round * learner.trajectory_length // learner.updates_per_round


def test_many_steps_keep_the_usual_settings(usual):
    for frames in (300_000, 400_000, 5_000_000):
        planned = plan(usual, frames, None, FAST).config
        assert replace(planned.learner, budget=300_000) == usual.learner
        assert planned.network == usual.network


def test_few_steps_have_more_updates_and_fewer_environments(usual):
    learner = plan(usual, 5_400, None, FAST).config.learner
    assert updates_per_step(learner) == 1
    assert learner.environments == 8
    assert (learner.tasks, learner.task_duration) == ("task|simplex", "episode")
    assert transitions(learner) == transitions(usual.learner)
    assert plan(usual, 5_400, None, FAST).config.network.members == 2


@pytest.mark.parametrize(("frames", "more"), [(200_000, 1.5), (100_000, 3), (75_000, 3)])
def test_fewer_steps_than_usual_have_more_updates_in_total(usual, frames, more):
    planned = plan(usual, frames, None, FAST).config
    updates = frames * updates_per_step(planned.learner)
    assert updates == pytest.approx(more * 300_000 * updates_per_step(usual.learner), rel=0.05)
    assert planned.learner.priority_exponent == usual.learner.priority_exponent
    assert planned.network == replace(usual.network, members=2)
    assert (planned.learner.repeat_exponent, planned.learner.repeat_share) == (2.0, 0.25)


def test_an_update_per_step_keeps_priorities_if_the_steps_are_not_few(usual):
    learner = plan(usual, 30_000, None, FAST).config.learner
    assert updates_per_step(learner) == 1
    assert learner.priority_exponent == usual.learner.priority_exponent
    assert learner.tasks == usual.learner.tasks


def test_images_have_as_many_updates_as_usual_and_no_repeated_actions(usual):
    base = replace(usual, learner=_IMAGES)
    learner = plan(base, 250_000, None, FAST, images=True).config.learner
    assert updates_per_step(learner) == pytest.approx(4 * updates_per_step(_IMAGES), rel=0.05)
    assert learner.repeat_exponent is None


def test_a_time_without_steps_has_as_many_updates_as_usual(usual):
    """If time is short, more steps are worth more than more updates for each."""
    costs = Costs(step=2e-3, acting=1e-4, update=4e-3, episode=50)
    learner = plan(usual, None, 6, costs).config.learner
    steps = 0.9 * 360 / (costs.step + costs.acting + updates_per_step(learner) * costs.update)
    assert 1 < 300_000 / steps < 4
    assert steps * updates_per_step(learner) == pytest.approx(18_750, rel=0.05)


@pytest.mark.parametrize("images", [False, True])
def test_every_number_of_steps_gives_valid_settings_with_the_usual_batches(usual, images):
    base = replace(usual, learner=_IMAGES) if images else usual
    for frames in np.geomspace(1, 10**7, 60).astype(int).tolist():
        learner = plan(base, frames, None, FAST, images=images).config.learner  # LearnerConfig checks itself
        assert transitions(learner) == transitions(base.learner)
        assert learner.budget == frames


@pytest.mark.parametrize("minutes", [0.5, 2, 600])
@pytest.mark.parametrize("costs", [FAST, SLOW, Costs(1.0, 1e-4, 0.01, 20)])
def test_minutes_are_divided_between_training_and_scoring(usual, minutes, costs):
    config = plan(usual, None, minutes, costs).config
    assert config.learner.budget_unit == "seconds"
    assert 0.5 * 60 * minutes <= config.learner.budget <= 60 * minutes
    if config.evaluation.measure_errors:
        spent = measuring_steps(config.learner.gamma, 0) * costs.step
        assert spent <= SCORING_SHARE * 60 * minutes


def test_beside_steps_less_time_first_takes_updates_and_then_steps(usual):
    relaxed, hurried, impossible = (plan(usual, 10_000, minutes, SLOW).config.learner for minutes in (60, 1.5, 0.1))
    assert updates_per_step(relaxed) == 1
    assert 1 / 16 < updates_per_step(hurried) < updates_per_step(relaxed)
    assert updates_per_step(impossible) == pytest.approx(1 / 16, rel=0.3)
    assert {relaxed.budget, hurried.budget, impossible.budget} == {10_000}
    assert relaxed.time_limit > hurried.time_limit > impossible.time_limit
    assert (relaxed.tasks, impossible.tasks) == ("task|simplex", "simplex")  # the latter has no update per step


def test_time_for_some_of_the_updates_is_used(usual):
    config = plan(usual, 100_000, 17, SLOW).config
    density = updates_per_step(config.learner)
    assert 1.1 / 16 < density < 0.5
    assert 100_000 * (SLOW.step + SLOW.acting + density * SLOW.update) == pytest.approx(
        config.learner.time_limit, rel=0.05
    )


@pytest.mark.parametrize("minutes", [0.2, 0.5, 1, 1.05, 2])
def test_announced_steps_are_those_that_fit_into_the_time(usual, minutes):
    planned = plan(usual, 10_000, minutes, SLOW)
    learner = planned.config.learner
    per_step = SLOW.step + SLOW.acting + updates_per_step(usual.learner) * SLOW.update
    fitting = min(10_000, int(learner.time_limit / per_step))
    assert f"about {fitting:,} steps" in planned.sentence
    more_updates = updates_per_step(learner) > 1.3 * updates_per_step(usual.learner)  # beyond what rounding does
    assert not more_updates or fitting == 10_000


def test_steps_that_there_is_no_time_for_are_neither_promised_nor_waited_for(usual):
    """About ten thousand of a million steps can be made in a minute."""
    planned = plan(usual, 1_000_000, 1, SLOW)
    learner = planned.config.learner
    assert "about 10," in planned.sentence
    assert planned.config.checkpoint_every * 20 <= 10_000 // (learner.environments * learner.trajectory_length)


def test_quick_steps_get_more_of_the_time_than_more_updates_for_each(usual):
    """A step of 0.2 ms is worth no update of 20 ms; one of 50 ms is."""
    quick = plan(usual, None, 1, Costs(2e-4, 1e-4, 0.02, 20)).config.learner
    slow = plan(usual, None, 1, Costs(0.05, 1e-4, 0.02, 20)).config.learner
    assert updates_per_step(quick) == updates_per_step(usual.learner)
    assert updates_per_step(slow) == 1


def test_few_steps_have_larger_outputs(usual):
    few, many = (plan(usual, frames, None, FAST, large_scale=20.0).config.network for frames in (5_000, 500_000))
    assert (few.output_scale, many.output_scale) == (20.0, usual.network.output_scale)


def test_few_steps_are_not_followed_by_many_of_scoring(usual):
    evaluation = plan(usual, 5_000, None, FAST._replace(episode=30)).config.evaluation
    assert not evaluation.measure_errors
    assert (evaluation.snapshots + 1) * evaluation.episodes * 5 * 30 <= SCORING_SHARE * 5_000


def test_the_sentence_says_what_was_chosen_and_how_long_it_takes(usual):
    sentence = plan(usual, 5_400, None, SLOW).sentence
    assert sentence == (
        "Budget: about 5,400 steps per seed, 5 ms each, in 8 environments, and an update per step, 10 ms each; this "
        "takes about 84 s, with scoring."
    )


@pytest.mark.parametrize(("frames", "minutes"), [(0, None), (None, 0), (None, float("inf")), (10, -1)])
def test_budgets_that_are_none_are_refused(usual, frames, minutes):
    with pytest.raises(InputError, match=r"^(frames|minutes) is .*; expected"):
        plan(usual, frames, minutes, FAST)


# --- the clock of a learner ---


class Ticking:
    """A clock that goes on by a second whenever it is read."""

    def __init__(self):
        self.time = 0.0

    def __call__(self):
        self.time += 1
        return self.time


def walk_learner(usual, **limits):
    config = replace(
        usual, learner=replace(usual.learner, environments=2, updates_per_round=2, replay_ratio=1, **limits)
    )
    learner = Learner(build_agent(config), config.learner, config.environments, config.tasks, (0,))
    learner.now = Ticking()
    return learner


@pytest.mark.parametrize("limits", [{"budget_unit": "seconds", "budget": 40}, {"budget": 10**6, "time_limit": 40.0}])
def test_training_ends_when_its_time_is_over_and_a_resumed_one_has_less_left(usual, limits):
    learner = walk_learner(usual, **limits)
    while not learner.done:
        learner.step()
    assert learner.seconds == 40  # a second per round
    half = walk_learner(usual, **limits)
    while half.seconds < 20:
        half.step()
    tensors, values = half.state()
    resumed = walk_learner(usual, **limits)
    resumed.load_state({name: x.clone() for name, x in tensors.items()}, json.loads(json.dumps(values)))
    assert resumed.seconds == 20
    assert not resumed.done
    assert resumed.frames.tolist() == half.frames.tolist()


def test_without_a_time_budget_a_checkpoint_does_not_depend_on_the_time(usual):
    learner = walk_learner(usual)
    learner.step()
    assert learner.state()[1]["seconds"] == 0


# --- the command ---


def test_the_command_spends_its_minutes_and_says_how_many_steps_it_made(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(settings, "RANDOM_STEPS", 50)
    words = ["train", "fake_environments:Walk", "--minutes", "0.05", "--out", "run"]
    assert main(words) == 0
    captured = capsys.readouterr()
    assert "Budget: about" in captured.err
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["learner"]["budget_unit"] == "seconds"
    assert 1 <= config["learner"]["budget"] <= 3
    assert "Trained for " in captured.out
    assert main([*words, "--resume", "--trust"]) == 0
    assert "was finished already" in capsys.readouterr().out


class FakeTime:
    """Stands for the module `time`: only sleeping takes time. From `interrupt_at` on it sends one Ctrl-C."""

    def __init__(self, interrupt_at=math.inf):
        self.now, self.interrupt_at = 0.0, interrupt_at

    def sleep(self, seconds):
        self.now += seconds
        if self.now >= self.interrupt_at:
            self.interrupt_at = math.inf
            signal.raise_signal(signal.SIGINT)

    def perf_counter(self):
        return self.now

    monotonic = process_time = perf_counter


def steps_made(text):
    return int(re.search(r"Trained for ([\d,]+) steps", text)[1].replace(",", ""))


def test_slow_steps_fill_the_minutes_also_after_an_interruption(tmp_path, monkeypatch, capsys):
    """Steps of 0.1 s for two minutes, by a clock that only they move."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(budget, "MAX_UPDATES_PER_STEP", 0.0)  # updates take no time by this clock
    words = ["train", "fake_environments:SlowWalk", "--environment-arguments", "pause", "0.1", "--minutes", "2"]
    spent = []
    for name, interrupt_at in (("whole", math.inf), ("parts", 60.0)):
        fake = FakeTime(interrupt_at)
        for module in (settings, budget, learner, fake_environments):
            monkeypatch.setattr(module, "time", fake)
        main([*words, "--out", name])
        if name == "parts":
            assert 60 <= fake.now < 70
            assert main([*words, "--out", name, "--resume", "--trust"]) == 0
        spent.append(fake.now)
        # Scoring takes steps too, and so does the random play before training.
        assert 0.75 * 120 / 0.1 < steps_made(capsys.readouterr().out) < 120 / 0.1
    assert spent == pytest.approx([120, 120], rel=0.1)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_two_minutes_of_a_slow_environment_take_two_minutes(tmp_path):
    """The command as users run it, whole, and killed after a minute and resumed."""
    words = [sys.executable, "-m", "usfa", "train", "fake_environments:SlowWalk", "--minutes", "2"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}

    def run(*more, **options):
        began = time.monotonic()
        with suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                [*words, *more], cwd=tmp_path, env=environment, text=True, capture_output=True, **options
            )
            assert done.returncode == 0, done.stderr
            return time.monotonic() - began, steps_made(done.stdout)
        return time.monotonic() - began, 0

    seconds, steps = run("--out", "whole")
    print(f"{seconds:.1f} s, {steps:,} steps")
    assert seconds == pytest.approx(120, rel=0.1)
    assert steps > 1000
    first, _ = run("--out", "parts", "--checkpoint-every", "10", timeout=60)
    rest, resumed_steps = run("--out", "parts", "--resume", "--trust")
    print(f"{first:.1f} s, killed, and {rest:.1f} s, {resumed_steps:,} steps")
    # The rest of the time, but what was not saved is repeated, and the process starts again.
    assert rest == pytest.approx(seconds - first, abs=20)
    assert resumed_steps > 1000


def test_a_preset_ends_after_its_minutes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["train", "trip-usfa", "--seeds", "0", "--minutes", "0.01", "--evaluation.snapshots", "1", "--out", "run"]
    assert main([*words, "--learner.budget", "1000000"]) == 0
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["learner"]["time_limit"] == pytest.approx(0.6)


def test_an_environment_whose_close_fails_can_be_used(tmp_path, monkeypatch):
    monkeypatch.setattr(settings, "RANDOM_STEPS", 50)
    monkeypatch.chdir(tmp_path)
    words = ["fake_environments:FailingClose", "--frames", "100", "--seeds", "0", "--evaluation.snapshots", "1"]
    for command in (
        ["train", *words, "--out", "run"],
        ["front", "run", "--trust", "--preferences", "simplex:2", "--episodes", "1"],
        ["diagnose", "run", "--trust", "--task", "1,0", "--episodes", "1"],
    ):
        with pytest.warns(UserWarning, match=r"^The close of the environment FailingClose failed: .*display lost"):
            assert main(command) == 0


def test_environments_that_stand_still_cost_no_steps_of_the_real_one(usual):
    taken = []

    class Counted(type(usual.environments.one().unwrapped)):
        def step(self, action):
            taken.append(action)
            return super().step(action)

    def make(learner, environments):
        return Learner(build_agent(usual), learner, environments, usual.tasks, (0,))

    class Config:
        learner, tasks, environments = usual.learner, usual.tasks, EnvironmentSource(Counted)

    costs = measured_costs(Config, make, 0.001, 10)
    assert not taken
    assert costs.update > 0
    assert costs.acting > 0


def test_few_steps_have_twenty_checkpoints(usual):
    config = plan(usual, 5_400, None, FAST).config
    rounds = 5_400 // (config.learner.environments * config.learner.trajectory_length)
    assert config.checkpoint_every == rounds // 20
