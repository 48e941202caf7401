"""Type URLs and the rules of the resource types that we serve (xds-server.md §6.1)."""

from __future__ import annotations

_PREFIX = "type.googleapis.com/"
CLUSTER = _PREFIX + "envoy.config.cluster.v3.Cluster"
ENDPOINT = _PREFIX + "envoy.config.endpoint.v3.ClusterLoadAssignment"
LISTENER = _PREFIX + "envoy.config.listener.v3.Listener"
ROUTE = _PREFIX + "envoy.config.route.v3.RouteConfiguration"
SECRET = _PREFIX + "envoy.extensions.transport_sockets.tls.v3.Secret"
EXTENSION = _PREFIX + "envoy.config.core.v3.TypedExtensionConfig"
NAME_TABLE = _PREFIX + "istio.networking.nds.v1.NameTable"
VIRTUAL_HOST = _PREFIX + "envoy.config.route.v3.VirtualHost"
