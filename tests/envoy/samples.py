"""Small values that the tests of this folder have in common: keys of a plain sidecar, services, endpoints, a snapshot.

Everything is in namespace `shop` unless it says otherwise.
"""

from __future__ import annotations

from dataclasses import replace

from tests.conformance.protojson import to_plain
from trierarch.config.destination_rule import DestinationRule, Subset
from trierarch.config.mesh_config import MeshConfig
from trierarch.config.objects import ConfigObject, ObjectKey, Origin
from trierarch.envoy.endpoints import narrow_endpoints, plan_endpoints
from trierarch.envoy.generate import generate
from trierarch.envoy.memo import Memo
from trierarch.envoy.outlook import Outlook
from trierarch.envoy.part_cache import PartCache
from trierarch.push.context import PushContext
from trierarch.push.endpoints import Endpoints, ServiceEndpoints
from trierarch.push.mesh import Features, Mesh
from trierarch.push.model import (
    Endpoint,
    Locality,
    PortProtocol,
    Registry,
    Resolution,
    Service,
    ServicePort,
)
from trierarch.push.proxy import Capabilities, Interception, IPMode, ProxyType
from trierarch.push.services import Services
from trierarch.push.sidecar_scope import SidecarScope
from trierarch.push.steps import run_steps
from trierarch.push.traffic import MergedRule
from trierarch.push.view import InboundKey, OutboundKey, ScopeKey, View

SHOP = ScopeKey("shop", None)
_OUTBOUND = OutboundKey(
    type=ProxyType.SIDECAR,
    scope=SHOP,
    cluster="Kubernetes",
    dns_domain="shop.svc.cluster.local",
    labels=frozenset(),
    network="",
    network_view=frozenset(),
    locality=Locality(),
    node_name="",
    ip_mode=IPMode.IPV4,
    interception=Interception.REDIRECT,
    dns_capture=False,
    http10=False,
    http_proxy_port=0,
    idle_timeout=None,
    generator="",
    own_addresses=frozenset(),
    capabilities=Capabilities(),
)
_INBOUND = InboundKey(
    type=ProxyType.SIDECAR,
    scope=SHOP,
    targets=(),
    labels=frozenset(),
    address="",
    ip_mode=IPMode.IPV4,
    interception=Interception.REDIRECT,
    http10=False,
    idle_timeout=None,
    capabilities=Capabilities(),
)


def outbound_key(**changes) -> OutboundKey:
    """The outbound key of a stock Envoy in namespace `shop`, with changes."""
    return replace(_OUTBOUND, **changes)


def inbound_key(**changes) -> InboundKey:
    """The inbound key of a stock Envoy in namespace `shop` that serves nothing, with changes."""
    return replace(_INBOUND, **changes)


ISTIO = Capabilities(istio=True)
"""What Istio's own proxy can, but without certificates."""

HTTP = ServicePort(80, "http", PortProtocol.HTTP)
GRPC = ServicePort(7070, "grpc", PortProtocol.GRPC)
TCP = ServicePort(9000, "tcp", PortProtocol.TCP)
DETECTED = ServicePort(6000, "other", PortProtocol.UNSUPPORTED)
HTTPS = ServicePort(443, "https", PortProtocol.HTTPS)
UDP = ServicePort(53, "dns", PortProtocol.UDP)


def service(name="web", *, ports=(HTTP,), resolution=Resolution.CLIENT_SIDE, **changes):
    """A Kubernetes service `NAME.shop.svc.cluster.local`."""
    values = {"hostname": f"{name}.shop.svc.cluster.local", "namespace": "shop", "name": name}
    values |= {"registry": Registry.KUBERNETES, "resolution": resolution, "ports": tuple(ports)}
    return Service(**(values | changes))


def external(host, *, ports=(HTTP,), resolution=Resolution.DNS, **changes):
    """A service outside of the mesh, as a ServiceEntry defines it."""
    values = {"hostname": host, "name": host, "registry": Registry.EXTERNAL, "mesh_external": True}
    return service(ports=ports, resolution=resolution, **(values | changes))


def endpoint(address="10.1.0.1", *, port=8080, port_name="http", **changes):
    """A ready endpoint of port `http`."""
    values = {"addresses": (address,), "port": port, "port_name": port_name, "namespace": "shop"}
    return Endpoint(**(values | {"cluster": "Kubernetes"} | changes))


def rule(policy=None, *, name="web", host="web.shop.svc.cluster.local", subsets=()):
    """A DestinationRule as the snapshot holds it. `policy`: a TrafficPolicy or None; `subsets`: of `Subset`."""
    spec = DestinationRule(host=host, traffic_policy=policy, subsets=tuple(subsets))
    key = ObjectKey("Kubernetes", "DestinationRule", "shop", name)
    source = ConfigObject(key=key, spec=spec, digest=b"", origin=Origin(source="test"))
    return MergedRule(host=host, namespace="shop", spec=spec, sources=(source,), export_to=frozenset({"*"}))


def subset(name, policy=None, **labels):
    """A subset by labels."""
    return Subset(name=name, labels=labels, traffic_policy=policy)


def mesh(*, features=None, **config):
    """Mesh-wide settings: `config` are fields of MeshConfig, `features` a dict."""
    return Mesh(config=MeshConfig(**config), features=Features(**(features or {})))


def snapshot(services=(), endpoints=(), *, settings=None, number=1):
    """A snapshot of these services; `endpoints` maps a service to its endpoints."""
    by_host = {}
    for each in services:
        by_host.setdefault(each.hostname, {})[each.namespace] = each
    return PushContext(
        number=number,
        mesh=settings or mesh(),
        services=Services(
            ordered=tuple(services),
            by_id={each.id: each for each in services},
            by_host=by_host,
            public=tuple(services),
            exported_to={},
        ),
        endpoints=Endpoints(
            by_service={each.id: ServiceEndpoints(endpoints=tuple(found)) for each, found in dict(endpoints).items()}
        ),
    )


def scope(services=(), rules=(), *, sidecar=None):
    """A scope that imports these services, with the rules that may apply; `sidecar` is a spec or None."""
    key = ObjectKey("Kubernetes", "Sidecar", "shop", "default")
    found = None
    if sidecar is not None:
        found = ConfigObject(key=key, spec=sidecar, digest=b"", origin=Origin(source="test"))
    return SidecarScope(
        key=ScopeKey("shop", key if sidecar is not None else None),
        sidecar=found,
        egress=(),
        services=tuple(services),
        by_host={each.hostname: each for each in services},
        rules={each.host: (each,) for each in rules},
        registry_only=False,
    )


def generated(type_url, context, reach, *, outbound=None, inbound=None):
    """All resources of a type for one view, as name -> proto-JSON."""
    found = encoded(type_url, context, reach, outbound=outbound, inbound=inbound)
    return {name: to_plain(type_url, body) for name, body in found.items()}


def encoded(type_url, context, reach, *, outbound=None, inbound=None):
    """All resources of a type for one view, as name -> bytes."""
    view = View(outbound=outbound or outbound_key(), inbound=inbound or inbound_key())
    resources = run_steps(generate(view, reach, context, type_url, Memo(10_000), PartCache()))
    return {resource.name: resource.body for resource in resources}


def planned_endpoints(key, reach, context):
    """The inputs of the units of a view's endpoints, without anything remembered."""
    rows = narrow_endpoints(Outlook(key=key, scope=reach, context=context))
    return [unit.inputs for unit in plan_endpoints(rows, Memo(10_000))]
