"""What responses are put together from: ready bytes. The costs of 1,000 clusters, and of a large route configuration.

    python bench/splice.py

Each number is the best of some rounds, in milliseconds of CPU time. "first": for the first of all streams that are sent
the same; the others share its blocks. The budgets of a difference and of joining are those seen in a trial;
the others are what a first configuration may cost altogether, and a push to one more proxy.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeAlias

from common.table import Table
from common.timing import best_of

from protocol.wire import SharedFields, delta_resource_field, delta_response, sotw_resource_field, sotw_response
from protocol.xds.diff import difference
from protocol.xds.resources import Chunk, Part, Resource, ResourceSet, build_resource, tie_chunks
from trierarch.envoy.types import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Callable

    EncodeField: TypeAlias = Callable[[str, Resource], tuple[bytes, ...]]

CLUSTERS, CLUSTER_SIZE = 1000, 1500
RESOURCES = 2400
HOSTS, HOST_SIZE, RUN = 1000, 278, 32


def main() -> int:
    """Measure, print, compare with the budgets."""
    clusters = [_resource(number, CLUSTER_SIZE) for number in range(CLUSTERS)]
    table = Table(f"{CLUSTERS} clusters of {CLUSTER_SIZE} bytes")
    _measure_splicing(table, "delta", clusters, delta_resource_field, delta_response)
    _measure_splicing(table, "state of the world", clusters, sotw_resource_field, sotw_response)
    table.value(f"difference of {RESOURCES} resources, one changed", best_of(_compared), 0.27)
    table.value(f"a route configuration of {HOSTS * HOST_SIZE // 1000} KB, joined", best_of(_joined), 0.36)
    table.value("the same in chunks, one changed", best_of(_tied), 0.04)
    return 1 if table.missed else 0


def _measure_splicing(
    table: Table, dialect: str, clusters: list[Resource], field: EncodeField, respond: Callable[..., object]
) -> None:
    part, shared = Part(clusters), SharedFields(CLUSTER, field)

    def respond_again() -> None:
        respond(type_url=CLUSTER, version="1", nonce="1", fields=shared.of(part))

    table.value(f"{dialect}: first", best_of(lambda: SharedFields(CLUSTER, field).of(part)), 6.0)
    table.value(f"{dialect}: another stream", best_of(respond_again), 0.12)


def _resource(number: int, size: int) -> Resource:
    return build_resource(f"outbound|80||svc-{number}.ns-{number % 20}.svc.cluster.local", bytes(size))


_MANY = [_resource(number, 100) for number in range(RESOURCES)]
_BEFORE = ResourceSet(Part(_MANY))
_AFTER = ResourceSet(Part([*_MANY[:-1], _resource(RESOURCES - 1, 101)]))
_PIECES = tuple(bytes(HOST_SIZE) for _ in range(HOSTS))
_CHUNKS = tuple(Chunk(b"".join(_PIECES[start : start + RUN])) for start in range(0, HOSTS, RUN))


def _compared() -> None:
    _AFTER.parts[0].since = None  # or the answer would be remembered
    difference(_BEFORE, _AFTER)


def _joined() -> None:
    build_resource("80", b"".join(_PIECES))


def _tied() -> None:
    tie_chunks("80", (*_CHUNKS[1:], Chunk(b"".join(_PIECES[:RUN]))))


if __name__ == "__main__":
    sys.exit(main())
