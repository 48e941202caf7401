"""Encoded resources and immutable, shared collections of them.

Theory. A resource is built and encoded once for all proxies that may share it. A `Part` is an ordered map of such
resources that one view owns; a proxy's `ResourceSet` of a type is a chain of parts (its outbound view's, its inbound
view's, the fixed ones). Two sets are compared part by part, by identity first, so that a thousand workloads with one
outbound view hold it once and pay nothing for it when only their own part has changed.

The body of a large resource is several chunks, which other resources may have too: what differs in one place is another
chunk there, and neither joined nor digested nor kept as a whole.

Invariant: names are unique in a set. Invariant: a version is decided by the body and how it is divided, and equal
versions mean equal bodies. Whoever divides a body goes by what is in it and by nothing else, so several processes agree
on versions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from protocol.xds.diff import Since
    from protocol.xds.selection import Selection


class Chunk:
    """A stretch of a body with its version, compared by identity."""

    __slots__ = ("__weakref__", "body", "version")

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.version = digest(body)


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class Resource:
    """One encoded resource. `version` is a digest, 16 hex digits: that of the body, or where this is in several chunks
    that of their versions. `size`: bytes of the body.
    """

    name: str
    version: str
    chunks: tuple[Chunk, ...] = field(compare=False)
    size: int = field(compare=False)

    @property
    def body(self) -> bytes:
        """The message without its Any. Joined from the chunks at each call, if there are several."""
        return b"".join(self.pieces)

    @property
    def pieces(self) -> list[bytes]:
        """The same as the buffers that it is in, which are shared."""
        return [chunk.body for chunk in self.chunks]


def digest(body: bytes) -> str:
    """The version of a body: 8 bytes of BLAKE2b, as hex. Equal bytes have equal versions in every process."""
    return blake2b(body, digest_size=8).hexdigest()


def build_resource(name: str, body: bytes) -> Resource:
    """Pair a body with its version."""
    return tie_chunks(name, (Chunk(body),))


def tie_chunks(name: str, chunks: tuple[Chunk, ...]) -> Resource:
    """The resource whose body is these one after the other; at least one."""
    version = chunks[0].version if len(chunks) == 1 else digest("".join([each.version for each in chunks]).encode())
    return Resource(name=name, version=version, chunks=chunks, size=sum([len(each.body) for each in chunks]))


class Part:
    """An immutable ordered map name -> Resource, compared by identity. `version` is a digest of names and versions.

    `since` is a note of `protocol.xds.diff`: the part that this one was last compared with, and how the two differ.
    `selected` is one of `protocol.xds.selection`: the names that it was last asked for, and what it has of them.
    """

    __slots__ = ("__weakref__", "names", "resources", "selected", "since", "version")

    def __init__(self, resources: Iterable[Resource] = ()) -> None:
        self.resources: Mapping[str, Resource] = {resource.name: resource for resource in resources}
        self.names: frozenset[str] = frozenset(self.resources)
        self.version: str = digest("".join(f"{r.name}={r.version};" for r in self.resources.values()).encode())
        self.since: Since | None = None
        self.selected: tuple[frozenset[str], Selection] | None = None

    def __len__(self) -> int:
        return len(self.resources)


class ResourceSet:
    """All resources of one type for one view: a chain of parts. Compared by identity; cheap to make."""

    __slots__ = ("__weakref__", "parts", "version")

    def __init__(self, *parts: Part) -> None:
        self.parts: tuple[Part, ...] = parts
        self.version: str = digest("".join(part.version for part in parts).encode())

    def get(self, name: str) -> Resource | None:
        """The resource of that name, or None."""
        for part in self.parts:
            resource = part.resources.get(name)
            if resource is not None:
                return resource
        return None

    def __iter__(self) -> Iterator[Resource]:
        for part in self.parts:
            yield from part.resources.values()

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)


EMPTY = ResourceSet()
"""The set of a type of which a view has nothing."""
