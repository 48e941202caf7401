"""View keys: everything about a proxy that may influence what it is sent, by value, so that equal proxies share.

Two keys, because otherwise every workload would be a view of its own: the outbound key (what it
may call, shared by most proxies of a namespace) and the inbound key (what it serves itself). `select_view` makes both
from a proxy and a snapshot; it is asked again when a snapshot may have changed the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

from trierarch.config import labels as names
from trierarch.config.objects import ObjectKey
from trierarch.push.authentication import BOTH_KINDS, PeerModes
from trierarch.push.authorization import UNRESTRICTED, WorkloadPolicies
from trierarch.push.model import NOWHERE, Locality
from trierarch.push.networks import augmented, locality_of_labels, topology_of_labels
from trierarch.push.proxy import PROXYLESS_GRPC, Interception, ProxyType
from trierarch.push.targets import select_targets
from trierarch.push.telemetry import SILENT, select_telemetry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trierarch.config.objects import ConfigObject
    from trierarch.config.proxy_config import ConnectionSettings, ProxyHeaders
    from trierarch.config.sidecar import Sidecar
    from trierarch.push.context import PushContext
    from trierarch.push.model import Endpoint, ServiceTarget
    from trierarch.push.proxy import Capabilities, IPMode, Proxy
    from trierarch.push.request_authentication import TokenRules
    from trierarch.push.telemetry import Telemetry
    from trierarch.push.workloads import WorkloadInstance


class ScopeKey(NamedTuple):
    """What decides a proxy's Sidecar scope: its namespace and the Sidecar that applies (None: import everything)."""

    namespace: str
    sidecar: ObjectKey | None


class HashedOnce:
    """A frozen dataclass whose hash is worked out once: views are looked up for every push, and hold dozens of fields.

    Such a class has to take `__hash__` over by name, else `dataclass` would write another.
    """

    __slots__ = ("_hash",)
    _hash: int

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            known = hash(tuple(getattr(self, each.name) for each in fields(self)))  # type: ignore[arg-type]
            object.__setattr__(self, "_hash", known)
            return known


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundKey(HashedOnce):
    """What decides a client's outbound configuration.

    `labels` holds only labels that some selector, failover priority or sourceLabels of the snapshot mentions;
    `node_name` is "" unless something depends on the node. `own_addresses` holds only addresses at which headless
    services would otherwise make the proxy call itself; `own_ports` those at which its bootstrap listens. `headers`
    and `connections`: see `Proxy`. `telemetry` is SILENT but for what reports: see `View`.
    """

    type: ProxyType
    scope: ScopeKey
    cluster: str
    dns_domain: str
    labels: frozenset[tuple[str, str]]
    network: str
    network_view: frozenset[str]
    locality: Locality
    node_name: str
    ip_mode: IPMode
    interception: Interception
    dns_capture: bool
    http10: bool
    http_proxy_port: int
    idle_timeout: float | None
    generator: str
    own_addresses: frozenset[str]
    own_ports: frozenset[int] = frozenset()
    exact_balance: bool = False
    headers: ProxyHeaders | None = None
    connections: ConnectionSettings | None = None
    telemetry: Telemetry = SILENT
    capabilities: Capabilities

    __hash__ = HashedOnce.__hash__

    @property
    def is_proxyless(self) -> bool:
        """Whether it is a gRPC client that needs no proxy."""
        return self.generator == PROXYLESS_GRPC

    @property
    def knows_destinations(self) -> bool:
        """Whether connections come to it on their way to an address, which may then be kept: not to a gateway, which
        they were sent to, nor to a gRPC client, which makes them.
        """
        return self.type is not ProxyType.ROUTER and not self.is_proxyless


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundKey(HashedOnce):
    """What decides a proxy's inbound configuration.

    `address` is the proxy's first IP where the configuration names it (mode NONE, Sidecar ingress without bind or with
    defaultEndpoint 0.0.0.0, gRPC servers), else "". `peers`: which connections it accepts, `policies`: who may do what
    there, `tokens`: whose tokens it understands. `headers`, `connections` and `exact_balance`: as for the outbound key.
    """

    type: ProxyType
    scope: ScopeKey
    targets: tuple[ServiceTarget, ...]
    labels: frozenset[tuple[str, str]]
    address: str
    ip_mode: IPMode
    interception: Interception
    http10: bool
    idle_timeout: float | None
    peers: PeerModes = BOTH_KINDS
    policies: WorkloadPolicies = UNRESTRICTED
    tokens: TokenRules = ()
    exact_balance: bool = False
    headers: ProxyHeaders | None = None
    connections: ConnectionSettings | None = None
    telemetry: Telemetry = SILENT
    capabilities: Capabilities

    __hash__ = HashedOnce.__hash__


@dataclass(frozen=True, slots=True, kw_only=True)
class View(HashedOnce):
    """Both keys of a proxy. Proxies with equal views are sent the same bytes.

    What a proxy reports is in the inbound key alone, so that the outbound key is shared with proxies that report under
    another name.
    """

    outbound: OutboundKey
    inbound: InboundKey

    __hash__ = HashedOnce.__hash__


def select_view(proxy: Proxy, context: PushContext) -> View:
    """The view of a proxy in a snapshot (xds-server.md §4.6).

    Ask again whenever a snapshot may have changed the answer: services, workloads, Sidecars, policies, or labels
    selected by.
    """
    workload = find_workload(proxy, context)
    labels = labels_of(proxy, workload, context)
    locality = _locality(proxy, labels)
    labels = augmented(labels, locality, proxy.cluster, proxy.node_name, proxy.network)
    sidecar = select_sidecar(proxy, labels, context)
    scope = ScopeKey(proxy.namespace, sidecar.key if sidecar else None)
    return View(
        outbound=_outbound_key(proxy, scope, labels, locality, context),
        inbound=InboundKey(
            type=proxy.type,
            scope=scope,
            targets=select_targets(proxy, workload, labels, context),
            labels=_mentioned(labels, context.selectors.inbound),
            address=proxy.ips[0] if _names_own_address(proxy, sidecar) else "",
            ip_mode=proxy.ip_mode,
            interception=proxy.interception,
            http10=proxy.http10,
            idle_timeout=proxy.idle_timeout,
            peers=_peers(proxy, labels, context),
            policies=context.authorization.of(proxy.namespace, labels.items()),
            tokens=context.request_authentications.of(proxy.namespace, labels.items()),
            exact_balance=proxy.balances_inbound,
            headers=proxy.headers,
            connections=proxy.connections,
            telemetry=select_telemetry(proxy, labels, context),
            capabilities=proxy.capabilities,
        ),
    )


def _outbound_key(
    proxy: Proxy, scope: ScopeKey, labels: Mapping[str, str], locality: Locality, context: PushContext
) -> OutboundKey:
    return OutboundKey(
        type=proxy.type,
        scope=scope,
        cluster=proxy.cluster,
        dns_domain=proxy.dns_domain,
        labels=_mentioned(labels, context.selectors.outbound),
        network=proxy.network,
        network_view=proxy.network_view,
        locality=locality,
        node_name=proxy.node_name if context.selectors.node else "",
        ip_mode=proxy.ip_mode,
        interception=proxy.interception,
        dns_capture=proxy.dns_capture,
        http10=proxy.http10,
        http_proxy_port=proxy.http_proxy_port,
        idle_timeout=proxy.idle_timeout,
        generator=proxy.generator,
        own_addresses=frozenset(proxy.ips) & context.endpoints.listening,
        own_ports=proxy.own_ports,
        exact_balance=proxy.balances_outbound,
        headers=proxy.headers,
        connections=proxy.connections,
        capabilities=proxy.capabilities,
    )


def _mentioned(labels: Mapping[str, str], keys: frozenset[str]) -> frozenset[tuple[str, str]]:
    return frozenset((key, labels[key]) for key in keys if key in labels)


def _names_own_address(proxy: Proxy, sidecar: ConfigObject[Sidecar] | None) -> bool:
    ingress = sidecar.spec.ingress if sidecar else ()
    own = any(not listener.bind or listener.default_endpoint.startswith(("0.0.0.0:", "[::]:")) for listener in ingress)
    return own or proxy.interception is Interception.NONE or proxy.is_proxyless


def _peers(proxy: Proxy, labels: Mapping[str, str], context: PushContext) -> PeerModes:
    """Which connections a sidecar accepts; gateways go by their own configuration."""
    if proxy.type is not ProxyType.SIDECAR:
        return BOTH_KINDS
    modes = context.authentication.of(proxy.namespace).of(labels.items())
    return modes.settled(labels.get(names.TLS_MODE) == names.TLS_MODE_ISTIO) if proxy.is_proxyless else modes


def find_workload(proxy: Proxy, context: PushContext) -> WorkloadInstance | None:
    """The workload entry with the proxy's first address, else the Pod that its id names (xds-server.md §4.11).

    Of several entries with one address (hosts that share it are told apart by their networks) it is that of the proxy's
    name, else one of its namespace, else the first.
    """
    name, _, namespace = proxy.id.rpartition(".")
    entries = context.workloads.entries_at.of(proxy.ips[0])
    if entries:
        own = [entry for entry in entries if entry.namespace == proxy.namespace]
        named = (entry for entry in own if (entry.key.name, entry.namespace) == (name, namespace))
        return next(named, (own or entries)[0])
    return context.workloads.pods.get(ObjectKey(proxy.cluster or context.mesh.cluster, "Pod", namespace, name))


def labels_of(proxy: Proxy, workload: WorkloadInstance | None, context: PushContext) -> Mapping[str, str]:
    """A proxy's labels: its workload's, those of an endpoint that a ServiceEntry lists at its address, or those that it
    claims; over the fixed ones of its bootstrap.
    """
    if workload is not None:
        return {**dict(proxy.static_labels), **workload.all_labels}
    listed = _listed_endpoint(proxy, context)
    return {**dict(proxy.static_labels), **(dict(proxy.labels) if listed is None else listed.labels)}


def _listed_endpoint(proxy: Proxy, context: PushContext) -> Endpoint | None:
    """The first endpoint of a ServiceEntry with an address of the proxy."""
    endpoints = context.endpoints
    for address in proxy.ips:
        for service in endpoints.external_at.get(address, ()):
            return next(each for each in endpoints.of(service).endpoints if address in each.addresses)
    return None


def _locality(proxy: Proxy, labels: Mapping[str, str]) -> Locality:
    """Where the proxy is: its labels say, or else its node (xds-server.md §4.6)."""
    for locality in (topology_of_labels(labels), locality_of_labels(labels)):
        if locality != NOWHERE:
            return locality
    return proxy.locality


def select_sidecar(proxy: Proxy, labels: Mapping[str, str], context: PushContext) -> ConfigObject[Sidecar] | None:
    """The Sidecar that applies to a proxy, None: the default scope (networking.md §0.4). Only sidecars have one."""
    if proxy.type is not ProxyType.SIDECAR:
        return None
    for sidecar in context.sidecars.by_namespace.get(proxy.namespace, ()):
        selector = sidecar.spec.workload_selector
        if selector is None or selector.labels.items() <= labels.items():
            return sidecar
    return context.sidecars.root_default
