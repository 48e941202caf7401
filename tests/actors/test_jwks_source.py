"""The source of keys, with the fetches and the intake's mailbox in the test's hands."""

from __future__ import annotations

from functools import partial

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import jwks_source
from actors.jwks_source import AT_ONCE, FIRST_RETRY, LONGEST_PATIENCE, LONGEST_RETRY, KeySets
from actors.mailbox import Mailbox
from actors.metrics import Metrics
from actors.source_messages import KeysWanted, ResendAll
from trierarch.config.key_sets import KeyLocation, KeySet, NoKeys, key_of

A, B = KeyLocation("https://a.example/keys"), KeyLocation("https://b.example/keys")
OLD, NEW, CLOSED = KeySet("old"), KeySet("new"), NoKeys("it is closed")
REFRESH = 1200.0


class Issuers:
    """Answer as the test says: keys, none, an error of ours, or (None) never. `asked`: locations and when."""

    def __init__(self, answers) -> None:
        self.answers = answers
        self.asked = []
        self.patience = []

    async def fetch(self, location, patience):
        """An answer, at once or never."""
        self.asked.append((location, trio.current_time()))
        self.patience.append(patience)
        answer = self.answers[location]
        if answer is None:
            await trio.sleep_forever()
        if isinstance(answer, Exception):
            raise answer
        return answer


class Stage:
    """The actor between its mailboxes."""

    def __init__(self, nursery, answers, key_sets=None) -> None:
        self.nursery = nursery
        self.issuers = Issuers(answers)
        self.inbox, self.intake, self.metrics = Mailbox("jwks"), Mailbox("intake"), Metrics()
        self.key_sets = key_sets or KeySets()
        outlets = jwks_source.Outlets(
            intake=self.intake, fetch=self.issuers.fetch, refresh=REFRESH, metrics=self.metrics
        )
        self.run = partial(jwks_source.run, self.inbox, outlets=outlets, key_sets=self.key_sets)
        self.life = trio.CancelScope()

    async def start(self):
        """One life of the actor."""
        self.life = trio.CancelScope()
        await self.nursery.start(self._live)

    async def _live(self, *, task_status):
        with self.life:
            await self.run(task_status=task_status)

    def want(self, *locations):
        """As the builder does."""
        self.inbox.post(KeysWanted(locations=dict.fromkeys(locations, 5.0)))

    async def told(self):
        """The next message to intake: whether it is everything, what was found where, and what is gone."""
        message = await self.intake.receive()
        return message.full, {each.key.name: each.spec for each in message.upserts}, set(message.deletes)

    async def quiet(self):
        """Whether nothing is told before time goes on."""
        await wait_all_tasks_blocked()
        return self.intake.receive_nowait() is None

    def fetches(self):
        """How many fetches succeeded and failed."""
        names = ("pilot_jwks_resolver_network_fetch_success_total", "pilot_jwks_resolver_network_fetch_fail_total")
        return [self.metrics.registry.get_sample_value(name) for name in names]


@pytest.fixture
async def stage(nursery):
    """A source that is up, and has said that it knows nothing."""
    stage = Stage(nursery, {A: OLD, B: CLOSED})
    await stage.start()
    assert await stage.told() == (True, {}, set())
    assert trio.current_time() == 0
    return stage


async def test_keys_are_fetched_again_and_again(stage, autojump_clock):
    """Others are told, the same are not."""
    stage.want(A)
    assert await stage.told() == (False, {A.url: OLD}, set())
    await trio.sleep(REFRESH + 1)
    assert await stage.quiet()
    stage.issuers.answers[A] = NEW
    assert await stage.told() == (False, {A.url: NEW}, set())
    assert [moment for _, moment in stage.issuers.asked] == [0, REFRESH, 2 * REFRESH]
    assert set(stage.issuers.patience) == {5.0}
    assert stage.fetches() == [3, 0]


async def test_patience_has_an_end(stage, autojump_clock):
    """Whatever a rule says: who never answers would keep others waiting."""
    stage.inbox.post(KeysWanted(locations={A: 3600.0}))
    await stage.told()
    assert stage.issuers.patience == [LONGEST_PATIENCE]


async def test_that_there_are_no_keys_is_told_too(stage, autojump_clock, lines):
    """At once, once, and until there are some; it is tried again ever more seldom."""
    stage.want(B)
    assert await stage.told() == (False, {B.url: CLOSED}, set())
    await trio.sleep(200)
    assert await stage.quiet()
    moments = [moment for _, moment in stage.issuers.asked]
    assert moments == [0, 1, 3, 7, 15, 31, 63, 123, 183]
    assert moments[1] - moments[0] == FIRST_RETRY
    assert moments[-1] - moments[-2] == LONGEST_RETRY
    stage.issuers.answers[B] = NEW
    assert await stage.told() == (False, {B.url: NEW}, set())
    events = [(line["event"], line.get("reason")) for line in lines if line["event"].startswith("keys")]
    assert events == [("keys_unfetched", CLOSED.reason), ("keys_fetched", None)]


@pytest.mark.parametrize("failure", [CLOSED, ZeroDivisionError("a bug")])
async def test_known_keys_stay(stage, autojump_clock, failure, lines):
    """However fetching fails, and it is tried again soon; that is said once, and so is its end."""
    stage.want(A)
    await stage.told()
    stage.issuers.answers[A] = failure
    await trio.sleep(REFRESH + 10)
    assert await stage.quiet()
    stage.issuers.answers[A] = NEW
    assert await stage.told() == (False, {A.url: NEW}, set())
    events = [(line["event"], line.get("kept")) for line in lines if line["event"].startswith("keys")]
    assert events == [("keys_fetched", None), ("keys_unfetched", True), ("keys_fetched", None)]


async def test_nobody_waits_for_another(stage, autojump_clock):
    """An issuer that never answers holds up nobody else, nor do as many of them as are asked at a time."""
    silent = [KeyLocation(f"https://silent-{number}.example") for number in range(AT_ONCE - 1)]
    stage.issuers.answers |= dict.fromkeys(silent)
    stage.want(*silent)
    await wait_all_tasks_blocked()
    stage.want(*silent, A)
    assert await stage.told() == (False, {A.url: OLD}, set())
    assert trio.current_time() == 0


async def test_what_is_not_wanted_any_more_is_gone(stage, autojump_clock):
    """And is not fetched any more, not even to the end."""
    stage.issuers.answers[B] = None
    stage.want(A, B)
    await stage.told()
    stage.want()
    assert await stage.told() == (False, {}, {key_of(A)})
    await trio.sleep(3 * REFRESH)
    assert len(stage.issuers.asked) == 2
    assert await stage.quiet()


@pytest.mark.parametrize("moment", range(8))
async def test_what_is_wanted_may_change_at_any_step(stage, autojump_clock, moment):
    """Also while a fetch is about to begin: it does not begin, and nobody else is disturbed."""
    stage.want(A)
    for _ in range(moment):
        await trio.lowlevel.checkpoint()
    stage.want()
    await wait_all_tasks_blocked()
    stage.want(B)
    while (await stage.told())[1] != {B.url: CLOSED}:
        pass


async def test_everything_is_told_again_when_asked_for(stage, autojump_clock):
    """Also while a fetch is under way."""
    stage.issuers.answers[B] = None
    stage.want(A, B)
    await stage.told()
    stage.inbox.post(ResendAll())
    assert await stage.told() == (True, {A.url: OLD}, set())


async def test_its_successor_knows_what_it_knew(stage, autojump_clock):
    """Killed at any time: keys stay in force while they are fetched anew, and what was wanted still is."""
    stage.want(A)
    await stage.told()
    stage.life.cancel()
    stage.issuers.answers[A] = NEW
    await stage.start()
    assert await stage.told() == (True, {A.url: OLD}, set())
    assert await stage.told() == (False, {A.url: NEW}, set())


@pytest.mark.parametrize("moment", range(8))
async def test_it_may_be_killed_at_any_step(stage, autojump_clock, moment):
    """Whatever it was doing, intake ends with what is wanted and found."""
    stage.issuers.answers[B] = NEW
    stage.want(A)
    for _ in range(moment):
        await trio.lowlevel.checkpoint()
    stage.want(A, B)
    for _ in range(moment):
        await trio.lowlevel.checkpoint()
    stage.life.cancel()
    await wait_all_tasks_blocked()
    await stage.start()
    await wait_all_tasks_blocked()
    known: dict[str, KeySet] = {}
    while stage.intake.statistics().flow:
        full, found, _gone = await stage.told()
        known = found if full else known | found
    assert known == {A.url: OLD, B.url: NEW}
