"""Addresses as Envoy's messages, and the addresses that a proxy of each family uses for itself (networking.md §0.1)."""

from __future__ import annotations

from ipaddress import ip_address

from protocol.proto.envoy.config.core.v3 import (
    Address,
    BindConfig,
    CidrRange,
    ExtraSourceAddress,
    Pipe,
    SocketAddress,
)
from trierarch.push.proxy import IPMode

INBOUND_SOURCE = "127.0.0.6"
"""iptables lets connections from this address through to the application (§0.2)."""
INBOUND_SOURCE_V6 = "::6"


def build_address(address: str, port: int) -> Address:
    """A socket address, or a Unix socket for a path."""
    if address.startswith(("/", "@")):
        return Address(pipe=Pipe(path=address))
    return Address(socket_address=build_socket_address(address, port))


def build_socket_address(address: str, port: int) -> SocketAddress:
    """A socket address; the port is written even if it is 0."""
    return SocketAddress(address=address, port_value=port)


def build_range(text: str) -> CidrRange:
    """A range of addresses in CIDR notation, or one address as the range of itself; each has one spelling."""
    prefix, slash, length = text.partition("/")
    address = ip_address(prefix)
    return CidrRange(address_prefix=str(address), prefix_len=int(length) if slash else address.max_prefixlen)


def loopback(mode: IPMode) -> str:
    """The proxy's own loopback address."""
    return "::1" if mode is IPMode.IPV6 else "127.0.0.1"


def inbound_bind_config(mode: IPMode) -> BindConfig:
    """From where a proxy connects to its own application."""
    source = INBOUND_SOURCE_V6 if mode is IPMode.IPV6 else INBOUND_SOURCE
    extra = [INBOUND_SOURCE_V6] if mode is IPMode.DUAL else []
    return BindConfig(
        source_address=build_socket_address(source, 0),
        extra_source_addresses=[ExtraSourceAddress(address=build_socket_address(address, 0)) for address in extra],
    )


def is_ip(address: str) -> bool:
    """Whether an endpoint's address is an IP address, and not a host name.

    Addresses were validated when they were read, so it is enough to look at their letters.
    """
    return ":" in address or address.replace(".", "").isdigit()
