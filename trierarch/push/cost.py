"""How many bytes a push will take, roughly: enough to tell large pushes from small ones (`queue.LARGE`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.xds.diff import difference
from protocol.xds.resources import EMPTY

if TYPE_CHECKING:
    from protocol.xds.resources import ResourceSet


def push_size(before: ResourceSet | None, after: ResourceSet, *, whole: bool) -> int:
    """Bytes of the bodies that bring a client from one set to another.

    `whole`: a response holds everything if anything differs (complete types on state-of-the-world streams).
    """
    if before is after:
        return 0
    changed = difference(before or EMPTY, after).changed
    if whole and changed:
        return sum(len(resource.body) for resource in after)
    found = (after.get(name) for name in changed)
    return sum(len(resource.body) for resource in found if resource is not None)
