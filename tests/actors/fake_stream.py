"""A stream without a network, held to the same interface as the real one, and an Envoy that talks over it.

A `FakeStream` has two sides. The server's is a `StreamPort`. The client's: send into `requests`, read from `responses`
(which are joined), `hang_up` without a word, or `stall` and take nothing until `resume`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cache
from math import inf
from typing import TYPE_CHECKING

import trio
from envoy.config.core.v3 import base_pb2
from google.protobuf import json_format

from actors import ads_service
from actors.ports import Peer, StreamClosed
from protocol.codec import decode
from protocol.errors import LocalError, RemoteError
from protocol.proto.envoy.config.cluster.v3 import Cluster, ClusterDiscoveryType
from protocol.proto.envoy.config.listener.v3 import Listener
from protocol.proto.envoy.extensions.filters.network.http_connection_manager.v3 import HttpConnectionManager
from protocol.wire_reading import read_varint
from protocol.xds.requests import DeltaRequest, Request, SotwRequest
from protocol.xds.wire_requests import encode_delta_request, encode_sotw_request
from tests.protocol.xds.client import SimulatedClient
from tests.protocol.xds.conversation import Seen, decode_delta, decode_sotw
from trierarch.envoy.types import SECRET
from trierarch.identity.authenticate import Caller, Proof

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


SECRETS = ("default", "ROOTCA")
"""What an Envoy asks for that gets its certificate from here."""

HCM = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
ROOM = 100
"""Messages that fit into a stream in one direction before somebody has to wait."""

MOST_RESPONSES = 1000
"""Responses that a client may get without any time passing."""

RECONNECT = 0.1
"""Seconds before a client whose stream has ended connects again."""


class FakeRequests:
    """The client's end of its requests: a memory channel that wakes whoever wants to be woken."""

    def __init__(self, channel: trio.MemorySendChannel[bytes]) -> None:
        self._channel = channel
        self.wake: Callable[[], None] = _let_lie
        self.statistics = channel.statistics

    async def send(self, request: bytes) -> None:
        """Ask; waits while the stream is full."""
        try:
            self._channel.send_nowait(request)
        except trio.WouldBlock:
            await self._channel.send(request)
        self.wake()

    def close(self) -> None:
        """Ask for nothing more."""
        self._channel.close()
        self.rouse()

    def rouse(self) -> None:
        """The stream is over: wake for the last time."""
        self.wake()
        self.wake = _let_lie


class FakeStream:
    """Both sides of a stream over memory channels."""

    def __init__(self, method: str = ads_service.DELTA_METHOD) -> None:
        self.method = method
        self.metadata: dict[str, str] = {}
        self.peer = Peer(address="127.0.0.1:1")
        requests, self._incoming = trio.open_memory_channel[bytes](ROOM)
        self.requests = FakeRequests(requests)
        self._outgoing, self.responses = trio.open_memory_channel[bytes](ROOM)
        self._flowing = trio.Event()
        self._flowing.set()
        self._over = False
        self._cut_off = False

    # --- the server's side -------------------------------------------------------------------------------------------
    async def receive(self) -> bytes | None:
        """The next request; None once the client has no more."""
        woken = trio.Event()
        self.requests.wake = woken.set
        if not self.pending():
            await woken.wait()
        return self.receive_nowait()

    def receive_nowait(self) -> bytes | None:
        """The next request, if it is there; None once the client has no more."""
        try:
            return self._incoming.receive_nowait()
        except trio.EndOfChannel:
            if self._over:
                raise StreamClosed("the client hung up") from None
            return None
        except trio.ClosedResourceError:
            raise StreamClosed("the stream was ended") from None

    def pending(self) -> bool:
        """Whether a request waits, or none will come."""
        state = self._incoming.statistics()
        return self._over or state.current_buffer_used > 0 or state.open_send_channels == 0

    def due_at(self) -> float:
        """A fake message comes whole or not at all."""
        return inf

    def on_arrival(self, wake: Callable[[], None]) -> None:
        """Wake somebody when something arrives."""
        self.requests.wake = wake

    async def send(self, *messages: Sequence[bytes]) -> None:
        """Hand responses to the client, when it takes any. Cancelled before that, the stream can only be reset."""
        if self._cut_off:
            raise LocalError("a message was begun before the one before it was complete")
        self._cut_off = True
        try:
            await self._flowing.wait()
            for buffers in messages:
                await self._outgoing.send(b"".join(buffers))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise StreamClosed("the stream is over") from None
        self._cut_off = False

    def blocked(self) -> bool:
        """Whether the client takes nothing now."""
        return not self._flowing.is_set()

    async def end(self, code: int, message: str) -> None:
        """Close both directions; the client sees the end."""
        self.reset()
        await trio.lowlevel.checkpoint()

    def reset(self) -> None:
        """Close both directions; the client sees the end."""
        self._over = True
        self._outgoing.close()
        self._incoming.close()
        self._flowing.set()
        self.requests.rouse()

    # --- the client's side -------------------------------------------------------------------------------------------
    def hang_up(self) -> None:
        """Be gone, without a word."""
        self._over = True
        self.requests.close()
        self.responses.close()
        self._flowing.set()

    def stall(self) -> None:
        """Take nothing more for now: whoever sends has to wait."""
        self._flowing = trio.Event()

    def resume(self) -> None:
        """Take everything again."""
        self._flowing.set()


def _let_lie() -> None:
    """Nobody wants to be woken."""


# --- what Envoy would read in its resources --------------------------------------------------------------------------
@cache
def endpoints_of(name: str, body: bytes) -> Iterable[str]:
    """Envoy asks for the endpoints of EDS clusters only."""
    cluster = decode(Cluster, body)
    if cluster.type != ClusterDiscoveryType.EDS:
        return ()
    return ((cluster.eds_cluster_config and cluster.eds_cluster_config.service_name) or name,)


@cache
def routes_of(_: str, body: bytes) -> Iterable[str]:
    """The route configurations that a listener's HTTP connection managers name."""
    listener = decode(Listener, body)
    chains = [*listener.filter_chains, *([listener.default_filter_chain] if listener.default_filter_chain else [])]
    managers = [
        decode(HttpConnectionManager, each.typed_config.value)
        for chain in chains
        for each in chain.filters
        if each.typed_config is not None and each.typed_config.type_url == HCM
    ]
    return tuple(manager.rds.route_config_name for manager in managers if manager.rds is not None)


def name_in(body: bytes) -> str:
    """The name in an encoded resource: the first field of clusters, load assignments, listeners and routes alike."""
    assert body[0] == 0x0A, body[:40]
    length, start = read_varint(body, 1)
    return body[start : start + length].decode()


def encode_node(node_id: str, **metadata: object) -> bytes:
    """An encoded Node with this id and metadata."""
    node = json_format.ParseDict({"id": node_id, "metadata": metadata}, base_pb2.Node())
    return node.SerializeToString()


# --- a client --------------------------------------------------------------------------------------------------------
class FakeEnvoy:
    """An Envoy that subscribes, applies, acknowledges and connects again when its stream has ended.

    `client.held` is what it has; `stream` is its newest stream, `streams` how many it had. With an `account` it has
    proved who it is, and gets its certificate on each stream: `secrets` are those of the newest, by name.
    """

    def __init__(self, pod: str, ip: str, *, delta: bool, account: str = "", **metadata: object) -> None:
        namespace = pod.rpartition(".")[2]
        known = {"TRIERARCH_SDS": "ads", "SERVICE_ACCOUNT": account} if account else {}
        identity = f"spiffe://cluster.local/ns/{namespace}/sa/{account}"
        self.caller = Caller(identities=(identity,), proof=Proof.TOKEN) if account else None
        self.secrets: dict[str, bytes] = {}
        self.node = encode_node(f"sidecar~{ip}~{pod}~{namespace}.svc.cluster.local", **known, **metadata)
        self.id = pod
        self.delta = delta
        make = SimulatedClient.delta if delta else SimulatedClient.sotw
        self.client = make(endpoints_of=endpoints_of, routes_of=routes_of, name_of=name_in)
        self.stream = FakeStream()
        self.streams = 0
        self.status: RemoteError | None = None
        """How the last stream was ended, if not with OK."""
        self._life = trio.CancelScope()
        self._moment, self._responses = 0.0, 0

    def __repr__(self) -> str:
        return f"<{self.id} {'delta' if self.delta else 'sotw'}>"

    async def run(self, connections, metrics) -> None:
        """Connect again and again, until cancelled."""
        while True:
            self.streams += 1
            self.stream = FakeStream(ads_service.DELTA_METHOD if self.delta else ads_service.SOTW_METHOD)
            with trio.CancelScope() as self._life:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._serve, self.stream, connections, metrics)
                    await self._talk(self.stream)
                    nursery.cancel_scope.cancel()
            await trio.sleep(RECONNECT)

    def drop(self) -> None:
        """Lose the connection: the stream's handler is cancelled, as the gRPC server does it, and a new one begins."""
        self.stream.hang_up()
        self._life.cancel()

    async def _serve(self, stream: FakeStream, connections, metrics) -> None:
        self.status = None
        try:
            await ads_service.serve_stream(
                stream, connections=connections, metrics=metrics, delta=self.delta, identify=lambda _: self.caller
            )
        except* RemoteError as errors:
            self.status = errors.exceptions[0]
        finally:
            stream.reset()

    async def _talk(self, stream: FakeStream) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            first, *others = [*self.client.connect(), *self._ask_for_secrets()]
            await stream.requests.send(_encode(first, self.node))
            for request in others:
                await stream.requests.send(_encode(request, b""))
            async for response in stream.responses:
                self._watch_for_circles()
                for request in self._receive(response):
                    await stream.requests.send(_encode(request, b""))

    def _ask_for_secrets(self) -> list[Request]:
        self.secrets = {}
        return [self._secrets_request()] if self.caller else []

    def _receive(self, response: bytes) -> list[Request]:
        seen = (decode_delta(response) if self.delta else decode_sotw(response, name_in)) if self.caller else None
        if seen is None or seen.type_url != SECRET:
            return self.client.receive(response)
        self.secrets |= seen.bodies
        return [self._secrets_request(seen)]

    def _secrets_request(self, seen: Seen | None = None) -> Request:
        nonce, version = (seen.nonce, seen.version) if seen else ("", "")
        if self.delta:
            return DeltaRequest(type_url=SECRET, subscribe=() if seen else SECRETS, initial={}, nonce=nonce)
        return SotwRequest(type_url=SECRET, names=SECRETS, nonce=nonce, version=version)

    def _watch_for_circles(self) -> None:
        """A conversation in which each answer leads to another would go on for ever, while the test's clock stands."""
        now = trio.current_time()
        self._moment, self._responses = now, self._responses + 1 if now == self._moment else 0
        assert self._responses < MOST_RESPONSES, "this conversation has no end"


def _encode(request: Request, node: bytes) -> bytes:
    request = replace(request, node=node)
    return encode_delta_request(request) if isinstance(request, DeltaRequest) else encode_sotw_request(request)
