"""Inbound listeners of a sidecar: virtualInbound, and the Sidecar's ingress listeners that bind real ports (§4.7).

The ports are those of `inbound_ports.py`, their chains those of `inbound_chains.py`; here they become listeners.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from trierarch.envoy.filter_chains import PLAINTEXT_HTTP, TLS, chain_piece
from trierarch.envoy.inbound_chains import ChainSettings, black_hole_chain, port_chains, select_settings
from trierarch.envoy.inbound_ports import Workload, select_ports
from trierarch.envoy.listener_frames import HTTP_INSPECTOR, TLS_INSPECTOR, Inspector, ListenerFrame, frame_piece
from trierarch.envoy.names import VIRTUAL_INBOUND
from trierarch.envoy.units import Plan, Splice
from trierarch.push.model import UNSPECIFIED_ADDRESS
from trierarch.push.proxy import Interception, IPMode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from trierarch.envoy.filter_chains import FilterChain
    from trierarch.envoy.inbound_ports import InboundPort, InboundPorts
    from trierarch.push.context import PushContext
    from trierarch.push.sidecar_scope import SidecarScope
    from trierarch.push.view import InboundKey

_ANY_PORT = 0
"""Stands for the destination port of chains that do not ask for one."""


def plan_inbound_listeners(key: InboundKey, scope: SidecarScope, context: PushContext) -> Plan:
    """virtualInbound, unless nothing is redirected to it, and then the listeners that bind ports of their own."""
    workload = Workload(key=key, scope=scope, context=context)
    settings, ports = select_settings(workload), select_ports(workload)
    if workload.captures:
        yield _plan_virtual_inbound(workload, settings, ports)
    for port in ports.bound:
        yield _plan_bound(workload, settings, port)


def _plan_virtual_inbound(workload: Workload, settings: ChainSettings, ports: InboundPorts) -> Splice:
    """Where iptables sends everything that is meant for the workload."""
    mesh = workload.context.mesh
    port = mesh.config.proxy_inbound_listen_port
    served = (*ports.passing, *ports.captured)
    chains = (black_hole_chain(settings, port), *_chains(served, workload, settings))
    frame = ListenerFrame(
        name=VIRTUAL_INBOUND,
        addresses=_virtual_addresses(workload),
        port=port,
        outbound=False,
        bind_to_port=True,
        inspectors=tuple(select_inspectors(chains)),
        detection_timeout=mesh.config.protocol_detection_timeout or 0.0,
        restores_destination=True,
        exact_balance=workload.key.exact_balance,
        transparent=workload.key.interception is Interception.TPROXY,
        logs=settings.profile.logs,
    )
    return Splice(VIRTUAL_INBOUND, (frame_piece(frame), *map(chain_piece, chains)))


def _chains(ports: Iterable[InboundPort], workload: Workload, settings: ChainSettings) -> Iterator[FilterChain]:
    for port in ports:
        yield from port_chains(port, workload, settings)


def _virtual_addresses(workload: Workload) -> tuple[str, ...]:
    dual = workload.key.ip_mode is IPMode.DUAL and workload.context.mesh.features.dual_stack
    return (UNSPECIFIED_ADDRESS, "::") if dual else (workload.wildcard,)


def _plan_bound(workload: Workload, settings: ChainSettings, port: InboundPort) -> Splice:
    """An ingress listener that applications' clients connect to."""
    chains = tuple(port_chains(port, workload, settings))
    frame = ListenerFrame(
        name=port.http_name,
        addresses=(port.bind,),
        port=port.number,
        outbound=False,
        bind_to_port=True,
        inspectors=tuple(select_inspectors(chains)),
        detection_timeout=workload.context.mesh.config.protocol_detection_timeout or 0.0,
        exact_balance=workload.key.exact_balance,
        logs=settings.profile.logs,
    )
    return Splice(port.http_name, (frame_piece(frame), *map(chain_piece, chains)))


# --- what has to look at the first bytes -----------------------------------------------------------------------------
def select_inspectors(chains: Iterable[FilterChain]) -> Iterator[Inspector]:
    """The inspectors without which the chains cannot be told apart, each off for ports that can do without it.

    TLS is looked for at unknown ports only if they need it; for HTTP an inspector that is there looks there too.
    """
    tls, http = _needs(chains)
    if any(tls.values()):
        everywhere = tls.get(_ANY_PORT, False)
        ports = tuple(port for port, needed in sorted(tls.items()) if needed is not everywhere)
        yield TLS_INSPECTOR.off_at(ports) if everywhere else TLS_INSPECTOR.only_at(ports)
    if any(http.values()):
        yield HTTP_INSPECTOR.off_at(tuple(port for port, needed in sorted(http.items()) if not needed))


def _needs(chains: Iterable[FilterChain]) -> tuple[Mapping[int, bool], Mapping[int, bool]]:
    """By destination port: whether some chain asks for TLS, and whether some asks for a version of HTTP."""
    tls: defaultdict[int, bool] = defaultdict(bool)
    http: defaultdict[int, bool] = defaultdict(bool)
    for match in (chain.match for chain in chains if chain.match is not None):
        port = match.destination_port
        tls[port] |= match.transport_protocol == TLS
        http[port] |= any(each in PLAINTEXT_HTTP for each in match.application_protocols)
    return tls, http
