"""Sets are built for the views that a snapshot concerns, in one question for those that may call the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from actors.built_sets import BuiltSets
from actors.mailbox import Mailbox
from actors.messages import GenerationFailed
from protocol.xds.resources import ResourceSet
from tests.envoy.samples import inbound_key, outbound_key, scope
from trierarch.envoy.types import CLUSTER, ENDPOINT, ROUTE
from trierarch.push.context import PushContext
from trierarch.push.view import View

VIEW = View(outbound=outbound_key(), inbound=inbound_key())
NEIGHBOUR = replace(VIEW, inbound=inbound_key(address="10.0.0.9"))
FAILURE = GenerationFailed(reason="a bug")


class Stage:
    """Built sets beside a generator that fails for `cursed` views."""

    def __init__(self) -> None:
        self.inbox = Mailbox("generator")
        self.asked, self.cursed = [], set()
        self.sets = BuiltSets(self.inbox)

    async def answer(self):
        """Play the generator."""
        while True:
            question = await self.inbox.receive()
            self.asked.append(dict(question.wanted))
            with question.reply as reply:
                reply.answer({view: self._answer(view, types) for view, types in question.wanted.items()})

    def _answer(self, view, types):
        return FAILURE if view in self.cursed else {url: ResourceSet() for url in types}

    async def renew(self, *views, types=(ENDPOINT, CLUSTER), watched=frozenset({CLUSTER, ENDPOINT})):
        """Types of views may have changed."""
        affected = dict.fromkeys(views, frozenset(types))
        return await self.sets.renew(affected, lambda _: watched, scope(), PushContext())


@pytest.fixture
def stage(nursery, autojump_clock):
    """A stage with its generator at work."""
    stage = Stage()
    nursery.start_soon(stage.answer)
    return stage


async def test_views_are_asked_about_together(stage):
    """One question for all; each view has its sets then."""
    assert await stage.renew(VIEW, NEIGHBOUR) == {}
    assert stage.asked == [{VIEW: (CLUSTER, ENDPOINT), NEIGHBOUR: (CLUSTER, ENDPOINT)}]
    assert set(stage.sets.of(VIEW)) == set(stage.sets.of(NEIGHBOUR)) == {CLUSTER, ENDPOINT}


async def test_what_is_not_affected_stays(stage):
    """It is the set that it was; what is affected is another."""
    await stage.renew(VIEW)
    before = stage.sets.of(VIEW)
    await stage.renew(VIEW, types=(ENDPOINT,))
    after = stage.sets.of(VIEW)
    assert after[CLUSTER] is before[CLUSTER]
    assert after[ENDPOINT] is not before[ENDPOINT]


async def test_what_nobody_watches_is_forgotten_and_not_asked_for(stage):
    """Should somebody watch it later, it must not be taken for new."""
    await stage.renew(VIEW)
    await stage.renew(VIEW, types=(ENDPOINT, ROUTE), watched=frozenset({CLUSTER}))
    assert len(stage.asked) == 1
    assert set(stage.sets.of(VIEW)) == {CLUSTER}


async def test_a_failure_costs_only_its_view_what_it_had(stage):
    """The others have their sets. What failed is not remembered."""
    await stage.renew(VIEW, NEIGHBOUR)
    stage.cursed = {VIEW}
    assert await stage.renew(VIEW, NEIGHBOUR, types=(ENDPOINT,)) == {VIEW: FAILURE}
    assert set(stage.sets.of(VIEW)) == {CLUSTER}
    assert set(stage.sets.of(NEIGHBOUR)) == {CLUSTER, ENDPOINT}


async def test_views_that_nobody_has_are_forgotten(stage):
    """Should one return, what was built for it would be out of date."""
    await stage.renew(VIEW, NEIGHBOUR)
    stage.sets.keep({VIEW})
    assert (bool(stage.sets.of(VIEW)), stage.sets.of(NEIGHBOUR)) == (True, {})
