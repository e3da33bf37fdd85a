"""Agents as directories of the Hugging Face hub: written, loaded again, and loaded from the hub's cache offline."""

import shutil

import huggingface_hub
import numpy as np
import onnxruntime
import pytest

import usfa
from usfa.cli import main
from usfa.errors import InputError

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def offline_hub(tmp_path, monkeypatch):
    """The hub's client without a network, and a cache with the repository owner/garden at one commit."""
    cache = tmp_path / "cache"
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    repository = cache / "models--owner--garden"
    usfa.export("trip", repository / "snapshots" / COMMIT)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    return repository


def test_an_exported_agent_is_the_same_agent(tmp_path):
    directory = usfa.export("trip", tmp_path / "trip")
    assert sorted(path.name for path in directory.iterdir()) == ["README.md", "config.json", "weights.safetensors"]
    here, there = usfa.load("trip"), usfa.load(directory)
    assert here.file == there.file
    np.testing.assert_array_equal(here.q_values([1, 1], "0.7,0.7"), there.q_values([1, 1], "0.7,0.7"))


def test_the_card_has_metadata_that_the_hub_accepts(tmp_path):
    card = huggingface_hub.ModelCard.load(usfa.export("trip", tmp_path / "trip") / "README.md")
    assert card.data.library_name == "usfa"
    assert card.data.pipeline_tag == "reinforcement-learning"
    assert "successor-features" in card.data.tags


@pytest.mark.parametrize("address", ["hf://owner/garden", f"hf://owner/garden@{COMMIT}"])
def test_agents_are_loaded_from_the_cache_of_the_hub(offline_hub, address):
    assert usfa.load(address).file == usfa.load("trip").file


def test_what_the_hub_has_not_is_refused_in_one_sentence(offline_hub):
    with pytest.raises(InputError, match=r"^hf://owner/other cannot be loaded: .*\.$") as refused:
        usfa.load("hf://owner/other")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("address", ["hf://garden", "hf://a/b/c", "hf://../../etc"])
def test_addresses_of_the_hub_are_checked(address):
    with pytest.raises(InputError, match=r"^The agent is 'hf://.*'; expected hf://OWNER/NAME"):
        usfa.load(address)


def test_a_damaged_download_is_refused(offline_hub):
    (offline_hub / "snapshots" / COMMIT / "weights.safetensors").write_bytes(b"torn")
    with pytest.raises(InputError, match="is torn or was changed"):
        usfa.load("hf://owner/garden")


def test_nothing_is_replaced_without_a_word(tmp_path):
    directory = usfa.export("trip", tmp_path / "trip")
    with pytest.raises(InputError, match="already exists; replace it with --overwrite"):
        usfa.export("trip", directory)
    (directory / "model.onnx").write_bytes(b"of another agent")
    usfa.export("trip", directory, overwrite=True)
    assert not (directory / "model.onnx").exists()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [({"rule": "gpi"}, r"^rule and seed are settings of model\.onnx"), ({"seed": 0}, r"^rule and seed are settings")],
)
def test_settings_without_effect_are_refused(tmp_path, settings, sentence):
    with pytest.raises(InputError, match=sentence):
        usfa.export("trip", tmp_path / "trip", **settings)
    assert not list(tmp_path.iterdir())


def test_an_agent_is_not_exported_onto_itself(tmp_path):
    directory = usfa.export("trip", tmp_path / "trip")
    with pytest.raises(InputError, match="the directory of the agent itself; expected another one"):
        usfa.export(directory, directory, overwrite=True)


def test_the_command_writes_a_model_without_a_rule(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["export", "trip", "--onnx", "--rule", "none"]) == 0
    printed = capsys.readouterr().out
    assert "exports/trip/model.onnx" in printed
    assert "hf upload OWNER/NAME exports/trip" in printed
    session = onnxruntime.InferenceSession(tmp_path / "exports" / "trip" / "model.onnx")
    assert [value.name for value in session.get_inputs()] == ["observation", "z"]
    assert [value.name for value in session.get_outputs()] == ["psi"]
    shutil.rmtree(tmp_path / "exports")
    assert main(["export", "nobody"]) == 2
