"""The build of a snapshot: its order, its steps, and the keys of what changed."""

from __future__ import annotations

from dataclasses import fields

import pytest

from tests.push.fixtures import built, edited, snapshot, view_of
from trierarch.push.context import PushContext
from trierarch.push.mesh import ContextSettings, Features
from trierarch.push.processors import PROCESSORS, build_push_context
from trierarch.push.request import ConfigKey

WEB = "web.shop.svc.cluster.local"
SERVICE = "Service shop/web: {clusterIP: 10.0.0.1, ports: [{name: tcp, port: 80}]}"
HEADLESS = SERVICE.replace("10.0.0.1", "None")
ROUTE = "HTTPRoute shop/new: {parentRefs: [{group: '', kind: Service, name: web}], rules: [{}]}"
BASE = """
    VirtualService shop/web: {hosts: [web], http: [{route: [{destination: {host: web}}]}]}
    DestinationRule shop/web: {host: web}
    Sidecar shop/web: {}
"""


def web_slice(address="10.1.0.1", note="x"):
    """A slice of service `web` as a line of text."""
    metadata = f"{{labels: {{kubernetes.io/service-name: web}}, annotations: {{note: {note}}}}}"
    return f"""EndpointSlice shop/web-x: {{metadata: {metadata}, ports: [{{name: tcp, port: 8080}}],
        endpoints: [{{addresses: [{address}]}}]}}"""


def test_each_section_has_one_processor():
    """In the order of the fields, and none reads a section that comes later."""
    sections = [processor.section for processor in PROCESSORS]
    own = {"number", "view", "settings", "changed", "findings"}
    assert set(sections) == {each.name for each in fields(PushContext)} - own
    context = snapshot(BASE)
    for index, processor in enumerate(PROCESSORS):
        later = {id(getattr(context, section)) for section in sections[index:]}
        assert not {id(each) for each in processor.pick(context)} & later, processor.section


@pytest.mark.parametrize(
    ("text", "rebuilt"),
    [
        (web_slice("10.1.0.2"), {"endpoints"}),
        ("VirtualService shop/web: {hosts: [web]}", {"virtual_services", "dead_ends"}),
        (ROUTE, {"mesh_routes", "virtual_services"}),
        ("DestinationRule shop/web: {host: cart}", {"destination_rules"}),
        ("Sidecar shop/other: {}", {"sidecars"}),
        ("Service shop/cart: {clusterIP: 10.0.0.9}", {"services", "endpoints", "dead_ends"}),
    ],
)
def test_what_a_change_rebuilds(text, rebuilt):
    """Sections that do not read the kind are the very objects of the snapshot before."""
    view = view_of(SERVICE, BASE, web_slice())
    before = built(view)
    after = built(edited(view, text), before)
    sections = [processor.section for processor in PROCESSORS]
    assert {name for name in sections if getattr(after, name) is not getattr(before, name)} == rebuilt


@pytest.mark.parametrize(
    ("start", "text", "expected"),
    [
        (SERVICE, web_slice("10.1.0.2"), {("Endpoints", WEB)}),
        (SERVICE, web_slice(note="y"), set()),
        (HEADLESS, web_slice("10.1.0.2"), {("Endpoints", WEB), ("ServiceEntry", WEB)}),
        (SERVICE, SERVICE.replace("port: 80", "port: 81"), {("ServiceEntry", WEB)}),
        (SERVICE, "VirtualService shop/web: {hosts: [cart]}", {("VirtualService", "web")}),
        (SERVICE, ROUTE, {("VirtualService", f"shop~{WEB}")}),
        (SERVICE, "DestinationRule shop/new: {host: web}", {("DestinationRule", "new")}),
        (SERVICE, "Sidecar shop/web: {ingress: []}", set()),
        (SERVICE, "Namespace /shop: {}", set()),
    ],
)
def test_keys_of_a_change(start, text, expected):
    """xds-server.md §1.1, §2.2: by what came of it; endpoints that clusters or listeners hold show as the service."""
    view = view_of(start, BASE, web_slice())
    before = built(view)
    changed = built(edited(view, text), before).changed
    assert changed == {ConfigKey(kind, "shop", name) for kind, name in expected}


def test_new_identities_show_as_the_service():
    """Clusters hold them (xds-server.md §9.2)."""
    named = web_slice().replace("10.1.0.1]", "10.1.0.1], targetRef: {kind: Pod, name: web-1}")
    pod = "Pod shop/web-1: {serviceAccountName: one, status: {podIP: 10.1.0.1}}"
    view = view_of(SERVICE, named, pod)
    before = built(view)
    after = built(edited(view, pod.replace("one", "two")), before)
    assert after.changed == {ConfigKey("Endpoints", "shop", WEB), ConfigKey("ServiceEntry", "shop", WEB)}


def test_everything_is_new_at_first():
    """After no snapshot, every object is a change."""
    kinds = {key.kind for key in snapshot(SERVICE, BASE, web_slice()).changed}
    assert kinds == {"MeshConfig", "ServiceEntry", "Endpoints", "VirtualService", "DestinationRule", "Sidecar"}


def test_other_settings_rebuild_everything():
    """They are part of the mesh; equal ones are the same."""
    view = view_of(SERVICE)
    before = built(view)
    assert built(view, before, ContextSettings()).mesh is before.mesh
    assert built(view, before, ContextSettings(features=Features(dual_stack=True))).mesh is not before.mesh
    assert built(view, before, ContextSettings(domain="other")).services.ordered[0].hostname == "web.shop.svc.other"


def test_a_build_pauses_after_each_unit():
    """A cold build yields at least once for each service, endpoint set, route and rule; a small edit hardly ever."""
    many = "\n".join(f"Service shop/s{number}: {{clusterIP: 10.0.1.{number}}}" for number in range(50))
    view = view_of(many)
    assert len(list(build_push_context(view, ContextSettings(), None, 1))) > 100
    before = built(view)
    after = edited(view, "DestinationRule shop/r: {host: s1}")
    assert len(list(build_push_context(after, ContextSettings(), before, 2))) < 20
