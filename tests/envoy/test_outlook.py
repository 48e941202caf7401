"""An outlook starts from what was worked out for its key in the snapshots before."""

from __future__ import annotations

from dataclasses import replace

from protocol.xds.resources import Part
from tests.envoy.samples import endpoint, outbound_key, rule, scope, service, snapshot
from trierarch.envoy.outlook import REMEMBERED, Outlook, Outlooks

WEB, DB = service("web"), service("db")
KEY, REACH = outbound_key(), scope((WEB, DB), (rule(),))
FIRST = snapshot((WEB, DB), {WEB: (endpoint(),)}, number=1)


def narrow_rules(outlook):
    """Something narrowed that is equal as long as the rules are."""
    return ("rules", outlook.rules)


def test_what_reads_the_same_things_is_the_same_object():
    """Rules and endpoints beside services are taken over where neither has changed; what changed is found anew."""
    outlooks = Outlooks()
    first = outlooks.find(KEY, REACH, FIRST)
    rules, endpoints = first.rules, first.endpoints
    moved = replace(FIRST, number=2, endpoints=snapshot((WEB,), {WEB: (endpoint("10.1.0.9"),)}).endpoints)
    second = outlooks.find(KEY, REACH, moved)
    assert second.rules is rules
    assert second.endpoints != endpoints
    assert second.endpoints == Outlook(key=KEY, scope=REACH, context=moved).endpoints


def test_what_comes_out_equal_is_the_object_that_it_was():
    """Narrowing runs in each snapshot, and gives what it gave before if that is equal."""
    outlooks = Outlooks()
    narrowed = outlooks.find(KEY, REACH, FIRST).narrowed(narrow_rules)
    again = outlooks.find(KEY, scope((WEB, DB), ()), replace(FIRST, number=2)).narrowed(narrow_rules)
    assert again == ("rules", (None, None))
    assert outlooks.find(KEY, REACH, replace(FIRST, number=3)).narrowed(narrow_rules) == narrowed
    fourth = outlooks.find(KEY, replace(REACH, services=(WEB, DB)), replace(FIRST, number=4)).narrowed(narrow_rules)
    assert fourth is outlooks.find(KEY, REACH, replace(FIRST, number=5)).narrowed(narrow_rules)


def test_a_part_is_found_by_the_identity_of_what_it_was_made_from():
    """In the next snapshot too, as long as somebody holds it; other things give another part."""
    outlooks, part, inputs = Outlooks(), Part(()), object()
    outlooks.find(KEY, REACH, FIRST).keep_part("here", (inputs,), part)
    second = outlooks.find(KEY, REACH, replace(FIRST, number=2))
    assert second.part_before("here", (inputs,)) is part
    assert second.part_before("here", (object(),)) is None
    assert second.part_before("there", (inputs,)) is None
    del part
    third = outlooks.find(KEY, REACH, replace(FIRST, number=3))
    assert third.part_before("here", (inputs,)) is None


def test_what_nobody_asks_about_is_forgotten():
    """A key that is gone is remembered for so many snapshots, and no longer."""
    outlooks, other = Outlooks(), outbound_key(dns_domain="other")
    outlooks.find(KEY, REACH, FIRST).narrowed(narrow_rules)
    for number in range(2, REMEMBERED + 1):
        outlooks.find(other, REACH, replace(FIRST, number=number))
    assert outlooks.find(KEY, REACH, replace(FIRST, number=REMEMBERED)).past
    for number in range(REMEMBERED + 1, 2 * REMEMBERED + 2):
        outlooks.find(other, REACH, replace(FIRST, number=number))
    assert not outlooks.find(KEY, REACH, replace(FIRST, number=2 * REMEMBERED + 1)).past
