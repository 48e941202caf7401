"""Limits and timeouts of the HTTP connections that a proxy accepts, as its configuration states them (§4.0).

Limits of a listener, and what the profile EDGE has for defaults, are for gateways.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.proto.envoy.config.core.v3 import Http2ProtocolOptions, HttpProtocolOptions
from protocol.proto.envoy.config.core.v3 import HttpProtocolOptionsHeadersWithUnderscoresAction as EnvoyUnderscores
from protocol.proto.envoy.extensions.filters.network.http_connection_manager.v3 import (
    HttpConnectionManagerPathWithEscapedSlashesAction as EnvoyEscapedSlashes,
)
from trierarch.config.proxy_config import ConnectionSettings, EscapedSlashesAction, UnderscoresAction
from trierarch.envoy.well_known_types import duration, encode

if TYPE_CHECKING:
    from datetime import timedelta

    from protocol.proto.envoy.extensions.filters.network.http_connection_manager.v3 import HttpConnectionManager
    from trierarch.push.mesh import Mesh
    from trierarch.push.view import InboundKey, OutboundKey

UNSTATED = ConnectionSettings()

_ESCAPED_SLASHES = {each: EnvoyEscapedSlashes[each] for each in EscapedSlashesAction if each != "UNSPECIFIED"}
_UNDERSCORES = {each: EnvoyUnderscores[each] for each in UnderscoresAction if each != "UNSPECIFIED"}


def connection_settings(key: OutboundKey | InboundKey, mesh: Mesh) -> ConnectionSettings:
    """As the proxy's own configuration says, or as the mesh's does."""
    return key.connections or mesh.config.default_config.connection_settings or UNSTATED


def apply_connection_settings(manager: HttpConnectionManager, settings: ConnectionSettings) -> None:
    """Set what is stated; the rest stays as it is."""
    manager.drain_timeout = _seconds(settings.http_drain_timeout)
    manager.request_timeout = _seconds(settings.http_request_timeout)
    manager.request_headers_timeout = _seconds(settings.http_request_headers_timeout)
    if settings.http_stream_idle_timeout is not None:
        manager.stream_idle_timeout = duration(settings.http_stream_idle_timeout)
    if settings.http_merge_slashes is not None:
        manager.merge_slashes = settings.http_merge_slashes
    if settings.http_path_with_escaped_slashes_action is not EscapedSlashesAction.UNSPECIFIED:
        manager.path_with_escaped_slashes_action = _ESCAPED_SLASHES[settings.http_path_with_escaped_slashes_action]
    manager.common_http_protocol_options = _common(manager.common_http_protocol_options, settings)
    manager.http2_protocol_options = _http2(manager.http2_protocol_options, settings)


def _common(options: HttpProtocolOptions | None, settings: ConnectionSettings) -> HttpProtocolOptions | None:
    stated = options or HttpProtocolOptions()
    if settings.http_idle_timeout is not None:
        stated.idle_timeout = duration(settings.http_idle_timeout)
    stated.max_connection_duration = _seconds(settings.http_max_connection_duration)
    stated.max_stream_duration = _seconds(settings.http_max_stream_duration)
    action = settings.http_headers_with_underscores_action
    if action is not UnderscoresAction.UNSPECIFIED:
        stated.headers_with_underscores_action = _UNDERSCORES[action]
    return stated if encode(stated) else options


def _http2(options: Http2ProtocolOptions | None, settings: ConnectionSettings) -> Http2ProtocolOptions | None:
    stated = Http2ProtocolOptions(
        max_concurrent_streams=settings.http_max_concurrent_streams,
        initial_stream_window_size=settings.http2_initial_stream_window_size,
        initial_connection_window_size=settings.http2_initial_connection_window_size,
    )
    return stated if encode(stated) else options


def _seconds(value: float | None) -> timedelta | None:
    return None if value is None else duration(value)
