"""Callbacks: what they see of a training, how they stop it, and what loggers write."""

import io
import sys
import types
from pathlib import Path

import pytest
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import usfa
from usfa.errors import InputError
from usfa.evaluation import read_scores
from usfa.runs import TensorBoard, WeightsAndBiases, train
from usfa.runs.callbacks import score_means


class Recorder(usfa.Callback):
    def __init__(self, stop_after=None):
        self.rounds, self.lines, self.snapshots, self.ends = [], [], [], []
        self.stop_after = stop_after

    def on_round(self, training):
        self.rounds.append(training.learner.rounds)
        if training.metrics is not None:
            self.lines.append(training.metrics)
        if training.learner.rounds == self.stop_after:
            training.stop("enough [/]")

    def on_snapshot(self, training):
        assert training.run._snapshot(training.milestone).exists()
        self.snapshots.append(training.milestone)

    def on_end(self, training):
        self.ends.append((training.reason, training.scores))


def test_callbacks_see_every_round_snapshot_and_the_end(tmp_path, tiny_config, tiny_run):
    seen = Recorder()
    run = train(tiny_config, tmp_path / "run", callbacks=[seen])
    assert run.scores.read_bytes() == tiny_run.scores.read_bytes()  # watching changes nothing
    assert seen.rounds == list(range(1, len(seen.rounds) + 1))
    assert seen.lines == run.read_metrics()
    assert seen.snapshots == list(tiny_config.milestones)
    ((reason, scores),) = seen.ends
    assert reason is None
    assert scores.score.tolist() == read_scores(run.scores).score.tolist()


def test_a_callback_that_stops_a_run_leaves_a_directory_to_resume(tmp_path, tiny_config, tiny_run):
    seen = Recorder(stop_after=7)
    console = Console(file=io.StringIO())
    run = train(tiny_config, tmp_path / "run", console=console, callbacks=[seen])
    assert console.file.getvalue().endswith("Stopped after 7 updates: enough [/].\n")
    assert seen.rounds == list(range(1, 8))
    assert seen.ends == [("enough [/]", None)]
    assert not run.scores.exists()
    again = Recorder()
    train(tiny_config, tmp_path / "run", "resume", callbacks=[again])
    assert again.rounds[0] == 8
    for name in ("scores.csv", "agent/weights.safetensors"):
        assert (run.path / name).read_bytes() == (tiny_run.path / name).read_bytes()


def test_the_end_is_told_after_a_failure(tmp_path, tiny_config):
    class Failing(usfa.Callback):
        def on_round(self, training):
            raise RuntimeError("own code")

    seen = Recorder()
    with pytest.raises(RuntimeError, match="own code"):
        train(tiny_config, tmp_path / "run", callbacks=[Failing(), seen])
    assert seen.ends == [(None, None)]


@pytest.mark.parametrize("callbacks", [[print], Recorder(), 3, [Recorder]])
def test_only_callbacks_are_accepted(tmp_path, tiny_config, callbacks):
    with pytest.raises(InputError, match=r"^(A callback|callbacks) is .*; expected "):
        train(tiny_config, tmp_path / "run", callbacks=callbacks)
    assert not (tmp_path / "run").exists()


def test_tensorboard_reads_metrics_and_scores_also_after_a_stop(tmp_path, tiny_config):
    train(tiny_config, tmp_path / "run", callbacks=[TensorBoard(), Recorder(stop_after=25)])
    run = train(tiny_config, tmp_path / "run", "resume", callbacks=[TensorBoard()])
    read = EventAccumulator(str(run.path / "tensorboard"))
    read.Reload()
    logged = [event.step for event in read.Scalars("loss")]
    assert logged == [round(line["frames"]) for line in run.read_metrics()]
    assert len(logged) == 2
    for frames, name, value in score_means(read_scores(run.scores)):
        assert (frames, pytest.approx(value)) in [(event.step, event.value) for event in read.Scalars(name)]
    assert train(tiny_config, tmp_path / "run", "overwrite").scores.exists()  # tensorboard/ belongs to the run
    assert not (run.path / "tensorboard").exists()


def test_weights_and_biases_gets_the_same_and_continues_its_run(tmp_path, tiny_config, monkeypatch):
    opened, logged, finished = [], [], []

    class Log:
        def log(self, values):
            logged.append(values)

        def finish(self, exit_code):
            finished.append(exit_code)

    def init(**arguments):
        opened.append(arguments)
        latest = Path(arguments["dir"]) / "wandb" / "latest-run"
        latest.unlink(missing_ok=True)
        latest.symlink_to("run-1")  # as wandb does
        (latest.parent / "run-1" / "tmp" / "code").mkdir(parents=True, exist_ok=True)
        return Log()

    fake = types.SimpleNamespace(init=init)  # version 0.31 has no util.generate_id
    monkeypatch.setitem(sys.modules, "wandb", fake)
    train(tiny_config, tmp_path / "run", callbacks=[WeightsAndBiases("own", mode="offline"), Recorder(stop_after=25)])
    run = train(tiny_config, tmp_path / "run", "resume", callbacks=[WeightsAndBiases("own")])
    known = (tmp_path / "run" / "wandb" / "id.txt").read_text()
    assert len(known) == 8
    assert [(call["id"], call["project"], call["resume"]) for call in opened] == [(known, "own", "allow")] * 2
    assert opened[0]["mode"] == "offline"
    assert opened[0]["config"]["environment"] == "trip"
    assert [line["loss"] for line in logged if "loss" in line] == [line["loss"] for line in run.read_metrics()]
    assert sum(len(line) - 1 for line in logged if "loss" not in line) == len(score_means(read_scores(run.scores)))
    assert not (run.path / "wandb" / "latest-run").is_symlink()
    train(tiny_config, run.path, "overwrite")
    assert not (run.path / "wandb").exists()
    assert finished == [0, 0]


@pytest.mark.parametrize(
    ("callback", "module", "extra"),
    [(TensorBoard, "torch.utils.tensorboard", "tensorboard"), (WeightsAndBiases, "wandb", "wandb")],
)
def test_loggers_name_their_extra(monkeypatch, callback, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        InputError, match=rf"cannot be imported \(.*\); install it with pip install 'usfa\[{extra}\]'\.$"
    ):
        callback()
