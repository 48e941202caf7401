"""The fleet: every member stands under one view at most, and views without members are not remembered."""

from __future__ import annotations

from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from tests.push.fixtures import sidecar, snapshot, view_in
from trierarch.push.fleet import Fleet, Member, moving_request, union
from trierarch.push.request import ConfigKey, PushRequest

VIEWS = cast("list[Any]", ["a", "b", "c"])  # a fleet only compares and hashes views


def member(name: str, *types: str) -> Member:
    """A member that was not welcomed yet."""
    return Member(name=name, proxy=cast("Any", None), delta=True, types=frozenset(types))


def test_members_are_grouped_by_view():
    """Placing says whether the view is another one; the group follows."""
    fleet = Fleet()
    for name in ("x", "y"):
        fleet.join(member(name))
    assert fleet.place("x", VIEWS[0])
    assert not fleet.place("x", VIEWS[0])
    assert fleet.place("y", VIEWS[0])
    assert fleet.place("x", VIEWS[1])
    assert (fleet.names(VIEWS[0]), fleet.names(VIEWS[1])) == (("y",), ("x",))


def test_joining_again_takes_a_member_out_of_its_view():
    """A member that joins anew waits for its welcome and is in no view until then."""
    fleet = Fleet()
    fleet.join(member("x"))
    fleet.place("x", VIEWS[0])
    fleet.join(member("x"))
    assert fleet.views() == ()
    assert len(fleet) == 1


def test_the_types_of_a_view_are_those_of_its_members():
    """What one member watches counts for the view."""
    fleet = Fleet()
    for name, types in (("x", ("CDS",)), ("y", ("CDS", "LDS")), ("z", ("RDS",))):
        fleet.join(member(name, *types))
    for name, view in (("x", VIEWS[0]), ("y", VIEWS[0]), ("z", VIEWS[1])):
        fleet.place(name, view)
    assert fleet.types(VIEWS[0]) == {"CDS", "LDS"}


@given(st.lists(st.tuples(st.sampled_from(["join", "leave", "place"]), st.sampled_from("xyz"), st.sampled_from(VIEWS))))
def test_the_groups_are_what_the_members_say(steps):
    """After any steps, the groups hold exactly the placed members, each once."""
    fleet = Fleet()
    for step, name, view in steps:
        if step == "join":
            fleet.join(member(name))
        elif step == "leave":
            fleet.leave(name)
        elif name in fleet:
            fleet.place(name, view)
    grouped = {name: view for view in fleet.views() for name in fleet.names(view)}
    assert grouped == {each.name: each.view for each in fleet if each.view is not None}


def test_union_of_sets():
    """The union of any sets, none included."""
    shared = frozenset({"a"})
    assert union([shared, shared, frozenset({"b"})]) == {"a", "b"}
    assert union([]) == frozenset()


SIDECAR = """
kind: Sidecar
apiVersion: networking.istio.io/v1
metadata: {name: narrow, namespace: shop}
spec: {egress: [{hosts: ["./*"]}]}
"""
SERVICE = """
kind: Service
apiVersion: v1
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{name: http, port: 80}]}
"""


def test_a_member_whose_sidecar_is_another_one_is_pushed_as_if_that_had_changed():
    """The key of the Sidecar joins the request, which is not forced."""
    before, after = (view_in(sidecar(), snapshot(*given)) for given in ((), (SIDECAR,)))
    request = moving_request(before, after, PushRequest())
    assert request == PushRequest(keys=frozenset({ConfigKey("Sidecar", "shop", "narrow")}))


def test_a_member_that_moved_in_another_way_is_pushed_everything():
    """Here it began to serve a service: nobody can tell which of its resources that changes."""
    proxy = sidecar(LABELS={"app": "web"})
    before, after = (view_in(proxy, snapshot(*given)) for given in ((), (SERVICE,)))
    assert before != after
    assert moving_request(before, after, PushRequest()).forced
