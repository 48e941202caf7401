"""Endpoints as a client of one network sees them: those of other networks through gateways (networking.md §3.4).

Theory. An endpoint that the client cannot address is replaced by the entrances to its network, which have its weight
among them; so each network gets the share of traffic that its endpoints would have had. For that all weights are
multiplied by a number that the gateway counts of all networks divide. A gateway finds the service by the SNI of mTLS:
an endpoint without mTLS cannot be reached from elsewhere.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from trierarch.config import labels
from trierarch.envoy.locality import MOST_WEIGHT, Group, endpoint_weight, total_weight
from trierarch.push.model import NOWHERE, Endpoint, Health
from trierarch.push.network_gateways import NetworkGateways
from trierarch.push.networks import augmented
from trierarch.push.proxy import IPMode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trierarch.push.network_gateways import NetworkGateway


class Horizon(NamedTuple):
    """Where a client stands among the networks: its own, the gateways that there are, the addresses it can reach."""

    gateways: NetworkGateways
    network: str = ""
    ip_mode: IPMode = IPMode.DUAL

    @property
    def is_split(self) -> bool:
        """Whether anything is reached through gateways."""
        return bool(self.gateways.known)


ONE_NETWORK = Horizon(NetworkGateways())
"""Where there are no gateways everybody is taken to reach everybody."""


def split_horizon(groups: list[Group], horizon: Horizon, *, mutual_tls: bool) -> list[Group]:
    """The groups with gateways in place of what is beyond them. They keep their localities and priorities."""
    return [_split(group, horizon, mutual_tls) for group in groups] if horizon.is_split else groups


def _split(group: Group, horizon: Horizon, mutual_tls: bool) -> Group:
    near: list[Endpoint] = []
    shares: dict[NetworkGateway, int] = {}
    for endpoint in group.endpoints:
        weight = min(endpoint_weight(endpoint) * horizon.gateways.scale, MOST_WEIGHT)
        gateways = _gateways_to(endpoint, horizon)
        if not gateways:
            near += [replace(endpoint, weight=weight)] if endpoint.addresses else []
        elif mutual_tls and endpoint.tls_mode == labels.TLS_MODE_ISTIO:
            reachable = [gateway for gateway in gateways if _is_reachable(gateway, horizon.ip_mode)]
            for gateway in reachable:
                shares[gateway] = shares.get(gateway, 0) + weight // len(reachable)
    members = (*near, *(_entrance(gateway, shares[gateway]) for gateway in sorted(shares)))
    return group._replace(endpoints=members, weight=total_weight(members))


def _gateways_to(endpoint: Endpoint, horizon: Horizon) -> Sequence[NetworkGateway]:
    """The entrances to the endpoint's network; none if the client is in it, or if nobody knows one."""
    if endpoint.network in ("", horizon.network):
        return ()
    return horizon.gateways.to(endpoint.network, endpoint.cluster)


def _is_reachable(gateway: NetworkGateway, ip_mode: IPMode) -> bool:
    return ip_mode is IPMode.DUAL or (":" in gateway.address) == (ip_mode is IPMode.IPV6)


def _entrance(gateway: NetworkGateway, weight: int) -> Endpoint:
    """A gateway as an endpoint: of no workload, but known to speak mTLS."""
    return Endpoint(
        addresses=(gateway.address,),
        port=gateway.port,
        port_name="",
        namespace="",
        labels=augmented({}, NOWHERE, gateway.cluster, "", gateway.network),
        network=gateway.network,
        cluster=gateway.cluster,
        tls_mode=labels.TLS_MODE_ISTIO,
        weight=weight,
        health=Health.UNKNOWN,
    )
