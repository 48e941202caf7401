"""Reads node metadata: JSON in which booleans and numbers are often strings (xds-server.md §4.5)."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import cast

from protocol.errors import RemoteError
from protocol.statuses import INVALID_ARGUMENT
from trierarch.config.proxy_config import ConnectionSettings, ProxyHeaders
from trierarch.config.scalars import Malformed, Notes, parse_duration
from trierarch.config.schema import read_document
from trierarch.config.tracing import Tracing

LONGEST_TIME = 100 * 365 * 86_400.0
"""Seconds of a duration. Protobuf has none of more than ten thousand years."""

LONGEST_TEXT = 16 * 1024
"""Characters of a text: names are in keys and in lines of the log, and lists have a few hundred addresses."""

HIGHEST_PORT = 65535
_PORT_DIGITS = 5
READ = frozenset({
    "CLUSTER_ID", "DNS_CAPTURE", "ENVOY_PROMETHEUS_PORT", "ENVOY_STATUS_PORT", "GENERATOR", "HTTP10", "HTTP_PROXY_PORT",
    "IDLE_TIMEOUT", "INBOUND_LISTENER_EXACT_BALANCE", "INSTANCE_IPS", "INTERCEPTION_MODE", "ISTIO_VERSION", "LABELS",
    "MESH_ID", "NAMESPACE", "NETWORK", "NODE_NAME", "OUTBOUND_LISTENER_EXACT_BALANCE", "POD_PORTS", "PROXY_CONFIG",
    "REQUESTED_NETWORK_VIEW", "SERVICE_ACCOUNT", "STATIC_LABELS", "TLS_CLIENT_CERT_CHAIN", "TLS_CLIENT_KEY",
    "TLS_CLIENT_ROOT_CERT", "TLS_SERVER_CERT_CHAIN", "TLS_SERVER_KEY", "TLS_SERVER_ROOT_CERT", "TRIERARCH_SDS",
    "TRIERARCH_VHDS", "WORKLOAD_NAME",
})  # fmt: skip
"""The keys that anybody looks at; others are not kept."""

_SHOWN = 200

_FLAGS = {"true": True, "1": True, "false": False, "0": False, "": False}


class NodeMetadata:
    """Metadata by key. A key that is absent or null reads as empty; one of another type ends the stream."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values

    def text(self, key: str) -> str:
        """A string; a number is written as one."""
        value = self._values.get(key)
        if value is None:
            return ""
        if isinstance(value, str) and len(value) <= LONGEST_TEXT:
            return value
        if isinstance(value, (bool, int, float)):
            return _plain(value)
        raise _wrong(key, f"a string of at most {LONGEST_TEXT} characters", value)

    def flag(self, key: str) -> bool:
        """A boolean, or "true" and "false"."""
        text = self.text(key).lower()
        if text not in _FLAGS:
            raise _wrong(key, "a boolean", text)
        return _FLAGS[text]

    def port(self, key: str) -> int:
        """The number of a port; 0 if absent."""
        text = self.text(key)
        if text and not (text.isdecimal() and len(text) <= _PORT_DIGITS and int(text) <= HIGHEST_PORT):
            raise _wrong(key, "a port", text)
        return int(text or 0)

    def seconds(self, key: str) -> float | None:
        """A duration in seconds, None if absent."""
        text = self.text(key)
        if not text:
            return None
        seconds = parse_duration(text)
        if seconds is None or not 0 <= seconds <= LONGEST_TIME:
            raise _wrong(key, "a duration", text)
        return seconds

    def proxy_headers(self, key: str) -> ProxyHeaders | None:
        """The headers that a proxy configuration (a ProxyConfig as JSON data) speaks of; None without one."""
        return cast("ProxyHeaders | None", self._setting(key, "proxyHeaders", ProxyHeaders))

    def connection_settings(self, key: str) -> ConnectionSettings | None:
        """What a proxy configuration says of the connections that it accepts; None without one."""
        return cast("ConnectionSettings | None", self._setting(key, "connectionSettings", ConnectionSettings))

    def tracing(self, key: str) -> Tracing | None:
        """What a proxy configuration says of tracing; None without one."""
        return cast("Tracing | None", self._setting(key, "tracing", Tracing))

    def _setting(self, key: str, name: str, schema: type) -> object | None:
        """A field of a proxy configuration, which is empty where the configuration does not have it."""
        config = self._values.get(key)
        if not isinstance(config, dict):
            return None
        stated = config.get(name) or {}
        try:
            return read_document(schema, {"spec": stated}, "spec", Notes(unknown_fields=False))
        except Malformed as fault:
            raise _wrong(key, f"a proxy configuration: {fault.reason}", stated) from fault

    def parts(self, key: str) -> tuple[str, ...]:
        """The parts of a comma list."""
        return tuple(part.strip() for part in self.text(key).split(",") if part.strip())

    def pairs(self, key: str) -> tuple[tuple[str, str], ...]:
        """A map of strings, in order of its keys."""
        value = self._values.get(key)
        if value is None:
            return ()
        if not isinstance(value, Mapping) or not all(isinstance(each, str) for each in value.values()):
            raise _wrong(key, "a map of strings", value)
        return tuple(sorted(value.items()))


def _plain(value: bool | float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isfinite(value) and value == int(value) else str(value)


def _wrong(key: str, wanted: str, value: object) -> RemoteError:
    return RemoteError(INVALID_ARGUMENT, f"node metadata {key} is not {wanted}: {shown(value)}")


def shown(value: object) -> str:
    """What a client said, for a status and a line of the log: the beginning, for it may be half a megabyte."""
    return repr(value)[:_SHOWN]
