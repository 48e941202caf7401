"""The unit of generation: a pure function of one frozen value that holds all that it may read.

    plan_x(scope, view, context) -> Iterator[Unit | Splice]     narrow: which units there are, and with what inputs
    build_x(inputs) -> tuple[Resource, ...] | bytes             build: nothing else is in scope, so the memo's key,
                                                                (build, inputs), cannot be incomplete

Inputs are frozen dataclasses (or NamedTuples) whose fields are either small values (compared by value) or model objects
(compared by identity); they hash fast. A `Splice` is a resource put together from parts that are memoised each for
itself: a RouteConfiguration from virtual hosts, a Listener from filter chains.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from protocol.xds.resources import Resource


class Unit(NamedTuple):
    """Builds one or more whole resources, such as all clusters of a service."""

    build: Callable[[Any], tuple[Resource, ...]]
    inputs: Hashable


class Piece(NamedTuple):
    """Builds one encoded field of a resource: tag, length and body, ready to be joined."""

    build: Callable[[Any], bytes]
    inputs: Hashable


class Splice(NamedTuple):
    """Builds one resource by joining pieces in order (protobuf allows fields to be concatenated)."""

    name: str
    pieces: tuple[Piece, ...]


Plan = Iterator[Unit | Splice | None]
"""What is to be built, one after the other; None while a plan is still thinking, so that others get their turn."""
