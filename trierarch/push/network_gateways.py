"""Gateways between networks: where an endpoint is reached from a network that is not its own (networking.md §3.4).

MeshNetworks names them by address or by service; a Service may also declare itself one by a label. Where one is known
by a name only, the section says so (`names`), and the addresses come in as objects of whoever looks names up. What a
client does with gateways is decided where its endpoints are built (`envoy/split_horizon.py`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from math import lcm
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from trierarch.config import labels as names
from trierarch.config.hosts import is_ip_address
from trierarch.config.mesh_networks import FromRegistry, GatewayAddress, RegistryServiceName
from trierarch.config.resolved_names import key_of
from trierarch.push.registries import service_hostname

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping

    from trierarch.config.kubernetes import Node
    from trierarch.config.kubernetes import Service as KubernetesService
    from trierarch.config.mesh_networks import MeshNetworks
    from trierarch.config.objects import ConfigObject, ObjectKey
    from trierarch.config.resolved_names import ResolvedName
    from trierarch.push.mesh import Mesh
    from trierarch.push.steps import Steps

GroupT = TypeVar("GroupT", bound="Hashable")

DEFAULT_PORT = 15443
"""Where a gateway takes mTLS for the services behind it, unless it says otherwise."""

EXTERNAL_IP = "ExternalIP"


class NetworkGateway(NamedTuple):
    """An entrance to a network. `cluster` is where its Service is defined, "" for an address in MeshNetworks."""

    address: str
    port: int
    network: str
    cluster: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NetworkGateways:
    """The section of the snapshot; a new object only if there are other gateways or names than before.

    `names`: those to be looked up. The tuples are sorted by address and port. `scale` is the least common multiple of
    their lengths: weights times `scale` can be shared out among the gateways of any network without a remainder.
    """

    known: frozenset[NetworkGateway] = frozenset()
    by_network: Mapping[str, tuple[NetworkGateway, ...]] = field(default_factory=dict)
    by_cluster: Mapping[tuple[str, str], tuple[NetworkGateway, ...]] = field(default_factory=dict)
    scale: int = 1
    names: frozenset[str] = frozenset()

    def to(self, network: str, cluster: str) -> tuple[NetworkGateway, ...]:
        """The entrances to a network, of the endpoint's own cluster if there are any."""
        return self.by_cluster.get((network, cluster)) or self.by_network.get(network, ())


class NetworkGatewaysInputs(NamedTuple):
    """All that the section may read."""

    mesh: Mesh
    services: Mapping[ObjectKey, ConfigObject[KubernetesService]]
    nodes: Mapping[ObjectKey, ConfigObject[Node]]
    resolved: Mapping[ObjectKey, ConfigObject[ResolvedName]]


def build_network_gateways(inputs: NetworkGatewaysInputs, previous: NetworkGateways) -> Steps[NetworkGateways]:
    """All gateways with a port and an address, be it one that their name stands for."""
    found = [each for each in (*_of_mesh_networks(inputs.mesh.networks), *_of_services(inputs)) if each.port]
    yield
    named = [each for each in found if not is_ip_address(each.address)]
    known = frozenset((*(each for each in found if is_ip_address(each.address)), *_looked_up(named, inputs)))
    names = frozenset(each.address for each in named)
    if (known, names) == (previous.known, previous.names):
        return previous
    return index_gateways(known, names)


def _looked_up(named: Iterable[NetworkGateway], inputs: NetworkGatewaysInputs) -> Iterator[NetworkGateway]:
    """Gateways known by name, at each of its addresses; nothing for a name that nobody has looked up."""
    for gateway in named:
        resolved = inputs.resolved.get(key_of(gateway.address))
        for address in resolved.spec.addresses if resolved is not None else ():
            yield gateway._replace(address=address)


def index_gateways(known: frozenset[NetworkGateway], names: frozenset[str] = frozenset()) -> NetworkGateways:
    """The section that holds these gateways."""
    by_network = _grouped((gateway.network, gateway) for gateway in known)
    by_cluster = _grouped(((gateway.network, gateway.cluster), gateway) for gateway in known)
    counts = [len(group) for group in (*by_network.values(), *by_cluster.values())]
    return NetworkGateways(known=known, by_network=by_network, by_cluster=by_cluster, scale=lcm(*counts), names=names)


def _grouped(pairs: Iterable[tuple[GroupT, NetworkGateway]]) -> dict[GroupT, tuple[NetworkGateway, ...]]:
    groups: dict[GroupT, list[NetworkGateway]] = {}
    for group, gateway in sorted(pairs, key=lambda pair: pair[1]):
        groups.setdefault(group, []).append(gateway)
    return {group: tuple(members) for group, members in groups.items()}


def _of_mesh_networks(networks: MeshNetworks) -> Iterator[NetworkGateway]:
    for name, network in networks.networks.items():
        for gateway in network.gateways:
            if isinstance(gateway.gateway, GatewayAddress):
                yield NetworkGateway(gateway.gateway.value, gateway.port, name)


def _of_services(inputs: NetworkGatewaysInputs) -> Iterator[NetworkGateway]:
    named, domain = _named_services(inputs.mesh.networks), inputs.mesh.domain
    for key, service in inputs.services.items():
        network = service.labels.get(names.NETWORK)
        if network:
            entrances: tuple[tuple[str, int], ...] = ((network, _stated_port(service)),)
        else:
            entrances = named.get((key.cluster, service_hostname(key.name, key.namespace, domain)), ())
        for entrance in entrances:
            yield from _at_service(service, *entrance, inputs.nodes)


def _named_services(networks: MeshNetworks) -> dict[tuple[str, str], tuple[tuple[str, int], ...]]:
    """Cluster and host name -> the networks (and ports) whose gateway that service is.

    A network names services of the clusters that it consists of.
    """
    named: dict[tuple[str, str], tuple[tuple[str, int], ...]] = {}
    for name, network in sorted(networks.networks.items()):
        clusters = [each.members.value for each in network.endpoints if isinstance(each.members, FromRegistry)]
        for gateway in network.gateways:
            if isinstance(gateway.gateway, RegistryServiceName):
                for cluster in clusters:
                    service = (cluster, gateway.gateway.value)
                    named[service] = (*named.get(service, ()), (name, gateway.port))
    return named


def _stated_port(service: ConfigObject[KubernetesService]) -> int:
    """The port that a gateway's Service states for traffic of other networks."""
    stated = service.labels.get(names.GATEWAY_PORT) or service.annotations.get(names.GATEWAY_PORT) or ""
    return int(stated) if stated.isdecimal() else DEFAULT_PORT


def _at_service(
    service: ConfigObject[KubernetesService], network: str, port: int, nodes: Mapping[ObjectKey, ConfigObject[Node]]
) -> Iterator[NetworkGateway]:
    """The entrances that a Service is: where its load balancer is, or the nodes on which it has a port."""
    spec, cluster = service.spec, service.key.cluster
    addresses: list[str] = list(spec.external_ips)
    if spec.type == "LoadBalancer":
        addresses += [ingress.ip or ingress.hostname for ingress in spec.load_balancer_ingress]
    elif spec.type == "NodePort" and names.NODE_SELECTOR in service.annotations:
        addresses += _node_addresses(service, nodes)
        port = next((each.node_port for each in spec.ports if each.port == port and each.node_port), port)
    for address in addresses:
        yield NetworkGateway(address, port, network, cluster)


def _node_addresses(
    service: ConfigObject[KubernetesService], nodes: Mapping[ObjectKey, ConfigObject[Node]]
) -> Iterator[str]:
    """External addresses of the nodes that the Service's annotation selects; none if it cannot be read."""
    selector = _node_selector(service.annotations[names.NODE_SELECTOR])
    for key, node in nodes.items():
        if selector is not None and key.cluster == service.key.cluster and selector.items() <= node.labels.items():
            yield from (each.address for each in node.spec.addresses if each.type == EXTERNAL_IP)


def _node_selector(text: str) -> Mapping[str, str] | None:
    try:
        selector = json.loads(text)
    except ValueError:
        return None
    return selector if isinstance(selector, dict) else None
