"""What an Envoy says of itself on its admin page: the configuration that it has, and its statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx

if TYPE_CHECKING:
    from examples.shop.processes import Sidecar

_FORGET = ("version_info", "last_updated", "client_status")
"""When and as what a resource came; what it says is beside that."""


def read_configuration(sidecar: Sidecar) -> list[object]:
    """Everything that came over xDS, in an order of its own, without versions and times."""
    sections = _get(sidecar, "/config_dump", include_eds="on").json()["configs"]
    dynamic = [section[key] for section in sections for key in sorted(section) if key.startswith("dynamic_")]
    return [sorted(map(_content, items), key=str) for items in dynamic]


def read_names(sidecar: Sidecar) -> set[str]:
    """The names of all resources that came over xDS."""
    sections = _get(sidecar, "/config_dump", include_eds="on").json()["configs"]
    dynamic = [item for section in sections for key in section if key.startswith("dynamic_") for item in section[key]]
    return {resource_name(item) for item in dynamic}


def read_clusters(sidecar: Sidecar) -> dict[str, dict]:
    """The clusters in use, not those that wait for their endpoints, by name."""
    sections = _get(sidecar, "/config_dump", resource="dynamic_active_clusters").json()["configs"]
    return {section["cluster"]["name"]: section["cluster"] for section in sections}


def resource_name(item: dict) -> str:
    """The name of a resource in a dump, ours or Envoy's."""
    body = next(item[key] for key in ("cluster", "active_state", "route_config", "endpoint_config") if key in item)
    body = body.get("listener", body)
    return body.get("name") or body["cluster_name"]


def read_statistics(sidecar: Sidecar, *endings: str) -> dict[str, int]:
    """The counters and gauges whose names end in one of these ways."""
    stats = _get(sidecar, "/stats", format="json").json()["stats"]
    return {each["name"]: each["value"] for each in stats if each.get("name", "").endswith(endings)}


def _get(sidecar: Sidecar, path: str, **parameters: str) -> httpx.Response:
    return httpx.get(f"http://{sidecar.admin}{path}", params=parameters, timeout=10)


def _content(item: object) -> object:
    match item:
        case dict():
            return {key: _content(value) for key, value in sorted(item.items()) if key not in _FORGET}
        case list():
            return [_content(value) for value in item]
        case _:
            return item
