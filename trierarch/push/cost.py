"""How many bytes a push will take, roughly: enough to tell large pushes from small ones (`queue.LARGE`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.xds.diff import difference

if TYPE_CHECKING:
    from protocol.xds.resources import ResourceSet


def push_size(before: ResourceSet | None, after: ResourceSet, *, whole: bool, enough: int) -> int:
    """Bytes of the bodies that bring a client from one set to another; not counted on from `enough`.

    `before` None: nobody knows what the client has, so it counts as enough. `whole`: a response holds everything if
    anything differs (complete types on state-of-the-world streams).
    """
    if before is None:
        return enough
    changed = difference(before, after).changed
    size = 0
    for resource in after if whole and changed else filter(None, map(after.get, changed)):
        size += resource.size
        if size >= enough:
            break
    return size
