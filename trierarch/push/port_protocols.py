"""What is spoken on a port, by what its service says of it (networking.md §1.3)."""

from __future__ import annotations

from types import MappingProxyType

from trierarch.push.model import PortProtocol

BY_TOKEN = MappingProxyType(
    {
        "http": PortProtocol.HTTP,
        "http2": PortProtocol.HTTP2,
        "grpc": PortProtocol.GRPC,
        "grpc-web": PortProtocol.GRPC_WEB,
        "http_proxy": PortProtocol.HTTP_PROXY,
        "https": PortProtocol.HTTPS,
        "tls": PortProtocol.TLS,
        "tcp": PortProtocol.TCP,
        "mongo": PortProtocol.MONGO,
        "redis": PortProtocol.REDIS,
        "mysql": PortProtocol.MYSQL,
        "udp": PortProtocol.UDP,
    }
)
"""The word before the first hyphen of a port's name, or a protocol as written, in lower case."""

BY_APP_PROTOCOL = MappingProxyType(
    {
        "kubernetes.io/h2c": PortProtocol.HTTP2,
        "kubernetes.io/ws": PortProtocol.HTTP,
        "kubernetes.io/wss": PortProtocol.HTTPS,
    }
)
"""What Kubernetes itself defines for `appProtocol`; anything else is parsed like a name."""

SERVER_FIRST_PORTS = frozenset({25, 53, 3306, 27017})
"""Here the server speaks first, so there is nothing to detect a protocol from."""

_GRPC_WEB = "grpc-web"


def parse_protocol(text: str) -> PortProtocol:
    """The protocol that a port's name or a protocol field names; UNSUPPORTED if none."""
    lowered = text.lower()
    token = _GRPC_WEB if lowered.startswith(_GRPC_WEB) else lowered.partition("-")[0]
    return BY_TOKEN.get(token, PortProtocol.UNSUPPORTED)


def select_protocol(number: int, name: str, transport: str, app_protocol: str | None) -> PortProtocol:
    """The protocol of a Kubernetes Service's port. `app_protocol`, if present, is used instead of the name."""
    if transport == "UDP":
        return PortProtocol.UDP
    stated = name if app_protocol is None else app_protocol
    protocol = BY_APP_PROTOCOL.get(stated) if app_protocol is not None else None
    protocol = protocol or parse_protocol(stated)
    if protocol.is_auto and number in SERVER_FIRST_PORTS:
        return PortProtocol.TCP
    return protocol
