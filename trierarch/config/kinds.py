"""The table of kinds: what each is called in the API, whose it is, which class holds it and who checks it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from trierarch.config import kubernetes
from trierarch.config.authorization_policy import AuthorizationPolicy
from trierarch.config.destination_rule import DestinationRule
from trierarch.config.http_route import GATEWAY_API, HttpRouteSpec
from trierarch.config.mesh_config import MeshConfig
from trierarch.config.mesh_networks import MeshNetworks
from trierarch.config.peer_authentication import PeerAuthentication
from trierarch.config.request_authentication import RequestAuthentication
from trierarch.config.service_entry import ServiceEntry
from trierarch.config.sidecar import Sidecar
from trierarch.config.validate_authorization_policy import check_authorization_policy
from trierarch.config.validate_destination_rule import check_destination_rule
from trierarch.config.validate_gateway_api import check_gateway_http_route
from trierarch.config.validate_kubernetes import (
    check_endpoint_slice,
    check_endpoints,
    check_pod,
    check_service,
)
from trierarch.config.validate_mesh import check_mesh_config, check_mesh_networks
from trierarch.config.validate_peer_authentication import check_peer_authentication
from trierarch.config.validate_request_authentication import check_request_authentication
from trierarch.config.validate_service_entry import check_service_entry, check_workload_entry
from trierarch.config.validate_sidecar import check_sidecar
from trierarch.config.validate_virtual_service import check_virtual_service
from trierarch.config.virtual_service import VirtualService
from trierarch.config.workload_entry import WorkloadEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trierarch.config.objects import AnyObject
    from trierarch.config.violations import Complaints

Check: TypeAlias = "Callable[[AnyObject], Complaints]"


class Family(Enum):
    """Whose API a kind belongs to. MESH kinds are files of their own, without apiVersion, kind and metadata."""

    ISTIO = "istio"
    KUBERNETES = "kubernetes"
    MESH = "mesh"


def unchecked(subject: AnyObject) -> Complaints:
    """Nothing in these objects can be wrong."""
    yield from ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind. `name` is unique in the table and stands in `ObjectKey.kind`; `plural` is the resource's name."""

    name: str
    group: str
    versions: tuple[str, ...]
    plural: str
    family: Family
    namespaced: bool = True
    spec: type
    check: Check = unchecked

    @property
    def api_versions(self) -> tuple[str, ...]:
        """The values of `apiVersion` that mean this kind, the preferred one first."""
        return tuple(f"{self.group}/{version}" if self.group else version for version in self.versions)

    @property
    def root(self) -> str:
        """Where the fields of the spec class stand in the document."""
        return "" if self.family is Family.MESH else "spec"


def _networking(name: str, plural: str, spec: type, check: Check) -> Kind:
    return _istio(name, plural, spec, check, group="networking.istio.io", versions=("v1", "v1beta1", "v1alpha3"))


def _security(name: str, plural: str, spec: type, check: Check) -> Kind:
    return _istio(name, plural, spec, check, group="security.istio.io", versions=("v1", "v1beta1"))


def _istio(name: str, plural: str, spec: type, check: Check, *, group: str, versions: tuple[str, ...]) -> Kind:
    return Kind(name=name, group=group, versions=versions, plural=plural, family=Family.ISTIO, spec=spec, check=check)


def _kubernetes(
    name: str, plural: str, spec: type, check: Check = unchecked, *, group: str = "", namespaced: bool = True
) -> Kind:
    return Kind(
        name=name,
        group=group,
        versions=("v1",),
        plural=plural,
        family=Family.KUBERNETES,
        namespaced=namespaced,
        spec=spec,
        check=check,
    )


def _gateway_api(name: str, plural: str, spec: type, check: Check) -> Kind:
    return Kind(
        name=name,
        group=GATEWAY_API,
        versions=("v1", "v1beta1"),
        plural=plural,
        family=Family.KUBERNETES,
        spec=spec,
        check=check,
    )


def _mesh(name: str, spec: type, check: Check) -> Kind:
    return Kind(
        name=name, group="", versions=(), plural="", family=Family.MESH, namespaced=False, spec=spec, check=check
    )


MESH_CONFIG = _mesh("MeshConfig", MeshConfig, check_mesh_config)
MESH_NETWORKS = _mesh("MeshNetworks", MeshNetworks, check_mesh_networks)

KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        _networking("VirtualService", "virtualservices", VirtualService, check_virtual_service),
        _networking("DestinationRule", "destinationrules", DestinationRule, check_destination_rule),
        _networking("ServiceEntry", "serviceentries", ServiceEntry, check_service_entry),
        _networking("WorkloadEntry", "workloadentries", WorkloadEntry, check_workload_entry),
        _networking("Sidecar", "sidecars", Sidecar, check_sidecar),
        _security("PeerAuthentication", "peerauthentications", PeerAuthentication, check_peer_authentication),
        _security(
            "RequestAuthentication",
            "requestauthentications",
            RequestAuthentication,
            check_request_authentication,
        ),
        _security("AuthorizationPolicy", "authorizationpolicies", AuthorizationPolicy, check_authorization_policy),
        _gateway_api("HTTPRoute", "httproutes", HttpRouteSpec, check_gateway_http_route),
        _kubernetes("Service", "services", kubernetes.Service, check_service),
        _kubernetes(
            "EndpointSlice",
            "endpointslices",
            kubernetes.EndpointSlice,
            check_endpoint_slice,
            group="discovery.k8s.io",
        ),
        _kubernetes("Endpoints", "endpoints", kubernetes.Endpoints, check_endpoints),
        _kubernetes("Pod", "pods", kubernetes.Pod, check_pod),
        _kubernetes("Node", "nodes", kubernetes.Node, namespaced=False),
        _kubernetes("Namespace", "namespaces", kubernetes.Namespace, namespaced=False),
        MESH_CONFIG,
        MESH_NETWORKS,
    )
}
"""All kinds by their names."""

_BY_API: Mapping[tuple[str, str], Kind] = {
    (api_version, kind.name): kind for kind in KINDS.values() for api_version in kind.api_versions
}


def find_kind(api_version: str, kind: str) -> Kind | None:
    """The kind of a document with this `apiVersion` and `kind`, or None if we do not know it."""
    return _BY_API.get((api_version, kind))
