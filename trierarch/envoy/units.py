"""The unit of generation: a pure function of one frozen value that holds all that it may read.

    narrow_x(outlook) -> inputs                             narrow: all that the plan may read, equal for all who share
    plan_x(inputs, memo) -> Plan                            plan: which units there are, and with what inputs
    build_x(inputs) -> tuple[Resource, ...] | bytes         build: nothing else is in scope, so the memo's key,
                                                            (build, inputs), cannot be incomplete

Inputs are NamedTuples or frozen dataclasses whose fields are either small values (compared by value) or model objects
(compared by identity); they hash fast, NamedTuples most of all. A `Splice` is a resource put together from parts that
are memoised each for itself: a Listener from filter chains.

A plan may have the memo remember what it thinks, too: the same functions of frozen values, whose results are no bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from protocol.xds.resources import Chunk, Resource


class Unit(NamedTuple):
    """Builds one or more whole resources, such as all clusters of a service."""

    build: Callable[[Any], tuple[Resource, ...]]
    inputs: Hashable


class Piece(NamedTuple):
    """Builds one encoded field of a resource: tag, length and body, ready to be joined."""

    build: Callable[[Any], bytes]
    inputs: Hashable


class Splice(NamedTuple):
    """One resource, joined from pieces in order (protobuf allows fields to be concatenated)."""

    name: str
    pieces: tuple[Piece, ...]


class Joined(NamedTuple):
    """The same of pieces that are ready."""

    name: str
    pieces: tuple[bytes, ...]


class Tied(NamedTuple):
    """The same of chunks that other resources have too, and that are not copied: a large RouteConfiguration of runs of
    virtual hosts.
    """

    name: str
    chunks: tuple[Chunk, ...]


Plan = Iterator[Unit | Splice | Joined | Tied | None]
"""What is to be built, one after the other; None while a plan is still thinking, so that others get their turn."""
