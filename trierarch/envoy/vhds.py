"""Route configurations whose virtual hosts come one by one, to Envoys that opt in (xds-server.md §16).

The configuration of a port says only that its virtual hosts are to be had by themselves, so it never changes, and a
changed virtual host travels alone. What a virtual host is made of, and all of its encoding but its name, is shared with
the configurations that hold it.

The catch-all comes by itself too. Envoy learns that a configuration has got its virtual hosts when it gets one of them:
with nothing but a catch-all, in the configuration itself, it would hold the listener back until a timeout. And to come
back to whole configurations where nothing else is left would not do: Envoy keeps what came by itself before.

A listener that only one service has keeps a whole configuration: there is but one virtual host in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.proto.envoy.config.route.v3 import RouteConfiguration, Vhds, VirtualHost
from protocol.xds.resources import build_resource
from trierarch.envoy.discovery import ads_source
from trierarch.envoy.route_configuration import build_route_configuration
from trierarch.envoy.routes import is_for_one_host, plan_configuration, select_hosts, select_route_names
from trierarch.envoy.types import route_configuration_of
from trierarch.envoy.units import Joined
from trierarch.envoy.virtual_hosts import virtual_host_field
from trierarch.envoy.well_known_types import encode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from protocol.xds.resources import Resource
    from trierarch.envoy.memo import Memo
    from trierarch.envoy.routes import OutboundRoutes
    from trierarch.envoy.units import Plan


def plan_divided_routes(inputs: OutboundRoutes, memo: Memo) -> Plan:
    """The route configurations of a view without their virtual hosts."""
    for name in (yield from select_route_names(inputs, memo)):
        if is_for_one_host(name):
            yield (yield from plan_configuration(inputs.view, name, memo))
        else:
            yield Joined(name, (encode(RouteConfiguration(name=name)), _FRAME))


def plan_virtual_hosts(inputs: OutboundRoutes, memo: Memo) -> Plan:
    """The virtual hosts that these leave out, in the order of their configurations."""
    for name in (yield from select_route_names(inputs, memo)):
        if is_for_one_host(name):
            continue
        for host in (yield from select_hosts(inputs.view, name, memo)):
            full_name = virtual_host_name(name, host.name)
            fresh = not host.is_encoded
            yield Joined(full_name, (memo.recall(_encode_name, full_name), host.nameless))
            if fresh:
                yield None


def virtual_host_name(route_configuration: str, host: str) -> str:
    """The name of a virtual host that comes by itself, as a resource and in its message: Envoy finds the configuration
    by the former, and what is removed by the latter.
    """
    return f"{route_configuration}/{host}"


def put_together(configurations: Iterable[Resource], hosts: Iterable[Resource]) -> list[Resource]:
    """The configurations with the virtual hosts that came by themselves in them, for people to look at."""
    fields: dict[str, list[bytes]] = {}
    for host in hosts:
        fields.setdefault(route_configuration_of(host.name), []).append(virtual_host_field(host.body))
    return [build_resource(each.name, b"".join((each.body, *fields.get(each.name, ())))) for each in configurations]


def _encode_name(name: str) -> bytes:
    return encode(VirtualHost(name=name))


def _build_frame() -> RouteConfiguration:
    """What all configurations say, and where their virtual hosts come from."""
    frame = build_route_configuration("", ())
    frame.vhds = Vhds(config_source=ads_source())
    return frame


_FRAME = encode(_build_frame())
