"""Type URLs and the rules of the resource types that we serve (xds-server.md §6.1)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from protocol.proto.envoy.config.endpoint.v3 import ClusterLoadAssignment
from protocol.proto.envoy.config.route.v3 import RouteConfiguration
from protocol.xds.types import TypeRules
from trierarch.envoy.well_known_types import encode_resource

if TYPE_CHECKING:
    from protocol.xds.resources import Resource
    from protocol.xds.types import TypeTable
    from trierarch.push.proxy import Proxy

_PREFIX = "type.googleapis.com/"
CLUSTER = _PREFIX + "envoy.config.cluster.v3.Cluster"
ENDPOINT = _PREFIX + "envoy.config.endpoint.v3.ClusterLoadAssignment"
LISTENER = _PREFIX + "envoy.config.listener.v3.Listener"
ROUTE = _PREFIX + "envoy.config.route.v3.RouteConfiguration"
SECRET = _PREFIX + "envoy.extensions.transport_sockets.tls.v3.Secret"
EXTENSION = _PREFIX + "envoy.config.core.v3.TypedExtensionConfig"
NAME_TABLE = _PREFIX + "istio.networking.nds.v1.NameTable"
VIRTUAL_HOST = _PREFIX + "envoy.config.route.v3.VirtualHost"


def empty_load_assignment(name: str) -> Resource:
    """What answers an EDS name that nothing defines: a cluster without endpoints, never a removal (§6.7)."""
    return encode_resource(name, ClusterLoadAssignment(cluster_name=name))


def empty_route_configuration(name: str) -> Resource:
    """What answers an RDS name that nothing defines: Envoy would wait for it and hold back the listener."""
    return encode_resource(name, RouteConfiguration(name=name, validate_clusters=False))


def route_configuration_of(virtual_host: str) -> str:
    """The configuration to which a virtual host that comes by itself belongs. Envoy too goes by the last slash."""
    return virtual_host.rpartition("/")[0]


_RULES = (
    TypeRules(type_url=CLUSTER, short="CDS", wildcard=True, complete=True),
    TypeRules(type_url=ENDPOINT, short="EDS", follows=CLUSTER, placeholder=empty_load_assignment),
    TypeRules(type_url=LISTENER, short="LDS", wildcard=True, complete=True),
    TypeRules(type_url=ROUTE, short="RDS", placeholder=empty_route_configuration),
    TypeRules(type_url=VIRTUAL_HOST, short="VHDS", wildcard=True, follows=ROUTE, owner=route_configuration_of),
    TypeRules(type_url=SECRET, short="SDS", removals=False),
    TypeRules(type_url=EXTENSION, short="ECDS", removals=False, answers_empty=True),
    TypeRules(type_url=NAME_TABLE, short="NDS", wildcard=True),
)
TYPE_RULES: TypeTable = {rules.type_url: rules for rules in _RULES}
"""The types that a stream may ask for, in the order of a push. Of any other nothing is ever sent, and the stream goes
on; but see `needs_identity`."""

PLAIN_RULES: TypeTable = {url: rules for url, rules in TYPE_RULES.items() if url != VIRTUAL_HOST}
"""The same for clients that get route configurations whole (xds-server.md §16)."""

_DEBUG = "istio.io/debug"
_PARTS_OF_A_KIND = 3

PROXYLESS_RULES: TypeTable = {
    **PLAIN_RULES,
    CLUSTER: replace(TYPE_RULES[CLUSTER], wildcard=False),
    LISTENER: replace(TYPE_RULES[LISTENER], wildcard=False),
}
"""The same for gRPC clients without a proxy: they ask for listeners and clusters by name (§7.2)."""


def type_rules(proxy: Proxy) -> TypeTable:
    """The rules that a client goes by."""
    if proxy.is_proxyless:
        return PROXYLESS_RULES
    return TYPE_RULES if proxy.capabilities.vhds else PLAIN_RULES


def needs_identity(type_url: str) -> bool:
    """Whether a type is for operators' eyes: debug pages, and objects of the mesh by `GROUP/VERSION/KIND`.

    Asking for one without an identity ends the stream (xds-server.md §6.1, §6.3).
    """
    parts = type_url.split("/")
    return type_url.startswith(_DEBUG) or (len(parts) == _PARTS_OF_A_KIND and "." in parts[0])
