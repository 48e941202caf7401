"""Virtual hosts that come one by one: their names, and that they are what route configurations would hold."""

from __future__ import annotations

from protocol.codec import decode, encode
from protocol.proto.envoy.config.route.v3 import RouteConfiguration, VirtualHost
from tests.push.fixtures import built, edited, scope_of, sidecar, snapshot, view_in, view_of
from trierarch.envoy.generate import generate
from trierarch.envoy.memo import Memo
from trierarch.envoy.part_cache import PartCache
from trierarch.envoy.types import CLUSTER, LISTENER, ROUTE, VIRTUAL_HOST
from trierarch.envoy.vhds import put_together
from trierarch.push.proxy import NodeInfo, build_proxy
from trierarch.push.steps import run_steps

SERVICE = """
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: shop}}
spec: {{clusterIP: {address}, ports: [{ports}]}}
---
"""
HTTP = "{name: http, port: 80}"
WEB = SERVICE.format(name="web", address="10.0.0.1", ports=f"{HTTP}, {{name: detected, port: 7000}}")
API = SERVICE.format(name="api", address="10.0.0.2", ports=f"{HTTP}, {{name: http-more, port: 9000}}")
SPLIT = """
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: web, namespace: shop}}
spec: {{hosts: [web, elsewhere.example], http: [{{route: [{{destination: {{host: {host}}}}}]}}]}}
---
"""
DETECTED = "web.shop.svc.cluster.local:7000"
"""The configuration of a port whose protocol is detected."""
MESH = WEB + API + SPLIT.format(host="web")

PLAIN = sidecar()
ONE_BY_ONE = sidecar(TRIERARCH_VHDS="true")


class Remembering:
    """Generates with everything remembered."""

    def __init__(self) -> None:
        self.memo, self.parts = Memo(10_000), PartCache()

    def set_of(self, type_url, proxy, context):
        """The resources of a type for a proxy."""
        view, scope = view_in(proxy, context), scope_of(proxy, context)
        return run_steps(generate(view, scope, context, type_url, self.memo, self.parts))


def configurations(resources):
    """Route configurations by name, decoded."""
    return {each.name: decode(RouteConfiguration, each.body) for each in resources}


def hosts(resources):
    """Virtual hosts by name, decoded."""
    return {each.name: decode(VirtualHost, each.body) for each in resources}


def versions(resources):
    """Versions by name."""
    return {each.name: each.version for each in resources}


def test_who_does_not_ask_for_it_gets_whole_configurations():
    """Without the metadata there is nothing to fetch by itself, nor a resource of that type."""
    generated, context = Remembering(), snapshot(MESH)
    whole = configurations(generated.set_of(ROUTE, PLAIN, context))
    assert {each.vhds for each in whole.values()} == {None}
    assert len(generated.set_of(VIRTUAL_HOST, PLAIN, context)) == 0


def test_names():
    """A virtual host is called after its configuration, in its message too: Envoy removes by that name."""
    resources = Remembering().set_of(VIRTUAL_HOST, ONE_BY_ONE, snapshot(MESH))
    assert [each.name for each in resources] == [
        "80/api.shop.svc.cluster.local:80",
        "80/elsewhere.example:80",
        "80/web.shop.svc.cluster.local:80",
        "80/allow_any",
        "9000/api.shop.svc.cluster.local:9000",
        "9000/allow_any",
    ]
    assert all(name == host.name for name, host in hosts(resources).items())


def test_each_is_encoded_as_the_codec_would():
    """Though put together from its name and the rest, which it shares with the virtual host of a configuration."""
    resources = Remembering().set_of(VIRTUAL_HOST, ONE_BY_ONE, snapshot(MESH))
    assert [each.body for each in resources] == [encode(host) for host in hosts(resources).values()]


def test_they_are_those_of_whole_configurations():
    """Put back under their own names they make the configurations that everybody else gets, in that order."""
    generated, context = Remembering(), snapshot(MESH)
    divided = configurations(generated.set_of(ROUTE, ONE_BY_ONE, context))
    for name, host in hosts(generated.set_of(VIRTUAL_HOST, ONE_BY_ONE, context)).items():
        owner, _, host.name = name.rpartition("/")
        assert divided[owner].vhds.config_source.ads is not None
        divided[owner].virtual_hosts.append(host)
    for configuration in divided.values():
        configuration.vhds = None
    assert divided == configurations(generated.set_of(ROUTE, PLAIN, context))


def test_for_people_they_are_put_together():
    """Configurations as Envoy itself shows them: with all virtual hosts, under the names by which it knows them."""
    generated, context = Remembering(), snapshot(MESH)
    routes, hosts = (generated.set_of(url, ONE_BY_ONE, context) for url in (ROUTE, VIRTUAL_HOST))
    whole = configurations(put_together(routes, hosts))
    assert [host.name for host in whole["9000"].virtual_hosts] == [
        "9000/api.shop.svc.cluster.local:9000",
        "9000/allow_any",
    ]
    assert [host.name for host in whole[DETECTED].virtual_hosts] == ["web.shop.svc.cluster.local:7000"]


def test_a_domain_is_served_once():
    """What comes by itself is not in the configuration too: Envoy would reject a domain that is there twice."""
    generated, context = Remembering(), snapshot(MESH)
    divided = configurations(generated.set_of(ROUTE, ONE_BY_ONE, context))
    found = [(name, domain) for name, each in divided.items() for host in each.virtual_hosts for domain in host.domains]
    for name, host in hosts(generated.set_of(VIRTUAL_HOST, ONE_BY_ONE, context)).items():
        found += [(name.rpartition("/")[0], domain) for domain in host.domains]
    assert len(found) == len(set(found))


def test_a_listener_of_one_service_keeps_a_whole_configuration():
    """There is but one virtual host in it; the very same resource as for everybody else."""
    generated, context = Remembering(), snapshot(MESH)
    mine = generated.set_of(ROUTE, ONE_BY_ONE, context).get(DETECTED)
    assert mine is generated.set_of(ROUTE, PLAIN, context).get(DETECTED)
    assert decode(RouteConfiguration, mine.body).vhds is None


def test_a_changed_virtual_service_changes_its_virtual_hosts_alone():
    """No configuration of a port differs, and of the virtual hosts just those with its hosts."""
    generated, before = Remembering(), view_of(MESH)
    contexts = [built(before)]
    contexts.append(built(edited(before, SPLIT.format(host="api")), contexts[0]))
    routes = [versions(generated.set_of(ROUTE, ONE_BY_ONE, context)) for context in contexts]
    assert {name for name in routes[1] if routes[0][name] != routes[1][name]} == {DETECTED}
    old, new = (versions(generated.set_of(VIRTUAL_HOST, ONE_BY_ONE, context)) for context in contexts)
    assert {name for name in new if old[name] != new[name]} == {
        "80/elsewhere.example:80",
        "80/web.shop.svc.cluster.local:80",
    }


def test_everything_else_is_shared():
    """Clusters and listeners do not tell how routes come: they are those of everybody else, in the same parts."""
    generated, context = Remembering(), snapshot(MESH)
    for url in (CLUSTER, LISTENER):
        mine, theirs = (generated.set_of(url, proxy, context) for proxy in (ONE_BY_ONE, PLAIN))
        assert mine is theirs


def test_state_of_the_world_has_whole_configurations():
    """Whoever opts in over a stream that cannot bring virtual hosts by themselves is served like everybody else."""
    node = NodeInfo(id=PLAIN.node_id, metadata={"TRIERARCH_VHDS": "true"})
    assert build_proxy(node).capabilities.vhds
    assert not build_proxy(node, delta=False).capabilities.vhds
