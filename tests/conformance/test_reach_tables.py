"""Known answers about who reaches what, from tables of istiod's own tests (`go-tables/`): exports, Sidecars, routes."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.conformance.go_tables import istio_object, mesh_config, plain, rows, service, whole_rows
from tests.envoy.samples import outbound_key, snapshot
from trierarch.config.mesh_config import (
    MeshConfig,
    MeshOutboundMode,
    MeshOutboundTrafficPolicy,
    ServiceEntryVisibility,
    Visibility,
)
from trierarch.envoy.memo import Memo
from trierarch.envoy.outbound_view import select_outbound_view
from trierarch.envoy.outlook import Outlook
from trierarch.envoy.routes import select_hosts
from trierarch.push.egress_hosts import parse_egress_hosts
from trierarch.push.mesh import Mesh
from trierarch.push.model import UNSPECIFIED_ADDRESS, PortProtocol, Registry, Resolution, Service, ServicePort
from trierarch.push.request import ConfigKey
from trierarch.push.routing import RoutingInputs, VirtualServices, build_virtual_services
from trierarch.push.sidecar_scope import Sidecars, SidecarScope, build_scope
from trierarch.push.steps import run_steps
from trierarch.push.view import ScopeKey
from trierarch.push.visibility import entry_exported_to, is_visible

MODEL = "model/pilot__pkg__model__{}.json"
CORE = "core/pilot__pkg__networking__core__{}.json"

OWN = "mynamespace"
"""Where objects are whose rows do not tell."""


def virtual_services(configs, mesh: Mesh | None = None) -> VirtualServices:
    """The section of virtual services. Short names there are completed without a domain."""
    objects = []
    for config in plain(list(configs)):
        namespace = config["meta"].get("namespace", OWN)
        hosts = [host if "." in host else f"{host}.{namespace}" for host in config["spec"]["hosts"]]
        objects.append(
            istio_object("VirtualService", config["spec"] | {"hosts": hosts}, config["meta"]["name"], namespace)
        )
    table = {each.key: each for each in objects}
    return run_steps(build_virtual_services(RoutingInputs(mesh or Mesh(), table), VirtualServices()))


def reach(namespace: str, sidecar=None, services=(), virtual=(), settings: Mesh | None = None) -> SidecarScope:
    """What workloads of a namespace reach; `sidecar` is a spec or None."""
    found = istio_object("Sidecar", sidecar, namespace=namespace) if sidecar is not None else None
    context = replace(
        snapshot(sorted(services, key=lambda each: each.age), settings=settings),
        virtual_services=virtual_services(virtual),
        sidecars=Sidecars(sources={found.key: found} if found else {}),
    )
    return run_steps(build_scope(ScopeKey(namespace, found.key if found else None), context))


# --- exports ---------------------------------------------------------------------------------------------------------
@rows(MODEL.format("push_context"), "TestIsServiceVisible")
def test_visibility(row):
    """To namespace foo, by exportTo, the mesh's default and its cap on ServiceEntries."""
    attributes = row["service"]["attributes"]
    context = row["pushContext"]
    settings = (context.get("mesh") or {}).get("serviceEntryVisibility") or {}
    default = (context.get("exportToDefaults") or {}).get("service") or ()
    cap = ServiceEntryVisibility(
        default_visibility=Visibility[attributes.get("visibility", "ServiceVisibilityPublic")[17:].upper()],
        apply_to_sidecars=bool(settings.get("applyToSidecars")),
    )
    config = MeshConfig(default_service_export_to=tuple(default), service_entry_visibility=cap)
    declared, namespace = tuple(attributes.get("exportTo") or ()), attributes["namespace"]
    exported = entry_exported_to(declared, namespace, {}, Mesh(config=config))
    assert is_visible(replace(service(row["service"]), export_to=exported), "foo") is row["expect"]


def seen_and_wanted(function: str, row, mesh: Mesh) -> tuple[set[str], set[str]]:
    """Hosts that a namespace sees at a gateway, and those it should; hosts that no table tells of are left out."""
    configs = whole_rows(MODEL.format("push_context"), function, "range")
    known = {host for config in configs for host in config["spec"]["hosts"]}
    visible = virtual_services(configs, mesh).visible(row["proxyNs"], row["gateway"])
    return {host for each in visible for host in each.spec.hosts}, known & set(row["wantHosts"])


@rows(MODEL.format("push_context"), "TestVirtualServiceWithExportTo", "cases")
def test_exported_virtual_services(row):
    """By exportTo: own namespace, some, all."""
    found, wanted = seen_and_wanted("TestVirtualServiceWithExportTo", row, Mesh())
    assert found == wanted


@rows(MODEL.format("push_context"), "TestVirtualServiceWithDefaultExportTo", "cases")
def test_virtual_services_exported_by_default(row):
    """The mesh exports to the own namespace, and to ns1."""
    mesh = Mesh(config=mesh_config({"defaultVirtualServiceExportTo": [".", "ns1"]}))
    found, wanted = seen_and_wanted("TestVirtualServiceWithDefaultExportTo", row, mesh)
    assert found == wanted


# --- Sidecars --------------------------------------------------------------------------------------------------------
HOSTS = {"vs-a": ("a", ["a.com"]), "vs-b": ("b", ["b.com"]), "vs-multi": ("c", ["keep.com", "drop.com"])}
WILD = {"vs-wild": ("a", ["*.com"])}
"""The virtual services that the rows about exclusions are about: namespace and hosts."""


def touched(by_namespace, virtual) -> list[str]:
    """The virtual services that the hosts of a listener import."""
    lists = (("", "allHosts"), ("~", "excludedHosts"))
    texts = [
        f"{sign}{namespace}/{host}"
        for namespace, each in by_namespace.items()
        for sign, field in lists
        for host in each.get(field) or ()
    ]
    found = parse_egress_hosts(texts, OWN)
    return [name for name, (namespace, hosts) in virtual.items() if found.touches(namespace, hosts)]


@rows(MODEL.format("sidecar"), "TestCreateSidecarScope")
def test_scopes(row):
    """Which services are in reach of a Sidecar, with which ports."""
    sidecar = (row.get("sidecarConfig") or {}).get("spec")
    services = map(service, row.get("services") or ())
    found = reach(OWN, sidecar, services, row.get("virtualServices") or ())
    assert _shown(found.services) == _shown(map(service, row.get("expectedServices") or ()))


def _shown(services):
    return sorted((each.hostname, each.namespace, sorted(port.number for port in each.ports)) for each in services)


@rows(MODEL.format("virtualservice"), "TestSelectVirtualServicesExclusion", "tests")
def test_excluded_virtual_services(row):
    """One is left out if all of its hosts are."""
    assert touched(row["hostsByNS"], HOSTS) == row["expected"]


@rows(MODEL.format("virtualservice"), "TestSelectVirtualServicesExclusionWildcard", "tests")
def test_excluded_wildcards(row):
    """A wildcard is left out if a wildcard covers it."""
    assert touched(row["hostsByNS"], WILD) == row["expected"]


@rows(MODEL.format("sidecar"), "TestContainsEgressDependencies", "cases")
def test_dependencies(row):
    """Whether a change of an object concerns a workload whose Sidecar imports some hosts."""
    services = [
        service({"hostname": host, "attributes": {"namespace": namespace}})
        for host, namespace in (("svc1.com", "ns"), ("nomatch", "nomatch"))
    ]
    virtual = [{"meta": {"name": "vs1", "namespace": "ns"}, "spec": {"hosts": ["svc1.com"]}}]
    sidecar = {"egress": [{"hosts": row["egress"]}]} if row["egress"] else None
    scope = reach("default", sidecar, services, virtual)
    for text, expected in row["contains"].items():
        key = json.loads(text)
        if key["kind"] in ("ServiceEntry", "VirtualService"):
            assert scope.depends(ConfigKey(key["kind"], key["namespace"], key["name"])) is expected, text


# --- routes ----------------------------------------------------------------------------------------------------------
SERVICES = [
    Service(
        hostname=host,
        namespace=namespace,
        name=host,
        registry=Registry.KUBERNETES,
        resolution=Resolution.PASSTHROUGH if address == UNSPECIFIED_ADDRESS else Resolution.CLIENT_SIDE,
        default_address=address or UNSPECIFIED_ADDRESS,
        ports=tuple(ServicePort(number, f"http-{number}", PortProtocol.HTTP) for number in ports),
        export_to=frozenset({"*"}),
    )
    for host, address, namespace, ports in (
        ("bookinfo.com", UNSPECIFIED_ADDRESS, "default", (9999, 70)),
        ("test.com", "8.8.8.8", "not-default", (8080,)),
        ("test-private.com", "9.9.9.9", "not-default", (80, 70)),
        ("test-private-2.com", "9.9.9.10", "not-default", (60,)),
        ("test-headless.com", UNSPECIFIED_ADDRESS, "not-default", (8888,)),
        ("service-A.default.svc.cluster.local", "", "default", (7777,)),
    )
]
"""The services that the rows about routes are about, as these show them."""


@rows(CORE.format("httproute"), "TestSidecarOutboundHTTPRouteConfig", "cases")
def test_virtual_hosts(row):
    """The virtual hosts of a route configuration, with their domains."""
    mode = MeshOutboundMode.REGISTRY_ONLY if row.get("registryOnly") else MeshOutboundMode.ALLOW_ANY
    settings = Mesh(config=MeshConfig(outbound_traffic_policy=MeshOutboundTrafficPolicy(mode=mode)))
    sidecar = (row.get("sidecarConfig") or {}).get("spec")
    scope = reach("not-default", sidecar, SERVICES, row.get("virtualServiceConfigs") or (), settings)
    key = outbound_key(scope=scope.key, dns_domain="")
    view = select_outbound_view(Outlook(key=key, scope=scope, context=snapshot(SERVICES, settings=settings)))
    found = run_steps(select_hosts(view, row["routeName"], Memo(10_000)))
    shown = {each.name: set(each.domains) for each in found}
    assert shown == {name: set(domains) for name, domains in row["expectedHosts"].items()}
