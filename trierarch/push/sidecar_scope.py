"""What a proxy may call: the Sidecar that applies to it, resolved against a snapshot (xds-server.md §8.5).

Which Sidecar that is, is chosen in `view.py`; what one listener of it imports is in `imports.py`. Here is the whole:
listeners, services, rules. A scope is built for a key and a snapshot, with the scope of the same key in the snapshot
before at hand: whatever of it has the same inputs is taken over, and a scope in which nothing changed is the old one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from trierarch.config.findings import Remark
from trierarch.config.hosts import resolve_short_name
from trierarch.config.mesh_config import MeshOutboundMode
from trierarch.config.sidecar import CaptureMode, OutboundMode
from trierarch.config.sidecar import EgressListener as EgressSpec
from trierarch.push.directory import Directory, compare, unite
from trierarch.push.egress_hosts import EVERYTHING, is_egress_host, parse_egress_hosts
from trierarch.push.imports import (
    Derived,
    Reached,
    changed_hosts,
    destination_services,
    imported_services,
    imported_virtual_services,
)
from trierarch.push.model import ServicePort
from trierarch.push.port_protocols import parse_protocol
from trierarch.push.request import ConfigKey
from trierarch.push.reuse import Groups, kept, regroup, same_fields
from trierarch.push.traffic import find_rules, lookup_path
from trierarch.push.view import ScopeKey

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from trierarch.config.objects import ConfigObject, ObjectKey
    from trierarch.config.sidecar import Sidecar, SidecarPort
    from trierarch.push.context import PushContext
    from trierarch.push.mesh import Mesh
    from trierarch.push.model import Service
    from trierarch.push.routing import ResolvedVirtualService, VirtualServices
    from trierarch.push.services import Services
    from trierarch.push.steps import Steps
    from trierarch.push.traffic import DestinationRules, MergedRule

UNIX_PREFIX = "unix://"


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressListener:
    """One egress listener of a scope. `port` None: the catch-all, all ports of its services.

    `services` are those that its hosts import, in service order, trimmed to `port` if there is one;
    `virtual_services` those whose hosts overlap them, in order of precedence. `binds`: it binds a real port itself
    (captureMode NONE or a Unix path; mode NONE of the proxy is the proxy's matter).
    """

    port: ServicePort | None
    bind: str
    binds: bool
    services: tuple[Service, ...]
    virtual_services: tuple[ResolvedVirtualService, ...]


class ScopeInputs(NamedTuple):
    """All that a scope may read."""

    key: ScopeKey
    sidecar: ConfigObject[Sidecar] | None
    mesh: Mesh
    services: Services
    virtual_services: VirtualServices
    destination_rules: DestinationRules


@dataclass(frozen=True, slots=True, eq=False)
class ScopeMemo:
    """What the next build of the same scope reuses."""

    inputs: ScopeInputs | None = None
    derived: Mapping[Hashable, Service] = field(default_factory=dict)
    reached: tuple[Reached, ...] = ()
    """For each egress listener."""
    directory: Directory = field(default_factory=Directory)
    shadowed: frozenset[ConfigKey] = frozenset()
    ruling: frozenset[ConfigKey] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SidecarScope:
    """A Sidecar's (or the default's) reach in one snapshot.

    `services`: everything that gets clusters, in service order: imports and, besides, destinations of imported virtual
    services. `rules`: hostname -> the destination rules that may apply to that service, for `traffic.select_rule`.
    `registry_only`: unknown destinations are refused; `egress_proxy` (host, subset, port) takes them instead.
    `depends_on`: sets of the objects whose change may change anything here, services apart (see `depends`);
    `namespaces`: where policies of its own workloads or of the services in reach may stand.
    """

    key: ScopeKey
    sidecar: ConfigObject[Sidecar] | None
    egress: tuple[EgressListener, ...]
    services: tuple[Service, ...]
    by_host: Mapping[str, Service]
    rules: Mapping[str, tuple[MergedRule, ...]]
    registry_only: bool
    egress_proxy: tuple[str, str, int] | None = None
    depends_on: tuple[frozenset[ConfigKey], ...] = ()
    namespaces: frozenset[str] = frozenset()
    memo: ScopeMemo = field(default_factory=ScopeMemo)

    def depends(self, key: ConfigKey) -> bool:
        """Whether a change of this service, endpoint set or other scoped object may change anything here.

        Services are asked of `by_host`: a set of their keys would be the largest part of every scope. A new policy is
        not among `depends_on` yet, so policies are asked by their namespace.
        """
        if key.kind in ("ServiceEntry", "Endpoints"):
            service = self.by_host.get(key.name)
            if service is not None and service.namespace == key.namespace:
                return True
        elif key.kind == "PeerAuthentication" and key.namespace in self.namespaces:
            return True
        return any(key in keys for keys in self.depends_on)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sidecars:
    """The section of the snapshot: Sidecars by namespace, those with a selector first, then by age."""

    by_namespace: Mapping[str, tuple[ConfigObject[Sidecar], ...]] = field(default_factory=dict)
    root_default: ConfigObject[Sidecar] | None = None
    sources: Mapping[ObjectKey, ConfigObject[Sidecar]] = field(default_factory=dict)
    remarks: tuple[Remark, ...] = ()
    memo: Groups[str, ConfigObject[Sidecar]] = field(default_factory=lambda: Groups())

    def find(self, key: ObjectKey | None) -> ConfigObject[Sidecar] | None:
        """The Sidecar of that key, or None."""
        return None if key is None else self.sources.get(key)


class SidecarsInputs(NamedTuple):
    """All that the section may read."""

    mesh: Mesh
    table: Mapping[ObjectKey, ConfigObject[Sidecar]]


def build_sidecars(inputs: SidecarsInputs, previous: Sidecars) -> Steps[Sidecars]:
    """Put the Sidecars into the order in which they are tried (xds-server.md §8.5.1)."""
    groups = regroup(inputs.table, lambda sidecar: (sidecar.key.namespace,), previous.memo)
    yield
    ordered = {namespace: tuple(sorted(each, key=_trial_order)) for namespace, each in groups.grouped.items()}
    of_root = ordered.get(inputs.mesh.root_namespace, ())
    return Sidecars(
        by_namespace=ordered,
        root_default=next((sidecar for sidecar in of_root if sidecar.spec.workload_selector is None), None),
        sources=inputs.table,
        remarks=tuple(remark for sidecar in inputs.table.values() for remark in _malformed_hosts(sidecar)),
        memo=groups,
    )


def _trial_order(sidecar: ConfigObject[Sidecar]) -> tuple[bool, tuple[float, str, str]]:
    return (sidecar.spec.workload_selector is None, sidecar.age)


def _malformed_hosts(sidecar: ConfigObject[Sidecar]) -> Iterator[Remark]:
    for index, listener in enumerate(sidecar.spec.egress):
        for place, host in enumerate(listener.hosts):
            if not is_egress_host(host):
                path = f"spec.egress[{index}].hosts[{place}]"
                reason = f"{host!r} is not namespace/dnsName, so it imports nothing"
                yield Remark(origin=sidecar.origin, key=sidecar.key, path=path, reason=reason)


def build_scope(key: ScopeKey, context: PushContext, previous: SidecarScope | None = None) -> Steps[SidecarScope]:
    """The scope of that key in a snapshot. `previous`: the scope of the same key in an earlier snapshot, if any.

    `key.sidecar` None, or a Sidecar that is gone, imports everything that the namespace sees.
    """
    inputs = _inputs(key, context)
    if previous is not None and previous.memo.inputs == inputs:
        return previous
    before = previous or _NOTHING
    derived = Derived(before.memo.derived)
    egress = yield from _egress(inputs, before, derived)
    reached = yield from _reached(inputs, egress, before, derived)
    directory = yield from _directory(egress, reached, before, derived)
    rules = _rules(inputs, directory, before)
    yield
    as_before = directory is before.memo.directory
    unchanged = as_before and _imported(egress) == _imported(before.egress)
    shadowed = before.memo.shadowed if unchanged else frozenset(_shadowed_keys(egress, directory))
    ruling = before.memo.ruling if rules is before.rules else _ruling_keys(tuple(rules.values()))
    made = {**before.memo.derived, **derived.made} if as_before else derived.made
    return SidecarScope(
        key=key,
        sidecar=inputs.sidecar,
        egress=egress,
        services=directory.services,
        by_host=directory.by_host,
        rules=rules,
        registry_only=_registry_only(inputs),
        egress_proxy=_egress_proxy(inputs),
        depends_on=(*_own_keys(inputs, egress), shadowed, ruling),
        namespaces=directory.namespaces | {key.namespace, inputs.mesh.root_namespace},
        memo=ScopeMemo(inputs, made, reached, directory, shadowed, ruling),
    )


_NOTHING = SidecarScope(
    key=ScopeKey("", None), sidecar=None, egress=(), services=(), by_host={}, rules={}, registry_only=False
)
"""What is before the first scope of a key."""


def _inputs(key: ScopeKey, context: PushContext) -> ScopeInputs:
    return ScopeInputs(
        key,
        context.sidecars.find(key.sidecar),
        context.mesh,
        context.services,
        context.virtual_services,
        context.destination_rules,
    )


def _egress(inputs: ScopeInputs, before: SidecarScope, derived: Derived) -> Steps[tuple[EgressListener, ...]]:
    """The listeners; one that says the same as before is the same object as before."""
    specs: tuple[EgressSpec | None, ...] = (inputs.sidecar.spec.egress if inputs.sidecar else ()) or (None,)
    old = before.memo.inputs
    comparable = old is not None and old.sidecar is inputs.sidecar
    listeners = []
    for index, spec in enumerate(specs):
        present = before.egress[index] if comparable else None
        listener = _listener(inputs, spec, old, present, derived)
        listeners.append(present if present is not None and same_fields(present, listener) else listener)
        yield
    egress = tuple(listeners)
    return before.egress if before.egress == egress else egress


def _listener(
    inputs: ScopeInputs,
    spec: EgressSpec | None,
    old: ScopeInputs | None,
    present: EgressListener | None,
    derived: Derived,
) -> EgressListener:
    """A listener of the Sidecar. `present` is the same listener as it was for the inputs `old`."""
    namespace = inputs.key.namespace
    hosts = EVERYTHING if spec is None else parse_egress_hosts(spec.hosts, namespace)
    port = _port(spec.port) if spec and spec.port else None
    bind = spec.bind if spec else ""
    if present is not None and old is not None and old.services is inputs.services:
        services = present.services
    else:
        services = imported_services(hosts, port, namespace, inputs.services, derived)
    return EgressListener(
        port=port,
        bind=bind,
        binds=spec is not None and (spec.capture_mode is CaptureMode.NONE or bind.startswith(UNIX_PREFIX)),
        services=services,
        virtual_services=imported_virtual_services(hosts, namespace, inputs.virtual_services),
    )


def _port(port: SidecarPort) -> ServicePort:
    return ServicePort(port.number, port.name, parse_protocol(port.protocol))


def _reached(
    inputs: ScopeInputs, egress: tuple[EgressListener, ...], before: SidecarScope, derived: Derived
) -> Steps[tuple[Reached, ...]]:
    """The destinations of the virtual services of each listener."""
    old = before.memo.inputs
    comparable = old is not None and old.sidecar is inputs.sidecar
    changed = changed_hosts(old.services, inputs.services) if old is not None and comparable else frozenset()
    reached = []
    for index, each in enumerate(egress):
        known: Reached = before.memo.reached[index] if comparable else {}
        if comparable and not changed and each is before.egress[index]:
            reached.append(known)
            continue
        found = destination_services(
            each.virtual_services, each.port, inputs.key.namespace, inputs.services, derived, known, changed
        )
        reached.append(found)
        yield
    return tuple(reached)


def _directory(
    egress: tuple[EgressListener, ...], reached: tuple[Reached, ...], before: SidecarScope, derived: Derived
) -> Steps[Directory]:
    """One service a hostname, from the listeners in order: imports first, then destinations of virtual services."""
    sources, known = _sources(egress, reached), before.memo.directory
    if known.services and sources == _sources(before.egress, before.memo.reached):
        return known
    united = yield from unite(chain.from_iterable(chain.from_iterable(sources)), derived)
    return known if (united.services, united.contested) == (known.services, known.contested) else united


def _sources(egress: tuple[EgressListener, ...], reached: tuple[Reached, ...]) -> list[list[tuple[Service, ...]]]:
    return [[each.services, *found.values()] for each, found in zip(egress, reached, strict=True)]


def _rules(inputs: ScopeInputs, directory: Directory, before: SidecarScope) -> Mapping[str, tuple[MergedRule, ...]]:
    """The rules of each service. Where nothing changed on the path along which they are found, they are as before."""
    namespace, root, known = inputs.key.namespace, inputs.mesh.root_namespace, before.rules
    came, gone = compare(before.memo.directory, directory)
    unsteady = _unsteady(inputs, directory, before)
    moved = [service for service in directory.services if service.namespace in unsteady] if unsteady else ()
    found = {
        service.hostname: find_rules(inputs.destination_rules, namespace, service.namespace, service.hostname, root)
        for service in (*came, *moved)
    }
    if not any(found.values()) and known.keys().isdisjoint((*found, *gone)):
        return known
    by_host = directory.by_host
    rules = {host: present for host in by_host if (present := found[host] if host in found else known.get(host))}
    return kept(known, rules)


def _unsteady(inputs: ScopeInputs, directory: Directory, before: SidecarScope) -> frozenset[str]:
    """Namespaces whose services' rules are found on another path than before; none where nothing was before."""
    old, now, root = before.memo.inputs, inputs.destination_rules, inputs.mesh.root_namespace
    if old is None or (old.destination_rules is now and old.mesh.root_namespace == root):
        return frozenset()
    past, past_root, namespace = old.destination_rules, old.mesh.root_namespace, inputs.key.namespace
    return frozenset(
        each
        for each in directory.namespaces
        if lookup_path(now, namespace, each, root) != lookup_path(past, namespace, each, past_root)
    )


def _registry_only(inputs: ScopeInputs) -> bool:
    policy = inputs.sidecar.spec.outbound_traffic_policy if inputs.sidecar else None
    if policy is not None:
        return policy.mode is OutboundMode.REGISTRY_ONLY
    return inputs.mesh.config.outbound_traffic_policy.mode is MeshOutboundMode.REGISTRY_ONLY


def _egress_proxy(inputs: ScopeInputs) -> tuple[str, str, int] | None:
    policy = inputs.sidecar.spec.outbound_traffic_policy if inputs.sidecar else None
    if inputs.sidecar is None or policy is None or policy.egress_proxy is None:
        return None
    proxy = policy.egress_proxy
    host = resolve_short_name(proxy.host, inputs.sidecar.key.namespace, inputs.mesh.domain)
    return (host, proxy.subset, proxy.port.number if proxy.port else 0)


def _own_keys(inputs: ScopeInputs, egress: tuple[EgressListener, ...]) -> Iterator[frozenset[ConfigKey]]:
    """Keys of the Sidecar and of what it imports."""
    if inputs.sidecar is not None:
        yield frozenset((config_key(inputs.sidecar.key),))
    yield from (_virtual_service_keys(listener.virtual_services) for listener in egress)


@lru_cache(maxsize=64)
def _virtual_service_keys(virtual_services: tuple[ResolvedVirtualService, ...]) -> frozenset[ConfigKey]:
    """Remembered, since the scopes of all namespaces ask again."""
    return frozenset(ConfigKey("VirtualService", each.namespace, each.name) for each in virtual_services)


def _imported(egress: tuple[EgressListener, ...]) -> list[tuple[Service, ...]]:
    return [each.services for each in egress]


def _shadowed_keys(egress: tuple[EgressListener, ...], directory: Directory) -> Iterator[ConfigKey]:
    """Keys of imported services that the directory does not have."""
    for service in chain.from_iterable(_imported(egress)) if directory.contested else ():
        if directory.by_host[service.hostname].namespace != service.namespace:
            yield ConfigKey("ServiceEntry", service.namespace, service.hostname)


@lru_cache(maxsize=64)
def _ruling_keys(rules: tuple[tuple[MergedRule, ...], ...]) -> frozenset[ConfigKey]:
    """Keys of the objects behind the rules. Remembered, since the scopes of all namespaces ask again."""
    return frozenset(config_key(source.key) for each in rules for rule in each for source in rule.sources)


def config_key(key: ObjectKey) -> ConfigKey:
    """The push key of an object that is not a service."""
    return ConfigKey(key.kind, key.namespace, key.name)
