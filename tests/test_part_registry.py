"""Parts by name and by text: what can be written down, what can be found again, and what is never called."""

import sys
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType

import numpy as np
import pytest
import torch

from usfa.agents import AGENTS, AgentSpec, UsfaAgent, part_texts
from usfa.decisions import Cautious, Gpi, parse_rule
from usfa.environments import ObservationSpec
from usfa.errors import InputError
from usfa.learning import LearnerConfig
from usfa.networks import NETWORKS, TRUNKS, Network, NetworkConfig, Sizes, Trunk
from usfa.registry import Registry, import_modules, is_own, made, resolve, text_of
from usfa.samplers import Gaussian, PolicySampler, Simplex, WithTask, parse_sampler

HERE = __name__


class Base:
    pass


class Plain(Base):
    """No settings, no attributes."""


class Built(Base):
    def __init__(self, first, size=3, names=()):
        self.first, self.size, self.names = first, size, names


@dataclass(frozen=True)
class Settings(Base):
    size: int = 3
    pairs: tuple[tuple[int, float], ...] = ()
    note: str | None = None
    sum: int = field(init=False, default=0)


class Stranger:
    """Of no kind."""


REGISTRY = Registry("part", Base, {"plain": Plain, "built": Built})


# --- text of parts ---


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("anything at all", "anything at all"),
        (Plain, f"{HERE}:Plain"),
        (Settings, f"{HERE}:Settings"),
        (Plain(), f"{HERE}:Plain"),
        (partial(Plain), f"{HERE}:Plain"),
        (partial(Built, size=5), f'{HERE}:Built{{"size": 5}}'),
        (partial(Built, size=5, names=("a", "b")), f'{HERE}:Built{{"names": ["a", "b"], "size": 5}}'),
        (Settings(), f'{HERE}:Settings{{"note": null, "pairs": [], "size": 3}}'),
        (
            Settings(4, ((1, 0.5), (2, 0.1)), "ü{}"),
            f'{HERE}:Settings{{"note": "\\u00fc{{}}", "pairs": [[1, 0.5], [2, 0.1]], "size": 4}}',
        ),
        (Gpi(), "usfa.decisions.rules:Gpi"),
        (Cautious(0.5), 'usfa.decisions.rules:Cautious{"caution": 0.5}'),
        (Gaussian(0.1), 'usfa.samplers:Gaussian{"variance": 0.1}'),
    ],
)
def test_parts_have_a_text(part, text):
    assert text_of(part, "setting") == text


@pytest.mark.parametrize("part", [Settings(), Settings(7, ((1, 0.1 + 0.2),), 'quo"te'), Cautious(1 / 3), Gaussian(2)])
def test_text_gives_back_an_equal_object(part):
    text = text_of(part, "setting")
    found = resolve(text, "part", lambda _: True, "anything")()
    assert found == part
    assert hash(found) == hash(part)
    assert text_of(found, "setting") == text


def local_class():
    class Local(Base):
        pass

    return Local


class Stateful(Base):
    def __init__(self):
        self.seen = 0


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        (local_class(), r"setting is <class '.*Local'>, which cannot be found again; expected a class at the top of a"),
        (
            local_class()(),
            r"setting is <class '.*Local'>, which cannot be found again; expected a class at the top of a",
        ),
        (partial(local_class(), size=3), r"setting is <class '.*Local'>, which cannot be found again"),
        (lambda: Plain(), r"setting is <function .*>, which cannot be saved; expected a name, an instance of a data"),
        (local_class, r"setting is <function local_class at .*>, which cannot be saved; expected a name"),
        (
            Stateful(),
            r"setting is <.*Stateful object.*>, which cannot be saved; expected a name, an instance of a data",
        ),
        (partial(Built, 1), r"setting is functools\.partial\(.*Built'>, 1\), which cannot be saved; expected a name"),
        (partial(local_class, size=1), r"setting is functools\.partial\(<function.*, which cannot be saved"),
        (None, r"setting is None, which cannot be saved; expected a name, an instance of a dataclass, or a class\."),
        (3, r"setting is 3, which cannot be saved; expected a name"),
        (partial(Built, size=object()), r"setting is .*, whose argument size cannot be saved; expected numbers, texts"),
        (
            Settings(pairs=np.eye(2)),
            r"setting is .*, whose argument pairs cannot be saved; expected numbers, texts",
        ),
        (WithTask(Simplex()), r"setting is WithTask.*, whose argument others cannot be saved; expected numbers, texts"),
        (partial(Built, names=(Simplex(),)), r"setting is .*, whose argument names cannot be saved"),
        (partial(Built, names={"a": 1}), r"setting is .*, whose argument names cannot be saved"),
    ],
)
def test_parts_that_could_not_be_found_again_are_refused(part, sentence):
    with pytest.raises(InputError, match=f"(?s)^{sentence}"):
        text_of(part, "setting")


def test_classes_of_a_script_are_named_after_its_file(monkeypatch):
    script = ModuleType("__main__")
    script.__file__ = "/somewhere/own_script_of_a_test.py"
    script.Own = type("Own", (Base,), {"__module__": "__main__"})
    monkeypatch.setitem(sys.modules, "__main__", script)
    monkeypatch.delitem(sys.modules, "own_script_of_a_test", raising=False)
    try:
        text = text_of(script.Own, "setting")
        assert text == "own_script_of_a_test:Own"
        assert REGISTRY.find(text) is script.Own
    finally:
        sys.modules.pop("own_script_of_a_test", None)


def test_classes_of_an_interactive_session_are_refused(monkeypatch):
    session = ModuleType("__main__")
    session.Own = type("Own", (Base,), {"__module__": "__main__"})
    monkeypatch.setitem(sys.modules, "__main__", session)
    with pytest.raises(
        InputError,
        match=r"^setting is <class '__main__\.Own'>; expected a class in a file whose name can be imported\.$",
    ):
        text_of(session.Own, "setting")


def test_configurations_hold_text():
    config = NetworkConfig(trunk_class=partial(OwnTrunk, width=2), network_class=OwnNetwork)
    assert (config.trunk_class, config.network_class) == (f'{HERE}:OwnTrunk{{"width": 2}}', f"{HERE}:OwnNetwork")
    learner = LearnerConfig(policies=OwnSampler(2.0), tasks=Simplex())
    assert (learner.policies, learner.tasks) == (f'{HERE}:OwnSampler{{"step": 2.0}}', "usfa.samplers:Simplex")
    with pytest.raises(InputError, match=r"^learner\.policies is <function"):
        LearnerConfig(policies=lambda w: w)
    with pytest.raises(InputError, match=r"^network\.trunk_class is <class '.*Local'>, which cannot be found again"):
        NetworkConfig(trunk_class=local_class())


# --- parts from text ---


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("module:Class", True),
        ("package.module:Class", True),
        ('module:Class{"a": 1}', True),
        ('module:Class{"a": "}\n{"}', True),
        ("gaussian:0.1", False),
        ("module:Class()", False),
        ("module:Class.method", False),
        ("module:Class{", False),
        ("../module:Class", False),
        ("module", False),
        ("", False),
    ],
)
def test_own_parts_have_a_form(text, own):
    assert is_own(text) is own


def test_names_texts_and_classes_find_classes():
    assert REGISTRY.find("plain") is REGISTRY.find(f"{HERE}:Plain") is REGISTRY.find(Plain) is Plain
    assert list(REGISTRY) == ["plain", "built"]
    for part in ("built", Built, f"{HERE}:Built"):
        assert vars(REGISTRY.make(part, "x")) == {"first": "x", "size": 3, "names": ()}
    arguments = '{"size": 5, "names": [["a"], "b"]}'
    for text in ("built" + arguments, f"{HERE}:Built{arguments}"):
        assert vars(REGISTRY.make(text, "x")) == {"first": "x", "size": 5, "names": (("a",), "b")}


def test_own_names_can_be_registered():
    registry = Registry("part", Base, {"plain": Plain})
    registry.register("my-part_2", Built)
    registry.register("my-part_2", Built)  # the same again
    assert registry.find("my-part_2") is Built
    with pytest.raises(InputError, match=r"^The part 'my-part_2' is registered already; expected a new name\.$"):
        registry.register("my-part_2", Settings)
    for name in ("", "a:b", "a{}", "a b"):
        with pytest.raises(InputError, match=r"^The name of the part is .*; expected letters, digits, - and _"):
            registry.register(name, Built)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("plane", r"Unknown part 'plane': did you mean 'plain'\?"),
        ("", r"Unknown part '': known are built, plain\."),
        ("Plain()", r"Unknown part 'Plain\(\)': did you mean 'plain'\?"),
        (
            "this:Plain",
            r"The part 'this:Plain' is in the module 'this', which is not imported; im",
        ),
        (f"{HERE}:Missing", rf"The module '{HERE}' has no class 'Missing'; expected a class derived from "),
        (
            f"{HERE}:Stranger",
            rf"The part '{HERE}:Stranger' is <class '{HERE}\.Stranger'>; expected a class derived from ",
        ),
        (f"{HERE}:local_class", r"The part '.*' is <function local_class.*>; expected a class derived from "),
        (f"{HERE}:REGISTRY", r"The part '.*' is <usfa\.registry\.Registry.*>; expected a class derived from "),
        (f"{HERE}:Built{{size}}", r"The part is '.*', whose arguments are not JSON: Expecting property name"),
        ("built{size}", r"The part is 'built\{size\}', whose arguments are not JSON: Expecting property name"),
        ("built{", r"The part is 'built\{', whose arguments are not JSON: "),
        (
            f'{HERE}:Built{{"sise": 3}}',
            r"The part '.*' cannot be made: TypeError: .*unexpected keyword argument 'sise'",
        ),
        ('built{"sise": 3}', r"The part 'built.*' cannot be made: TypeError: .*unexpected keyword argument 'sise'"),
        (f"{HERE}:Plain", r"The part '.*' cannot be made: TypeError: .*Plain\(\) takes no arguments\.$"),
    ],
)
def test_texts_that_are_no_part_are_one_sentence(text, sentence):
    with pytest.raises(InputError, match=f"^{sentence}"):
        REGISTRY.make(text, "x")


def test_mistakes_of_our_own_are_not_hidden():
    with pytest.raises(TypeError):
        REGISTRY.make("plain", "x")
    with pytest.raises(ZeroDivisionError):
        made("plain", "part", lambda: 1 / 0)


def test_constructors_of_users_that_fail_are_one_sentence():
    with pytest.raises(InputError, match=rf"^The part '{HERE}:Own' cannot be made: ZeroDivisionError") as error:
        made(f"{HERE}:Own", "part", lambda: 1 / 0)
    assert isinstance(error.value.__cause__, ZeroDivisionError)


# --- nothing else is ever called ---


def harmful(path):
    """Texts that would write a file if they were called."""
    return [
        f'subprocess:Popen{{"args": ["touch", "{path}"]}}',
        f'subprocess:run{{"args": ["touch", "{path}"]}}',
        f'os:system{{"command": "touch {path}"}}',
        f'builtins:open{{"file": "{path}", "mode": "w"}}',
        f'pathlib:Path{{"args": "{path}"}}',
        f'{HERE}:Harmful{{"path": "{path}"}}',
    ]


class Harmful:
    """A class of another kind."""

    def __init__(self, *_, path):
        with open(path, "w"):
            pass


SPEC = AgentSpec(ObservationSpec((2,)), 3, 2)
READERS = {
    "policy distribution": lambda text: parse_sampler(text, np.eye(2)),
    "policy distribution after the task": lambda text: parse_sampler(f"task+{text}", np.eye(2)),
    "rule": parse_rule,
    "trunk": lambda text: TRUNKS.make(text, Sizes((2,), 3, 2, 2), NetworkConfig()),
    "network": lambda text: NETWORKS.make(text, Sizes((2,), 3, 2, 2), NetworkConfig()),
    "agent": lambda text: AGENTS.make(text, SPEC, NetworkConfig()),
}


@pytest.mark.parametrize("index", range(6))
@pytest.mark.parametrize("kind", READERS)
def test_a_text_never_calls_something_of_another_kind(tmp_path, kind, index):
    text = harmful(tmp_path / "written")[index]
    assert text.partition(":")[0] in sys.modules
    with pytest.raises(InputError, match=rf"^The {kind.removesuffix(' after the task')} '.*; expected a class "):
        READERS[kind](text)
    assert not (tmp_path / "written").exists()


class OwnTrunk(Trunk):
    def __init__(self, sizes, config, width=4):
        super().__init__()
        self.features = width

    def forward(self, inputs, core_state):
        return torch.ones(*inputs.first.shape, self.features), core_state


class OwnNetwork(Network):
    def __init__(self, sizes, config):
        super().__init__()

    def forward(self, inputs, core_state, z):
        raise NotImplementedError


@dataclass(frozen=True)
class OwnSampler(PolicySampler):
    step: float = 1.0

    def sample(self, w, n, rng):
        return np.repeat(w[..., None, :] + self.step, n, axis=-2)


class OwnRule:
    def decide(self, situation):
        raise NotImplementedError


class OwnAgent(UsfaAgent):
    pass


OWN = {"policy distribution": OwnSampler, "rule": OwnRule, "trunk": OwnTrunk, "network": OwnNetwork, "agent": OwnAgent}


@pytest.mark.parametrize("kind", OWN)
@pytest.mark.parametrize("other", OWN)
def test_parts_of_one_kind_are_no_parts_of_another(kind, other):
    text = text_of(OWN[other], "setting")
    if kind == other:
        assert isinstance(READERS[kind](text), OWN[kind])
    else:
        with pytest.raises(InputError, match=rf"^The {kind} '{text}' is <class .*>; expected a class "):
            READERS[kind](text)


# --- imports ---


@pytest.fixture
def own_modules(tmp_path, monkeypatch):
    """Modules that can be imported, and are forgotten again."""
    (tmp_path / "fine_module_of_a_test.py").write_text("class Own:\n    pass\n")
    (tmp_path / "bad_module_of_a_test.py").write_text("\n1 / 0\n")
    package = tmp_path / "bad_package_of_a_test"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('no')\n")
    (package / "inside.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in [name for name in sys.modules if name.endswith("_of_a_test")]:
        del sys.modules[name]


@pytest.mark.parametrize("text", ["fine_module_of_a_test:Own", 'task+fine_module_of_a_test:Own{"a": 1}'])
def test_modules_are_imported_when_asked_for(own_modules, text):
    import_modules([None, 3, "gaussian:0.1", "cautious", "subprocess:Popen", text])
    assert "fine_module_of_a_test" in sys.modules


def test_reading_a_text_imports_nothing(own_modules):
    for kind, read in READERS.items():
        with pytest.raises(
            InputError, match=r"is in the module 'fine_module_of_a_test', which is not imported; import"
        ):
            read("fine_module_of_a_test:Own")
        assert "fine_module_of_a_test" not in sys.modules, kind


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("bad_module_of_a_test:Own", "ZeroDivisionError: division by zero (bad_module_of_a_test.py, line 2)"),
        ("bad_package_of_a_test.inside:Own", "RuntimeError: no (__init__.py, line 1)"),
    ],
)
def test_modules_that_fail_are_one_sentence(own_modules, text, sentence):
    with pytest.raises(InputError) as error:
        import_modules([text])
    module = text.partition(":")[0]
    assert str(error.value) == f"The module {module!r} of {text!r} cannot be imported: {sentence}."


def test_words_that_only_look_like_modules_are_left_to_others():
    import_modules(["nowhere_to_be:Own", "nowhere.to.be:Own", "cautious:abc"])


def test_all_texts_of_a_file_that_may_name_parts():
    run = {
        "agent": "a:A",
        "network": {"network_class": "n:N", "trunk_class": "t:T", "memory": 0},
        "learner": {"policies": "p:P", "tasks": "q:Q", "gamma": 0.9},
        "evaluation": {"rules": ["r:R"], "final_rules": ["s:S"]},
    }
    expected = {"a:A", "n:N", "t:T", "p:P", "q:Q", "r:R", "s:S"}
    assert set(part_texts(run)) - {None} == expected
    agent = {"kind": "k:K", "policies": "p:P", "network": {}, "training": run}
    assert set(part_texts(agent)) - {None} == expected | {"k:K"}
    assert set(part_texts({"training": {}})) == {None}
