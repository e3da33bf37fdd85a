"""What the page and the server say to each other. Everything that comes in is checked here, field by field.

The page speaks JSON, one of the messages below with its name in "type". The server answers with notes, which are JSON
as well and all arrive, and with moments, which are binary (:mod:`usfa.playground.frames`) and of which only the newest
counts.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from usfa.errors import InputError

__all__ = [
    "MESSAGE_BYTES",
    "AgentCard",
    "Candidates",
    "ChooseCandidates",
    "ChooseRule",
    "Failure",
    "FeatureCard",
    "Forget",
    "Hello",
    "Message",
    "Note",
    "Pause",
    "Ping",
    "PlayerCard",
    "PlayerChoice",
    "Policies",
    "Pong",
    "PresetGroup",
    "Rate",
    "Rated",
    "Reset",
    "RuleChosen",
    "RuleName",
    "Scene",
    "SetSpeed",
    "SetTask",
    "SetView",
    "Setup",
    "ShowHeatmap",
    "ShownHeatmap",
    "StepOnce",
    "StopHeatmap",
    "decode",
    "encode",
]

MESSAGE_BYTES = 16_384  # more is refused before it is read

Entry = Annotated[float, Meta(ge=-100, le=100)]
Vector = Annotated[list[Entry], Meta(min_length=1, max_length=64)]
Candidates = Annotated[str, Meta(max_length=32)] | Annotated[list[Vector], Meta(min_length=1, max_length=64)]
"""A named set, or a list of policies z."""
Name = Annotated[str, Meta(min_length=1, max_length=200)]
RuleName = Annotated[str, Meta(min_length=1, max_length=32)]
"""A name for :func:`usfa.decisions.parse_rule`."""
Seed = Annotated[int, Meta(ge=0, le=2**31 - 1)]
PlayerIndex = Annotated[int, Meta(ge=0, le=1)]
Speed = Annotated[float, Meta(ge=0.1, le=8)]
ViewSize = Annotated[int, Meta(ge=64, le=512)]
FeatureIndex = Annotated[int, Meta(ge=0, le=63)]


class _Message(msgspec.Struct, frozen=True, tag_field="type", forbid_unknown_fields=True):
    pass


# --- from the page ---


class PlayerChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of the agents that the server offers, its candidate set and rule; None is the agent's own default."""

    agent: Name
    candidates: Candidates | None = None
    rule: RuleName | None = None


class Setup(_Message, frozen=True, tag="setup"):
    """Begin, or begin again: everything that a visitor can set. A page that lost its server says this again."""

    players: Annotated[list[PlayerChoice], Meta(min_length=1, max_length=2)]
    task: Vector | None = None  # None is the agent's first training task
    seed: Seed = 0
    speed: Speed = 1.0
    paused: bool = False
    view: ViewSize = 336
    eyes: bool = False


class SetTask(_Message, frozen=True, tag="task"):
    w: Vector


class ChooseCandidates(_Message, frozen=True, tag="candidates"):
    player: PlayerIndex
    candidates: Candidates


class ChooseRule(_Message, frozen=True, tag="rule"):
    player: PlayerIndex
    rule: RuleName


class Pause(_Message, frozen=True, tag="pause"):
    paused: bool


class StepOnce(_Message, frozen=True, tag="step"):
    """One decision, then pause."""


class SetSpeed(_Message, frozen=True, tag="speed"):
    factor: Speed


class Reset(_Message, frozen=True, tag="reset"):
    """A new episode; the seed decides the layout."""

    seed: Seed


class SetView(_Message, frozen=True, tag="view"):
    size: ViewSize
    eyes: bool = False  # exactly what the agent sees, in its own pixels


class Rate(_Message, frozen=True, tag="rate"):
    """What the last steps of a player were worth to the visitor."""

    reward: Entry
    steps: Annotated[int, Meta(ge=1, le=300)]
    player: PlayerIndex = 0


class Forget(_Message, frozen=True, tag="forget"):
    """Forget all ratings."""


class ShowHeatmap(_Message, frozen=True, tag="heatmap"):
    """A map over the plane of two features of task space; the other entries stay as they are now."""

    x: FeatureIndex
    y: FeatureIndex
    quantity: Annotated[str, Meta(max_length=20)]
    resolution: Annotated[int, Meta(ge=3, le=25)] = 9
    player: PlayerIndex = 0


class StopHeatmap(_Message, frozen=True, tag="stop-heatmap"):
    pass


class Ping(_Message, frozen=True, tag="ping"):
    id: Annotated[int, Meta(ge=0, le=2**53)]


Message = (
    Setup
    | SetTask
    | ChooseCandidates
    | ChooseRule
    | Pause
    | StepOnce
    | SetSpeed
    | Reset
    | SetView
    | Rate
    | Forget
    | ShowHeatmap
    | StopHeatmap
    | Ping
)

_decoder = msgspec.json.Decoder(Message)


def decode(raw: str | bytes) -> Message:
    """A message, or InputError with what is wrong with it."""
    if len(raw) > MESSAGE_BYTES:
        raise InputError(f"The message has {len(raw)} bytes; expected at most {MESSAGE_BYTES}.")
    try:
        return _decoder.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:  # ValueError: text that is not UTF-8
        raise InputError(f"The message is not understood: {str(error)[:200]}") from None


# --- to the page ---


class FeatureCard(msgspec.Struct, frozen=True):
    """How a feature is called and shown."""

    name: str
    colour: str
    picture: str | None = None  # an address


class AgentCard(msgspec.Struct, frozen=True):
    """What the page tells about an agent before anybody plays with it."""

    name: str
    kind: str
    environment: str
    load: str  # what usfa.load wants


class PresetGroup(msgspec.Struct, frozen=True):
    """Tasks that belong together, each with its text."""

    name: str
    tasks: list[tuple[str, list[float]]]


class PlayerCard(msgspec.Struct, frozen=True):
    """Who plays, and what may be chosen for it."""

    agent: AgentCard
    candidates: Candidates
    choices: list[str]  # named candidate sets that this agent can have
    own_candidates: bool  # whether it can have a list
    rule: str
    rules: list[str]  # that make a difference to this agent; empty if none does
    explains: bool  # whether it has successor features to show
    quantities: dict[str, str]  # what a heat map can show of it, and in words


class Hello(_Message, frozen=True, tag="hello"):
    """The first note of a connection."""

    version: str
    agents: list[AgentCard]


class Scene(_Message, frozen=True, tag="scene"):
    """The setting of a session, from here on."""

    environment: str
    kind: str  # "room", "mdp" or "picture"
    features: list[FeatureCard]
    actions: list[str]
    players: list[PlayerCard]
    presets: list[PresetGroup]
    rate: float  # decisions per second at speed 1
    moment: int  # steps that a mark of good or bad is about
    task: list[float]
    seed: int
    eyes: bool  # whether the agent sees a picture
    plan: dict[str, object]  # what does not change about the map of a room, or the graph of an MDP


class Policies(_Message, frozen=True, tag="policies"):
    """The candidate set C of a player, as vectors."""

    player: int
    candidates: Candidates
    z: list[list[float]]
    names: list[str]


class RuleChosen(_Message, frozen=True, tag="rule"):
    """The rule that a player decides by from here on."""

    player: int
    rule: str


class Rated(_Message, frozen=True, tag="rated"):
    """What the ratings so far say about the task."""

    ratings: int
    phi: list[float]  # of the last rating
    w: list[float] | None  # the estimate; None without ratings
    std: list[float] | None  # of each entry; 1 is what is known without any rating
    rank: int
    says: str


class ShownHeatmap(_Message, frozen=True, tag="heatmap"):
    """A heat map, perhaps still in the making."""

    x: int
    y: int
    quantity: str
    player: int
    rule: str
    ticks: list[float]
    task: list[float]  # the entries that are not x and y
    values: list[list[float | None]]  # rows along y, from the lowest
    progress: float  # 1 when done
    says: str = ""


class Pong(_Message, frozen=True, tag="pong"):
    id: int


class Failure(_Message, frozen=True, tag="error"):
    """Something that the visitor asked for cannot be done; nothing has changed."""

    says: str


Note = Hello | Scene | Policies | RuleChosen | Rated | ShownHeatmap | Pong | Failure

_encoder = msgspec.json.Encoder()


def encode(note: Note) -> str:
    return _encoder.encode(note).decode()
