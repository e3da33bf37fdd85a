"""The JSON messages between page and server, each with its name in "type". All input is checked field by field.

The server also sends frames, which are binary (:mod:`usfa.playground.outbox`).
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from usfa.errors import InputError

__all__ = [
    "MESSAGE_BYTES",
    "AgentInfo",
    "Candidates",
    "ClearRatings",
    "ClientMessage",
    "CurrentRule",
    "ErrorMessage",
    "FeatureInfo",
    "Heatmap",
    "Hello",
    "Pause",
    "Ping",
    "PlayerChoice",
    "PlayerInfo",
    "Policies",
    "Pong",
    "PresetGroup",
    "Rate",
    "Reset",
    "ServerMessage",
    "SessionInfo",
    "SetCandidates",
    "SetPicture",
    "SetRule",
    "SetSpeed",
    "SetTask",
    "Setup",
    "ShowHeatmap",
    "StepOnce",
    "StopHeatmap",
    "TaskEstimate",
    "decode",
    "encode",
]

MESSAGE_BYTES = 16_384  # longer messages are rejected before they are parsed

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
PictureSize = Annotated[int, Meta(ge=64, le=512)]
FeatureIndex = Annotated[int, Meta(ge=0, le=63)]


class _Message(msgspec.Struct, frozen=True, tag_field="type", forbid_unknown_fields=True):
    pass


# --- from the page ---


class PlayerChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An agent of the catalogue, its candidate set and rule; None is the agent's default."""

    agent: Name
    candidates: Candidates | None = None
    rule: RuleName | None = None


class Setup(_Message, frozen=True, tag="setup"):
    """Begin, or begin again, with everything that a user can set. Sent again after a lost connection."""

    players: Annotated[list[PlayerChoice], Meta(min_length=1, max_length=2)]
    task: Vector | None = None  # None is the agent's first training task
    seed: Seed = 0
    speed: Speed = 1.0
    paused: bool = False
    picture_size: PictureSize = 336
    observation: bool = False  # see SetPicture


class SetTask(_Message, frozen=True, tag="task"):
    w: Vector


class SetCandidates(_Message, frozen=True, tag="candidates"):
    player: PlayerIndex
    candidates: Candidates


class SetRule(_Message, frozen=True, tag="rule"):
    player: PlayerIndex
    rule: RuleName


class Pause(_Message, frozen=True, tag="pause"):
    paused: bool


class StepOnce(_Message, frozen=True, tag="step"):
    """Take one decision, then pause."""


class SetSpeed(_Message, frozen=True, tag="speed"):
    factor: Speed


class Reset(_Message, frozen=True, tag="reset"):
    """Begin a new episode; the seed determines the layout."""

    seed: Seed


class SetPicture(_Message, frozen=True, tag="picture"):
    size: PictureSize
    observation: bool = False  # show the agent's observation, in its own pixels


class Rate(_Message, frozen=True, tag="rate"):
    """The user's reward for the last steps of a player."""

    reward: Entry
    steps: Annotated[int, Meta(ge=1, le=300)]
    player: PlayerIndex = 0


class ClearRatings(_Message, frozen=True, tag="clear-ratings"):
    pass


class ShowHeatmap(_Message, frozen=True, tag="heatmap"):
    """Compute a map over two entries of the task; the other entries keep their values."""

    x: FeatureIndex
    y: FeatureIndex
    quantity: Annotated[str, Meta(max_length=20)]
    resolution: Annotated[int, Meta(ge=3, le=25)] = 9
    player: PlayerIndex = 0
    episodes: Annotated[int, Meta(ge=1, le=20)] = 2  # per cell


class StopHeatmap(_Message, frozen=True, tag="stop-heatmap"):
    pass


class Ping(_Message, frozen=True, tag="ping"):
    id: Annotated[int, Meta(ge=0, le=2**53)]


ClientMessage = (
    Setup
    | SetTask
    | SetCandidates
    | SetRule
    | Pause
    | StepOnce
    | SetSpeed
    | Reset
    | SetPicture
    | Rate
    | ClearRatings
    | ShowHeatmap
    | StopHeatmap
    | Ping
)

_decoder = msgspec.json.Decoder(ClientMessage)


def decode(raw: str | bytes) -> ClientMessage:
    """Parse a message; InputError if it is invalid."""
    if len(raw) > MESSAGE_BYTES:
        raise InputError(f"The message has {len(raw)} bytes; expected at most {MESSAGE_BYTES}.")
    try:
        return _decoder.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:  # ValueError: text that is not UTF-8
        raise InputError(f"The message is invalid: {str(error)[:200]}") from None


# --- to the page ---


class FeatureInfo(msgspec.Struct, frozen=True):
    """Name and looks of a feature."""

    name: str
    colour: str
    picture: str | None = None  # a URL


class AgentInfo(msgspec.Struct, frozen=True):
    """An agent of the catalogue."""

    name: str
    kind: str
    environment: str
    load: str  # argument of usfa.load


class PresetGroup(msgspec.Struct, frozen=True):
    """A named list of tasks, each with its text."""

    name: str
    tasks: list[tuple[str, list[float]]]


class PlayerInfo(msgspec.Struct, frozen=True):
    """A player, and the choices that the page offers for it."""

    agent: AgentInfo
    candidates: Candidates
    candidate_choices: list[str]  # named sets that the agent supports
    accepts_list: bool  # whether the candidates can be a list of policies
    rule: str
    default_rule: str  # the agent's; the page compares it with Eq. 3
    rule_choices: list[str]  # rules that differ for the agent; may be empty
    has_psi: bool
    quantities: dict[str, str]  # heat maps that can be computed, with their labels
    training_tasks: list[list[float]]  # M
    exact: bool  # whether heat maps are computed without episodes


class Hello(_Message, frozen=True, tag="hello"):
    """The first message of a connection."""

    version: str
    agents: list[AgentInfo]


class SessionInfo(_Message, frozen=True, tag="session"):
    """Reply to a setup."""

    environment: str
    kind: str  # "room", "mdp" or "picture"
    features: list[FeatureInfo]
    actions: list[str]
    players: list[PlayerInfo]
    presets: list[PresetGroup]
    rate: float  # decisions per second at speed 1
    rating_steps: int  # number of steps that a rating "good" or "bad" covers
    task: list[float]
    seed: int
    has_observation_picture: bool
    plan: dict[str, object]  # walls of a room, or graph of an MDP


class Policies(_Message, frozen=True, tag="policies"):
    """The candidate set C of a player, as vectors."""

    player: int
    candidates: Candidates
    z: list[list[float]]
    names: list[str]


class CurrentRule(_Message, frozen=True, tag="rule"):
    """The rule of a player."""

    player: int
    rule: str


class TaskEstimate(_Message, frozen=True, tag="estimate"):
    """The task estimated from all ratings."""

    ratings: int
    phi: list[float]  # of the last rating
    w: list[float] | None  # None without ratings
    std: list[float] | None  # of each entry; 1 without any rating
    rank: int
    message: str


class Heatmap(_Message, frozen=True, tag="heatmap"):
    """A heat map, complete or partial."""

    x: int
    y: int
    quantity: str
    player: int
    rule: str
    ticks: list[float]
    task: list[float]  # supplies the entries other than x and y
    values: list[list[float | None]]  # rows along y, from the lowest
    progress: float  # 1 when complete
    episodes: int  # per cell; 0 if the values are exact
    message: str = ""


class Pong(_Message, frozen=True, tag="pong"):
    id: int


class ErrorMessage(_Message, frozen=True, tag="error"):
    """A request failed and changed nothing."""

    message: str


ServerMessage = Hello | SessionInfo | Policies | CurrentRule | TaskEstimate | Heatmap | Pong | ErrorMessage

_encoder = msgspec.json.Encoder()


def encode(message: ServerMessage) -> str:
    return _encoder.encode(message).decode()
