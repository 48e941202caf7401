"""Metadata that names the configuration object behind a route or a filter chain, for whoever reads a config dump."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.proto.envoy.config.core.v3 import Metadata
from trierarch.envoy.well_known_types import struct

if TYPE_CHECKING:
    from trierarch.config.objects import AnyObject

_KINDS = {"VirtualService": "virtual-service", "Sidecar": "sidecar"}


def config_path(config: AnyObject) -> str:
    """Where an Istio object is found in the API: `/apis/networking.istio.io/v1/namespaces/shop/sidecar/web`."""
    key = config.key
    return f"/apis/networking.istio.io/v1/namespaces/{key.namespace}/{_KINDS[key.kind]}/{key.name}"


def source_metadata(path: str) -> Metadata | None:
    """The metadata for such a path; None for the empty one."""
    return Metadata(filter_metadata={"istio": struct({"config": path})}) if path else None
