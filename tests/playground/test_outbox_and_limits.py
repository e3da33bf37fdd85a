import asyncio
import dataclasses
import logging

import pytest

from usfa.errors import InputError
from usfa.playground import Limits
from usfa.playground.limits import LogLimit, TokenBucket
from usfa.playground.outbox import Outbox, Overflow
from usfa.playground.protocol import PlayerChoice, Pong, Setup


def test_a_token_bucket_allows_a_burst_and_then_a_rate():
    now = [0.0]
    bucket = TokenBucket(per_second=10, burst=5, clock=lambda: now[0])
    assert [bucket.take() for _ in range(7)] == [True] * 5 + [False] * 2
    now[0] += 0.25
    assert [bucket.take() for _ in range(4)] == [True] * 2 + [False] * 2
    now[0] += 1000
    assert sum(bucket.take() for _ in range(20)) == 5


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Limits)])
def test_limits_are_positive(name):
    with pytest.raises(InputError, match=f"The limit {name} is 0"):
        Limits(**{name: 0})


def emptied(outbox, count):
    async def read():
        return [await asyncio.wait_for(outbox.next(), 5) for _ in range(count)]

    return read


def filled(fill, count):
    """What a writer gets to send after `fill(outbox)`."""

    async def run():
        outbox = Outbox(asyncio.get_running_loop())
        fill(outbox)
        await asyncio.sleep(0)
        return await emptied(outbox, count)()

    return asyncio.run(run())


def test_all_messages_arrive_and_only_the_newest_frame():
    def fill(outbox):
        outbox.show(b"old", intermediate=False)
        outbox.send(Pong(1))
        outbox.show(b"new", intermediate=False)
        outbox.send(Pong(2))

    assert filled(fill, 3) == ['{"type":"pong","id":1}', '{"type":"pong","id":2}', b"new"]


def test_an_intermediate_frame_does_not_replace_a_full_one():
    def fill(outbox):
        outbox.show(b"all", intermediate=False)
        outbox.show(b"in between", intermediate=True)

    assert filled(fill, 1) == [b"all"]


def test_an_unsent_frame_of_the_previous_setup_is_dropped(catalogue):
    def fill(outbox):
        outbox.show(b"previous", intermediate=False)
        setup = Setup([PlayerChoice("trip")])
        outbox.send(catalogue.session_info(catalogue.make_players(setup), setup.seed))
        outbox.show(b"half way", intermediate=True)

    message, frame = filled(fill, 2)
    assert '"type":"session"' in message
    assert frame == b"half way"


def test_a_client_that_does_not_read_is_disconnected():
    with pytest.raises(Overflow):
        filled(lambda outbox: [outbox.send(Pong(number)) for number in range(1000)], 1)


def test_messages_after_the_end_of_the_loop_are_dropped():
    loop = asyncio.new_event_loop()
    outbox = Outbox(loop)
    loop.close()
    outbox.send(Pong(1))


def test_a_blocked_writer_does_not_fill_memory():
    """Nothing is sent while the client does not read, so nothing notices the overflow."""

    async def run():
        outbox = Outbox(asyncio.get_running_loop())
        for number in range(10_000):
            outbox.send(Pong(number))
        await asyncio.sleep(0)
        return len(outbox._messages)

    assert asyncio.run(run()) < 300


def test_the_log_has_few_lines_and_counts_the_others(caplog):
    now = [0.0]
    log = logging.getLogger("limited")
    log.addFilter(LogLimit(TokenBucket(per_second=1, burst=3, clock=lambda: now[0])))
    for number in range(100):
        log.warning("bad request %s", number)
    now[0] += 1
    log.warning("bad request %s", 100)
    assert caplog.messages == [
        *(f"bad request {number}" for number in range(3)),
        "bad request 100 (97 lines before this one left out)",
    ]
