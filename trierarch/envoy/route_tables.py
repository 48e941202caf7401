"""What a route configuration is made for: services by port, and virtual services by host (networking.md §5.4)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trierarch.envoy.memo import Memo
    from trierarch.envoy.outbound_view import OutboundView
    from trierarch.push.model import Service, ServicePort
    from trierarch.push.routing import ResolvedVirtualService
    from trierarch.push.sidecar_scope import EgressListener
    from trierarch.push.steps import Steps

SERVICES_PER_STEP = 500
"""After so many services the event loop gets its turn: about a millisecond of work."""

DEFAULT_HTTP_PORT = 80
"""Hosts that are no services are served on this port alone."""


class PortService(NamedTuple):
    """A service as one listener sees it: with the ports that can be reached through it."""

    service: Service
    ports: tuple[ServicePort, ...]

    @property
    def http_ports(self) -> Iterator[int]:
        """Those that are HTTP, or may turn out to be."""
        return (port.number for port in self.ports if port.protocol.is_http or port.protocol.is_auto)


@dataclass(frozen=True, eq=False)
class Members:
    """The services that can be reached through a listener, by hostname. Without slots, for what is cached."""

    by_host: Mapping[str, PortService]

    @cached_property
    def by_label(self) -> Mapping[str, tuple[str, ...]]:
        """Hosts by the labels that stand in their names, or in those of their aliases, before a label `svc`."""
        found: dict[str, dict[str, None]] = {}
        for host, (service, _) in self.by_host.items():
            for name in (host, *(alias.host for alias in service.aliases)):
                labels = name.split(".")
                for label, following in pairwise(labels):
                    if following == "svc":
                        found.setdefault(label, {})[host] = None
        return {label: tuple(hosts) for label, hosts in found.items()}


NO_MEMBERS = Members({})


def index_services(services: tuple[Service, ...], memo: Memo) -> Steps[Mapping[int, Members]]:
    """Services by port, under port 0 all of them. Of two with one hostname the later counts (§5.4.8).

    The members of a port are one object as long as they are equal: most ports do not notice when a service comes.
    """
    index: dict[int, dict[str, PortService]] = {0: {}}
    for count, service in enumerate(services, start=1):
        index[0][service.hostname] = PortService(service, service.ports)
        for port in reversed(service.ports):  # of two ports with one number the first counts
            index.setdefault(port.number, {})[service.hostname] = PortService(service, (port,))
        if count % SERVICES_PER_STEP == 0:
            yield
    return {number: memo.recall(build_members, tuple(by_host.values())) for number, by_host in index.items()}


def build_members(services: tuple[PortService, ...]) -> Members:
    """These, by hostname."""
    return Members({each.service.hostname: each for each in services})


def select_labelled(inputs: tuple[Members, str], memo: Memo) -> Members:
    """Those with that label in their names: one object as long as they are equal, whatever others come and go."""
    members, label = inputs
    return memo.recall(build_members, tuple([members.by_host[host] for host in members.by_label.get(label, ())]))


def select_member(one: tuple[Members, str]) -> Members:
    """Just the service of that host."""
    members, host = one
    found = members.by_host.get(host)
    return NO_MEMBERS if found is None else Members({host: found})


class RouteTable(NamedTuple):
    """What a route configuration is made for. `port` is the listener's, 0 for a proxy's or a Unix socket's; the virtual
    services are in order of precedence.
    """

    view: OutboundView
    port: int
    members: Members
    virtual_services: tuple[ResolvedVirtualService, ...]


def build_table(view: OutboundView, egress: EgressListener, port: int, members: Members) -> RouteTable:
    """The table of these members of an egress listener."""
    return RouteTable(view, port, members, egress.virtual_services)
