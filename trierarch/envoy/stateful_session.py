"""Sessions that stay with one endpoint: a cookie or a header names it (networking.md §1.2, §2.13, §4.1 item 15).

A label of the service asks for it. The filter stands in every outbound connection manager, without a configuration of
its own; the virtual hosts of services that want sessions give it one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias, assert_never

from protocol.proto.envoy.config.core.v3 import TypedExtensionConfig
from protocol.proto.envoy.extensions.filters.http.stateful_session.v3 import StatefulSession, StatefulSessionPerRoute
from protocol.proto.envoy.extensions.http.stateful_session.cookie.v3 import CookieBasedSessionState
from protocol.proto.envoy.extensions.http.stateful_session.header.v3 import HeaderBasedSessionState
from protocol.proto.envoy.type.http.v3 import Cookie
from trierarch.envoy.well_known_types import pack

if TYPE_CHECKING:
    from trierarch.push.mesh import Features
    from trierarch.push.model import Service

STATEFUL_SESSION = "envoy.filters.http.stateful_session"

_COOKIE = "envoy.http.stateful_session.cookie"
_HEADER = "envoy.http.stateful_session.header"


class CookieSession(NamedTuple):
    """The endpoint is named by a cookie, which lasts as long as the browser does."""

    name: str
    path: str


class HeaderSession(NamedTuple):
    """The endpoint is named by a header, of the response and then of requests."""

    header: str


Session: TypeAlias = CookieSession | HeaderSession


def select_session(service: Service, features: Features) -> Session | None:
    """What a service's labels ask for: `COOKIE[:PATH]`, or else a header. None: no sessions, or they are off."""
    if not features.persistent_session:
        return None
    if cookie := service.labels.get(features.session_cookie_label):
        name, colon, path = cookie.partition(":")
        return CookieSession(name, path if colon else "/")
    header = service.labels.get(features.session_header_label)
    return HeaderSession(header) if header else None


def build_session(session: Session) -> StatefulSessionPerRoute:
    """What a virtual host tells the filter."""
    return StatefulSessionPerRoute(stateful_session=build_session_filter(session))


def build_session_filter(session: Session) -> StatefulSession:
    """A filter that keeps sessions itself, whatever the virtual host."""
    return StatefulSession(session_state=_state(session))


def _state(session: Session) -> TypedExtensionConfig:
    match session:
        case CookieSession(name=name, path=path):
            by_cookie = CookieBasedSessionState(cookie=Cookie(name=name, path=path))
            return TypedExtensionConfig(name=_COOKIE, typed_config=pack(by_cookie))
        case HeaderSession(header=header):
            return TypedExtensionConfig(name=_HEADER, typed_config=pack(HeaderBasedSessionState(name=header)))
        case never:
            assert_never(never)
