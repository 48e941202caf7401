"""The bounds of what one stream may ask for."""

from __future__ import annotations

import pytest

from protocol.errors import RemoteError
from protocol.xds.bounds import NameBounds
from protocol.xds.requests import DeltaRequest, SotwRequest
from protocol.xds.session import AdsSession
from trierarch.envoy.types import ENDPOINT, ROUTE, TYPE_RULES


class Stream:
    """A session that is watched over."""

    def __init__(self, session: AdsSession, bounds: NameBounds) -> None:
        self.session, self.bounds = session, bounds

    def receive(self, request) -> None:
        """Step the session, and check."""
        self.session, _ = self.session.receive(request)
        self.bounds.check(self.session, request)

    def subscribe(self, *names: str, type_url: str = ENDPOINT, nonce: str = "") -> None:
        """Ask for more, as a delta client."""
        self.receive(DeltaRequest(type_url=type_url, subscribe=names, nonce=nonce, initial={}))

    def unsubscribe(self, *names: str) -> None:
        """Ask for less."""
        self.receive(DeltaRequest(type_url=ENDPOINT, unsubscribe=names, initial={}))


def delta(most: int, characters: int = 10**6) -> Stream:
    """A delta stream."""
    return Stream(AdsSession.delta(TYPE_RULES, "1"), NameBounds(most, characters))


def test_names_are_counted_over_all_types_and_requests() -> None:
    """However they are spread, there may be so many and no more."""
    stream = delta(most=4)
    stream.subscribe("a", "b", "c")
    stream.subscribe("a", "d")
    with pytest.raises(RemoteError) as refused:
        stream.subscribe("r", type_url=ROUTE)
    assert refused.value.code == 8


def test_what_is_given_up_makes_room() -> None:
    """A client that changes its mind for ever holds no more than it wants now."""
    stream = delta(most=2, characters=20)
    for number in range(100):
        stream.subscribe(f"name-{number}")
        stream.unsubscribe(f"name-{number}")
    assert stream.session.names(ENDPOINT) == frozenset()


def test_characters_count_too() -> None:
    """A few names may be too much as well, if they are long."""
    stream = delta(most=100, characters=1000)
    for number in range(9):
        stream.subscribe(f"{number}" * 100)
    with pytest.raises(RemoteError) as refused:
        stream.subscribe("x" * 101)
    assert refused.value.code == 8


def test_a_client_that_repeats_its_names_is_not_refused() -> None:
    """State of the world says everything each time: what counts is what it asks for now."""
    stream = Stream(AdsSession.sotw(TYPE_RULES, "1"), NameBounds(10, characters=100))
    for _ in range(50):
        stream.receive(SotwRequest(type_url=ENDPOINT, names=("a" * 30, "b" * 30)))
    with pytest.raises(RemoteError):
        stream.receive(SotwRequest(type_url=ENDPOINT, names=("a" * 30, "b" * 80)))


def test_changes_that_are_not_taken_yet_count() -> None:
    """What an answer to an older response asks for is remembered too, so there may be no more of it."""
    stream = delta(most=4)
    stream.subscribe("a")
    for number in range(3):
        stream.subscribe(f"late-{number}", nonce="older")
    assert stream.session.names(ENDPOINT) == {"a"}
    with pytest.raises(RemoteError) as refused:
        stream.subscribe("one too many", nonce="older")
    assert refused.value.code == 8
