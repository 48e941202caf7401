"""Network filters that stand before the last one of a chain (networking.md §4.5). Only Istio's proxy has them yet."""

from __future__ import annotations

from functools import cache

from protocol.proto.envoy.config.listener.v3 import Filter
from protocol.proto.udpa.type.v1 import TypedStruct
from trierarch.envoy.well_known_types import pack, struct

ISTIO_METADATA_EXCHANGE = "istio.metadata_exchange"
_METADATA_EXCHANGE = "type.googleapis.com/envoy.tcp.metadataexchange.config.MetadataExchange"


@cache
def metadata_exchange() -> Filter:
    """Exchanges who the peers are on plain TCP, when both have agreed to it by ALPN. One object for all chains."""
    settings = struct({"enable_discovery": True, "protocol": "istio-peer-exchange"})
    exchange = TypedStruct(type_url=_METADATA_EXCHANGE, value=settings)
    return Filter(name=ISTIO_METADATA_EXCHANGE, typed_config=pack(exchange))
