"""The mesh below every case: programs with their Pods and services, and two clients with a sidecar each.

    web    web-v1 web-v2 web-v3   HTTP; labels `version`
    other  other                  HTTP
    place  near far               HTTP; `near` is where `front` is
    vault  vault                  HTTP, in the namespace `bank`
    tcp    tcp-v1 tcp-v2          TCP
           tls-a tls-b            TLS; no services
           guarded strict         HTTPS; no services; `strict` demands a certificate of its clients
           modern                 HTTP/2 and nothing else; no service
           partner                HTTP, outside the mesh, on 127.0.0.1 at a port of its own; no service

`front` and `back` see all of it at one HTTP address, and the TCP service and whatever ends in `.secure.example` at
further ports. Hosts that nobody knows are refused. The mesh has no mTLS of its own: its certificates would come from
elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.e2e.mesh_objects import Document, build_object, build_pod, build_slice
from tests.e2e.traffic.checks import HTTP_PORT, TCP_PORT, TLS_PORT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ISTIO, SECURITY = "networking.istio.io/v1", "security.istio.io/v1"
HTTP, TCP, TLS = ({"name": name.lower(), "protocol": name} for name in ("HTTP", "TCP", "TLS"))

LOCALITY = "topology.istio.io/locality"
HERE, THERE = "eu.a", "us.b"
"""Localities as labels of Pods."""

CLIENTS = {"front": 1, "back": 2}
HTTP_PROGRAMS = {"web-v1": 11, "web-v2": 12, "web-v3": 13, "other": 14, "near": 15, "far": 16, "vault": 17}
TCP_PROGRAMS = {"tcp-v1": 21, "tcp-v2": 22}
TLS_PROGRAMS = {"tls-a": 31, "tls-b": 32}
HTTPS_PROGRAMS = {"guarded": 41, "strict": 42}
HTTP2_PROGRAMS = {"modern": 43}
"""Name -> the last number of its address."""

PROGRAM_PORT = 8081
MARKER = "marker.example"
"""A host whose answer tells which case is in force."""


def build_base() -> Iterator[Document]:
    """All objects."""
    for name, number in CLIENTS.items():
        yield build_pod("shop", f"{name}-1", _address(number), {"app": name, LOCALITY: HERE})
        yield _sidecar(name, number)
    versions = ("v1", "v2", "v3")
    yield from _service("shop", "web", {f"web-{version}": {"version": version} for version in versions})
    yield from _service("shop", "other", {"other": {}})
    yield from _service("shop", "place", {"near": {LOCALITY: HERE}, "far": {LOCALITY: THERE}})
    yield from _service("bank", "vault", {"vault": {}})
    yield from _service("shop", "tcp", {f"tcp-{version}": {"version": version} for version in versions[:2]}, TCP)
    yield build_object(SECURITY, "PeerAuthentication", "istio-system", "default", spec={"mtls": {"mode": "DISABLE"}})
    spec = {"hosts": [MARKER], "ports": [{"number": HTTP_PORT, **HTTP}], "resolution": "STATIC"}
    yield build_object(ISTIO, "ServiceEntry", "shop", "marker", spec=spec)


def build_marker(text: str) -> Document:
    """Let the marker's host answer with a text."""
    routes = [{"directResponse": {"status": 200, "body": {"string": text}}}]
    return build_object(ISTIO, "VirtualService", "shop", "marker", spec={"hosts": [MARKER], "http": routes})


def _sidecar(name: str, number: int) -> Document:
    """The listeners of a client."""
    spec = {
        "workloadSelector": {"labels": {"app": name}},
        "outboundTrafficPolicy": {"mode": "REGISTRY_ONLY"},
        "egress": [
            {"bind": _address(number), "port": {"number": HTTP_PORT, **HTTP}, "hosts": ["*/*"]},
            {"bind": _address(number), "port": {"number": TCP_PORT, **TCP}, "hosts": ["./tcp.shop.svc.cluster.local"]},
            {"bind": _address(number), "port": {"number": TLS_PORT, **TLS}, "hosts": ["*/*.secure.example"]},
        ],
    }
    return build_object(ISTIO, "Sidecar", "shop", name, spec=spec)


def _service(
    namespace: str, name: str, programs: Mapping[str, Mapping[str, str]], protocol: Mapping[str, str] = HTTP
) -> Iterator[Document]:
    """A service, the Pods of its programs, with these labels, and its endpoints."""
    port, target = (TCP_PORT, TCP_PORT) if protocol is TCP else (HTTP_PORT, PROGRAM_PORT)
    numbers = HTTP_PROGRAMS | TCP_PROGRAMS
    pods = [
        build_pod(namespace, program, _address(numbers[program]), {"app": name, **labels})
        for program, labels in programs.items()
    ]
    ports = [{"name": protocol["name"], "port": port, "targetPort": target}]
    yield build_object("v1", "Service", namespace, name, spec={"selector": {"app": name}, "ports": ports})
    yield from pods
    yield build_slice(name, [{"name": protocol["name"], "port": target}], pods)


def _address(number: int) -> str:
    return f"NET.{number}"
