"""Encoded resources and immutable, shared collections of them.

Theory. A resource is built and encoded once for all proxies that may share it. A `Part` is an ordered map of such
resources that one view owns; a proxy's `ResourceSet` of a type is a chain of parts (its outbound view's, its inbound
view's, the fixed ones). Two sets are compared part by part, by identity first, so that a thousand workloads with one
outbound view hold it once and pay nothing for it when only their own part has changed.

Invariant: names are unique in a set. Invariant: version == digest(body), so several processes agree on versions.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from protocol.xds.diff import Difference


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class Resource:
    """One encoded resource. `body` is the message without its Any; `version` is a digest of `body`, 16 hex digits."""

    name: str
    version: str
    body: bytes


def digest(body: bytes) -> str:
    """The version of a body: 8 bytes of BLAKE2b, as hex. Equal bytes have equal versions in every process."""
    return blake2b(body, digest_size=8).hexdigest()


def build_resource(name: str, body: bytes) -> Resource:
    """Pair a body with its version."""
    return Resource(name=name, version=digest(body), body=body)


class Part:
    """An immutable ordered map name -> Resource, compared by identity. `version` is a digest of names and versions.

    `since` is a note of `protocol.xds.diff`: the version of the part that this one was last compared with, and how the
    two differ.
    """

    __slots__ = ("__weakref__", "names", "resources", "since", "version")

    def __init__(self, resources: Iterable[Resource] = ()) -> None:
        self.resources: Mapping[str, Resource] = {resource.name: resource for resource in resources}
        self.names: frozenset[str] = frozenset(self.resources)
        self.version: str = digest("".join(f"{r.name}={r.version};" for r in self.resources.values()).encode())
        self.since: tuple[str, Difference] | None = None

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
