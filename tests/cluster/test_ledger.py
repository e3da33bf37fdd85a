"""Accounting, without any cluster."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from usfa.cluster.ledger import Account, AccountError, ActorId, Entry, Ledger, read_account
from usfa.errors import InputError

FIRST, SECOND = ActorId(0, 0, 0), ActorId(0, 1, 0)


def learned(actor, sequence, updates, frames=10):
    return Entry(actor, sequence, "learned", frames, 0, updates)


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "trajectories.jsonl")
    yield ledger
    ledger.close()


def test_every_trajectory_ends_somewhere(ledger, tmp_path):
    assert ledger.begin(updates=0) == 0
    ledger.ask(FIRST, 2, "here", 1)
    ledger.ask(SECOND, 2, "here", 1)
    ledger.settle(learned(FIRST, 1, updates=1), asked=3)
    ledger.settle(Entry(SECOND, 1, "stale", 10, 5, 1), asked=3)
    ledger.settle(Entry(SECOND, 2, "lost", why="killed"))
    assert str(ledger.account) == "6 trajectories asked for = 1 learned + 1 lost + 1 stale + 3 under way"
    assert ledger.account.open == [(FIRST, 2), (FIRST, 3), (SECOND, 3)]
    assert ledger.account.dropped == 2
    ledger.account.check(learned_frames=10)
    assert vars(read_account(tmp_path / "trajectories.jsonl")) == vars(ledger.account)


@pytest.mark.parametrize("entry", [learned(FIRST, 1, 2), learned(FIRST, 3, 2), learned(SECOND, 1, 2)])
def test_nothing_is_learned_twice_or_unasked(ledger, tmp_path, entry):
    """The first again, one that was not asked for yet, one of an unknown actor."""
    ledger.begin(updates=0)
    ledger.ask(FIRST, 2, "here", 1)
    ledger.settle(learned(FIRST, 1, updates=1))
    before = (tmp_path / "trajectories.jsonl").read_text()
    with pytest.raises(AccountError, match="is not under way"):
        ledger.settle(entry)
    assert (tmp_path / "trajectories.jsonl").read_text() == before


def test_a_learner_that_is_killed_forgets_what_came_after_its_checkpoint(tmp_path):
    path = tmp_path / "trajectories.jsonl"
    killed = Ledger(path)
    killed.begin(updates=0)
    killed.ask(FIRST, 2, "here", 1)
    for updates in (1, 2, 3, 4):
        killed.settle(learned(FIRST, updates, updates, frames=updates), asked=updates + 2)
    killed.close()
    resumed = Ledger(path)
    assert resumed.begin(updates=2) == 1
    resumed.ask(ActorId(1, 0, 0), 2, "here", 1)
    resumed.settle(learned(ActorId(1, 0, 0), 1, 3, frames=100), asked=3)
    resumed.close()
    account = read_account(path)
    assert account.trajectories == {"learned": 3, "forgotten": 2, "lost": 2}
    assert (account.frames["learned"], account.frames["forgotten"]) == (1 + 2 + 100, 3 + 4)
    assert (account.asked, account.under_way, account.sessions) == (9, 2, 2)
    account.check(103)
    with pytest.raises(AccountError, match="The account has 103 frames learned, the learner 104"):
        account.check(104)


def test_a_torn_line_was_never_written(tmp_path):
    path = tmp_path / "trajectories.jsonl"
    ledger = Ledger(path)
    ledger.begin(updates=0)
    ledger.ask(FIRST, 2, "here", 1)
    ledger.close()
    with path.open("a") as file:
        file.write('{"actor": [0, 0, 0], "sequ')
    resumed = Ledger(path)
    resumed.begin(updates=0)
    resumed.ask(ActorId(1, 0, 0), 1, "here", 1)
    resumed.close()
    account = read_account(path)
    assert account.trajectories["lost"] == 2
    assert account.under_way == 1


def test_changed_lines_are_found(tmp_path):
    path = tmp_path / "trajectories.jsonl"
    ledger = Ledger(path)
    ledger.begin(updates=0)
    ledger.ask(FIRST, 2, "here", 1)
    ledger.settle(learned(FIRST, 1, updates=1))
    ledger.close()
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    changed = [whole[:i] + bytes([whole[i] ^ 4]) + whole[i + 1 :] for i in range(len(whole) - 1)]
    for content in [*changed, lines[0] + lines[2], lines[1] + lines[0] + lines[2], whole + b"{}\n", whole + b"\xff\n"]:
        path.write_bytes(content)
        with pytest.raises(
            InputError, match=r"trajectories\.jsonl was changed: the checksum of line \d does not match"
        ):
            read_account(path)


def test_ledgers_of_earlier_versions_have_no_checksums(tmp_path):
    """They are read, with torn lines skipped, and appended to; a later change of their lines is found."""
    path = tmp_path / "trajectories.jsonl"
    before = b'{"session": 0, "resumed_at": 0}\n{"actor": [0, 0\n{"actor": [0, 0, 0], "asked": 2}\n'
    path.write_bytes(before)
    assert read_account(path).under_way == 2
    ledger = Ledger(path)
    ledger.begin(updates=0)
    ledger.close()
    assert read_account(path).trajectories["lost"] == 2
    path.write_bytes(path.read_bytes().replace(b'"asked": 2', b'"asked": 3'))
    with pytest.raises(InputError, match=r"the checksum of line 4 does not match\.$"):
        read_account(path)


@pytest.mark.parametrize(
    "line",
    [
        *("{}", '{"asked": 3}', '{"actor": 3}', '{"resumed_at": "x"}', '{"checkpoint": "x"}', '{"checkpoint": -1}'),
        *('{"actor": [0, 0, 0], "asked": 10000000000}', '{"actor": [0, 0, "x"], "asked": 1}'),
        '{"actor": [0, 0, 0], "asked": 1}\n{"actor": [0, 0, 0], "sequence": 1, "fate": "eaten"}',
    ],
)
def test_what_is_no_ledger_is_one_sentence(tmp_path, line):
    path = tmp_path / "trajectories.jsonl"
    path.write_text(f'{{"session": 0, "resumed_at": 0}}\n{{"checkpoint": 0}}\n{line}\n')
    with pytest.raises(InputError, match=r"trajectories\.jsonl is not a ledger of trajectories: "):
        read_account(path)


def test_the_memory_of_learned_trajectories_is_bounded(ledger, tmp_path):
    ledger.begin(updates=0)
    ledger.ask(FIRST, 1, "here", 1)
    for updates in range(1, 101):
        ledger.settle(learned(FIRST, updates, updates), asked=updates + 1)
        if updates % 10 == 0:
            ledger.checkpoint(updates)
    assert len(ledger.account._learned) == 20
    ledger.close()
    account = read_account(tmp_path / "trajectories.jsonl")
    assert vars(account) == vars(ledger.account)
    account.begin(updates=90)
    account.check(learned_frames=900)


def test_actors_that_were_replaced_are_counted(ledger):
    ledger.begin(updates=0)
    for incarnation in range(4):
        ledger.ask(ActorId(0, 0, incarnation), 1, "here", 1)
    ledger.ask(SECOND, 1, "here", 1)
    assert ledger.account.restarts == 3
    assert str(ActorId(0, 7, 0)) == "7"
    assert str(ActorId(0, 7, 2)) == "7 (replacement 2)"


EVENTS = st.lists(
    st.tuples(st.sampled_from(["learned", "stale", "poisoned", "lost", "resume"]), st.integers(0, 2**16)), max_size=60
)


@given(EVENTS)
def test_it_always_adds_up(events):
    """Whatever happens in whatever order: two actors, settled at random, and learners that are killed at random."""
    account, updates, frames_at = Account(), 0, {0: 0}

    def session():
        account.begin(updates)
        for actor in (0, 1):
            account.ask(ActorId(account.sessions, actor, 0), 2)

    session()
    for what, number in events:
        if what == "resume":
            updates = number % (updates + 1)
            session()
        else:
            actor, sequence = account.open[number % account.under_way]
            if what == "learned":
                updates += 1
                frames_at[updates] = frames_at[updates - 1] + number
            account.settle(Entry(actor, sequence, what, number, 0, updates))
            account.ask(actor, max(account._asked_of[actor], sequence) + 1)
        account.check(frames_at[updates])


def test_lines_are_json(ledger, tmp_path):
    ledger.begin(updates=0)
    ledger.ask(FIRST, 1, "here", 1)
    ledger.settle(Entry(FIRST, 1, "poisoned", 3, 2, 7, "phi is not finite"), asked=2)
    lines = [json.loads(line) for line in (tmp_path / "trajectories.jsonl").read_text().splitlines()]
    assert all(len(line.pop("checksum")) == 16 for line in lines)
    assert lines == [
        {"session": 0, "resumed_at": 0},
        {"actor": [0, 0, 0], "asked": 1, "node": "here", "process": 1},
        {
            "actor": [0, 0, 0],
            "sequence": 1,
            "fate": "poisoned",
            "frames": 3,
            "staleness": 2,
            "updates": 7,
            "why": "phi is not finite",
            "asked": 2,
        },
    ]
