"""The frame of a listener: everything but its filter chains (networking.md §4.2, §4.7)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from protocol.proto.envoy.config.core.v3 import TrafficDirection
from protocol.proto.envoy.config.listener.v3 import (
    AdditionalAddress,
    Listener,
    ListenerConnectionBalanceConfig,
    ListenerConnectionBalanceConfigExactBalance,
    ListenerFilter,
    ListenerFilterChainMatchPredicate,
    ListenerFilterChainMatchPredicateMatchSet,
)
from protocol.proto.envoy.extensions.filters.listener.http_inspector.v3 import HttpInspector
from protocol.proto.envoy.extensions.filters.listener.original_dst.v3 import OriginalDst
from protocol.proto.envoy.extensions.filters.listener.original_src.v3 import OriginalSrc
from protocol.proto.envoy.extensions.filters.listener.tls_inspector.v3 import TlsInspector
from protocol.proto.envoy.type.v3 import Int32Range
from trierarch.envoy.access_log import NO_LOGS, AccessLogs, Place, build_access_logs
from trierarch.envoy.addresses import build_address
from trierarch.envoy.units import Piece
from trierarch.envoy.well_known_types import duration, encode, pack

if TYPE_CHECKING:
    from betterproto2 import Message

UNIX_SCHEME = "unix://"
_TPROXY_MARK = 1337
_TLS_READ_BUFFER = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspector:
    """A listener filter that looks at the first bytes of a connection: of all, or by `ports` of its destination."""

    name: str
    ports: tuple[int, ...] = ()
    inverted: bool = False

    def off_at(self, ports: tuple[int, ...]) -> Inspector:
        """The same, off for connections to these ports."""
        return replace(self, ports=ports, inverted=False)

    def only_at(self, ports: tuple[int, ...]) -> Inspector:
        """The same, off for connections to other ports than these."""
        return replace(self, ports=ports, inverted=True)


TLS_INSPECTOR = Inspector(name="envoy.filters.listener.tls_inspector")
HTTP_INSPECTOR = Inspector(name="envoy.filters.listener.http_inspector")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerFrame:
    """A listener without its chains. `addresses[0]` is its address, the others are additional ones; an address that
    begins with unix:// is a socket's path. `hands_on`: connections go to the listener of their original destination.
    `restores_destination`: the original destination is looked up. `logs`: connections that no chain takes are logged.
    Times in seconds.
    """

    name: str
    addresses: tuple[str, ...]
    port: int
    outbound: bool
    bind_to_port: bool
    inspectors: tuple[Inspector, ...] = ()
    detection_timeout: float = 0.0
    hands_on: bool = False
    restores_destination: bool = False
    transparent: bool = False
    exact_balance: bool = False
    logs: AccessLogs = NO_LOGS


def frame_piece(frame: ListenerFrame) -> Piece:
    """The frame as the first piece of a listener."""
    return Piece(_encode_frame, frame)


def _encode_frame(frame: ListenerFrame) -> bytes:
    return encode(build_frame(frame))


def build_frame(frame: ListenerFrame) -> Listener:
    """The listener without its chains."""
    first, *others = (build_address(address.removeprefix(UNIX_SCHEME), frame.port) for address in frame.addresses)
    listener = Listener(
        name=frame.name,
        address=first,
        additional_addresses=[AdditionalAddress(address=other) for other in others],
        traffic_direction=TrafficDirection.OUTBOUND if frame.outbound else TrafficDirection.INBOUND,
        listener_filters=_build_listener_filters(frame),
        access_log=build_access_logs(frame.logs, Place.LISTENER),
    )
    _apply_binding(listener, frame)
    if not frame.hands_on:
        listener.listener_filters_timeout = duration(frame.detection_timeout)
        listener.continue_on_listener_filters_timeout = True
    return listener


def _apply_binding(listener: Listener, frame: ListenerFrame) -> None:
    """A listener that accepts connections itself takes them one by one, so that threads share them evenly."""
    if frame.bind_to_port:
        listener.max_connections_to_accept_per_socket_event = 1
    else:
        listener.bind_to_port = False
    if frame.exact_balance:
        exact = ListenerConnectionBalanceConfigExactBalance()
        listener.connection_balance_config = ListenerConnectionBalanceConfig(exact_balance=exact)
    if frame.hands_on:
        listener.use_original_dst = True
    if frame.transparent:
        listener.transparent = True


def _build_listener_filters(frame: ListenerFrame) -> list[ListenerFilter]:
    filters = []
    if frame.restores_destination:
        filters.append(_listener_filter("envoy.filters.listener.original_dst", OriginalDst()))
        if frame.transparent:
            filters.append(_listener_filter("envoy.filters.listener.original_src", OriginalSrc(mark=_TPROXY_MARK)))
    return filters + [_build_inspector(each) for each in frame.inspectors]


def _build_inspector(inspector: Inspector) -> ListenerFilter:
    tls = inspector.name == TLS_INSPECTOR.name
    message = TlsInspector(initial_read_buffer_size=_TLS_READ_BUFFER) if tls else HttpInspector()
    built = _listener_filter(inspector.name, message)
    built.filter_disabled = _any_port(inspector.ports)
    if inspector.inverted:
        built.filter_disabled = ListenerFilterChainMatchPredicate(not_match=built.filter_disabled)
    return built


def _listener_filter(name: str, message: Message) -> ListenerFilter:
    return ListenerFilter(name=name, typed_config=pack(message))


def _any_port(ports: tuple[int, ...]) -> ListenerFilterChainMatchPredicate | None:
    rules = [_one_port(port) for port in ports]
    if len(rules) > 1:
        return ListenerFilterChainMatchPredicate(or_match=ListenerFilterChainMatchPredicateMatchSet(rules=rules))
    return rules[0] if rules else None


def _one_port(port: int) -> ListenerFilterChainMatchPredicate:
    return ListenerFilterChainMatchPredicate(destination_port_range=Int32Range(start=port, end=port + 1))
