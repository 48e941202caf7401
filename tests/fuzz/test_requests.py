"""Mutated discovery requests: decoded or refused, and whatever is decoded is answered by a session without a crash."""

from __future__ import annotations

import math
from random import Random

import pytest

from protocol.errors import RemoteError
from protocol.xds.bounds import NameBounds
from protocol.xds.events import Asked
from protocol.xds.requests import DeltaRequest, Nack, SotwRequest
from protocol.xds.resources import Part, ResourceSet, build_resource
from protocol.xds.session import HEALTH, AdsSession
from protocol.xds.wire_requests import (
    decode_delta_request,
    decode_sotw_request,
    encode_delta_request,
    encode_sotw_request,
)
from tests.actors.fake_stream import encode_node
from tests.fuzz.mutation import mutate_message
from trierarch.envoy.node import decode_proxy
from trierarch.envoy.types import CLUSTER, ENDPOINT, LISTENER, ROUTE, SECRET, TYPE_RULES

LONGEST = 25
"""Requests of one stream."""

NAMES = ("outbound|80||web.shop.svc.cluster.local", "80", "virtualInbound", "*", "default", "")
NODE = encode_node(
    "sidecar~10.1.0.1~web-1.shop~shop.svc.cluster.local",
    LABELS={"app": "web"},
    NAMESPACE="shop",
    ISTIO_VERSION="1.27.0",
    INSTANCE_IPS="10.1.0.1,fe80::1",
    POD_PORTS='[{"containerPort": 80}]',
    ANNOTATIONS={"a": "b"},
    NESTED={"a": [{"b": [1, True, None]}]},
)
SOTW = tuple(
    encode_sotw_request(request)
    for url in (CLUSTER, ENDPOINT, LISTENER, ROUTE, SECRET, HEALTH, "no.such/Type", "")
    for request in (
        SotwRequest(type_url=url, node=NODE),
        SotwRequest(type_url=url, names=NAMES[:2], nonce="1.1", version="abc"),
        SotwRequest(type_url=url, names=NAMES, nonce="1.2", nack=Nack(code=13, message="no good")),
    )
)
DELTA = tuple(
    encode_delta_request(request)
    for url in (CLUSTER, ENDPOINT, LISTENER, ROUTE, SECRET, HEALTH, "no.such/Type", "")
    for request in (
        DeltaRequest(type_url=url, initial={}, node=NODE),
        DeltaRequest(type_url=url, subscribe=NAMES[:3], unsubscribe=NAMES[2:4], initial={NAMES[0]: "abc"}),
        DeltaRequest(type_url=url, initial={}, nonce="1.1"),
        DeltaRequest(type_url=url, unsubscribe=NAMES, initial={}, nonce="1.2", nack=Nack(code=13, message="no good")),
    )
)
WORLD = {
    url: (
        ResourceSet(Part(build_resource(name, b"one") for name in NAMES[:3])),
        ResourceSet(Part(build_resource(name, b"two") for name in NAMES[1:4]), Part([build_resource("more", b"")])),
    )
    for url in TYPE_RULES
}


class Stream:
    """A session that is stepped by whatever can be decoded."""

    def __init__(self, random: Random, number: int) -> None:
        self._random = random
        delta = random.random() < 0.5
        self._corpus = DELTA if delta else SOTW
        self._decode = decode_delta_request if delta else decode_sotw_request
        make = AdsSession.delta if delta else AdsSession.sotw
        self._session = make(TYPE_RULES, f"{number:x}")
        self._bounds = NameBounds()
        self.refused = self.answered = self.ignored = 0

    def play(self, length: int) -> None:
        """So many mutated requests. Each is refused (which would end a real stream), answered or leaves nothing due."""
        for _ in range(length):
            data = mutate_message(self._random, self._random.choice(self._corpus), self._corpus)
            try:
                request = self._decode(data)
                if request.node:
                    decode_proxy(request.node, "Kubernetes")
                self._step(request)
            except RemoteError as error:
                self.refused += 1 if error.message and 0 < error.code <= 16 else math.inf

    def _step(self, request) -> None:
        self._session, events = self._session.receive(request)
        self._bounds.check(self._session, request)
        asked = [event.type_url for event in events if isinstance(event, Asked)]
        pushed = self._random.sample(sorted(TYPE_RULES), 2) if self._random.random() < 0.3 else []
        for url in self._session.due({*asked, *pushed}):
            self._session, response = self._session.respond(url, self._random.choice(WORLD[url]))
            if response is not None:
                assert response.size == len(b"".join(response.buffers))
        self.answered += bool(asked)
        self.ignored += not asked


def play(seed: int, cases: int) -> tuple[int, int, int]:
    """Play streams of mutated requests. How many were refused, answered and needed no answer."""
    random, totals = Random(seed), [0, 0, 0]
    while sum(totals) < cases:
        stream = Stream(random, seed)
        stream.play(min(random.randint(1, LONGEST), cases - sum(totals)))
        for index, count in enumerate((stream.refused, stream.answered, stream.ignored)):
            totals[index] += count
    return totals[0], totals[1], totals[2]


def test_mutated_requests() -> None:
    """A few thousand: nothing is raised but the peer's own errors, and all three outcomes occur."""
    assert min(play(1, 4000)) > 300


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_a_hundred_thousand_mutated_requests(seed) -> None:
    """Ten thousand for each seed."""
    assert sum(play(100 + seed, 10_000)) == 10_000


def test_unmutated_requests_are_fine() -> None:
    """What the mutations begin with is understood."""
    for decode, corpus in ((decode_sotw_request, SOTW), (decode_delta_request, DELTA)):
        for data in corpus:
            request = decode(data)
            assert not request.node or decode_proxy(request.node, "Kubernetes").id == "web-1.shop"
