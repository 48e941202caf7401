"""Cases of traffic: connections of which the sidecar understands nothing, or no more than the name they ask for."""

from __future__ import annotations

from tests.e2e.traffic.checks import Case, tcp, tls
from tests.e2e.traffic.rules import together

TCP_VERSIONS = """
kind: DestinationRule
metadata: {name: tcp}
spec:
  host: tcp
  subsets:
  - {name: v1, labels: {version: v1}}
  - {name: v2, labels: {version: v2}}
"""

AB = """
kind: ServiceEntry
metadata: {name: secure}
spec:
  hosts: [a.secure.example, b.secure.example]
  ports: [{number: 9443, name: tls, protocol: TLS}]
  resolution: STATIC
  endpoints: [{address: NET.31}]
"""
C = """
kind: ServiceEntry
metadata: {name: secure-too}
spec:
  hosts: [c.secure.example]
  ports: [{number: 9443, name: tls, protocol: TLS}]
  resolution: STATIC
  endpoints: [{address: NET.32}]
"""
"""Hosts outside the mesh: two of `tls-a`, one of `tls-b`."""


def tcp_route(routes: str) -> str:
    """A VirtualService of the TCP service, and its subsets."""
    rule = f"kind: VirtualService\nmetadata: {{name: tcp}}\nspec: {{hosts: [tcp], tcp: {routes}}}"
    return together(rule, TCP_VERSIONS)


LAYER4 = (
    Case(
        name="tcp",
        shows="a TCP service is called at its port, whichever endpoint",
        checks=(
            tcp().repeated(30).goes_to("tcp-v1", "tcp-v2"),
            tcp(by="back").repeated(30).goes_to("tcp-v1", "tcp-v2"),
        ),
    ),
    Case(
        name="tcp route",
        shows="a subset by rule",
        mesh=tcp_route("[{route: [{destination: {host: tcp, subset: v2}}]}]"),
        checks=(tcp().repeated(10).goes_to("tcp-v2"),),
    ),
    Case(
        name="tcp weights",
        shows="connections are split as the weights say",
        mesh=tcp_route(
            "[{route: [{destination: {host: tcp, subset: v1}, weight: 80}, "
            "{destination: {host: tcp, subset: v2}, weight: 20}]}]"
        ),
        checks=(tcp().repeated(80).goes_to("tcp-v1", "tcp-v2").mostly_to("tcp-v1"),),
    ),
    Case(
        name="tcp by source",
        shows="the first match that holds for the caller decides",
        mesh=tcp_route(
            "[{match: [{sourceLabels: {app: back}}], route: [{destination: {host: tcp, subset: v2}}]}, "
            "{match: [{port: 9000}], route: [{destination: {host: tcp, subset: v1}}]}]"
        ),
        checks=(tcp().repeated(10).goes_to("tcp-v1"), tcp(by="back").repeated(10).goes_to("tcp-v2")),
    ),
    Case(
        name="tls",
        shows="a connection to a host outside the mesh is passed on unopened",
        mesh=C,
        checks=(tls("c.secure.example").goes_to("tls-b"), tls("c.secure.example", by="back").goes_to("tls-b")),
    ),
    Case(
        name="tls by rule",
        shows="connections are told apart by the name in their handshake; a rule has weights here, too",
        mesh=together(
            """
kind: VirtualService
metadata: {name: secure}
spec:
  hosts: [a.secure.example, b.secure.example]
  tls:
  - match: [{sniHosts: [a.secure.example]}]
    route: [{destination: {host: c.secure.example}}]
  - match: [{sniHosts: [b.secure.example]}]
    route: [{destination: {host: a.secure.example}, weight: 50}, {destination: {host: c.secure.example}, weight: 50}]
""",
            AB,
            C,
        ),
        checks=(
            tls("a.secure.example").goes_to("tls-b"),
            tls("b.secure.example").repeated(40).goes_to("tls-a", "tls-b"),
            tls("c.secure.example").goes_to("tls-b"),
        ),
    ),
)
