"""The debug pages' content: plain data in istiod's shapes (xds-server.md §10.4). Nothing is asked here."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from trierarch.envoy.dump import dump_resources
from trierarch.envoy.types import CLUSTER, ENDPOINT, EXTENSION, LISTENER, ROUTE, SECRET, TYPE_RULES, VIRTUAL_HOST
from trierarch.envoy.vhds import put_together

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from actors.descriptions import ConnectionDescription, PortDescription, WatchDescription
    from actors.supervision import ChildStatistics
    from protocol.xds.resources import Resource

Plain = dict[str, Any]

_DEPTH = 7
"""Down to single virtual hosts of a config dump."""

_SYNC_NAMES = {
    CLUSTER: "cluster",
    LISTENER: "listener",
    ROUTE: "route",
    ENDPOINT: "endpoint",
    EXTENSION: "extensionconfig",
}


def encode_page(content: object, depth: int = _DEPTH) -> str:
    """JSON, put together from small pieces: while the encoder is at work on one, no other thread is."""
    match content:
        case dict() if depth:
            members = [f"{json.dumps(key)}:{encode_page(each, depth - 1)}" for key, each in content.items()]
            return f"{{{','.join(members)}}}"
        case list() if depth:
            return f"[{','.join([encode_page(each, depth - 1) for each in content])}]"
        case _:
            return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def program_version() -> str:
    """Name and version."""
    return f"trierarch {version('trierarch')}"


def sync_status(connection: ConnectionDescription) -> Plain:
    """One item of /debug/syncz."""
    status: Plain = {
        "cluster_id": connection.proxy.cluster,
        "proxy": connection.proxy.id,
        "proxy_type": connection.proxy.type.value,
        "proxy_version": connection.proxy.istio_version,
        "istio_version": connection.proxy.istio_version,
        "resources": {url: _sync_of(watch) for url, watch in connection.watches.items()},
    }
    for url, name in _SYNC_NAMES.items():
        watch = connection.watches.get(url)
        if watch is not None:
            status[f"{name}_sent"] = watch.nonce_sent
            status[f"{name}_acked"] = watch.nonce_acked
    return status


def _sync_of(watch: WatchDescription) -> Plain:
    return {"sent": watch.nonce_sent, "acked": watch.nonce_acked, "lastError": watch.last_error}


def clients(connections: Iterable[ConnectionDescription]) -> Plain:
    """The content of /debug/adsz."""
    found = [client(each) for each in connections]
    return {"totalClients": len(found), "clients": found}


def client(connection: ConnectionDescription) -> Plain:
    """One client of /debug/adsz."""
    proxy = connection.proxy
    return {
        "connectionId": connection.connection,
        "connectedAt": _moment(connection.connected_at),
        "address": connection.address,
        "identity": connection.identity,
        "certificateExpires": _moment(connection.certificate_expires),
        "labels": dict(proxy.labels),
        "metadata": dict(proxy.metadata),
        "locality": proxy.locality._asdict(),
        "delta": connection.delta,
        "snapshot": connection.snapshot,
        "watches": {url: sorted(watch.names) for url, watch in connection.watches.items()},
    }


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()


def actor(child: ChildStatistics) -> Plain:
    """One item of /debug/actors."""
    return {
        "name": child.name,
        "supervisor": child.supervisor,
        "state": child.state.value,
        "restarts": child.restarts,
        "reason": child.reason,
    }


def port(description: PortDescription) -> Plain:
    """One item of /debug/ports."""
    return asdict(description)


def config_dump(connection: ConnectionDescription, endpoints: bool) -> Plain:
    """What a proxy was sent, in the shape of Envoy's /config_dump."""
    wanted = [CLUSTER, *([ENDPOINT] if endpoints else []), LISTENER, ROUTE, SECRET, EXTENSION]
    watches = connection.watches
    return {"configs": [_section(url, watches) for url in wanted if url in watches]}


def _section(type_url: str, watches: Mapping[str, WatchDescription]) -> Plain:
    """What the client holds of a type. Envoy too shows configurations together with what came by itself."""
    held = _held(type_url, watches[type_url])
    if type_url == ROUTE and VIRTUAL_HOST in watches:
        held = put_together(held, _held(VIRTUAL_HOST, watches[VIRTUAL_HOST]))
    return dump_resources(type_url, watches[type_url].resources.version, held)


def _held(type_url: str, watch: WatchDescription) -> list[Resource]:
    """Of the whole set that the client was offered, the part that it asks for."""
    everything = TYPE_RULES[type_url].wildcard
    return [each for each in watch.resources if everything or each.name in watch.names]
