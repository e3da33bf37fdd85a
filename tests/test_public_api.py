import importlib
import importlib.metadata
import pkgutil
from importlib import resources

import pytest

import usfa

MODULES = ["usfa", *(found.name for found in pkgutil.walk_packages(usfa.__path__, "usfa."))]
WITHOUT_EXPORTS = {"usfa.__main__", "usfa.version"}


@pytest.mark.parametrize("name", sorted(set(MODULES) - WITHOUT_EXPORTS))
def test_all_names_exist(name):
    module = importlib.import_module(name)
    assert len(module.__all__) == len(set(module.__all__)) > 0
    assert [missing for missing in module.__all__ if not hasattr(module, missing)] == []


def test_the_front_door_holds_what_is_documented():
    assert set(usfa.__all__) == {
        "AGENTS",
        "Agent",
        "Callback",
        "ClusterConfig",
        "Decision",
        "EvaluationConfig",
        "FeaturesConfig",
        "InputError",
        "LearnedPhi",
        "LearnerConfig",
        "NETWORKS",
        "Network",
        "NetworkConfig",
        "PhiLearner",
        "PhiModel",
        "Policy",
        "PolicySampler",
        "Rule",
        "Situation",
        "TRUNKS",
        "TaskStream",
        "TrainConfig",
        "TrainedAgent",
        "Trunk",
        "UsfaAgent",
        "__version__",
        "check_environment",
        "evaluate",
        "export",
        "infer_task",
        "learn_features",
        "load",
        "load_features",
        "make",
        "preset",
        "register",
        "settings_for",
        "train",
    }


def test_packages_export_names_of_their_own_modules():
    """What `usfa.agents` offers is defined below `usfa.agents`: nothing is passed on from elsewhere."""
    for name in MODULES:
        module = importlib.import_module(name) if name != "usfa.__main__" else None
        if module is None or name == "usfa" or not hasattr(module, "__path__"):
            continue
        for export in module.__all__:
            thing = getattr(module, export)
            home = thing.__module__ if hasattr(thing, "__qualname__") else name
            assert not home.startswith("usfa.") or home.startswith(name), f"{name}.{export} comes from {home}"


def test_types_are_shipped():
    assert (resources.files("usfa") / "py.typed").is_file()


def test_version_is_that_of_the_package():
    assert usfa.__version__ == importlib.metadata.version("usfa")
