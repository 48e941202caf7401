"""A real gRPC client (`grpcio`) that speaks ADS by hand: it says what it is told to say, and nothing by itself."""

from __future__ import annotations

from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Self

import grpc
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2
from envoy.extensions.transport_sockets.tls.v3 import secret_pb2
from envoy.service.discovery.v3 import ads_pb2_grpc, discovery_pb2

if TYPE_CHECKING:
    from google.protobuf.message import Message

_PREFIX = "type.googleapis.com/envoy.config"
CDS = f"{_PREFIX}.cluster.v3.Cluster"
EDS = f"{_PREFIX}.endpoint.v3.ClusterLoadAssignment"
LDS = f"{_PREFIX}.listener.v3.Listener"
RDS = f"{_PREFIX}.route.v3.RouteConfiguration"

SDS = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"

_MESSAGES = {
    CDS: cluster_pb2.Cluster,
    EDS: endpoint_pb2.ClusterLoadAssignment,
    LDS: listener_pb2.Listener,
    RDS: route_pb2.RouteConfiguration,
    SDS: secret_pb2.Secret,
}

PATIENCE = 20.0
"""Seconds that an answer may take."""

QUIET = 0.5
"""Seconds of silence after which no answer will come: the debounce is a fifth of it."""

LONGEST = 120.0
"""Seconds after which a stream ends whatever happens, so that no thread outlives its test."""

INVALID_ARGUMENT = 3


class AdsStream:
    """One stream, delta or state of the world, of a node with this metadata. Leaving the `with` block ends it.

    `channel` goes to the secure port, with a token if there is one; without it plaintext is spoken to `address`.
    """

    def __init__(
        self,
        address: str,
        node: str,
        *,
        delta: bool,
        channel: grpc.Channel | None = None,
        token: str = "",
        **metadata: str,
    ) -> None:
        self.delta = delta
        self._node = node
        self._metadata = {"INTERCEPTION_MODE": "NONE", **metadata}
        self._channel = channel or grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
        self._requests: SimpleQueue[Message | None] = SimpleQueue()
        self._responses: SimpleQueue[Message | grpc.RpcError] = SimpleQueue()
        stub = ads_pb2_grpc.AggregatedDiscoveryServiceStub(self._channel)
        method = stub.DeltaAggregatedResources if delta else stub.StreamAggregatedResources
        said = (("authorization", f"Bearer {token}"),) if token else ()
        call = method(iter(self._requests.get, None), timeout=LONGEST, wait_for_ready=True, metadata=said)
        self._reader = Thread(target=self._read, args=(call,), daemon=True)
        self._reader.start()

    def send(self, type_url: str, names: tuple[str, ...] = (), **fields: object) -> None:
        """Send a request; `names` are those subscribed to. The first one says who this is."""
        if self.delta:
            request = discovery_pb2.DeltaDiscoveryRequest(type_url=type_url, resource_names_subscribe=names, **fields)
        else:
            request = discovery_pb2.DiscoveryRequest(type_url=type_url, resource_names=names, **fields)
        if self._node:
            request.node.id, self._node = self._node, ""
            request.node.metadata.update(self._metadata)
        self._requests.put(request)

    def ask(self, type_url: str, *names: str, **fields: object) -> Message:
        """Send a request; returns the acknowledged answer."""
        self.send(type_url, names, **fields)
        return self.receive_and_ack(type_url, *names)

    def ack(self, response: Message, *names: str) -> None:
        """Acknowledge. State of the world repeats all the names; in delta they are further ones."""
        fields = {} if self.delta else {"version_info": response.version_info}
        self.send(response.type_url, names, response_nonce=response.nonce, **fields)

    def nack(self, response: Message, reason: str, *names: str) -> None:
        """Reject."""
        error = {"code": INVALID_ARGUMENT, "message": reason}
        self.send(response.type_url, names, response_nonce=response.nonce, error_detail=error)

    def receive(self) -> Message:
        """The next response. Raises `queue.Empty` if none comes for long, or the stream's error when it has ended."""
        response = self._responses.get(timeout=PATIENCE)
        if isinstance(response, grpc.RpcError):
            raise response
        return response

    def receive_and_ack(self, type_url: str, *names: str) -> Message:
        """The next response, which must be of this type."""
        response = self.receive()
        assert response.type_url == type_url
        self.ack(response, *(() if self.delta else names))
        return response

    def is_quiet(self) -> bool:
        """Whether nothing comes."""
        try:
            return isinstance(self._responses.get(timeout=QUIET), Empty)
        except Empty:
            return True

    def close(self) -> None:
        """End the stream, as a client does that goes away."""
        self._requests.put(None)
        self._channel.close()
        self._reader.join(PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, call: grpc.Call) -> None:
        try:
            for response in call:
                self._responses.put(response)
        except grpc.RpcError as error:
            self._responses.put(error)


def resources(response: Message) -> dict[str, Message]:
    """The resources in a response by name, decoded by Google's library."""
    kind = _MESSAGES[response.type_url]
    bodies = [getattr(each, "resource", each) for each in response.resources]
    decoded = [kind.FromString(body.value) for body in bodies]
    return {each.cluster_name if response.type_url == EDS else each.name: each for each in decoded}


def versions(response: Message) -> dict[str, str]:
    """The versions in a delta response by name."""
    return {each.name: each.version for each in response.resources}
