"""Which of two services wins a listener: conflicts on one bind address and port, as a table (networking.md §4.4).

Services arrive in order of age. Each brings an entry; where one is already there, its recorded class and the class of
the newcomer decide what becomes of them. An HTTP entry on the wildcard is recorded as AUTO, because its chain already
looks at the bytes; elsewhere it is recorded as HTTP and takes everything. Nothing is built here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from ipaddress import ip_network
from typing import TYPE_CHECKING, TypeAlias

from trierarch.envoy.filter_chains import ANY_CONNECTION, ChainMatch, FilterChain, sniffed_http
from trierarch.envoy.http_connection import HttpConnection
from trierarch.push.model import PortProtocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping


_Place: TypeAlias = "tuple[str, tuple[str, ...], str, str]"
"""Transport protocol, application protocols, range of addresses, server name; each "" or empty for any."""


class ListenerClass(Enum):
    """How the traffic of a port is told apart."""

    HTTP = "HTTP"
    TCP = "TCP"
    AUTO = "auto"


CLASSES = {
    PortProtocol.HTTP: ListenerClass.HTTP,
    PortProtocol.HTTP2: ListenerClass.HTTP,
    PortProtocol.GRPC: ListenerClass.HTTP,
    PortProtocol.GRPC_WEB: ListenerClass.HTTP,
    PortProtocol.HTTP_PROXY: ListenerClass.HTTP,
    PortProtocol.HTTPS: ListenerClass.TCP,
    PortProtocol.TLS: ListenerClass.TCP,
    PortProtocol.TCP: ListenerClass.TCP,
    PortProtocol.MONGO: ListenerClass.TCP,
    PortProtocol.REDIS: ListenerClass.TCP,
    PortProtocol.MYSQL: ListenerClass.TCP,
    PortProtocol.UNSUPPORTED: ListenerClass.AUTO,
}
"""The class of each protocol. UDP is missing: it has no listener (networking.md §1.3)."""


class Verdict(Enum):
    """What becomes of a newcomer. BECOME_AUTO: as MERGE, and the entry counts as AUTO from then on."""

    DROP = "drop"
    REPLACE = "replace"
    MERGE = "merge"
    BECOME_AUTO = "merge, become auto"
    MERGE_TCP = "merge only the TCP chains"


VERDICTS: Mapping[tuple[ListenerClass, ListenerClass], Verdict] = {
    # (recorded, newcomer)
    (ListenerClass.HTTP, ListenerClass.HTTP): Verdict.DROP,
    (ListenerClass.HTTP, ListenerClass.TCP): Verdict.BECOME_AUTO,
    (ListenerClass.HTTP, ListenerClass.AUTO): Verdict.REPLACE,
    (ListenerClass.TCP, ListenerClass.HTTP): Verdict.BECOME_AUTO,
    (ListenerClass.TCP, ListenerClass.TCP): Verdict.MERGE,
    (ListenerClass.TCP, ListenerClass.AUTO): Verdict.BECOME_AUTO,
    (ListenerClass.AUTO, ListenerClass.HTTP): Verdict.DROP,
    (ListenerClass.AUTO, ListenerClass.TCP): Verdict.MERGE_TCP,
    (ListenerClass.AUTO, ListenerClass.AUTO): Verdict.MERGE_TCP,
}

SERVER_FIRST = frozenset({PortProtocol.MONGO, PortProtocol.MYSQL})
"""The server speaks first, so there is nothing to tell other protocols from: these share a listener with none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerEntry:
    """An outbound listener in the making.

    `binds` are its addresses, of which the first gives the name; `protocol` is that of the first service. `real`: it
    listens itself instead of being handed connections by virtualOutbound. `locked`: a Sidecar named its port, so
    services of the catch-all are kept out.
    """

    binds: tuple[str, ...]
    port: int
    protocol: PortProtocol
    recorded: ListenerClass
    chains: tuple[FilterChain, ...]
    real: bool
    locked: bool = False

    @property
    def name(self) -> str:
        """The listener's name."""
        return f"{self.binds[0]}_{self.port}"


def stands(existing: ListenerEntry, newcomer: PortProtocol) -> bool:
    """Whether an entry stays as it is when a port of that protocol wants its place, whatever chains that would bring.

    To ask first is worth it: all HTTP services of a port want one listener, and the first of them has it.
    """
    if existing.locked or _are_apart(existing.protocol, newcomer):
        return True
    return VERDICTS[existing.recorded, CLASSES[newcomer]] is Verdict.DROP


def settle(existing: ListenerEntry, newcomer: ListenerEntry, *, http10: bool = False) -> ListenerEntry:
    """The entry that is left when `newcomer` wants the place of `existing`."""
    if stands(existing, newcomer.protocol):
        return existing
    match VERDICTS[existing.recorded, CLASSES[newcomer.protocol]]:
        case Verdict.DROP:
            return existing
        case Verdict.REPLACE:
            return newcomer
        case Verdict.MERGE:
            return replace(existing, chains=merge_chains(existing.chains, newcomer.chains))
        case Verdict.MERGE_TCP:
            return replace(existing, chains=merge_chains(existing.chains, _tcp_chains(newcomer.chains)))
        case Verdict.BECOME_AUTO:
            old, new = _sniffing(existing.chains, http10=http10), _sniffing(newcomer.chains, http10=http10)
            return replace(existing, recorded=ListenerClass.AUTO, chains=merge_chains(old, new))


def merge_chains(existing: tuple[FilterChain, ...], incoming: Iterable[FilterChain]) -> tuple[FilterChain, ...]:
    """Both, but of `incoming` only what no chain before it matches: Envoy refuses a listener whose chains overlap."""
    merged = list(existing)
    taken = {place for chain in existing for place in _places(chain.match or ANY_CONNECTION)}
    for chain in incoming:
        match = _untaken(chain.match or ANY_CONNECTION, taken)
        if match is not None:
            taken.update(_places(match))
            merged.append(chain if match == (chain.match or ANY_CONNECTION) else replace(chain, match=match))
    return tuple(merged)


def _are_apart(existing: PortProtocol, newcomer: PortProtocol) -> bool:
    return existing is not newcomer and (existing in SERVER_FIRST or newcomer in SERVER_FIRST)


def _tcp_chains(chains: tuple[FilterChain, ...]) -> list[FilterChain]:
    return [chain for chain in chains if not isinstance(chain.filters, HttpConnection)]


def _sniffing(chains: tuple[FilterChain, ...], *, http10: bool) -> tuple[FilterChain, ...]:
    """HTTP chains that took everything now take only what is seen to be HTTP: another chain takes the rest."""
    match = sniffed_http(http10=http10)
    return tuple(
        replace(chain, match=match) if isinstance(chain.filters, HttpConnection) and chain.matches_all else chain
        for chain in chains
    )


def _untaken(match: ChainMatch, taken: Collection[_Place]) -> ChainMatch | None:
    """The match without the server names that are taken at one of its ranges, or else without such ranges."""
    names, ranges = _names(match), _ranges(match)
    free = {name: names[name] for name in names if not any(_place(match, one, name) in taken for one in ranges)}
    if not free:
        ranges = {one: ranges[one] for one in ranges if not any(_place(match, one, name) in taken for name in names)}
    if not ranges:
        return None
    return replace(match, server_names=_stated(free or names), prefix_ranges=_stated(ranges))


def _stated(values: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(filter(None, values.values()))


def _places(match: ChainMatch) -> Iterator[_Place]:
    """All that Envoy looks connections up by to find the chain."""
    return (_place(match, one, name) for one in _ranges(match) for name in _names(match))


def _place(match: ChainMatch, one: str, name: str) -> _Place:
    return match.transport_protocol, match.application_protocols, one, name


def _names(match: ChainMatch) -> dict[str, str]:
    """Server names by what they mean: letters have no case, and `*` is any, as is none ("")."""
    return {"" if name == "*" else name.lower(): name for name in match.server_names or ("",)}


def _ranges(match: ChainMatch) -> dict[str, str]:
    """Ranges of addresses by what they mean: bits of hosts say nothing, and 0.0.0.0 is any, as is none ("")."""
    return {_network(each): each for each in match.prefix_ranges or ("",)}


def _network(prefix: str) -> str:
    anywhere = not prefix or prefix.partition("/")[0] == "0.0.0.0"
    return "" if anywhere else str(ip_network(prefix, strict=False))
