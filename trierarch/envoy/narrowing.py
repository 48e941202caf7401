"""What of a client matters to the clusters that it gets and to their endpoints (networking.md §3, §1.9).

Each assignment is given only what matters to it: of a client's place nothing, if nothing is preferred for being near.
So clients all over the mesh share most assignments.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from trierarch.config.hosts import host_covers, most_specific_first
from trierarch.envoy.load_assignment import AssignmentInputs, EndpointTraits, Reach
from trierarch.envoy.locality import NOWHERE, READS_NOTHING, Standpoint
from trierarch.envoy.split_horizon import ONE_NETWORK, Horizon
from trierarch.push.authentication import NO_POLICIES
from trierarch.push.model import Locality
from trierarch.push.proxy import SecretSource
from trierarch.push.view import ScopeKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trierarch.envoy.locality import Reads
    from trierarch.envoy.memo import Memo
    from trierarch.envoy.outline import ClusterOutline
    from trierarch.envoy.outlook import Outlook
    from trierarch.push.authentication import NamespacePolicies
    from trierarch.push.endpoints import ServiceEndpoints
    from trierarch.push.mesh import Mesh
    from trierarch.push.model import Service
    from trierarch.push.traffic import MergedRule
    from trierarch.push.view import OutboundKey

_NO_SCOPE = ScopeKey("", None)


class ServiceRow(NamedTuple):
    """One service, what is known of it, and who looks at it."""

    narrowing: Narrowing
    policies: NamespacePolicies
    service: Service
    rule: MergedRule | None
    endpoints: ServiceEndpoints


class ServiceRows(NamedTuple):
    """All that the clusters of a view and their assignments are made of: services, and what is known of each beside it.

    `client` is `select_client`'s; `policies` are by namespace.
    """

    client: OutboundKey
    mesh: Mesh
    horizon: Horizon
    policies: tuple[tuple[str, NamespacePolicies], ...]
    services: tuple[Service, ...]
    rules: tuple[MergedRule | None, ...]
    endpoints: tuple[ServiceEndpoints, ...]

    def rows(self, memo: Memo) -> Iterator[ServiceRow]:
        """The services one by one. The narrowing in them is one object for all questions of equal clients."""
        narrowing = memo.recall(narrow_client, (self.client, self.mesh, self.horizon))
        policies = dict(self.policies)
        for service, rule, endpoints in zip(self.services, self.rules, self.endpoints, strict=True):
            yield ServiceRow(narrowing, policies.get(service.namespace, NO_POLICIES), service, rule, endpoints)


def select_rows(outlook: Outlook, horizon: Horizon) -> ServiceRows:
    """The services that a client may call."""
    client = select_client(outlook.key)
    services, known = outlook.scope.services, (outlook.rules, outlook.endpoints)
    return ServiceRows(client, outlook.mesh, horizon, outlook.policies, services, *known)


def select_client(key: OutboundKey) -> OutboundKey:
    """The key of a client without what makes no difference to its clusters: under which names and at which addresses it
    is to find services, in which pieces it gets its routes, and its namespace, which has told already which rule is in
    force for a service.
    """
    return replace(
        key,
        scope=_NO_SCOPE,
        dns_domain="",
        dns_capture=False,
        http_proxy_port=0,
        own_addresses=frozenset(),
        own_ports=frozenset(),
        exact_balance=False,
        connections=None,
        capabilities=key.capabilities.with_whole_routes(),
    )


def narrow_client(inputs: tuple[OutboundKey, Mesh, Horizon]) -> Narrowing:
    """The narrowing for a client in a mesh."""
    return Narrowing(*inputs)


class Narrowing:
    """What of a client matters to the assignments of its clusters.

    `horizon`: how the client gets to other networks; left out where names are resolved, for gateways have none.
    """

    __slots__ = ("_everywhere", "_local_hosts", "_locality", "_traits", "client", "mesh")

    def __init__(self, client: OutboundKey, mesh: Mesh, horizon: Horizon = ONE_NETWORK) -> None:
        self.client = client
        self.mesh = mesh
        self._everywhere = Reach(networks=client.network_view, horizon=horizon if horizon.is_split else ONE_NETWORK)
        self._local_hosts = _cluster_local_hosts(mesh)
        self._locality = Standpoint(locality=client.locality)
        self._traits = {user_tls: _endpoint_traits(client, mesh, user_tls) for user_tls in (False, True)}

    def select(
        self,
        service: Service,
        endpoints: ServiceEndpoints,
        policies: NamespacePolicies,
        outlines: Iterable[ClusterOutline],
    ) -> list[AssignmentInputs]:
        """The inputs of the assignments of a service's clusters.

        Policies count for clients that could use mutual TLS, where no rule insists on it (§3.2).
        """
        reach = self._reach(service)
        heeded = policies if self._traits[False].mutual_tls else NO_POLICIES
        return [
            AssignmentInputs(
                outline,
                endpoints,
                reach,
                self._standpoint(outline.reads),
                self._traits[outline.has_user_tls],
                heeded if outline.policy.tls is None else NO_POLICIES,
            )
            for outline in outlines
        ]

    def _reach(self, service: Service) -> Reach:
        is_local = self._is_cluster_local(service.hostname)
        if not is_local and not service.node_local:
            return self._everywhere
        return self._everywhere._replace(
            node=self.client.node_name if service.node_local else None,
            cluster=self.client.cluster if is_local else None,
        )

    def _is_cluster_local(self, host: str) -> bool:
        return next((local for pattern, local in self._local_hosts if host_covers(pattern, host)), False)

    def _standpoint(self, reads: Reads) -> Standpoint:
        if reads is READS_NOTHING:
            return NOWHERE
        if not reads.labels:
            return self._locality
        labels = frozenset(pair for pair in self.client.labels if pair[0] in reads.labels)
        return Standpoint(locality=self.client.locality if reads.locality else Locality(), labels=labels)


def _endpoint_traits(key: OutboundKey, mesh: Mesh, user_tls: bool) -> EndpointTraits:
    return EndpointTraits(
        mutual_tls=not user_tls and key.capabilities.secrets is not SecretSource.NONE,
        telemetry=key.capabilities.istio and mesh.features.telemetry_labels,
        dual_stack=mesh.features.dual_stack,
    )


def _cluster_local_hosts(mesh: Mesh) -> Sequence[tuple[str, bool]]:
    """Hosts whose endpoints in other clusters are not used, and exceptions from that; the most specific first."""
    local = {
        f"*.kube-system.svc.{mesh.domain}": True,
        f"kubernetes.default.svc.{mesh.domain}": True,
        f"istiod.{mesh.root_namespace}.svc.{mesh.domain}": True,
    }
    for settings in mesh.config.service_settings:
        if settings.settings is not None:
            local |= dict.fromkeys(settings.hosts, settings.settings.cluster_local)
    return [(host, local[host]) for host in most_specific_first(local)]
