"""What names of hosts outside stand for, as objects: looked up by a source, read by the snapshot like any other object.

`ResolvedName` is a kind of ours that no user writes. Nothing is looked up here.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

from trierarch.config.objects import ConfigObject, ObjectKey, Origin

KIND = "ResolvedName"


@dataclass(frozen=True, slots=True)
class ResolvedName:
    """The IP addresses of a name, sorted, of either family."""

    addresses: tuple[str, ...]


def key_of(name: str) -> ObjectKey:
    """The key of the object about a name."""
    return ObjectKey("", KIND, "", name)


def build_resolved_name(name: str, addresses: tuple[str, ...], source: str) -> ConfigObject[ResolvedName]:
    """The object that says which addresses a name has."""
    digest = blake2b(repr(addresses).encode(), digest_size=16).digest()
    return ConfigObject(key=key_of(name), spec=ResolvedName(addresses), digest=digest, origin=Origin(source=source))
