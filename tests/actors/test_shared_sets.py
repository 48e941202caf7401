"""Sets that several views share are asked for once."""

from __future__ import annotations

from dataclasses import replace

import trio

from actors.mailbox import Mailbox
from actors.messages import GenerationFailed
from actors.shared_sets import SharedSets
from protocol.xds.resources import EMPTY
from tests.envoy.samples import inbound_key, outbound_key, scope
from trierarch.envoy.types import CLUSTER, ENDPOINT, ROUTE
from trierarch.push.context import PushContext
from trierarch.push.view import View

VIEW = View(outbound=outbound_key(), inbound=inbound_key())
NEIGHBOUR = replace(VIEW, inbound=inbound_key(address="10.0.0.9"))
STRANGER = replace(VIEW, outbound=outbound_key(network="elsewhere"))
SCOPE, CONTEXT = scope(), PushContext()


async def played(inbox, asked, answers):
    """A generator that writes down what it is asked for."""
    while True:
        question = await inbox.receive()
        asked.append((question.view, question.types))
        with question.reply as reply:
            reply.answer(answers.pop(0) if answers else dict.fromkeys(question.types, EMPTY))


async def test_what_the_outbound_key_decides_is_asked_for_once(nursery, autojump_clock):
    """Endpoints and routes are the same for a neighbour; clusters are not, for some of them lead to itself."""
    inbox, asked = Mailbox("generator"), []
    nursery.start_soon(played, inbox, asked, [])
    sets = SharedSets(inbox)
    for view in (VIEW, NEIGHBOUR, STRANGER):
        found = await sets.find(view, SCOPE, CONTEXT, (CLUSTER, ENDPOINT, ROUTE))
        assert found == dict.fromkeys((CLUSTER, ENDPOINT, ROUTE), EMPTY)
    assert asked == [
        (VIEW, (CLUSTER, ENDPOINT, ROUTE)),
        (NEIGHBOUR, (CLUSTER,)),
        (STRANGER, (CLUSTER, ENDPOINT, ROUTE)),
    ]
    nursery.cancel_scope.cancel()


async def test_a_new_snapshot_is_asked_about_anew(nursery, autojump_clock):
    """Nothing of an earlier one is given out."""
    inbox, asked = Mailbox("generator"), []
    nursery.start_soon(played, inbox, asked, [])
    sets = SharedSets(inbox)
    await sets.find(VIEW, SCOPE, CONTEXT, (ENDPOINT,))
    sets.begin()
    await sets.find(VIEW, SCOPE, CONTEXT, (ENDPOINT,))
    assert len(asked) == 2
    nursery.cancel_scope.cancel()


async def test_a_failure_is_not_remembered(nursery, autojump_clock):
    """What could not be generated for one view is asked for again by the next."""
    inbox, asked = Mailbox("generator"), []
    nursery.start_soon(played, inbox, asked, [GenerationFailed(reason="a bug")])
    sets = SharedSets(inbox)
    with trio.fail_after(1):
        assert await sets.find(VIEW, SCOPE, CONTEXT, (ENDPOINT,)) == GenerationFailed(reason="a bug")
        assert await sets.find(NEIGHBOUR, SCOPE, CONTEXT, (ENDPOINT,)) == {ENDPOINT: EMPTY}
    nursery.cancel_scope.cancel()
