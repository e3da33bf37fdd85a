import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from usfa.errors import InputError
from usfa.files import checked_lines, read_json, write_json
from usfa.runs import RunDirectory
from usfa.version import __version__


@dataclass(frozen=True)
class Recipe:
    steps: int
    rate: float = 0.5


@dataclass(frozen=True)
class OtherRecipe:
    steps: int


def opened(*arguments):
    with RunDirectory.opened(*arguments) as run:
        return run


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs" / "one"


@pytest.fixture
def run(path):
    run = opened(path, Recipe(3))
    run.write("scores.csv", b"precious")
    return run


def names(path):
    return sorted(entry.name for entry in path.iterdir())


def change_config(run, **fields):
    write_json(run.path / "config.json", read_json(run.path / "config.json") | fields)


def test_new_directory_holds_the_config(path):
    run = opened(path, Recipe(3))
    assert run.config(Recipe) == Recipe(3)
    saved = read_json(path / "config.json")
    assert saved == {"format": 2, "version": __version__, "kind": "Recipe", "steps": 3, "rate": 0.5}


@pytest.mark.parametrize("existing", ["refuse", "resume", "overwrite"])
def test_empty_directory_is_as_good_as_none(path, existing):
    path.mkdir(parents=True)
    assert opened(path, Recipe(3), existing).config(Recipe) == Recipe(3)


def test_a_run_is_refused_by_default(run):
    with pytest.raises(InputError, match=r"already holds a run; continue it with --resume, replace it with"):
        opened(run.path, Recipe(3))
    assert run.scores.read_text() == "precious"


def test_resume_keeps_everything(run):
    assert opened(run.path, Recipe(3), "resume").scores.read_text() == "precious"


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (Recipe(4), r"another configuration \(different: steps was 3, now 4\); expected the same to resume\.$"),
        (Recipe(4, 0.1), r"another configuration \(different: rate was \S+, now 0\.1, steps was 3, now 4\)"),
        (OtherRecipe(3), r"holds a Recipe; expected a OtherRecipe\.$"),
    ],
)
def test_resume_wants_the_same_config(run, config, sentence):
    with pytest.raises(InputError, match=sentence):
        opened(run.path, config, "resume")
    assert run.config(Recipe) == Recipe(3)


def test_a_word_that_is_no_choice_deletes_nothing(run):
    with pytest.raises(InputError, match=r"^existing is 'resumee'; expected one of 'refuse', 'resume', 'overwrite'\.$"):
        opened(run.path, Recipe(3), "resumee")
    assert run.config(Recipe) == Recipe(3)


def test_overwrite_starts_from_nothing(run):
    opened(run.path, Recipe(4), "overwrite")
    assert names(run.path) == ["config.json", "manifest.json"]
    assert run.config(Recipe) == Recipe(4)


def end_by_an_error(run, written):
    if written:
        run.write(written, b"precious")
    raise InputError("Something is wrong.")


def refused(path, existing="refuse", written=""):
    """A run that an error of its input ends, perhaps after it wrote a file."""
    with pytest.raises(InputError, match="wrong"), RunDirectory.opened(path, Recipe(3), existing) as run:
        end_by_an_error(run, written)


def test_a_run_refused_before_it_wrote_anything_leaves_no_directory(path):
    refused(path)
    assert not path.exists()
    assert opened(path, Recipe(4)).config(Recipe) == Recipe(4)


def test_a_refused_run_leaves_no_parents(tmp_path):
    refused(tmp_path / "runs" / "room" / "first")
    assert not (tmp_path / "runs").exists()


def end_beside_another_run(run):
    opened(run.path.with_name("other"), Recipe(3))
    end_by_an_error(run, "")


def test_the_parents_of_a_refused_run_stay_if_another_one_is_there(tmp_path):
    with pytest.raises(InputError, match="wrong"), RunDirectory.opened(tmp_path / "runs" / "one", Recipe(3)) as run:
        end_beside_another_run(run)
    assert names(tmp_path / "runs") == ["other"]


def test_a_refused_run_leaves_an_empty_directory_of_the_user(path):
    path.mkdir(parents=True)
    refused(path)
    assert names(path) == []


def test_what_a_refused_run_wrote_stays(path):
    refused(path, written="scores.csv")
    assert names(path) == ["config.json", "manifest.json", "scores.csv"]


def test_a_refused_run_that_was_resumed_stays(path):
    opened(path, Recipe(3))
    refused(path, "resume")
    assert names(path) == ["config.json", "manifest.json"]


@pytest.mark.parametrize("existing", ["refuse", "resume", "overwrite"])
def test_foreign_files_are_never_touched(path, existing):
    path.mkdir(parents=True)
    (path / "thesis.txt").write_text("years")
    with pytest.raises(InputError, match=r"not a run"):
        opened(path, Recipe(3), existing)
    assert [(file.name, file.read_text()) for file in path.iterdir()] == [("thesis.txt", "years")]


@pytest.mark.parametrize("existing", ["refuse", "resume", "overwrite"])
def test_somebody_elses_config_is_never_touched(path, existing):
    path.mkdir(parents=True)
    (path / "config.json").write_text('{"editor": "vi"}')
    with pytest.raises(InputError, match=r"has format None"):
        opened(path, Recipe(3), existing)
    assert (path / "config.json").read_text() == '{"editor": "vi"}'


@pytest.mark.parametrize("existing", ["refuse", "resume", "overwrite"])
def test_a_file_in_the_way_is_never_touched(tmp_path, existing):
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(InputError, match=r"notes is a file; expected a directory for the run\.$"):
        opened(tmp_path / "notes", Recipe(3), existing)
    assert (tmp_path / "notes").read_text() == "mine"


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"format": 3, "version": "7.0"}, rf"has format 3 \(usfa 7\.0\); usfa {__version__} reads format 2\.$"),
        ({"steps": "many"}, r"config\.json does not describe a Recipe: .*\$\.steps"),
        ({"colour": "red"}, r"config\.json has the unknown field 'colour' for a Recipe\.$"),
    ],
)
def test_config_that_is_not_ours(run, fields, sentence):
    change_config(run, **fields)
    with pytest.raises(InputError, match=sentence):
        run.config(Recipe)


def test_torn_config(run):
    whole = (run.path / "config.json").read_bytes()
    for size in range(len(whole) - 2):
        (run.path / "config.json").write_bytes(whole[:size])
        with pytest.raises(InputError, match=r"config\.json is torn or not JSON"):
            run.config(Recipe)


def test_missing_directory_and_missing_config(tmp_path):
    with pytest.raises(InputError, match=r"^Run directory .*none does not exist\.$"):
        RunDirectory(tmp_path / "none").config(Recipe)
    with pytest.raises(InputError, match=r"is not a run: it has no config\.json\.$"):
        RunDirectory(tmp_path).config(Recipe)


# --- checkpoints ---


def save(run, updates):
    run.save_checkpoint(updates, {"x": torch.full((2,), float(updates))}, {"updates": updates})


def states(run):
    return sorted((run.path / "checkpoints").glob("state-*"))


def test_checkpoints_round_trip_exactly(run):
    tensors = {"a/b": torch.randn(3, 2), "bits": torch.tensor([True, False]), "n": torch.tensor([2**60])}
    tensors["view"] = torch.randn(4, 3).T
    values = {"rng": 2**127 + 1, "x": 0.1 + 0.2, "names": ["σ"], "none": None}
    run.save_checkpoint(7, tensors, values)
    loaded, loaded_values = run.load_checkpoint()
    assert loaded_values == values
    assert loaded.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert torch.equal(loaded[name], tensor)


def test_the_newest_two_checkpoints_are_kept(run):
    assert run.load_checkpoint() is None
    for updates in (5, 50, 500):
        save(run, updates)
    assert [file.name for file in states(run)] == ["state-0000000050.usfa", "state-0000000500.usfa"]
    assert run.load_checkpoint()[1] == {"updates": 500}


def test_a_torn_newest_checkpoint_falls_back_to_the_one_before(run):
    save(run, 5)
    save(run, 10)
    whole = states(run)[-1].read_bytes()
    for broken in (b"", whole[:-1], whole[: len(whole) // 2], whole[:-1] + bytes([whole[-1] ^ 1])):
        states(run)[-1].write_bytes(broken)
        with pytest.warns(UserWarning, match=r"state-0000000010\.usfa is torn .* The checkpoint before it is used\.$"):
            assert run.load_checkpoint()[1] == {"updates": 5}


def test_a_checkpoint_under_another_name_is_refused(run):
    save(run, 5)
    save(run, 10)
    states(run)[-1].write_bytes(states(run)[0].read_bytes())
    with pytest.warns(UserWarning, match=r"it is a copy of state-0000000005\.usfa\. The checkpoint before it is used"):
        assert run.load_checkpoint()[1] == {"updates": 5}


def test_no_whole_checkpoint_is_an_error(run):
    save(run, 5)
    save(run, 10)
    for file in states(run):
        file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"state-0000000005\.usfa is torn or was changed"):
        run.load_checkpoint()


def test_snapshots_round_trip_and_missing_ones_are_named(run):
    run.save_snapshot(10, {"x": torch.ones(2)}, {"episodes": [10]})
    tensors, values = run.load_snapshot(10)
    assert torch.equal(tensors["x"], torch.ones(2))
    assert values == {"episodes": [10]}
    with pytest.raises(InputError, match=r"has no snapshot snapshot-0000000020\.usfa; finish it with --resume\.$"):
        run.load_snapshot(20)


def test_rewinding_drops_later_and_torn_lines(run):
    lines = [{"updates": k, "loss": 0.1} for k in (20, 40, 60)]
    run.metrics.write_bytes(checked_lines(lines)[0] + b'{"updates": 8')
    run.rewind_metrics(40)
    assert run.metrics.read_bytes() == checked_lines(lines[:2])[0]
    assert run.last_metrics() == lines[1]


def test_damaged_metrics_are_left_out_with_a_warning(run):
    lines = [{"updates": k, "loss": 0.1} for k in (20, 40, 60)]
    run.metrics.write_bytes(checked_lines(lines)[0].replace(b"40", b"41"))
    with pytest.warns(UserWarning, match=r"metrics\.jsonl is damaged; left out: line 2\.$"):
        assert run.read_metrics() == [lines[0], lines[2]]


def test_lines_of_another_log_are_no_metrics(run):
    line = {"updates": 20, "loss": 0.1}
    run.metrics.write_bytes(checked_lines([{"updates": 20, "actor": 1}, line])[0])
    assert run.read_metrics() == [line]


def test_metrics_of_earlier_versions_have_no_checksums(run):
    lines = [{"updates": k, "loss": 0.1} for k in (20, 40)]
    run.metrics.write_text("\n".join(["{torn", *map(json.dumps, lines), ""]))
    assert run.read_metrics() == lines


def test_overwrite_keeps_what_is_not_of_a_run(tmp_path):
    run = opened(tmp_path / "run", Recipe(steps=3))
    (run.path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"also holds 'thesis\.tex', which no run wrote; nothing was deleted\.$"):
        opened(run.path, Recipe(steps=3), "overwrite")
    assert (run.path / "thesis.tex").exists()
    assert (run.path / "config.json").exists()


def test_only_one_process_works_in_a_directory(tmp_path):
    with RunDirectory.opened(tmp_path / "run", Recipe(steps=3)) as run:
        run.claim("scores.csv")
        (run.path / ".scores.csv.x.part").write_text("half")  # in the middle of a write
        for existing in ("resume", "overwrite"):
            with pytest.raises(InputError, match="Another process is working in"):
                opened(run.path, Recipe(steps=3), existing)
        assert (run.path / ".scores.csv.x.part").read_text() == "half"
    opened(run.path, Recipe(steps=3), "resume")
    assert names(run.path) == ["config.json", "manifest.json"]


@pytest.mark.parametrize(
    ("existing", "config", "sentence"),
    [("refuse", Recipe(3), "already holds a run"), ("resume", Recipe(4), "has another configuration")],
)
def test_what_another_process_did_before_the_lock_counts(path, monkeypatch, existing, config, sentence):
    lock = RunDirectory._locked

    def late(run):
        monkeypatch.setattr(RunDirectory, "_locked", lock)
        opened(path, Recipe(3)).write("scores.csv", b"precious")
        return lock(run)

    monkeypatch.setattr(RunDirectory, "_locked", late)
    with pytest.raises(InputError, match=sentence):
        opened(path, config, existing)
    assert (path / "scores.csv").read_text() == "precious"


def test_runs_inside_a_run_are_not_swept(run):
    inside = run.path / "runs" / "usfa-seed-0" / ".scores.csv.x.part"
    inside.parent.mkdir(parents=True)
    inside.write_text("half")
    opened(run.path, Recipe(3), "resume")
    assert inside.exists()


@pytest.mark.parametrize("kept", range(4))
def test_a_run_that_was_being_replaced_is_not_taken_for_a_finished_one(run, path, monkeypatch, kept):
    """The process dies before it has deleted more than `kept` of four things."""
    for name in ("report.md", "metrics.jsonl"):
        run.write(name, b"old")
    deleted = []

    def unlink(entry, missing_ok=False):
        if len(deleted) == kept:
            raise KeyboardInterrupt
        deleted.append(entry.name)
        entry.rename(path.parent / f"deleted-{entry.name}")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", unlink)
        with pytest.raises(KeyboardInterrupt):
            opened(path, Recipe(4), "overwrite")
    assert deleted == ["report.md", "scores.csv", "metrics.jsonl", "manifest.json"][:kept]
    assert opened(path, Recipe(4), "overwrite").config(Recipe) == Recipe(4)
    assert names(path) == ["config.json", "manifest.json"]


def test_what_a_kill_leaves_behind_is_swept(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".config.json.x.part").write_text("{")
    run = opened(tmp_path / "run", Recipe(steps=3))
    assert names(run.path) == ["config.json", "manifest.json"]


def test_what_a_torn_write_left_does_not_keep_a_run_from_being_replaced(run, path):
    (path / ".scores.csv.x.part").write_text("half")
    opened(path, Recipe(4), "overwrite")
    assert names(path) == ["config.json", "manifest.json"]


@pytest.mark.parametrize("existing", ["refuse", "resume"])
def test_a_check_refuses_what_preparing_would_and_changes_nothing(run, path, existing):
    (path / ".scores.csv.x.part").write_text("half")
    before = sorted(entry.name for entry in path.iterdir())
    with pytest.raises(InputError):
        run.check(Recipe(4), existing)
    assert sorted(entry.name for entry in path.iterdir()) == before


# --- what may be deleted ---


def full(path):
    """A run with files in folders, and a run inside it."""
    run = opened(path, Recipe(3))
    save(run, 5)
    run.save_snapshot(10, {"x": torch.ones(2)}, {"episodes": [10]})
    run.claim("agent/weights.safetensors", "figures/gap.png")
    for name in ("agent/weights.safetensors", "figures/gap.png"):
        (path / name).parent.mkdir()
        (path / name).write_text("ours")
    inner = opened(path / "runs" / "inner", Recipe(3))
    inner.write("scores.csv", b"inner")
    (path / "runs" / "empty").mkdir()
    run.write("scores.csv", b"ours")
    return run


def contents(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_overwrite_deletes_all_that_runs_wrote(path):
    full(path)
    opened(path, Recipe(4), "overwrite")
    assert names(path) == ["config.json", "manifest.json"]


@pytest.mark.parametrize(
    "name", ["mine.csv", "checkpoints/mine.usfa", "agent/mine.onnx", "runs/inner/mine.csv", "runs/mine.txt", ".x.part"]
)
def test_files_of_the_user_keep_everything_from_being_deleted(path, name):
    full(path)
    (path / name).write_text("years")
    before = contents(path)
    with pytest.raises(InputError, match=rf"also holds '{Path(name).name if 'inner' in name else name}', which no run"):
        opened(path, Recipe(4), "overwrite")
    assert contents(path) == before


@pytest.mark.parametrize("name", ["figures/gap.png", "figures", "runs/inner", "notes"])
def test_links_are_never_followed(tmp_path, path, name):
    full(path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "gap.png").write_text("years")
    there = path / name
    if there.is_dir():
        there.rename(tmp_path / "moved")
    there.unlink(missing_ok=True)
    there.symlink_to(tmp_path / "elsewhere")
    before = contents(tmp_path)
    with pytest.raises(InputError, match=r"which no run wrote; nothing was deleted\.$"):
        opened(path, Recipe(4), "overwrite")
    assert contents(tmp_path) == before


def test_a_finished_log_that_is_missing_was_written(run):
    run.claim("metrics.jsonl", "trajectories.jsonl")
    run.metrics.write_text("{}\n")
    assert not run.was_written(run.trajectories)  # claimed before it is written
    run.trajectories.write_text("{}\n")
    run.seal_logs()
    run.trajectories.unlink()
    assert run.was_written(run.trajectories)
    with pytest.raises(InputError, match=r"trajectories\.jsonl cannot be read: No such file"):
        run.check_unchanged("trajectories.jsonl")


@pytest.mark.parametrize(
    ("more", "shown"),
    [
        ((), "agent, checkpoints, figures, runs, scores.csv"),
        (map(str, range(9)), "0, 1, 2, 3, 4, 5, 6, 7, …"),
    ],
)
def test_runs_without_a_manifest_are_not_deleted(path, more, shown):
    full(path)
    (path / "manifest.json").unlink()
    for name in more:
        (path / name).write_text("years")
    before = contents(path)
    sentence = (
        f"^Directory {path} has no manifest.json, like runs of earlier versions, so --overwrite cannot tell what the "
        f"run wrote, and deleted nothing: delete its files yourself (it holds {shown}), or choose another --out.$"
    )
    with pytest.raises(InputError, match=re.escape(sentence).replace(r"\^", "^").replace(r"\$", "$")):
        opened(path, Recipe(4), "overwrite")
    assert contents(path) == before


def test_a_manifest_forgets_deleted_checkpoints(run):
    for updates in (5, 10, 15, 20):
        save(run, updates)
    listed = read_json(run.path / "manifest.json")["files"]
    assert [name for name in listed if "state" in name] == [
        f"checkpoints/state-00000000{updates}.usfa" for updates in (10, 15, 20)
    ]


def test_changed_results_are_found(run):
    run.check_unchanged("scores.csv")
    run.scores.write_text("prexious")
    with pytest.raises(InputError, match=r"scores\.csv was changed: its checksum does not match manifest\.json\.$"):
        run.read_scores()


def test_a_link_to_nothing_is_no_directory(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"link is a link to nothing; expected a directory for the run"):
        opened(tmp_path / "link", Recipe(3))
