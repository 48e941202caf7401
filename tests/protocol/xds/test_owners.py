"""A type whose resources belong to those of the type that it follows, by a part of their names (xds-server.md §16)."""

from __future__ import annotations

import pytest

from protocol.xds.session import AdsSession
from tests.protocol.xds.conversation import Conversation
from tests.protocol.xds.tables import RDS, TYPES, VHDS, build_set, subscribe

HOSTS = {"80/a": "1", "80/b": "1", "90/a": "1"}


@pytest.fixture
def talk():
    """A conversation with a client that has `80` and all virtual hosts; those of `90` it could not use yet."""
    world = {RDS: build_set({"80": "x", "90": "x"}), VHDS: build_set(HOSTS)}
    talk = Conversation(AdsSession.delta(TYPES, "s"), world)
    assert talk.send(subscribe(RDS, "80")) == ["RDS 80"]
    assert talk.send(subscribe(VHDS)) == ["VHDS 80/a 80/b 90/a"]
    return talk


def test_all_are_sent_to_who_names_none(talk):
    """And then what changes, and the names of what goes."""
    assert talk.push(VHDS=build_set({"80/a": "2", "80/b": "1", "80/c": "1"})) == ["VHDS 80/a 80/c -90/a"]


def test_they_are_due_with_what_they_belong_to(talk):
    """Envoy drops a virtual host whose configuration it has not got, and never asks for it again."""
    assert talk.send(subscribe(RDS, "90", nonce=talk.nonces[RDS])) == ["RDS 90", "VHDS 90/a"]


def test_nothing_is_due_with_what_owns_nothing(talk):
    """Other configurations bring no virtual hosts along."""
    talk.world[RDS] = build_set({"80": "x", "90": "x", "web:7000": "x"})
    assert talk.send(subscribe(RDS, "web:7000", nonce=talk.nonces[RDS])) == ["RDS web:7000"]


def test_what_belongs_to_it_may_have_gone_meanwhile(talk):
    """What is due is what there is now; what went is told as ever."""
    talk.world[VHDS] = build_set({"80/a": "1", "80/b": "1", "90/b": "1"})
    assert talk.send(subscribe(RDS, "90", nonce=talk.nonces[RDS])) == ["RDS 90", "VHDS 90/b -90/a"]


def test_a_client_that_comes_back_is_sent_nothing_that_it_has(talk):
    """Neither configurations nor what belongs to them; what went meanwhile is told."""
    versions = {RDS: {"80": "", "90": ""}, VHDS: dict.fromkeys(HOSTS, "")}
    for url, known in versions.items():
        known.update({each.name: each.version for each in talk.world[url]})
    again = Conversation(AdsSession.delta(TYPES, "t"), dict(talk.world))
    assert again.send(subscribe(RDS, "80", "90", initial=versions[RDS])) == ["RDS"]
    gone = {**versions[VHDS], "80/gone": "1"}
    assert again.send(subscribe(VHDS, initial=gone)) == ["VHDS -80/gone"]


def test_a_crash_owes_everything_again(talk):
    """Also what belongs to configurations."""
    talk.session = talk.session.resumed()
    assert list(map(str, talk.offer(RDS, VHDS))) == ["RDS 80", "VHDS 80/a 80/b 90/a"]
