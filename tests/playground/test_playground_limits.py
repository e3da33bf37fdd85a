import asyncio

import pytest

from usfa.errors import InputError
from usfa.playground import Limits
from usfa.playground.limits import Allowance
from usfa.playground.mailbox import Mailbox, Overflow
from usfa.playground.protocol import Pong


def test_an_allowance_is_a_burst_and_then_a_rate():
    now = [0.0]
    allowance = Allowance(per_second=10, burst=5, clock=lambda: now[0])
    assert [allowance.take() for _ in range(7)] == [True] * 5 + [False] * 2
    now[0] += 0.25
    assert [allowance.take() for _ in range(4)] == [True] * 2 + [False] * 2
    now[0] += 1000
    assert sum(allowance.take() for _ in range(20)) == 5


@pytest.mark.parametrize("name", ["sessions", "messages_per_second", "burst", "idle_seconds"])
def test_limits_are_positive(name):
    with pytest.raises(InputError, match=f"The limit {name} is 0"):
        Limits(**{name: 0})


def emptied(mailbox, count):
    async def read():
        return [await asyncio.wait_for(mailbox.next(), 5) for _ in range(count)]

    return read


def filled(fill, count):
    """What a writer gets to send after `fill(mailbox)`."""

    async def run():
        mailbox = Mailbox(asyncio.get_running_loop())
        fill(mailbox)
        await asyncio.sleep(0)
        return await emptied(mailbox, count)()

    return asyncio.run(run())


def test_notes_all_arrive_and_of_the_moments_the_newest():
    def fill(mailbox):
        mailbox.moment(b"old", fleeting=False)
        mailbox.note(Pong(1))
        mailbox.moment(b"new", fleeting=False)
        mailbox.note(Pong(2))

    assert filled(fill, 3) == ['{"type":"pong","id":1}', '{"type":"pong","id":2}', b"new"]


def test_a_fleeting_moment_gives_way_to_one_that_tells_more():
    def fill(mailbox):
        mailbox.moment(b"all", fleeting=False)
        mailbox.moment(b"in between", fleeting=True)

    assert filled(fill, 1) == [b"all"]


def test_who_does_not_read_is_cut_off():
    with pytest.raises(Overflow):
        filled(lambda mailbox: [mailbox.note(Pong(number)) for number in range(1000)], 1)


def test_mail_to_a_server_that_has_ended_is_dropped():
    loop = asyncio.new_event_loop()
    mailbox = Mailbox(loop)
    loop.close()
    mailbox.note(Pong(1))
