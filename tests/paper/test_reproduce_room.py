"""The plan of the room end to end: two variants that learn next to nothing, in processes of their own."""

import multiprocessing
import shutil
import signal
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
import torch

import usfa
from usfa.agents import read_agent
from usfa.errors import InputError, Interrupted
from usfa.evaluation import read_scores
from usfa.figures import save_all
from usfa.networks import NetworkConfig
from usfa.paper.experiment import Job, RunsFailed, run_jobs
from usfa.paper.room import RoomExperiment, report_agents, reproduce_room
from usfa.runs import RunDirectory, preset

NETWORK = NetworkConfig(((4, 8, 8),), memory=4, trunk=(8,), embedding=(8,), head=(8,))
EXPERIMENT = RoomExperiment(variants=("usfa", "uvfa"), seeds=(0,), frames=512, snapshots=1)
full_config = RoomExperiment.config


def tiny_config(experiment, variant, seed):
    """Episodes of ten steps and a network of a few numbers; the tasks and candidate sets are all there."""
    config = full_config(experiment, variant, seed)
    return replace(
        config,
        environment_arguments={"image_size": 16, "decisions": 10},
        network=NETWORK,
        learner=replace(config.learner, environments=8, updates_per_round=1, policies_per_step=2),
        evaluation=replace(config.evaluation, episodes=1),
    )


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(RoomExperiment, "config", tiny_config)


def empty_files(figures, directory):
    """In place of figures, whose drawing takes longer than all the rest; tests/figures draws them."""
    directory.mkdir(exist_ok=True)
    for name in figures:
        (directory / f"{name}.png").touch()


def files(path):
    return {file: file.stat().st_mtime_ns for file in path.rglob("*") if file.is_file()}


@pytest.fixture
def download(tmp_path, monkeypatch):
    """A working directory with a file that every new Python process would import."""
    path = tmp_path / "download"
    path.mkdir()
    (path / "multiprocessing.py").write_text("open('ran', 'w').close()")
    monkeypatch.chdir(path)
    return path


def test_everything_is_trained_once_and_reported(tiny, monkeypatch, tmp_path, download):
    monkeypatch.setattr("usfa.paper.experiment.save_all", partial(save_all, formats=("png",)))
    run = reproduce_room(EXPERIMENT, tmp_path / "room")
    scores = read_scores(run.path / "scores.csv")
    assert set(scores.agent) == {"usfa", "uvfa"}
    assert set(scores.snapshot) == {0, 512}
    assert set(scores.task_set) == {"room-train", "room-easy", "room-hard"}
    report = (run.path / "report.md").read_text("utf-8")
    assert "UVFA" in report
    assert len(list(run.figures.glob("*.png"))) == report.count("](figures/")
    assert {path.name for path in (run.path / "runs").iterdir()} == {"usfa-seed-0", "uvfa-seed-0"}
    published = shutil.copytree(run.path, tmp_path / "published", ignore=shutil.ignore_patterns("checkpoints"))
    log = RunDirectory(run.path / "runs" / "uvfa-seed-0").metrics
    log.write_bytes(log.read_bytes() + b'{"updates": 9')  # torn by a power cut
    trained = files(run.path / "runs")
    monkeypatch.setattr("usfa.paper.experiment.save_all", empty_files)
    with pytest.warns(UserWarning, match=r"metrics\.jsonl was changed"):
        reproduce_room(EXPERIMENT, tmp_path / "room", "resume")
    assert files(run.path / "runs") == trained
    again = reported_again(run.path / "runs", tmp_path / "again")
    assert again == reported_again(run.path / "runs", tmp_path / "again", "resume")
    last = scores[scores.snapshot == 512].reset_index(drop=True)
    pd.testing.assert_frame_equal(read_scores(tmp_path / "again" / "scores.csv"), last, check_exact=True)
    for trained_run in (run.path / "runs").iterdir():
        assert {x.dtype for x in read_agent(trained_run / "agent")[1].values()} == {torch.float16}
    published_is_reported_without_training(published, report)
    assert not (download / "ran").exists()


def published_is_reported_without_training(path, report):
    """An experiment without checkpoints is complete; one with fewer runs is reported on as far as it is trained."""
    reproduce_room(EXPERIMENT, path, "resume", training=False)
    assert (path / "report.md").read_text("utf-8") == report
    before = files(path)
    with pytest.raises(InputError, match=r"^The runs to report on would be overwritten without training; expected --r"):
        reproduce_room(EXPERIMENT, path, "overwrite", training=False)
    assert files(path) == before
    shutil.rmtree(path / "runs" / "usfa-seed-0")
    reproduce_room(EXPERIMENT, path, "resume", training=False)
    assert set(read_scores(path / "scores.csv").agent) == {"uvfa"}
    assert not (path / "runs" / "usfa-seed-0").exists()
    shutil.rmtree(path / "runs" / "uvfa-seed-0")
    with pytest.raises(InputError, match=r"^No run in .* is finished; expected at least one for a report without tr"):
        reproduce_room(EXPERIMENT, path, "resume", training=False)


def reported_again(agents, path, existing="refuse"):
    """The report about trained agents has the same claims, and only the figures that need no curves."""
    run = report_agents(agents, path, existing, at_once=1)
    report = (run.path / "report.md").read_text("utf-8")
    assert {file.name for file in run.figures.glob("*.png")} == {"overview.png", "rules.png"}
    assert report.count("](figures/") == 2
    return report


def test_agents_of_another_environment_are_refused(tmp_path):
    shutil.copytree(Path(usfa.__file__).parent / "shipped" / "trip", tmp_path / "agents" / "trip")
    with pytest.raises(InputError, match=r"trip is for 'trip'; expected the room\.$"):
        report_agents(tmp_path / "agents", tmp_path / "out")
    with pytest.raises(InputError, match=r"^The directory .* has no agents; expected directories such as"):
        report_agents(tmp_path / "nowhere", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_run_that_fails_does_not_take_the_others_along(monkeypatch, tmp_path):
    def config(experiment, variant, seed):
        made = tiny_config(experiment, variant, seed)
        rate = 1e30 if variant == "usfa" else made.learner.learning_rate
        return replace(made, learner=replace(made.learner, learning_rate=rate, clip=None))

    monkeypatch.setattr(RoomExperiment, "config", config)
    monkeypatch.setattr("usfa.paper.experiment.save_all", empty_files)
    with pytest.raises(InputError) as error:
        reproduce_room(EXPERIMENT, tmp_path / "room", at_once=1)
    assert str(error.value).startswith(f"The run in {tmp_path / 'room' / 'runs' / 'usfa-seed-0'} failed: The ")
    assert set(read_scores(tmp_path / "room" / "scores.csv").agent) == {"uvfa"}
    assert "UVFA" in (tmp_path / "room" / "report.md").read_text("utf-8")


@pytest.mark.long  # like the test above, with a signal instead of an error
def test_a_run_whose_process_is_killed_does_not_take_the_others_along(tiny_config, tmp_path):
    endless = replace(tiny_config, learner=replace(tiny_config.learner, budget=10**7))
    jobs = [Job("endless", endless, tmp_path / "endless"), Job("tiny", tiny_config, tmp_path / "tiny")]

    def kill():
        while not (workers := multiprocessing.active_children()) or not RunDirectory(jobs[0].path).metrics.exists():
            time.sleep(0.1)
        workers[0].kill()

    threading.Thread(target=kill, daemon=True).start()
    with pytest.raises(RunsFailed) as error:
        run_jobs(jobs, 1)
    assert str(error.value) == f"The run in {tmp_path / 'endless'} failed: its process ended with exit code -9."
    assert jobs[1].finished


@pytest.mark.parametrize("at_once", [0, -1])
def test_some_run_must_be_allowed(tiny, tmp_path, at_once):
    with pytest.raises(InputError, match=rf"^at_once is {at_once}; expected at least 1 run at a time\.$"):
        reproduce_room(EXPERIMENT, tmp_path / "room", at_once=at_once)
    assert not (tmp_path / "room").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_a_stopped_plan_has_saved_its_runs(tmp_path, number):
    """Of two runs one at a time is trained, for much longer than anybody waits."""
    config = preset("trip-usfa")
    config = replace(config, learner=replace(config.learner, budget=10**7), seeds=(0,), checkpoint_every=100)
    jobs = [Job(name, config, tmp_path / name) for name in ("one", "two")]
    begun = RunDirectory(jobs[0].path)

    def stop():
        while not (begun.path / "checkpoints").exists() or begun.load_checkpoint() is None:
            time.sleep(0.1)
        signal.raise_signal(number)

    threading.Thread(target=stop, daemon=True).start()
    with pytest.raises(Interrupted, match=r"^Stopped\. All runs are saved; repeat the command with --resume"):
        run_jobs(jobs, 1)
    saved = begun.load_checkpoint()[1]["learner"]["updates"]
    assert saved % 100 or saved > 100  # not only what the first checkpoint had
    assert not jobs[1].path.exists()


def test_a_finished_run_of_other_settings_is_not_taken_for_this_one(tiny_config, tiny_run):
    other = replace(tiny_config, learner=replace(tiny_config.learner, gamma=0.5))
    with pytest.raises(InputError, match=r"another configuration \(different: learner\.gamma was 1\.0, now 0\.5\)"):
        run_jobs([Job("other", other, tiny_run.path)], 1)
