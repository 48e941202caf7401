"""A walk of one connection or request through a proxy's listeners and routes, as Envoy would take it; without an Envoy.

Listeners and route configurations are proto-JSON. A call is taken to a listener, to one of its filter chains (the
criteria in Envoy's order, of each the most specific that fit), and from there to a cluster, or through a virtual host
and a route; or it ends in an error with a name of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any

Plain = Mapping[str, Any]

WILDCARDS = ("0.0.0.0", "::")
PLAINTEXT, TLS, MUTUAL_TLS = "plaintext", "tls", "mtls"
HTTP_PROTOCOLS = ("http", "http2")
OFFERED = {
    TLS: {"http": "http/1.1", "http2": "h2"},
    MUTUAL_TLS: {"http": "istio-http/1.1", "http2": "istio-h2", "tcp": "istio"},
}
"""The ALPN that a client offers."""
INSPECTED = {"http": "http/1.1", "http2": "h2c"}
"""What the HTTP inspector makes of plaintext."""


class WalkError(Exception):
    """The call ends here; the message is the error's name."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """Who calls what. `secret` is the name of the certificate by which mutual TLS of the mesh is recognised."""

    port: int
    address: str = "1.3.3.7"
    protocol: str = ""
    tls: str = PLAINTEXT
    alpn: str = ""
    sni: str = ""
    host: str = ""
    path: str = "/"
    headers: Mapping[str, str] = field(default_factory=dict)
    inbound: bool = False
    secret: str = "default"

    @property
    def offered(self) -> str:
        """The ALPN in its TLS handshake."""
        return self.alpn or OFFERED.get(self.tls, {}).get(self.protocol, "")

    @property
    def server_name(self) -> str:
        """The server name in its TLS handshake."""
        return self.sni or (self.host if self.tls != PLAINTEXT else "")


def walk(call: Call, listeners: Iterable[Plain], routes: Mapping[str, Plain]) -> dict[str, str]:
    """What the call met on its way, and the error that it ended in, if any."""
    met: dict[str, str] = {}
    try:
        _walk(call, tuple(listeners), routes, met)
    except WalkError as error:
        met["error"] = str(error)
    return met


def _walk(call: Call, listeners: tuple[Plain, ...], routes: Mapping[str, Plain], met: dict[str, str]) -> None:
    listener = _find_listener(call, listeners)
    met["listenerMatched"] = listener["name"]
    chain = find_chain(call, listener)
    met["filterChainMatched"] = chain.get("name", "")
    _check_tls(call, chain)
    manager = _config(chain, "http_connection_manager")
    if manager is not None:
        _walk_http(call, chain, manager, routes, met)
    elif (proxy := _config(chain, "tcp_proxy")) is not None:
        met["clusterMatched"] = proxy.get("cluster", "")


def _find_listener(call: Call, listeners: tuple[Plain, ...]) -> Plain:
    if call.inbound:
        return _first("no listener matched", (each for each in listeners if each["name"] == "virtualInbound"))
    bound = [(_address(each), each) for each in listeners]
    exact = [each for address, each in bound if address == (call.address, call.port)]
    anywhere = [each for address, each in bound if address in [(wildcard, call.port) for wildcard in WILDCARDS]]
    captured = [each for each in listeners if each["name"] == "virtualOutbound"]
    return _first("no listener matched", (*exact, *anywhere, *captured))


def _address(listener: Plain) -> tuple[str, int]:
    socket = listener["address"].get("socket_address", {})
    return socket.get("address", ""), socket.get("port_value", 0)


def _first(error: str, found: Iterable[Plain]) -> Plain:
    for each in found:
        return each
    raise WalkError(error)


# --- filter chains ---------------------------------------------------------------------------------------------------
def find_chain(call: Call, listener: Plain) -> Plain:
    """The chain that takes the connection, else the default one."""
    inspects_tls = _has_filter(listener, "tls_inspector", call.port)
    alpn = call.offered if inspects_tls else ""
    if call.tls == PLAINTEXT and _has_filter(listener, "http_inspector", call.port):
        alpn = INSPECTED.get(call.protocol, alpn)
    transport = "tls" if inspects_tls and call.tls != PLAINTEXT else "raw_buffer"
    chains = list(listener.get("filter_chains", ()))
    for criterion in (
        _by_value("destination_port", call.port),
        _by_prefix(call.address),
        _by_server_name(call.server_name),
        _by_value("transport_protocol", transport),
        _by_member("application_protocols", alpn),
    ):
        chains = _most_specific(chains, criterion)
    if len(chains) > 1:
        raise WalkError("multiple filter chains matched")
    default = (listener["default_filter_chain"],) if "default_filter_chain" in listener else ()
    return _first("no filter chains matched", (*chains, *default))


Criterion = Callable[[Plain], int | None]
"""How well a match fits: the higher the better, 0 for one that does not care, None for one that does not fit."""


def _most_specific(chains: list[Plain], criterion: Criterion) -> list[Plain]:
    scored = [(criterion(chain.get("filter_chain_match") or {}), chain) for chain in chains]
    best = max((score for score, _ in scored if score is not None), default=None)
    return [chain for score, chain in scored if score is not None and score == best]


def _by_value(name: str, value: object) -> Criterion:
    return lambda match: int(match[name] == value) or None if match.get(name) else 0


def _by_member(name: str, value: str) -> Criterion:
    return lambda match: int(value in match[name]) or None if match.get(name) else 0


def _by_prefix(address: str) -> Criterion:
    def score(match: Plain) -> int | None:
        ranges = [ip_network(f"{r['address_prefix']}/{r['prefix_len']}", False) for r in match.get("prefix_ranges", ())]
        fitting = [1 + each.prefixlen for each in ranges if ip_address(address) in each]
        return max(fitting, default=None) if ranges else 0

    return score


def _by_server_name(name: str) -> Criterion:
    def score(match: Plain) -> int | None:
        names = match.get("server_names", ())
        fitting = [len(each) + (not each.startswith("*")) for each in names if _covers(each, name)]
        return max(fitting, default=None) if names else 0

    return score


def _covers(pattern: str, name: str) -> bool:
    return name.endswith(pattern[1:]) if pattern.startswith("*") else name == pattern


def _has_filter(listener: Plain, name: str, port: int) -> bool:
    """Whether a listener filter looks at connections to that port."""
    for each in listener.get("listener_filters", ()):
        if each["name"].endswith(name):
            return not _is_disabled(each.get("filter_disabled"), port)
    return False


def _is_disabled(rule: Plain | None, port: int) -> bool:
    match rule:
        case None:
            return False
        case {"or_match": {"rules": rules}}:
            return any(_is_disabled(each, port) for each in rules)
        case {"not_match": inner}:
            return not _is_disabled(inner, port)
        case {"destination_port_range": ports}:
            return ports.get("start", 0) <= port < ports["end"]
        case _:
            raise NotImplementedError(f"a predicate that nobody generated so far: {rule}")


# --- inside a chain --------------------------------------------------------------------------------------------------
def _check_tls(call: Call, chain: Plain) -> None:
    """A chain that terminates TLS takes TLS alone; one for the mesh's certificate takes the mesh's alone."""
    if "transport_socket" not in chain:
        return
    if call.tls == PLAINTEXT:
        raise WalkError("invalid TLS")
    if _wants_mutual_tls(chain, call.secret) != (call.tls == MUTUAL_TLS):
        raise WalkError("invalid mTLS")


def _wants_mutual_tls(chain: Plain, secret: str) -> bool:
    context = chain["transport_socket"]["typed_config"]
    secrets = context["common_tls_context"].get("tls_certificate_sds_secret_configs", ())
    return bool(context.get("require_client_certificate")) and [each["name"] for each in secrets[:1]] == [secret]


def _config(chain: Plain, name: str) -> Plain | None:
    """The configuration of a network filter, if the chain has it."""
    return next((each["typed_config"] for each in chain["filters"] if each["name"].endswith(name)), None)


def _walk_http(call: Call, chain: Plain, manager: Plain, routes: Mapping[str, Plain], met: dict[str, str]) -> None:
    terminated = call.tls == PLAINTEXT or "transport_socket" in chain
    if call.protocol not in HTTP_PROTOCOLS or not terminated:
        raise WalkError("protocol error")
    configuration = manager.get("route_config")
    if configuration is None:
        name = manager["rds"]["route_config_name"]
        met["routeConfigMatched"] = name
        configuration = routes.get(name, {})
    host = _find_virtual_host(configuration, call.host)
    met["virtualHostMatched"] = host["name"]
    if host.get("require_tls") == "ALL" and call.tls == PLAINTEXT:
        raise WalkError("tls required, sending 301")
    route = _first("no route matched", (each for each in host.get("routes", ()) if _takes(each["match"], call)))
    met["routeMatched"] = route.get("name", "")
    met["clusterMatched"] = route.get("route", {}).get("cluster", "")


def _find_virtual_host(configuration: Plain, authority: str) -> Plain:
    """By the whole name, else by the longest ending of it, else by the longest beginning, else any."""
    name = authority.lower()
    if configuration.get("ignore_port_in_host_matching"):
        name = name.rpartition(":")[0] if name.rpartition(":")[2].isdecimal() else name
    scored = [
        (score, host)
        for host in configuration.get("virtual_hosts", ())
        for domain in host["domains"]
        if (score := _domain_score(domain.lower(), name)) is not None
    ]
    if not scored:
        raise WalkError("no virtual host matched")
    return max(scored, key=lambda pair: pair[0])[1]


def _domain_score(domain: str, name: str) -> tuple[int, int] | None:
    if domain == name:
        return (3, 0)
    if domain == "*":
        return (0, 0)
    if domain.startswith("*") and name.endswith(domain[1:]):
        return (2, len(domain))
    return (1, len(domain)) if domain.endswith("*") and name.startswith(domain[:-1]) else None


def _takes(match: Plain, call: Call) -> bool:
    """Whether a route takes the request. Only what calls can say is looked at: the path, and headers by their value."""
    path, prefix = call.path, match.get("path_separated_prefix")
    fits = match.get("path", path) == path and path.startswith(match.get("prefix", ""))
    if prefix is not None:
        fits = fits and (path == prefix or path.startswith(f"{prefix}/"))
    return fits and all(_has_header(each, call) for each in match.get("headers", ()))


def _has_header(matcher: Plain, call: Call) -> bool:
    value = call.headers.get(matcher["name"])
    if "present_match" in matcher:
        return value is not None
    return value is not None and matcher["string_match"].get("exact") == value
