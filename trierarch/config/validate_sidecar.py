"""What istiod's validation demands of a Sidecar."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from trierarch.config.checks import (
    UNIX,
    check_namespace,
    check_port,
    check_protocol,
    check_selector,
    check_unix_address,
    check_wildcard_host,
)
from trierarch.config.hosts import is_ip_address
from trierarch.config.server_tls import ServerTlsMode
from trierarch.config.sidecar import CaptureMode, OutboundMode
from trierarch.config.validate_destination_rule import check_connection_pool
from trierarch.config.validate_destinations import check_destination
from trierarch.config.violations import Caution, Complaints, Violation

if TYPE_CHECKING:
    from trierarch.config.objects import ConfigObject
    from trierarch.config.server_tls import ServerTls
    from trierarch.config.sidecar import EgressListener, IngressListener, Sidecar, SidecarPort

_LOCAL = ("127.0.0.1", "0.0.0.0", "::1", "::", "")
_HTTPS = ("https", "tls", "http", "http2", "grpc", "grpc-web")


def check_sidecar(subject: ConfigObject[Sidecar]) -> Complaints:
    """Everything about one Sidecar."""
    spec = subject.spec
    if spec.workload_selector is not None:
        yield from check_selector("spec.workloadSelector.labels", spec.workload_selector.labels)
    parts = (spec.ingress, spec.egress, spec.inbound_connection_pool, spec.outbound_traffic_policy)
    if not any(parts):
        yield Violation("spec", "one of egress, ingress, inboundConnectionPool, outboundTrafficPolicy is required")
    yield from check_connection_pool("spec.inboundConnectionPool", spec.inbound_connection_pool)
    for index, ingress in enumerate(spec.ingress):
        yield from _check_ingress(f"spec.ingress[{index}]", ingress)
    yield from _check_ingress_ports(spec)
    for index, egress in enumerate(spec.egress):
        yield from _check_egress(f"spec.egress[{index}]", egress, last=index == len(spec.egress) - 1)
    yield from _check_egress_ports(spec)
    yield from _check_outbound(spec)


def _check_ingress(path: str, listener: IngressListener) -> Complaints:
    yield from _check_listener_port(path, listener.port, socket=False)
    if listener.bind.startswith(UNIX):
        yield Violation(f"{path}.bind", "an ingress listener cannot bind to a socket")
    elif listener.bind:
        yield from _check_ip(f"{path}.bind", listener.bind)
    yield from _check_endpoint(f"{path}.defaultEndpoint", listener.default_endpoint)
    yield from check_connection_pool(f"{path}.connectionPool", listener.connection_pool)
    if listener.tls is not None:
        yield from _check_tls(path, listener.tls, listener.port)


def _check_ingress_ports(spec: Sidecar) -> Complaints:
    for number, count in Counter(each.port.number for each in spec.ingress if each.port).items():
        if count > 1:
            yield Violation("spec.ingress", f"port {number} is there twice")


def _check_endpoint(path: str, endpoint: str) -> Complaints:
    """`127.0.0.1:8080`, `[::1]:8080`, `0.0.0.0:8080` (the workload's own address), `:8080` or `unix://path`."""
    if not endpoint:
        return
    if endpoint.startswith(UNIX):
        yield from check_unix_address(path, endpoint)
        return
    host, colon, port = endpoint.rpartition(":")
    address = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not colon or address not in _LOCAL:
        hint = "127.0.0.1:PORT, [::1]:PORT, 0.0.0.0:PORT, [::]:PORT or unix://PATH"
        yield Violation(path, f'"{endpoint}" is not an address of the workload', hint)
    elif not (port.isascii() and port.isdigit()):
        yield Violation(path, f'"{port}" is not a port')
    else:
        yield from check_port(path, int(port[:6]))


def _check_tls(path: str, tls: ServerTls, port: SidecarPort | None) -> Complaints:
    here = f"{path}.tls"
    if tls.mode in (ServerTlsMode.ISTIO_MUTUAL, ServerTlsMode.AUTO_PASSTHROUGH):
        yield Violation(f"{here}.mode", f"{tls.mode} is not possible in a Sidecar")
    if port is not None and port.protocol.lower() not in _HTTPS:
        yield Violation(f"{path}.port.protocol", "TLS needs the protocol HTTPS or TLS")
    unsupported = {
        "httpsRedirect": tls.https_redirect,
        "credentialName": tls.credential_name,
        "credentialNames": tls.credential_names,
        "tlsCertificates": tls.tls_certificates,
    }
    for field in (field for field, value in unsupported.items() if value):
        yield Violation(f"{here}.{field}", "is not possible in a Sidecar")
    if tls.subject_alt_names and tls.mode is ServerTlsMode.SIMPLE:
        yield Violation(f"{here}.subjectAltNames", "callers are only known with mode MUTUAL")
    if tls.mode in (ServerTlsMode.SIMPLE, ServerTlsMode.MUTUAL) and not (tls.server_certificate and tls.private_key):
        yield Violation(here, "serverCertificate and privateKey are required")


def _check_egress(path: str, listener: EgressListener, *, last: bool) -> Complaints:
    socket = listener.bind.startswith(UNIX)
    if listener.port is None:
        if not last:
            yield Violation(path, "a listener without port is possible only once, as the last")
        if listener.bind:
            yield Caution(f"{path}.bind", "has no effect without a port")
    else:
        yield from _check_listener_port(path, listener.port, socket=socket)
    if socket:
        yield from check_unix_address(f"{path}.bind", listener.bind)
        if listener.capture_mode is CaptureMode.IPTABLES:
            yield Violation(f"{path}.captureMode", "traffic to a socket cannot be captured")
    elif listener.bind:
        yield from _check_ip(f"{path}.bind", listener.bind)
    yield from _check_imports(f"{path}.hosts", listener.hosts)


def _check_egress_ports(spec: Sidecar) -> Complaints:
    binds = Counter((each.bind, each.port.number) for each in spec.egress if each.port)
    for (bind, number), count in binds.items():
        if count > 1:
            yield Violation("spec.egress", f"port {number} is there twice" + (f" at {bind}" if bind else ""))


def _check_imports(path: str, hosts: tuple[str, ...]) -> Complaints:
    if not hosts:
        yield Violation(path, "a host is missing", 'to import nothing: ["~/*"]')
    everything = {namespace for namespace, slash, name in (host.partition("/") for host in hosts) if name == "*"}
    for index, host in enumerate(hosts):
        here = f"{path}[{index}]"
        namespace, slash, name = host.partition("/")
        if not slash or not namespace or not name:
            yield Violation(here, f'"{host}" is not namespace/host', 'such as "./*" or "bank/*.example.com"')
            continue
        excluded = namespace.removeprefix("~")
        if excluded not in ("*", ".", ""):
            yield from check_namespace(here, excluded)
        if name != "*":
            yield from check_wildcard_host(here, name)
            yield from _check_whole_name(here, name)
        if host in hosts[:index] or _is_covered(namespace, name, everything):
            yield Caution(here, f'"{host}" is imported already')


def _check_whole_name(path: str, name: str) -> Complaints:
    if name.startswith("*") and not name.startswith("*."):
        yield Violation(path, f'"{name}" is not a valid host', "a wildcard stands for whole labels here: *.example.com")
    elif "." not in name:
        yield Violation(path, f'"{name}" is a short name', "hosts are whole here: web.shop.svc.cluster.local")


def _is_covered(namespace: str, name: str, everything: set[str]) -> bool:
    if namespace.startswith("~"):
        return False
    return (namespace, name) != ("*", "*") and (
        ("*" in everything) or (namespace in everything and name != "*") or ("." in everything and name != "*")
    )


def _check_outbound(spec: Sidecar) -> Complaints:
    policy = spec.outbound_traffic_policy
    if policy is None or policy.egress_proxy is None:
        return
    path = "spec.outboundTrafficPolicy.egressProxy"
    if policy.mode is not OutboundMode.ALLOW_ANY:
        yield Violation(path, "needs the mode ALLOW_ANY")
    yield from check_destination(path, policy.egress_proxy)
    if policy.egress_proxy.host.startswith("*"):
        yield Violation(f"{path}.host", "a wildcard cannot be a proxy")


def _check_listener_port(path: str, port: SidecarPort | None, *, socket: bool) -> Complaints:
    if port is None:
        yield Violation(f"{path}.port", "a port is missing")
        return
    if socket and port.number:
        yield Violation(f"{path}.port.number", "a socket has no port number", "use 0")
    if not socket:
        yield from check_port(f"{path}.port.number", port.number)
    yield from check_protocol(f"{path}.port.protocol", port.protocol)


def _check_ip(path: str, address: str) -> Complaints:
    if not is_ip_address(address):
        yield Violation(path, f'"{address}" is not an IP address')
