"""The source of names, with a resolver and the intake's mailbox in the test's hands."""

from __future__ import annotations

from functools import partial

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import dns_source
from actors.dns_source import MOST_NAMES, PATIENCE, REFRESH, RETRY, Names
from actors.mailbox import Mailbox
from actors.source_messages import NamesWanted, ResendAll
from trierarch.config.resolved_names import key_of


class Resolver:
    """Answers as the test says: addresses, an error, or (None) never. `asked`: names and when."""

    def __init__(self, **answers) -> None:
        self.answers = answers
        self.asked = []

    async def look_up(self, name):
        """An answer, later or never."""
        self.asked.append((name, trio.current_time()))
        answer = self.answers[name]
        if answer is None:
            with trio.fail_after(PATIENCE):
                await trio.sleep_forever()
        if isinstance(answer, Exception):
            raise answer
        return answer


class Stage:
    """The actor between its mailboxes."""

    def __init__(self, resolver, names=None) -> None:
        self.inbox, self.intake = Mailbox("dns"), Mailbox("intake")
        self.names = names or Names()
        self.start = partial(dns_source.run, self.inbox, intake=self.intake, names=self.names, look_up=resolver.look_up)

    def want(self, *names):
        """As the builder does."""
        self.inbox.post(NamesWanted(names=frozenset(names)))

    async def told(self):
        """The next message to intake: whether it is everything, what names stand for, and what is gone."""
        message = await self.intake.receive()
        found = {each.key.name: each.spec.addresses for each in message.upserts}
        return message.full, found, set(message.deletes)

    async def quiet(self):
        """Whether nothing is told before time goes on."""
        await wait_all_tasks_blocked()
        return self.intake.receive_nowait() is None


async def test_it_says_at_once_that_it_knows_nothing(nursery, autojump_clock):
    """Intake waits for the first word of each source: that must not take as long as a lookup."""
    stage = Stage(Resolver())
    await nursery.start(stage.start)
    assert await stage.told() == (True, {}, set())
    assert trio.current_time() == 0


async def test_names_are_looked_up_again_and_again(nursery, autojump_clock):
    """Another answer is told, the same one is not."""
    resolver = Resolver(a=("192.0.2.1",))
    stage = Stage(resolver)
    await nursery.start(stage.start)
    await stage.told()
    stage.want("a")
    assert await stage.told() == (False, {"a": ("192.0.2.1",)}, set())
    await trio.sleep(REFRESH + 1)
    assert await stage.quiet()
    resolver.answers["a"] = ("192.0.2.1", "2001:db8::1")
    assert await stage.told() == (False, {"a": ("192.0.2.1", "2001:db8::1")}, set())
    assert [moment for _, moment in resolver.asked] == [0, REFRESH, 2 * REFRESH]


async def test_who_is_not_wanted_any_more_is_gone(nursery, autojump_clock):
    """And is not looked up any more."""
    resolver = Resolver(a=("192.0.2.1",), b=("192.0.2.2",))
    stage = Stage(resolver)
    await nursery.start(stage.start)
    await stage.told()
    stage.want("a")
    await stage.told()
    stage.want("b")
    assert await stage.told() == (False, {}, {key_of("a")})
    assert await stage.told() == (False, {"b": ("192.0.2.2",)}, set())
    await trio.sleep(2 * REFRESH + 1)
    assert [name for name, _ in resolver.asked] == ["a", "b", "b", "b"]


@pytest.mark.parametrize("failure", [OSError("no such name"), ValueError("no name at all"), None])
async def test_a_failed_lookup_keeps_the_addresses(failure, nursery, autojump_clock, lines):
    """It is tried again soon, and told of once; so is its end. Nobody else waits for it."""
    resolver = Resolver(a=("192.0.2.1",), b=("192.0.2.2",))
    stage = Stage(resolver)
    await nursery.start(stage.start)
    await stage.told()
    stage.want("a")
    await stage.told()
    resolver.answers["a"] = failure
    await trio.sleep(REFRESH + 3 * (PATIENCE + RETRY))
    assert await stage.quiet()
    stage.want("a", "b")
    assert await stage.told() == (False, {"b": ("192.0.2.2",)}, set())
    resolver.answers["a"] = ("192.0.2.9",)
    assert await stage.told() == (False, {"a": ("192.0.2.9",)}, set())
    events = [line["event"] for line in lines if line["event"].startswith("lookup")]
    assert events == ["lookup_failed", "lookup_recovered"]


async def test_everything_is_told_again_when_asked_for(nursery, autojump_clock):
    """Also while a lookup is under way."""
    stage = Stage(Resolver(a=("192.0.2.1",), b=None))
    await nursery.start(stage.start)
    await stage.told()
    stage.want("a", "b")
    await stage.told()
    stage.inbox.post(ResendAll())
    assert await stage.told() == (True, {"a": ("192.0.2.1",)}, set())
    assert trio.current_time() == 0


async def test_more_names_than_any_mesh_has(nursery, autojump_clock, lines):
    """So many are looked up, and it is said that there are more: whoever writes them cannot bring the source down."""
    many = [f"{number:04}.example" for number in range(MOST_NAMES + 7)]
    resolver = Resolver(**dict.fromkeys(many, ("192.0.2.1",)))
    stage = Stage(resolver)
    await nursery.start(stage.start)
    await stage.told()
    stage.want(*many)
    found = {}
    while len(found) < MOST_NAMES:
        found |= (await stage.told())[1]
    assert sorted(found) == many[:MOST_NAMES]
    assert [line["names"] for line in lines if line["event"] == "names_left_out"] == [7]


async def test_its_successor_knows_what_it_knew(nursery, autojump_clock):
    """No proxy loses a gateway because the actor died: the addresses are told before they are looked up again."""
    resolver = Resolver(a=("192.0.2.1",))
    stage = Stage(resolver, Names(wanted=frozenset({"a"}), found={"a": ("192.0.2.7",)}))
    await nursery.start(stage.start)
    assert await stage.told() == (True, {"a": ("192.0.2.7",)}, set())
    assert await stage.told() == (False, {"a": ("192.0.2.1",)}, set())


async def test_the_system_is_asked():
    """What it knows of itself needs nobody else; what cannot be a name is an error like any other."""
    look_up = dns_source.system_lookup()
    assert "127.0.0.1" in await look_up("localhost")
    for name in ("a..example", "no such name"):
        with pytest.raises((OSError, ValueError)):
            await look_up(name)
