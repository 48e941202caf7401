"""Which network an address is in, and what that and a locality add to labels (networking.md §1.4, §0.1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING

from trierarch.config import labels as names
from trierarch.config.hosts import is_ip_address
from trierarch.config.mesh_networks import FromCidr, FromRegistry
from trierarch.push.model import NOWHERE, Locality

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from trierarch.config.kubernetes import Namespace
    from trierarch.config.mesh_networks import MeshNetworks
    from trierarch.config.objects import ConfigObject


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkIndex:
    """Networks by cluster and by address. A cluster's own network beats the ranges of MeshNetworks."""

    by_cluster: Mapping[str, str] = field(default_factory=dict)
    ranges: tuple[tuple[IPv4Network | IPv6Network, str], ...] = ()

    def network_of(self, address: str, labels: Mapping[str, str], cluster: str) -> str:
        """The network of a workload; "" if nobody says."""
        return labels.get(names.NETWORK) or self.by_cluster.get(cluster) or self._by_address(address)

    def _by_address(self, address: str) -> str:
        if not self.ranges or not is_ip_address(address):
            return ""
        parsed = ip_address(address)
        return next((network for ip_range, network in self.ranges if parsed in ip_range), "")


def build_networks(
    mesh_networks: MeshNetworks, root_namespace: str, namespaces: Iterable[ConfigObject[Namespace]]
) -> NetworkIndex:
    """The index: the label of a cluster's root namespace goes before MeshNetworks."""
    members = [
        (member.members, name)
        for name, network in sorted(mesh_networks.networks.items())
        for member in network.endpoints
    ]
    by_cluster = {each.value: name for each, name in members if isinstance(each, FromRegistry)}
    ranges = tuple((ip_network(each.value, strict=False), name) for each, name in members if isinstance(each, FromCidr))
    return NetworkIndex(by_cluster=by_cluster | dict(_of_root(namespaces, root_namespace)), ranges=ranges)


def _of_root(namespaces: Iterable[ConfigObject[Namespace]], root_namespace: str) -> Iterator[tuple[str, str]]:
    for namespace in namespaces:
        if namespace.key.name == root_namespace and (network := namespace.labels.get(names.NETWORK)):
            yield namespace.key.cluster, network


@lru_cache(maxsize=4096)
def parse_locality(text: str) -> Locality:
    """`region/zone/subzone`, parts may be missing; a label cannot hold slashes, so dots separate if there is none."""
    parts = text.split("/", 2) if "/" in text else text.split(".", 2)
    return Locality(*parts)


def locality_of_labels(labels: Mapping[str, str]) -> Locality:
    """The locality that a workload's own label states, or NOWHERE."""
    text = labels.get(names.LOCALITY) or labels.get(names.LEGACY_LOCALITY)
    return parse_locality(text) if text else NOWHERE


def topology_of_labels(labels: Mapping[str, str]) -> Locality:
    """The locality in a node's labels, the legacy ones as a fallback."""
    region = labels.get(names.REGION) or labels.get(names.LEGACY_REGION, "")
    zone = labels.get(names.ZONE) or labels.get(names.LEGACY_ZONE, "")
    return Locality(region, zone, labels.get(names.SUBZONE, ""))


def augmented(labels: Mapping[str, str], locality: Locality, cluster: str, node: str, network: str) -> dict[str, str]:
    """Labels of a workload with those of its place added (networking.md §0.1)."""
    place = {
        names.REGION: locality.region,
        names.ZONE: locality.zone,
        names.SUBZONE: locality.subzone,
        names.CLUSTER: cluster,
        names.HOSTNAME: node,
        names.NETWORK: network,
    }
    return {**{name: value for name, value in place.items() if value}, **labels}
