"""Virtual hosts before it is settled who is called what, and what all of a configuration have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trierarch.envoy.route_retry import DEFAULT_RETRY
from trierarch.envoy.stateful_session import select_session
from trierarch.envoy.virtual_hosts import Treatment, VirtualHostInputs

if TYPE_CHECKING:
    from trierarch.config.virtual_service import HttpRetry
    from trierarch.envoy.host_names import Claim
    from trierarch.envoy.outbound_view import OutboundView
    from trierarch.envoy.route_action import RouteInputs
    from trierarch.envoy.stateful_session import Session
    from trierarch.envoy.virtual_hosts import DefaultRoute
    from trierarch.push.mesh import Mesh
    from trierarch.push.model import Service


class Common(NamedTuple):
    """What all virtual hosts of a view have in common.

    `counts_attempts`: servers are told how often a request was tried; `limits_streams`: see `RouteInputs`.
    """

    mesh: Mesh
    counts_attempts: bool
    limits_streams: bool

    @property
    def retry(self) -> HttpRetry:
        """The policy of routes that have none of their own."""
        return self.mesh.config.default_http_retry_policy or DEFAULT_RETRY


def select_common(view: OutboundView) -> Common:
    """What shows in all virtual hosts of a view."""
    return Common(view.mesh, counts_attempts(view), view.key.is_proxyless)


def treat(routes: tuple[RouteInputs | DefaultRoute, ...], session: Session | None, common: Common) -> Treatment:
    """What becomes of requests to a virtual host with these routes."""
    return Treatment(routes=routes, counts_attempts=common.counts_attempts, session=session)


def find_session(service: Service | None, common: Common) -> Session | None:
    """What keeps requests to a service, or (None) to a host that is none, with one endpoint."""
    return None if service is None else select_session(service, common.mesh.features)


def build_host(claim: Claim, treatment: Treatment) -> VirtualHostInputs:
    """A virtual host as it is if it gets all the domains that it claims."""
    return VirtualHostInputs(name=claim.name, domains=claim.domains, treatment=treatment)


def counts_attempts(view: OutboundView) -> bool:
    """Whether servers are told how often a request was tried."""
    attempts = view.headers.attempt_count
    return attempts is None or not attempts.disabled
