"""A client that behaves as Envoy does, without a network: it takes encoded responses and gives the requests to send.

    client = SimulatedClient.delta()
    requests = client.connect()                     # clusters and listeners first, in the state that it is in
    requests = client.receive(encoded_response)     # an ACK or a NACK, and the subscriptions that it leads to
    client.held[EDS]                                # what it has: name -> body
    client.hold_back(); client.release()            # say nothing for a while, then all at once

It subscribes to the endpoints of its clusters and to the route configurations of its listeners. Which these are is told
by two functions of (name, body), as this package's tests have no real Envoy messages: by default each cluster has
endpoints of its own name, and a listener "l" has the routes "l-routes". `name_of` finds the name in a body. Messages
are decoded by Google's library.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from protocol.xds.requests import DeltaRequest, Nack, Request, SotwRequest
from tests.protocol.xds.conversation import Seen, decode_delta, decode_sotw, name_in_text
from tests.protocol.xds.tables import CDS, EDS, LDS, RDS

ROOTS = (CDS, LDS)
"""The types of which a client wants everything; in the state of the world a response of these is complete."""

LEAVES = {CDS: EDS, LDS: RDS}
"""Which type the resources of a root refer to."""

References = Callable[[str, bytes], Iterable[str]]
Verdict = Callable[[Seen], Nack | None]


def own_endpoints(name: str, _: bytes) -> Iterable[str]:
    """A cluster's endpoints have the cluster's name."""
    return (name,)


def own_routes(name: str, _: bytes) -> Iterable[str]:
    """A listener's routes are named after it."""
    return (f"{name}-routes",)


def accept_all(_: Seen) -> None:
    """Find nothing wrong with any response."""


@dataclass(kw_only=True)
class SimulatedClient:
    """One Envoy, over its reconnects. `judge` says whether a response is rejected: then nothing of it is applied."""

    is_delta: bool
    endpoints_of: References = own_endpoints
    routes_of: References = own_routes
    name_of: Callable[[bytes], str] = name_in_text
    judge: Verdict = accept_all
    held: dict[str, dict[str, bytes]] = field(default_factory=lambda: {url: {} for url in (CDS, EDS, LDS, RDS)})
    versions: dict[str, dict[str, str]] = field(default_factory=lambda: {url: {} for url in (CDS, EDS, LDS, RDS)})
    names: dict[str, tuple[str, ...]] = field(default_factory=lambda: {EDS: (), RDS: ()})
    nonces: dict[str, str] = field(default_factory=dict)
    accepted: dict[str, str] = field(default_factory=dict)
    holds_back: bool = False
    kept: list[Request] = field(default_factory=list)

    @classmethod
    def sotw(cls, **options) -> "SimulatedClient":
        """A client that speaks the state-of-the-world dialect."""
        return cls(is_delta=False, **options)

    @classmethod
    def delta(cls, **options) -> "SimulatedClient":
        """A client that speaks the delta dialect."""
        return cls(is_delta=True, **options)

    # --- streams ------------------------------------------------------------------------------------------------------
    def connect(self) -> list[Request]:
        """Begin a stream, the first one or another: ask for all that is wanted, with what is held."""
        self.nonces.clear()
        self.kept.clear()
        wanted = [CDS, EDS, LDS, RDS] if any(self.held.values()) else ROOTS
        return [self._ask_anew(url) for url in wanted if url in ROOTS or self.names[url]]

    def receive(self, encoded: bytes) -> list[Request]:
        """Apply a response unless it is found wrong; the requests that it makes the client send, in their order."""
        seen = decode_delta(encoded) if self.is_delta else decode_sotw(encoded, self.name_of)
        self.nonces[seen.type_url] = seen.nonce
        nack = self.judge(seen)
        if nack is None:
            self.accepted[seen.type_url] = seen.version
            self.apply(seen)
        requests = [self._answer(seen, nack), *self._subscribe_leaves()]
        if not self.holds_back:
            return requests
        self.kept += requests
        return []

    def hold_back(self) -> None:
        """Keep all requests for now, as a client does that is paused or may not send so often."""
        self.holds_back = True

    def release(self) -> list[Request]:
        """Send what was kept: the answers in their order; what a type's subscription has changed by goes with the first
        of them, though it came about after it.
        """
        self.holds_back = False
        kept, self.kept = self.kept, []
        told = [request for request in kept if isinstance(request, DeltaRequest)]
        changes: dict[str, DeltaRequest] = {}
        for change in (request for request in told if not request.nonce):
            before = changes.get(change.type_url)
            changes[change.type_url] = change if before is None else _joined(before, change)
        sent = [request for request in kept if request not in told]
        for answer in (request for request in told if request.nonce):
            late = changes.pop(answer.type_url, None)
            sent.append(answer if late is None else _joined(answer, late))
        return [*sent, *changes.values()]

    def apply(self, seen: Seen) -> None:
        """Hold what a response brings, except leaves that nothing refers to any more."""
        held, versions = self.held[seen.type_url], self.versions[seen.type_url]
        if not self.is_delta and seen.type_url in ROOTS:
            held.clear()
        wanted = self.names.get(seen.type_url, seen.bodies)
        held |= {name: body for name, body in seen.bodies.items() if name in wanted}
        versions |= {name: version for name, version in seen.versions.items() if name in wanted}
        for name in seen.removed:
            held.pop(name, None)
            versions.pop(name, None)

    # --- requests -----------------------------------------------------------------------------------------------------
    def _ask_anew(self, url: str) -> Request:
        names = self.names.get(url, ())
        if self.is_delta:
            return DeltaRequest(type_url=url, subscribe=names, initial=dict(self.versions[url]))
        return SotwRequest(type_url=url, names=names, version=self.accepted.get(url, ""))

    def _answer(self, seen: Seen, nack: Nack | None) -> Request:
        url = seen.type_url
        if self.is_delta:
            return DeltaRequest(type_url=url, initial={}, nonce=seen.nonce, nack=nack)
        names, version = self.names.get(url, ()), self.accepted.get(url, "")
        return SotwRequest(type_url=url, names=names, nonce=seen.nonce, version=version, nack=nack)

    def _subscribe_leaves(self) -> list[Request]:
        """Follow the references of the roots that are held now."""
        wanted = {EDS: self._references(CDS, self.endpoints_of), RDS: self._references(LDS, self.routes_of)}
        return [self._subscribe(url, names) for url, names in wanted.items() if names != self.names[url]]

    def _references(self, root: str, references: References) -> tuple[str, ...]:
        held: Mapping[str, bytes] = self.held[root]
        return tuple(sorted({name for key, body in held.items() for name in references(key, body)}))

    def _subscribe(self, url: str, names: tuple[str, ...]) -> Request:
        before, self.names[url] = self.names[url], names
        for name in set(before) - set(names):
            self.held[url].pop(name, None)
            self.versions[url].pop(name, None)
        if not self.is_delta:
            nonce, version = self.nonces.get(url, ""), self.accepted.get(url, "")
            return SotwRequest(type_url=url, names=names, nonce=nonce, version=version)
        added, dropped = (tuple(sorted(set(a) - set(b))) for a, b in ((names, before), (before, names)))
        return DeltaRequest(type_url=url, subscribe=added, unsubscribe=dropped, initial={})


def _joined(first: DeltaRequest, change: DeltaRequest) -> DeltaRequest:
    """A request that says both."""
    added = (set(first.subscribe) - set(change.unsubscribe)) | set(change.subscribe)
    dropped = (set(first.unsubscribe) - set(change.subscribe)) | set(change.unsubscribe)
    return replace(first, subscribe=tuple(sorted(added)), unsubscribe=tuple(sorted(dropped)))
