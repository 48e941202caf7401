"""A driver of one session for tests: what a connection actor does, without the actor.

Every response is decoded by Google's library, and must be byte for byte what that library would have written.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from envoy.service.discovery.v3 import discovery_pb2

from protocol.xds import delta
from protocol.xds.events import Asked, Event, Response
from protocol.xds.requests import Request
from protocol.xds.resources import EMPTY, ResourceSet
from protocol.xds.session import AdsSession
from tests.protocol.xds.tables import SHORT


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A response as its client sees it: `bodies` by name, `versions` by name (none in the state of the world)."""

    type_url: str
    nonce: str
    version: str
    bodies: Mapping[str, bytes]
    versions: Mapping[str, str]
    removed: tuple[str, ...]

    def __str__(self) -> str:
        """For comparisons in tests: "EDS a b -c"."""
        return " ".join([SHORT[self.type_url], *self.bodies, *(f"-{name}" for name in self.removed)])


def decode(response: Response, *, is_delta: bool) -> Seen:
    """Decode a response's buffers as its client would."""
    return (decode_delta if is_delta else decode_sotw)(b"".join(response.buffers))


def name_in_text(body: bytes) -> str:
    """The name with which a body of these tests begins."""
    return body.partition(b"=")[0].decode()


def decode_sotw(encoded: bytes, name_of: Callable[[bytes], str] = name_in_text) -> Seen:
    """Decode a DiscoveryResponse. Its resources do not carry their names: `name_of` finds them in the bodies."""
    message = discovery_pb2.DiscoveryResponse.FromString(encoded)
    assert message.SerializeToString() == encoded
    assert all(resource.type_url == message.type_url for resource in message.resources)
    bodies = {name_of(resource.value): resource.value for resource in message.resources}
    assert len(bodies) == len(message.resources), "a resource came twice"
    return Seen(
        type_url=message.type_url,
        nonce=message.nonce,
        version=message.version_info,
        bodies=bodies,
        versions={},
        removed=(),
    )


def decode_delta(encoded: bytes) -> Seen:
    """Decode a DeltaDiscoveryResponse."""
    message = discovery_pb2.DeltaDiscoveryResponse.FromString(encoded)
    assert message.SerializeToString() == encoded
    bodies = {resource.name: resource.resource.value for resource in message.resources}
    assert len(bodies) == len(message.resources), "a resource came twice"
    assert not bodies.keys() & set(message.removed_resources), "sent and removed at once"
    return Seen(
        type_url=message.type_url,
        nonce=message.nonce,
        version=message.system_version_info,
        bodies=bodies,
        versions={resource.name: resource.version for resource in message.resources},
        removed=tuple(message.removed_resources),
    )


@dataclass
class Conversation:
    """A session, the sets that its client is offered, and what was said last."""

    session: AdsSession
    world: dict[str, ResourceSet] = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    nonces: dict[str, str] = field(default_factory=dict)

    def send(self, request: Request) -> list[str]:
        """Step by a request and answer it; the responses in short."""
        return [str(seen) for seen in self.answer(request)]

    def push(self, **world: ResourceSet) -> list[str]:
        """Change these types (by short name) and offer everything that is watched; the responses in short."""
        urls = {short: url for url, short in SHORT.items()}
        self.world |= {urls[short]: resources for short, resources in world.items()}
        return [str(seen) for seen in self.offer(*self.session.watched)]

    def answer(self, request: Request) -> list[Seen]:
        """Step by a request and answer it."""
        self.session, self.events = self.session.receive(request)
        return self.offer(*[event.type_url for event in self.events if isinstance(event, Asked)])

    def offer(self, *types: str) -> list[Seen]:
        """Offer what is due with these types, in order."""
        seen = []
        for type_url in self.session.due(types):
            self.session, response = self.session.respond(type_url, self.world.get(type_url, EMPTY))
            if response is not None:
                seen.append(decode(response, is_delta=self.session.dialect is delta))
                self.nonces[type_url] = response.nonce
        return seen
