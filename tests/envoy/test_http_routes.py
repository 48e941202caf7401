"""What the routes of HTTPRoutes of services are in Envoy's terms, where those of VirtualServices are something else."""

from __future__ import annotations

from dataclasses import replace

from tests.envoy.meshes import mesh_of, routes, service, virtual_service
from trierarch.push.routing import Semantics

WEB = service("web", "80/HTTP", address="10.0.0.7")
PREFIX = "{uri: {prefix: /cart}}"


def found(match=PREFIX, hosts="[web]", semantics=Semantics.GATEWAY_API):
    """The route configuration of a mesh with one route."""
    text = f"{{hosts: {hosts}, http: [{{match: [{match}], route: [{{destination: {{host: web}}}}]}}]}}"
    virtual = replace(virtual_service(text), semantics=semantics)
    return routes(mesh_of(WEB, virtual=(virtual,)))["80"]


def first(**changes):
    """The first route of the service."""
    return found(**changes)["virtual_hosts"][0]["routes"][0]


def test_a_prefix_is_of_whole_segments():
    """So `/cart` is not a prefix of `/cartoon`; and `/`, which Envoy does not allow there, is an ordinary one."""
    assert first()["match"] == {"path_separated_prefix": "/cart", "case_sensitive": True}
    assert first(match="{uri: {prefix: /}}")["match"] == {"prefix": "/", "case_sensitive": True}
    assert first(semantics=Semantics.VIRTUAL_SERVICE)["match"] == {"prefix": "/cart", "case_sensitive": True}


def test_a_missing_cluster_is_the_servers_error():
    """Not a service that is unavailable for the moment."""
    assert first()["route"]["cluster_not_found_response_code"] == "INTERNAL_SERVER_ERROR"
    assert "cluster_not_found_response_code" not in first(semantics=Semantics.VIRTUAL_SERVICE)["route"]


def test_traces_do_not_tell_such_a_prefix():
    """There it is any path, as istiod writes it."""
    assert first()["decorator"]["operation"] == "web.shop.svc.cluster.local:80/*"
    named = first(semantics=Semantics.VIRTUAL_SERVICE)["decorator"]["operation"]
    assert named == "web.shop.svc.cluster.local:80/cart*"


def test_a_wildcard_is_no_other_service():
    """An HTTPRoute of a ServiceEntry with a wildcard does not take the services that it covers."""
    hosts = "['*.shop.svc.cluster.local']"
    names = [host["name"] for host in found(hosts=hosts)["virtual_hosts"]]
    assert names[:2] == ["*.shop.svc.cluster.local:80", "web.shop.svc.cluster.local:80"]
    expanded = [host["name"] for host in found(hosts=hosts, semantics=Semantics.VIRTUAL_SERVICE)["virtual_hosts"]]
    assert expanded[0] == "web.shop.svc.cluster.local:80"
