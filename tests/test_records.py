import json
from dataclasses import dataclass

import pytest

from usfa.errors import InputError
from usfa.records import from_json, to_json


@dataclass(frozen=True)
class Layer:
    width: int
    name: str = "relu"


@dataclass(frozen=True)
class Config:
    first: Layer
    rate: float = 1e-3
    tasks: tuple[tuple[float, ...], ...] = ()
    layers: tuple[Layer, ...] = ()
    note: str | None = None


CONFIG = Config(Layer(3), 0.5, ((1.0, -1.0), (0.0, 2.0)), (Layer(4), Layer(5, "tanh")), "σ")


def test_nested_records_round_trip_through_json():
    assert from_json(Config, json.loads(json.dumps(to_json(CONFIG))), "file") == CONFIG


def test_missing_fields_take_their_defaults():
    assert from_json(Config, {"first": {"width": 3}}, "file") == Config(Layer(3))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"rate": "fast"}, r"file does not describe a Config: .*float.*\$\.rate"),
        ({"first": {"width": 2.5}}, r"file does not describe a Config: .*int.*\$\.first\.width"),
        ({"first": {}}, r"file does not describe a Config: .*missing required field `width`.*\$\.first"),
        ({"tasks": [[1.0], ["x"]]}, r"file does not describe a Config: .*\$\.tasks\[1\]\[0\]"),
        ({"rat": 0.5}, r"file has the unknown field 'rat' for a Config\.$"),
        ({"first": {"width": 3, "widht": 4}}, r"file has the unknown field 'widht' for a Config\.$"),
        (
            {"layers": [{"width": 3}, {"width": 3, "nmae": ""}]},
            r"file has the unknown field 'nmae' for",
        ),
    ],
)
def test_the_field_that_does_not_fit_is_named(change, sentence):
    with pytest.raises(InputError, match=f"^{sentence}"):
        from_json(Config, {"first": {"width": 3}, **change}, "file")


def test_another_kind_of_value_is_refused():
    with pytest.raises(InputError, match=r"^file does not describe a Config: Expected `object`, got `array`"):
        from_json(Config, [1], "file")
