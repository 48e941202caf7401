"""Outbound listeners of a sidecar, rendered from their entries, and virtualOutbound (networking.md §4.2 to §4.4).

A listener is spliced: a frame of its own, and filter chains that are built once for all listeners that have them.
Inbound listeners are in `listeners_inbound.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trierarch.envoy.filter_chains import (
    ANY_CONNECTION,
    PLAINTEXT_HTTP,
    ChainMatch,
    FilterChain,
    chain_piece,
    default_chain_piece,
)
from trierarch.envoy.http_connection import HttpConnection
from trierarch.envoy.listener_entries import outbound_profile, select_entries, select_listening_view
from trierarch.envoy.listener_frames import HTTP_INSPECTOR, TLS_INSPECTOR, Inspector, ListenerFrame, frame_piece
from trierarch.envoy.names import BLACK_HOLE_CLUSTER, OUTBOUND, VIRTUAL_OUTBOUND
from trierarch.envoy.tcp_proxy import TcpProxy
from trierarch.envoy.units import Splice
from trierarch.envoy.virtual_host_selection import DYNAMIC_DNS, select_catch_all
from trierarch.push.proxy import Interception

if TYPE_CHECKING:
    from trierarch.envoy.http_connection import HttpProfile
    from trierarch.envoy.listener_conflicts import ListenerEntry
    from trierarch.envoy.memo import Memo
    from trierarch.envoy.outbound_view import OutboundView
    from trierarch.envoy.outlook import Outlook
    from trierarch.envoy.units import Plan
    from trierarch.push.telemetry import Telemetry

PASSTHROUGH_CHAIN = "PassthroughFilterChain"
HTTP_PROXY_ROUTE = "http_proxy"


def narrow_outbound_listeners(outlook: Outlook) -> OutboundView:
    """What of an outlook its listeners depend on."""
    return select_listening_view(outlook)


def plan_outbound_listeners(view: OutboundView, telemetry: Telemetry, memo: Memo) -> Plan:
    """All outbound listeners of a view: by name, then the HTTP proxy's, then virtualOutbound.

    Which listeners there are does not depend on what is reported of them: proxies that report under names of their own
    share that.
    """
    entries = yield from memo.steps(select_entries, view)
    reporting = replace(view, key=replace(view.key, telemetry=telemetry))
    profile = outbound_profile(reporting)
    for entry in entries:
        yield _plan_entry(reporting, replace(entry, chains=tuple(_reporting(chain, profile) for chain in entry.chains)))
    if proxy_port(view):
        yield _plan_http_proxy(reporting)
    if view.key.interception is not Interception.NONE:
        yield _plan_virtual_outbound(reporting)


def _reporting(chain: FilterChain, profile: HttpProfile) -> FilterChain:
    """The chain with connections that report as the profile says."""
    if not isinstance(chain.filters, HttpConnection):
        return chain
    return replace(chain, filters=replace(chain.filters, profile=profile))


def proxy_port(view: OutboundView) -> int:
    """The port of the HTTP proxy that applications are told to use; 0 if there is none (§4.6)."""
    return view.key.http_proxy_port or view.mesh.config.proxy_http_port


def _plan_entry(view: OutboundView, entry: ListenerEntry) -> Splice:
    chains, default = _arrange(view, entry)
    frame = ListenerFrame(
        name=entry.name,
        addresses=entry.binds,
        port=entry.port,
        outbound=True,
        bind_to_port=entry.real,
        inspectors=_inspectors(chains),
        detection_timeout=_detection_timeout(view, chains),
        exact_balance=view.key.exact_balance,
    )
    pieces = [frame_piece(frame), *(chain_piece(chain) for chain in chains)]
    if default is not None:
        pieces.append(default_chain_piece(default))
    return Splice(entry.name, tuple(pieces))


def _arrange(view: OutboundView, entry: ListenerEntry) -> tuple[tuple[FilterChain, ...], FilterChain | None]:
    """The chains with a match, and the one for all the rest: the service's own if one takes everything (§4.4)."""
    if len(entry.chains) == 1 and entry.chains[0].matches_all:
        return entry.chains, None
    matching = tuple(chain for chain in entry.chains if not chain.matches_all)
    default = next((chain for chain in entry.chains if chain.matches_all), None)
    return matching, default or _passthrough_chain(view)


def _passthrough_chain(view: OutboundView) -> FilterChain:
    return FilterChain(name=PASSTHROUGH_CHAIN, match=ANY_CONNECTION, filters=_fall_through(view))


def _inspectors(chains: tuple[FilterChain, ...]) -> tuple[Inspector, ...]:
    """What has to look at the first bytes so that the chains can be told apart."""
    matches = [chain.match for chain in chains if chain.match is not None]
    found = []
    if any(match.server_names for match in matches):
        found.append(TLS_INSPECTOR)
    if any(match.application_protocols for match in matches):
        found.append(HTTP_INSPECTOR)
    return tuple(found)


def _detection_timeout(view: OutboundView, chains: tuple[FilterChain, ...]) -> float:
    """How long a client may stay silent; only HTTP has to be waited for."""
    sniffs = any(chain.match is not None and chain.match.application_protocols for chain in chains)
    return (view.mesh.config.protocol_detection_timeout or 0.0) if sniffs else 0.0


def _fall_through(view: OutboundView) -> TcpProxy:
    cluster = view.fall_through
    return TcpProxy(stat_prefix=cluster, clusters=cluster, idle_timeout=view.key.idle_timeout, logs=view.logs)


def _plan_http_proxy(view: OutboundView) -> Splice:
    """The listener for applications that are configured to use a proxy."""
    port = proxy_port(view)
    binds = view.loopbacks
    name = f"{binds[0]}_{port}"
    connection = HttpConnection(
        profile=outbound_profile(view),
        stat_prefix=f"outbound_{name};",
        routes=HTTP_PROXY_ROUTE,
        absolute_urls=True,
    )
    frame = ListenerFrame(name=name, addresses=binds, port=port, outbound=True, bind_to_port=True)
    return Splice(name, (frame_piece(frame), chain_piece(FilterChain(filters=connection, outbound=True))))


def _plan_virtual_outbound(view: OutboundView) -> Splice:
    """Where iptables sends everything: handed on by original destination, or let through (§4.3)."""
    key = view.key
    port = view.mesh.config.proxy_listen_port
    catch_all = [FilterChain(name=f"{VIRTUAL_OUTBOUND}-catchall-tcp", filters=_fall_through(view))]
    if view.resolves_unknown_names:
        catch_all.insert(0, _resolving_chain(view))
    frame = ListenerFrame(
        name=VIRTUAL_OUTBOUND,
        addresses=view.wildcards if view.dual_stack else (view.wildcard,),
        port=port,
        outbound=True,
        bind_to_port=True,
        hands_on=True,
        inspectors=_inspectors(tuple(catch_all)),
        transparent=key.interception is Interception.TPROXY,
        logs=view.logs,
    )
    black_hole = FilterChain(
        name=f"{VIRTUAL_OUTBOUND}-blackhole",
        match=ChainMatch(destination_port=port),
        filters=TcpProxy(stat_prefix=BLACK_HOLE_CLUSTER, clusters=BLACK_HOLE_CLUSTER),
    )
    pieces = (chain_piece(chain) for chain in (black_hole, *catch_all))
    return Splice(VIRTUAL_OUTBOUND, (frame_piece(frame), *pieces))


def _resolving_chain(view: OutboundView) -> FilterChain:
    """HTTP goes where its Host header says, whatever address the application had for it."""
    connection = HttpConnection(
        profile=outbound_profile(view),
        stat_prefix=f"{OUTBOUND}_{VIRTUAL_OUTBOUND}_{DYNAMIC_DNS};",
        routes=select_catch_all(view),
        resolves=view.resolves,
    )
    match = ChainMatch(application_protocols=PLAINTEXT_HTTP)
    return FilterChain(name=f"{VIRTUAL_OUTBOUND}-catchall-tcp-http", match=match, filters=connection)
