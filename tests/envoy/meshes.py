"""What the tests of listeners and routes have in common: objects in YAML, egress listeners, plans built and decoded."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import yaml

from tests.conformance.protojson import to_plain
from tests.envoy import samples
from tests.envoy.samples import inbound_key, outbound_key
from trierarch.config.decode import Decoded, decode_object
from trierarch.config.objects import AnyObject, Origin
from trierarch.envoy.listeners import narrow_outbound_listeners, plan_outbound_listeners
from trierarch.envoy.listeners_inbound import plan_inbound_listeners
from trierarch.envoy.memo import Memo
from trierarch.envoy.outlook import Outlook
from trierarch.envoy.routes import narrow_outbound_routes, plan_outbound_routes
from trierarch.envoy.types import LISTENER, ROUTE
from trierarch.envoy.units import Joined, Splice, Tied
from trierarch.push.model import PortProtocol, Service, ServicePort
from trierarch.push.route_names import with_full_names
from trierarch.push.routing import ResolvedVirtualService
from trierarch.push.sidecar_scope import EgressListener, SidecarScope
from trierarch.push.traffic import MergedRule

if TYPE_CHECKING:
    from trierarch.envoy.units import Plan

STOCK = outbound_key()
STOCK_INBOUND = inbound_key()
NOTHING = samples.snapshot()


def config_object(kind: str, name: str, spec: str, namespace: str = "shop") -> AnyObject:
    """An Istio object with a spec in YAML."""
    document = {
        "apiVersion": "networking.istio.io/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": yaml.safe_load(spec),
    }
    decoded = decode_object(document, Origin(source="test"), "Kubernetes")
    assert isinstance(decoded, Decoded), decoded
    assert not decoded.remarks, decoded.remarks
    return decoded.object


def virtual_service(spec: str, name: str = "web", namespace: str = "shop") -> ResolvedVirtualService:
    """A VirtualService whose short names are resolved."""
    source = config_object("VirtualService", name, spec, namespace)
    resolved = with_full_names(source.spec, namespace, "cluster.local")
    return ResolvedVirtualService(source=source, spec=resolved, export_to=frozenset({"*"}))


def destination_rule(spec: str, name: str = "web", namespace: str = "shop") -> MergedRule:
    """A DestinationRule by itself; its host has to be a full name."""
    source = config_object("DestinationRule", name, spec, namespace)
    host, everybody = source.spec.host, frozenset({"*"})
    return MergedRule(host=host, namespace=namespace, spec=source.spec, sources=(source,), export_to=everybody)


def service(name: str, *ports: str, address: str = "", **changes) -> Service:
    """A Kubernetes service of namespace `shop` with a virtual IP; ports are written `80/HTTP`, or `80`: detected."""
    if address:
        changes["default_address"] = address
    return samples.service(name, ports=tuple(_port(port) for port in ports), **changes)


def external(host: str, *ports: str, address: str = "", **changes) -> Service:
    """A service outside of the mesh, written likewise."""
    if address:
        changes["default_address"] = address
    return samples.external(host, ports=tuple(_port(port) for port in ports), **changes)


def _port(text: str) -> ServicePort:
    number, _, protocol = text.partition("/")
    return ServicePort(int(number), f"p{number}", PortProtocol[protocol] if protocol else PortProtocol.UNSUPPORTED)


def egress(*services: Service, virtual=(), port: str = "", bind: str = "", binds: bool = False) -> EgressListener:
    """An egress listener: the catch-all, or one for a port written `80/HTTP`."""
    return EgressListener(
        port=_port(port) if port else None, bind=bind, binds=binds, services=services, virtual_services=tuple(virtual)
    )


def scope(*listeners: EgressListener, rules=(), sidecar: str = "", **changes) -> SidecarScope:
    """A scope with these egress listeners; `sidecar` is the spec of the Sidecar behind it, in YAML."""
    services = tuple(dict.fromkeys(service for listener in listeners for service in listener.services))
    found = config_object("Sidecar", "shop", sidecar) if sidecar else None
    return replace(samples.scope(services, rules), egress=listeners, sidecar=found, **changes)


def mesh_of(*services: Service, virtual=(), **changes) -> SidecarScope:
    """A scope that imports everything: one catch-all listener."""
    return scope(egress(*services, virtual=virtual), **changes)


def joined(plan: Plan) -> dict[str, bytes]:
    """Every resource of a plan by name."""
    return {item.name: b"".join(_encoded(item)) for item in plan if item is not None}


def _encoded(item: Splice | Joined | Tied) -> list[bytes]:
    match item:
        case Splice():
            return [piece.build(piece.inputs) for piece in item.pieces]
        case Joined():
            return list(item.pieces)
        case Tied():
            return [chunk.body for chunk in item.chunks]


def outlook(here: SidecarScope, key=STOCK, snapshot=NOTHING) -> Outlook:
    """What a client may call."""
    return Outlook(key=key, scope=here, context=snapshot)


def planned_listeners(here: SidecarScope, key=STOCK, snapshot=NOTHING) -> Plan:
    """The plan of a view's outbound listeners, without anything remembered."""
    return plan_outbound_listeners(narrow_outbound_listeners(outlook(here, key, snapshot)), key.telemetry, Memo(10_000))


def planned_routes(here: SidecarScope, key=STOCK, snapshot=NOTHING) -> Plan:
    """The plan of a view's route configurations."""
    return plan_outbound_routes(narrow_outbound_routes(outlook(here, key, snapshot)), Memo(10_000))


def listeners(here: SidecarScope, key=STOCK, snapshot=NOTHING) -> dict[str, dict]:
    """The outbound listeners of a view as proto-JSON, read by Google's protobuf."""
    return _plain(LISTENER, planned_listeners(here, key, snapshot))


def inbound_listeners(here: SidecarScope, key=STOCK_INBOUND, snapshot=NOTHING) -> dict[str, dict]:
    """The inbound listeners of a workload."""
    return _plain(LISTENER, plan_inbound_listeners(key, here, snapshot))


def routes(here: SidecarScope, key=STOCK, snapshot=NOTHING) -> dict[str, dict]:
    """The route configurations of a view."""
    return _plain(ROUTE, planned_routes(here, key, snapshot))


def _plain(type_url: str, plan: Plan) -> dict[str, dict]:
    return {name: to_plain(type_url, body) for name, body in joined(plan).items()}


def http(chain: dict) -> dict:
    """The connection manager of a chain."""
    return chain["filters"][-1]["typed_config"]


def summary(listener: dict) -> list[str]:
    """Each chain as `MATCH -> TARGET`; the default chain last."""
    chains = [(chain.get("filter_chain_match", {}), chain) for chain in listener["filter_chains"]]
    if "default_filter_chain" in listener:
        chains.append(({"otherwise": True}, listener["default_filter_chain"]))
    return [f"{_condition(match)} -> {_target(http(chain))}" for match, chain in chains]


def _condition(match: dict) -> str:
    if "otherwise" in match:
        return "otherwise"
    ranges = [f"{each['address_prefix']}/{each['prefix_len']}" for each in match.get("prefix_ranges", ())]
    parts = [*match.get("application_protocols", ()), *match.get("server_names", ()), *ranges]
    port = match.get("destination_port")
    return ",".join([f"port {port}"] if port else []) or ",".join(parts) or "all"


def _target(config: dict) -> str:
    if "rds" in config:
        return f"routes {config['rds']['route_config_name']}"
    if "weighted_clusters" in config:
        return " ".join(f"{each['name']}*{each['weight']}" for each in config["weighted_clusters"]["clusters"])
    return config["cluster"]
