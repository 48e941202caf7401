"""What istiod's validation and Istio's CRD demand of a PeerAuthentication."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trierarch.config.checks import check_port, check_selector
from trierarch.config.violations import Complaints, Violation

if TYPE_CHECKING:
    from collections.abc import Collection

    from trierarch.config.objects import ConfigObject
    from trierarch.config.peer_authentication import PeerAuthentication


def check_peer_authentication(subject: ConfigObject[PeerAuthentication]) -> Complaints:
    """Everything about one PeerAuthentication."""
    spec = subject.spec
    if spec.selector is not None:
        yield from check_selector("spec.selector.matchLabels", spec.selector.match_labels)
    if spec.port_level_mtls is not None:
        yield from _check_ports(spec, spec.port_level_mtls)


def _check_ports(spec: PeerAuthentication, ports: Collection[str]) -> Complaints:
    path = "spec.portLevelMtls"
    if not ports:
        yield Violation(path, "a port is missing")
    elif not spec.selects:
        yield Violation(path, "ports have modes of their own only with a selector")
    for port in ports:
        yield from _check_port(f"{path}[{port}]", port)


def _check_port(path: str, port: str) -> Complaints:
    if port.isascii() and port.isdigit():
        yield from check_port(path, int(port[:6]))
    else:
        yield Violation(path, f'"{port}" is not a port')
