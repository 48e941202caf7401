"""Filters that speak the protocol of a database (networking.md §4.6). Each has its switch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.proto.envoy.config.listener.v3 import Filter
from protocol.proto.envoy.extensions.filters.network.mongo_proxy.v3 import MongoProxy
from protocol.proto.envoy.extensions.filters.network.mysql_proxy.v3 import MySqlProxy
from protocol.proto.envoy.extensions.filters.network.redis_proxy.v3 import (
    RedisProxy,
    RedisProxyConnPoolSettings,
    RedisProxyPrefixRoutes,
    RedisProxyPrefixRoutesRoute,
)
from trierarch.envoy.well_known_types import duration, pack
from trierarch.push.model import PortProtocol

if TYPE_CHECKING:
    from trierarch.push.mesh import Features

REDIS_OPERATION_TIMEOUT = 5.0


def understood(protocol: PortProtocol, features: Features) -> PortProtocol | None:
    """The protocol, if there is a filter that speaks it, and it is switched on."""
    switched_on = {
        PortProtocol.MONGO: features.mongo_filter,
        PortProtocol.REDIS: features.redis_filter,
        PortProtocol.MYSQL: features.mysql_filter,
    }
    return protocol if switched_on.get(protocol, False) else None


def build_reader(protocol: PortProtocol | None, stat_prefix: str) -> Filter | None:
    """The filter that counts what passes on its way to the TCP proxy, if the protocol has one."""
    match protocol:
        case PortProtocol.MONGO:
            config = pack(MongoProxy(stat_prefix=stat_prefix))
            return Filter(name="envoy.filters.network.mongo_proxy", typed_config=config)
        case PortProtocol.MYSQL:
            config = pack(MySqlProxy(stat_prefix=stat_prefix))
            return Filter(name="envoy.filters.network.mysql_proxy", typed_config=config)
        case _:
            return None


def build_redis_proxy(stat_prefix: str, cluster: str) -> Filter:
    """The filter that stands in the place of the TCP proxy: each key has its endpoint."""
    proxy = RedisProxy(
        stat_prefix=stat_prefix,
        settings=RedisProxyConnPoolSettings(op_timeout=duration(REDIS_OPERATION_TIMEOUT)),
        latency_in_micros=True,
        prefix_routes=RedisProxyPrefixRoutes(catch_all_route=RedisProxyPrefixRoutesRoute(cluster=cluster)),
    )
    return Filter(name="envoy.filters.network.redis_proxy", typed_config=pack(proxy))
