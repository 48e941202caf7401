"""Outbound clusters as plain data, for tests of what they consist of."""

from tests.envoy.samples import HTTP, generated, rule, scope, service, snapshot
from trierarch.envoy.types import CLUSTER

HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
WEB = "outbound|80||web.shop.svc.cluster.local"


def clusters_of(services, rules=(), *, endpoints=(), settings=None, key=None):
    """All clusters of a client that reaches these services, by name."""
    context = snapshot(services, endpoints, settings=settings)
    return generated(CLUSTER, context, scope(services, rules), outbound=key)


def web_cluster(policy, *, port=HTTP, settings=None, key=None, **changes):
    """The cluster of service `web` under a traffic policy."""
    web = service(ports=(port,), **changes)
    rules = [rule(policy)] if policy is not None else []
    return clusters_of([web], rules, settings=settings, key=key)[f"outbound|{port.number}||{web.hostname}"]


def http_options(cluster):
    """The options of HTTP connections to the cluster, {} if it has none."""
    options = dict(cluster.get("typed_extension_protocol_options", {}).get(HTTP_OPTIONS, {}))
    options.pop("@type", None)
    return options
