"""Parts and sets: what is built once, what is shared, what keeps its identity over snapshots."""

from dataclasses import replace
from functools import partial

import pytest

from protocol.xds.resources import EMPTY, Resource, build_resource
from tests.envoy.samples import inbound_key, outbound_key, scope
from trierarch.envoy.generate import LOOKUPS_PER_STEP, InboundPart, NarrowedPart, OutboundPart, generate, generate_parts
from trierarch.envoy.memo import Memo
from trierarch.envoy.outlook import Outlook, Outlooks, Sight
from trierarch.envoy.part_cache import PartCache
from trierarch.envoy.units import Piece, Splice, Unit
from trierarch.push.context import PushContext
from trierarch.push.model import Locality
from trierarch.push.steps import run_steps
from trierarch.push.view import View

SIDECAR_VIEW = View(outbound=outbound_key(), inbound=inbound_key())
SCOPE = scope()


BODIES = Sight(context=("mesh",))


def _snapshot(number, bodies):
    """A `PushContext` of which the plans below read nothing but `mesh`: pairs of names and bodies."""
    return PushContext(number=number, mesh=bodies)


def _build_pair(inputs: tuple[str, str]) -> tuple[Resource, ...]:
    name, body = inputs
    return (build_resource(name, body.encode()),)


def _build_piece(text: str) -> bytes:
    return text.encode()


def _plan_pairs(_key, _scope, context):
    for pair in context.mesh:
        yield Unit(_build_pair, pair)


def _plan_joined(_key, _scope, context):
    yield Splice("joined", tuple(Piece(_build_piece, body) for _, body in context.mesh))


def _plan_own(_key, _scope, _context):
    yield Unit(_build_pair, ("own", "mine"))


TABLE = (OutboundPart("pairs", _plan_pairs, BODIES), InboundPart("own", _plan_own))


def _build(context, *, view=SIDECAR_VIEW, table=TABLE, memo=None, cache=None):
    memo = Memo(1000) if memo is None else memo
    cache = PartCache() if cache is None else cache
    return run_steps(generate_parts(table, view, _outlook(context, view), memo, cache))


def _outlook(context, view=SIDECAR_VIEW):
    return Outlook(key=view.outbound, scope=SCOPE, context=context)


def test_an_outlook_is_asked_once():
    """Asking twice about one outlook gives one object and asks the memo for nothing."""
    memo, cache, outlook = Memo(100), PartCache(), _outlook(_snapshot(1, (("a", "1"),)))
    first = run_steps(generate_parts(TABLE, SIDECAR_VIEW, outlook, memo, cache))
    lookups = memo.hits + memo.misses
    assert run_steps(generate_parts(TABLE, SIDECAR_VIEW, outlook, memo, cache)) is first
    assert memo.hits + memo.misses == lookups


def test_a_part_that_did_not_change_keeps_its_identity():
    """A later snapshot with the same resources has the very same set; with another one, only that part is new."""
    memo, cache = Memo(100), PartCache()
    first = _build(_snapshot(1, (("a", "1"),)), memo=memo, cache=cache)
    assert _build(_snapshot(2, (("a", "1"),)), memo=memo, cache=cache) is first
    third = _build(_snapshot(3, (("a", "2"),)), memo=memo, cache=cache)
    assert third.parts[0] is not first.parts[0]
    assert third.parts[1] is first.parts[1]


def test_a_part_keeps_its_identity_though_the_memo_forgot():
    """Rebuilt resources with equal bytes are the same part still: identity does not hang on the memo's size."""
    cache = PartCache()
    first = _build(_snapshot(1, (("a", "1"),)), memo=Memo(1), cache=cache)
    assert _build(_snapshot(2, (("a", "1"),)), memo=Memo(1), cache=cache) is first


def test_views_with_one_outbound_key_share_the_outbound_part():
    """Two workloads that differ in what they serve hold what they may call once."""
    memo, cache = Memo(100), PartCache()
    other = replace(SIDECAR_VIEW, inbound=inbound_key(address="10.0.0.9"))
    snapshot = _snapshot(1, (("a", "1"),))
    first = _build(snapshot, memo=memo, cache=cache)
    second = _build(snapshot, view=other, memo=memo, cache=cache)
    assert first.parts[0] is second.parts[0]


def test_views_of_which_the_same_comes_share_the_part():
    """Two outbound keys whose plans come to the same resources hold them once."""
    memo, cache = Memo(100), PartCache()
    other = replace(SIDECAR_VIEW, outbound=outbound_key(locality=Locality("eu", "", "")))
    snapshot = _snapshot(1, (("a", "1"),))
    first = _build(snapshot, memo=memo, cache=cache)
    second = _build(snapshot, view=other, memo=memo, cache=cache)
    assert second is first
    assert memo.misses == 2


def test_a_late_question_about_an_older_snapshot_is_answered_from_that_snapshot():
    """The older content comes back, and the newer part stays the state of its slot."""
    memo, cache = Memo(100), PartCache()
    _build(_snapshot(1, (("a", "1"),)), memo=memo, cache=cache)
    newest = _build(_snapshot(2, (("a", "2"),)), memo=memo, cache=cache)
    late = _build(_snapshot(1, (("a", "1"),)), memo=memo, cache=cache)
    assert late.get("a") == build_resource("a", b"1")
    assert _build(_snapshot(2, (("a", "2"),)), memo=memo, cache=cache) is newest


def test_of_two_resources_with_one_name_the_first_is_kept():
    """Names stay unique in a part (networking.md §2.2)."""
    built = _build(_snapshot(1, (("a", "1"), ("a", "2"))), table=(OutboundPart("pairs", _plan_pairs, BODIES),))
    assert [resource.body for resource in built] == [b"1"]


def test_names_are_unique_in_a_set_too():
    """A later part goes without what an earlier one has a name of; that it does changes no part that others share."""
    cache = PartCache()
    built = _build(_snapshot(1, (("own", "theirs"), ("a", "1"))), cache=cache)
    assert [(resource.name, resource.body) for resource in built] == [("own", b"theirs"), ("a", b"1")]
    assert list(_build(_snapshot(2, (("a", "1"),)), cache=cache).parts[1].names) == ["own"]


def test_a_plan_cannot_read_what_it_does_not_declare():
    """Else a part would be taken for the one before though something that it was made from has changed."""
    table = (OutboundPart("pairs", lambda _key, _scope, context: context.services, BODIES),)
    with pytest.raises(AttributeError, match="services"):
        _build(_snapshot(1, ()), table=table)


def test_a_spliced_resource_rebuilds_the_piece_that_changed():
    """One changed piece costs one build; the other pieces come from the memo."""
    memo, cache, table = Memo(100), PartCache(), (OutboundPart("joined", _plan_joined, BODIES),)
    first = _build(_snapshot(1, (("x", "one"), ("y", "two"))), table=table, memo=memo, cache=cache)
    assert [resource.body for resource in first] == [b"onetwo"]
    misses = memo.misses
    second = _build(_snapshot(2, (("x", "one"), ("y", "TWO"))), table=table, memo=memo, cache=cache)
    assert [resource.body for resource in second] == [b"oneTWO"]
    assert memo.misses - misses == 1


def test_the_event_loop_gets_its_turn():
    """Each unit that is really built ends a step; of remembered ones, so many make one step."""
    memo = Memo(1000)
    pairs = tuple((f"r{number}", "x") for number in range(3 * LOOKUPS_PER_STEP))
    table, outlook = (OutboundPart("pairs", _plan_pairs, BODIES),), partial(_outlook, _snapshot(1, pairs))
    cold = sum(1 for _ in generate_parts(table, SIDECAR_VIEW, outlook(), memo, PartCache()))
    warm = sum(1 for _ in generate_parts(table, SIDECAR_VIEW, outlook(), memo, PartCache()))
    assert cold == len(pairs) + 3
    assert warm == 3


def _narrow_pairs(outlook):
    return outlook.context.mesh


def _plan_narrowed(bodies, _memo):
    for pair in bodies:
        yield Unit(_build_pair, pair)


NARROWED = (NarrowedPart("pairs", _narrow_pairs, _plan_narrowed),)


def test_a_part_of_equal_inputs_is_not_planned_again():
    """Whatever the snapshot or the view: what it reads is the same, so it is the same part."""
    memo, cache = Memo(100), PartCache()
    first = _build(_snapshot(1, (("a", "1"),)), table=NARROWED, memo=memo, cache=cache)
    lookups = memo.hits + memo.misses
    other = replace(SIDECAR_VIEW, outbound=outbound_key(dns_domain="other"))
    assert _build(_snapshot(2, (("a", "1"),)), view=other, table=NARROWED, memo=memo, cache=cache) is first
    assert memo.hits + memo.misses == lookups


def test_parts_that_nobody_holds_are_forgotten():
    """What a client was sent is kept by its session, what will be sent by the outlook; nothing else is kept."""
    memo, cache, outlooks = Memo(1), PartCache(), Outlooks()
    first, second = (PushContext(number=number) for number in (1, 2))
    outlook = outlooks.find(SIDECAR_VIEW.outbound, SCOPE, first)
    run_steps(generate_parts((InboundPart("own", _plan_own),), SIDECAR_VIEW, outlook, memo, cache))
    del outlook
    assert len(cache) == 1
    outlooks.find(SIDECAR_VIEW.outbound, SCOPE, second)
    assert len(cache) == 0


def test_the_outlooks_of_the_newest_snapshot_are_kept():
    """One for all who ask with one key; whoever asks late about an older snapshot gets one of his own."""
    outlooks, key = Outlooks(), SIDECAR_VIEW.outbound
    old, new = PushContext(number=1), PushContext(number=2)
    assert outlooks.find(key, SCOPE, old) is outlooks.find(key, SCOPE, old)
    newest = outlooks.find(key, SCOPE, new)
    assert outlooks.find(key, SCOPE, old).context is old
    assert outlooks.find(key, SCOPE, new) is newest
    assert outlooks.find(outbound_key(dns_domain="other"), SCOPE, new) is not newest


def test_a_type_of_which_nothing_is_generated_has_the_empty_set():
    """No parts, no set of its own."""
    steps = generate(SIDECAR_VIEW, None, _snapshot(1, ()), "type.googleapis.com/none", Memo(1), PartCache())
    assert run_steps(steps) is EMPTY
