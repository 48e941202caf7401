"""Fetches the keys of token issuers over HTTP(S), within bounds: of time, of size, of redirects, of whom is asked.

Where keys are is said by whoever may write policies, and the control plane may reach what they may not: so addresses
are looked at before they are connected to. Where clouds tell their machines secrets is never asked.
Whatever goes wrong is a `NoKeys` with words for people. A connection serves one request.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING, TypeAlias, cast
from urllib.parse import urljoin, urlsplit

import httpcore
import trio

from trierarch.config.json_web_keys import usable_keys
from trierarch.config.key_sets import LONGEST_BODY, KeySet, NoKeys, read_discovery, read_server

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Iterable

    from trierarch.config.key_sets import JsonWebKeySet, KeyLocation
    from trierarch.identity.rules import IpNetwork

MOST_REDIRECTS = 5
MOST_ADDRESSES = 4
"""Addresses of a host that are tried, one after the other."""

METADATA_SERVICES = frozenset(map(ip_address, ("fd00:ec2::254", "fd20:ce::254", "100.100.100.200")))
"""Where clouds tell their machines secrets at addresses that are not link-local: Amazon's, Google's, Alibaba's."""

LONGEST_ANSWER = LONGEST_BODY + 64 * 1024
"""Bytes of an answer with its head."""

Fetch: TypeAlias = "Callable[[KeyLocation, float], Awaitable[JsonWebKeySet]]"
"""The keys at a location, or why there are none, after so many seconds at most."""

Address: TypeAlias = IPv4Address | IPv6Address
SocketOptions: TypeAlias = "Iterable[httpcore.SOCKET_OPTION] | None"

_FAILURES = (
    OSError,
    ValueError,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.TimeoutException,
    httpcore.UnsupportedProtocol,
)
"""What may be raised because of a server, a network or a URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchTerms:
    """Networks that are not to be asked, and a file with certificates that are trusted beside the usual ones."""

    blocked: tuple[IpNetwork, ...] = ()
    ca_file: str = ""


class KeyFetcher:
    """Fetches keys. Made by the wiring; it opens nothing before it is asked."""

    def __init__(self, terms: FetchTerms) -> None:
        self._network = CarefulNetwork(terms.blocked)
        self._ca_file = terms.ca_file
        self._tls: ssl.SSLContext | None = None

    async def fetch(self, location: KeyLocation, patience: float) -> JsonWebKeySet:
        """The keys at a location, or why there are none."""
        try:
            with trio.fail_after(patience):
                return KeySet(await self._fetch_keys(location))
        except trio.TooSlowError:
            return NoKeys(f"no answer within {patience:g} s")
        except _FAILURES as error:
            return NoKeys(_words(error))

    async def _fetch_keys(self, location: KeyLocation) -> str:
        url = read_discovery(await self._get(location.url)) if location.discovered else location.url
        return await trio.to_thread.run_sync(usable_keys, await self._get(url))

    async def _get(self, url: str) -> bytes:
        """What is at a URL, or where it leads. Raises what is in `_FAILURES`."""
        if self._tls is None:
            self._tls = await trio.to_thread.run_sync(self._make_tls)  # it reads the system's hundred roots
        async with httpcore.AsyncConnectionPool(
            ssl_context=self._tls, network_backend=self._network, max_keepalive_connections=0
        ) as pool:
            for _ in range(MOST_REDIRECTS + 1):
                read_server(url)
                response = await pool.request("GET", url, headers=_headers(url))
                target = _target(response)
                if target is None:
                    return _body(response)
                url = _redirected(url, target)
        raise ValueError(f"more than {MOST_REDIRECTS} redirects")

    def _make_tls(self) -> ssl.SSLContext:
        context = httpcore.default_ssl_context()
        if self._ca_file:
            context.load_verify_locations(self._ca_file)
        return context


def _words(error: BaseException) -> str:
    """The first words in an exception and those that caused it; some have none."""
    known: BaseException | None = error
    while known is not None:
        if str(known):
            return str(known)
        known = known.__cause__ or known.__context__
    return type(error).__name__


def _headers(url: str) -> list[tuple[str, str]]:
    host = urlsplit(url).netloc.rpartition("@")[2]
    return [("host", host), ("accept-encoding", "identity"), ("user-agent", "trierarch")]


def _target(response: httpcore.Response) -> str | None:
    """Where an answer says that the keys are instead."""
    targets = [value.decode("latin-1") for name, value in response.headers if name.lower() == b"location"]
    return targets[0] if 300 <= response.status < 400 and targets else None


def _redirected(url: str, target: str) -> str:
    """Where a redirect leads: nowhere without TLS, if there was TLS before."""
    after = urljoin(url, target)
    if read_server(url).tls and not read_server(after).tls:
        raise ValueError(f"it leads away from TLS, to {after}")
    return after


def _body(response: httpcore.Response) -> bytes:
    if response.status != HTTPStatus.OK:
        raise ValueError(f"the answer has status {response.status}")
    return response.content


# --- the network -----------------------------------------------------------------------------------------------------
class CarefulNetwork(httpcore.AsyncNetworkBackend):
    """Connects to hosts at addresses that may be asked, and reads no more from them than an answer may be long."""

    def __init__(self, blocked: tuple[IpNetwork, ...]) -> None:
        self._blocked = blocked
        # Without trio httpcore has a class of this name that is no backend, which is what type checkers see.
        self._network = cast("httpcore.AsyncNetworkBackend", httpcore.TrioBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: SocketOptions = None,
    ) -> httpcore.AsyncNetworkStream:
        """A connection to the first address that takes it. Raises ValueError if none may be asked."""
        addresses = await _look_up(host, port)
        allowed = [str(address) for address in addresses if self.may_ask(address)]
        if not allowed:
            raise ValueError(f"{host} is at {addresses[0]}, which must not be asked")
        for address in allowed[:-1]:
            try:
                return BoundedStream(await self._network.connect_tcp(address, port, timeout))
            except httpcore.ConnectError:
                continue
        return BoundedStream(await self._network.connect_tcp(allowed[-1], port, timeout))

    def may_ask(self, address: Address) -> bool:
        """Whether an address may be connected to."""
        if address.is_link_local or address.is_multicast or address.is_unspecified or address in METADATA_SERVICES:
            return False
        return not any(address in network for network in self._blocked)


async def _look_up(host: str, port: int) -> list[Address]:
    """The addresses of a host, or of itself if it is an address."""
    answers = await trio.socket.getaddrinfo(host, port, type=trio.socket.SOCK_STREAM)
    return list(dict.fromkeys(_plain_address(str(answer[4][0])) for answer in answers))[:MOST_ADDRESSES]


def _plain_address(text: str) -> Address:
    """An address as it is; one of IPv4 in the clothes of IPv6 is one of IPv4."""
    address = ip_address(text.partition("%")[0])
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address


class BoundedStream(httpcore.AsyncNetworkStream):
    """A connection from which no more can be read than an answer may be long."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self._left = LONGEST_ANSWER

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Some bytes. Raises ValueError when they are too many."""
        piece = await self._stream.read(max_bytes, timeout)
        self._left -= len(piece)
        if self._left < 0:
            raise ValueError(f"the answer is longer than {LONGEST_BODY} bytes")
        return piece

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all of it."""
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """The same with TLS, where the bound is about what is inside."""
        return BoundedStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> object:
        """What the connection knows of itself."""
        return self._stream.get_extra_info(info)
