import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from playground_fakes import unpack

from usfa.errors import InputError
from usfa.playground.outbox import DecisionFrame, Frame, PlayerFrame, pack, shrunk
from usfa.playground.protocol import (
    MESSAGE_BYTES,
    ErrorMessage,
    Ping,
    SetCandidates,
    SetRule,
    SetTask,
    Setup,
    decode,
    encode,
)


def test_messages_are_distinguished_by_their_type():
    assert decode('{"type": "ping", "id": 3}') == Ping(3)
    assert decode(b'{"type": "task", "w": [1, -0.5]}') == SetTask([1.0, -0.5])
    assert decode('{"type": "candidates", "player": 1, "candidates": [[1, 0]]}') == SetCandidates(1, [[1.0, 0.0]])
    assert decode('{"type": "rule", "player": 0, "rule": "gpi"}') == SetRule(0, "gpi")
    players = '[{"agent": "room"}, {"agent": "room", "candidates": "train", "rule": "follow"}]'
    setup = decode(f'{{"type": "setup", "players": {players}}}')
    assert isinstance(setup, Setup)
    assert [player.candidates for player in setup.players] == [None, "train"]
    assert [player.rule for player in setup.players] == [None, "follow"]


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "null",
        "[]",
        "{",
        "{}",
        '{"type": "exec"}',
        '{"type": "hello", "version": "", "agents": []}',
        '{"type": "task"}',
        '{"type": "task", "w": []}',
        '{"type": "task", "w": [1], "more": 1}',
        '{"type": "task", "w": [NaN]}',
        '{"type": "task", "w": [Infinity]}',
        '{"type": "task", "w": [1e999]}',
        '{"type": "task", "w": [1e9]}',
        '{"type": "task", "w": ["1"]}',
        '{"type": "task", "w": [null]}',
        '{"type": "task", "w": ' + json.dumps([0] * 65) + "}",
        '{"type": "ping", "id": -1}',
        '{"type": "ping", "id": 1e400}',
        '{"type": "ping", "id": true}',
        '{"type": "reset", "seed": 2147483648}',
        '{"type": "reset", "seed": 0.5}',
        '{"type": "speed", "factor": 0}',
        '{"type": "speed", "factor": 1000}',
        '{"type": "picture", "size": 100000}',
        '{"type": "pause", "paused": "yes"}',
        '{"type": "candidates", "player": 2, "candidates": "task"}',
        '{"type": "candidates", "player": 0, "candidates": []}',
        '{"type": "candidates", "player": 0, "candidates": "' + "x" * 33 + '"}',
        '{"type": "rule", "player": 2, "rule": "gpi"}',
        '{"type": "rule", "player": 0, "rule": ""}',
        '{"type": "rule", "player": 0, "rule": {"caution": 1}}',
        '{"type": "rule", "player": 0, "rule": "' + "x" * 33 + '"}',
        '{"type": "setup", "players": [{"agent": "a", "rule": 3}]}',
        '{"type": "setup", "players": []}',
        '{"type": "setup", "players": [{"agent": ""}]}',
        '{"type": "setup", "players": [{"agent": "a"}, {"agent": "a"}, {"agent": "a"}]}',
        '{"type": "heatmap", "x": 0, "y": 1, "quantity": "score", "resolution": 1000}',
        "[" * 5000,
        '{"type":' * 1000,
        b"\xff\xfe\x00",
        b"\x00" * 100,
        "x" * (MESSAGE_BYTES + 1),
    ],
    ids=lambda raw: repr(raw[:40]),
)
def test_what_is_not_a_message_is_refused_with_a_sentence(raw):
    with pytest.raises(InputError, match="message") as refusal:
        decode(raw)
    assert len(str(refusal.value)) < 300


@given(st.one_of(st.text(), st.binary()))
def test_nothing_but_a_sentence_comes_of_noise(raw):
    with pytest.raises(InputError):
        decode(raw)


def test_notes_carry_their_type():
    assert json.loads(encode(ErrorMessage("no"))) == {"type": "error", "message": "no"}


# --- frames ---


def frame_of(*players):
    return Frame(seed=3, task=[1.0, 0.0], players=list(players))


def test_pictures_follow_the_json_and_are_named_by_their_place():
    large = np.zeros((200, 160, 3), np.uint8)
    small = np.random.default_rng(0).integers(256, size=(24, 24, 3)).astype(np.uint8)
    sent, rest = unpack(pack(frame_of(PlayerFrame(1), PlayerFrame(1), PlayerFrame(1)), [large, None, small]))
    first, none, last = sent["players"]
    assert (first["picture"]["width"], first["picture"]["height"]) == (160, 200)
    assert first["picture"]["type"] == "image/jpeg"
    assert rest[:2] == b"\xff\xd8"
    assert "picture" not in none
    assert last["picture"]["type"] == "image/png"  # every pixel of what the agent sees is exact
    start = last["picture"]["start"]
    assert start == first["picture"]["length"]
    assert rest[start : start + 4] == b"\x89PNG"
    assert len(rest) == start + last["picture"]["length"]


def test_illegal_actions_have_no_value():
    decision = DecisionFrame(0, [1.0, float("-inf")], 0, False, [1.0], None)
    sent, _ = unpack(pack(frame_of(PlayerFrame(0, decision=decision)), [None]))
    assert sent["players"][0]["decision"]["q"] == [1.0, None]


def test_pictures_are_shrunk_and_never_enlarged():
    assert shrunk(np.zeros((600, 300, 3), np.uint8), 100).shape == (100, 50, 3)
    assert shrunk(np.zeros((60, 30, 3), np.uint8), 100).shape == (60, 30, 3)
