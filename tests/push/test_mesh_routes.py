"""HTTPRoutes of services of the mesh: for whom they are, and what they are before (networking.md §5.11)."""

from tests.push.fixtures import built, edited, snapshot, view_of
from trierarch.config.hosts import MESH_GATEWAY
from trierarch.push.routing import Semantics

WEB = "Service shop/web: {ports: [{name: http, port: 80}]}"
API = "Service shop/api: {ports: [{name: http, port: 80}]}"
CREATED = "creationTimestamp: '20{year}-01-01T00:00:00Z'"


def route(name="shop/cart", parents="{group: '', kind: Service, name: web, namespace: shop}", year=20, rules=""):
    """An HTTPRoute with one rule, which goes to the host that has the route's name."""
    backend = f"{{group: networking.istio.io, kind: Hostname, name: {name.replace('/', '.')}, port: 80}}"
    rules = rules or f"{{backendRefs: [{backend}]}}"
    metadata = f"{{{CREATED.format(year=year)}}}"
    return f"HTTPRoute {name}: {{metadata: {metadata}, parentRefs: [{parents}], rules: [{rules}]}}"


def seen(context, namespace):
    """The virtual services that clients of a namespace go by: name, and where the routes lead."""
    return [
        (each.name, [share.destination.host for http in each.spec.http for share in http.route])
        for each in context.virtual_services.visible(namespace, MESH_GATEWAY)
    ]


def test_a_route_of_the_services_own_namespace_is_for_everybody():
    """It is a virtual service of the host; its prefixes are those of the Gateway API."""
    context = snapshot(WEB, route())
    assert seen(context, "other") == [("shop~web.shop.svc.cluster.local", ["shop.cart"])]
    (found,) = context.virtual_services.roots
    assert found.semantics is Semantics.GATEWAY_API
    assert found.spec.hosts == ("web.shop.svc.cluster.local",)


def test_a_route_of_another_namespace_is_for_its_own_clients():
    """And for them it goes first."""
    context = snapshot(WEB, route(), route("bank/mine"))
    assert [name for name, _ in seen(context, "bank")] == [
        "bank~web.shop.svc.cluster.local",
        "shop~web.shop.svc.cluster.local",
    ]
    assert [name for name, _ in seen(context, "other")] == ["shop~web.shop.svc.cluster.local"]


def test_routes_of_one_namespace_are_one_virtual_service():
    """The older first."""
    context = snapshot(WEB, route("shop/new", year=22), route("shop/old", year=19))
    assert seen(context, "shop") == [("shop~web.shop.svc.cluster.local", ["shop.old", "shop.new"])]


def test_each_parent_has_a_virtual_service():
    """And each port of it that is named."""
    parents = "{group: '', kind: Service, name: web}, {group: '', kind: Service, name: api, port: 80}"
    names = [name for name, _ in seen(snapshot(WEB, API, route(parents=parents)), "shop")]
    assert names == ["shop~80~api.shop.svc.cluster.local", "shop~web.shop.svc.cluster.local"]


def test_a_service_entry_may_be_a_parent():
    """With all of its hosts."""
    entry = "ServiceEntry shop/ext: {hosts: [a.example, b.example], ports: [{number: 80, name: http}], resolution: DNS}"
    parents = "{group: networking.istio.io, kind: ServiceEntry, name: ext}"
    names = [name for name, _ in seen(snapshot(entry, route(parents=parents)), "shop")]
    assert names == ["shop~a.example", "shop~b.example"]


def test_parents_that_are_not_there_or_no_services():
    """A route has no clients of the mesh through them."""
    parents = (
        "{name: gw}, {group: '', kind: Service, name: nobody}, "
        "{group: networking.istio.io, kind: ServiceEntry, name: nobody}"
    )
    assert seen(snapshot(WEB, route(parents=parents)), "shop") == []


def test_a_route_goes_before_a_virtual_service():
    """However old that is."""
    metadata = f"{{{CREATED.format(year='01')}}}"
    virtual = f"VirtualService shop/web: {{metadata: {metadata}, hosts: [web], http: [{{}}]}}"
    names = [name for name, _ in seen(snapshot(WEB, virtual, route()), "shop")]
    assert names == ["shop~web.shop.svc.cluster.local", "web"]


def test_a_route_that_asks_for_too_much_is_left_out():
    """Its author is told why; the others stay."""
    wrong = route("shop/wrong", rules="{filters: [{type: ExtensionRef}]}")
    context = snapshot(WEB, wrong, route("shop/right"))
    assert seen(context, "shop") == [("shop~web.shop.svc.cluster.local", ["shop.right"])]
    (remark,) = context.findings
    assert (remark.key.name, remark.path) == ("wrong", "spec.rules[0].filters[0]")
    assert "left out" in remark.reason


def test_what_did_not_change_is_the_same():
    """A route of another host leaves a virtual service alone, and an unrelated change leaves the section alone."""
    first = built(view_of(WEB, API, route()))
    other = route("shop/other", "{group: '', kind: Service, name: api}")
    second = built(edited(first.view, other), first)
    assert first.virtual_services.roots[0] in second.virtual_services.roots
    assert len(second.virtual_services.roots) == 2
    third = built(edited(second.view, "Service shop/more: {ports: [{name: http, port: 80}]}"), second)
    assert third.virtual_services is second.virtual_services
