"""The connected proxies as the push scheduler sees them: where each stands, grouped by view.

Plain state with one owner. A member without a view is not welcomed yet: it is not pushed to, and its welcome will bring
the newest snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trierarch.push.request import ConfigKey
from trierarch.push.view import View

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trierarch.push.proxy import Proxy
    from trierarch.push.request import PushRequest


@dataclass(slots=True)
class Member:
    """One connection. `types`: the type URLs that its client watches; `snapshot`: the number of the one that the client
    had when it joined, 0: none.
    """

    name: str
    proxy: Proxy
    delta: bool
    types: frozenset[str]
    snapshot: int = 0
    view: View | None = None


class Fleet:
    """All members by name, and the names by view."""

    def __init__(self) -> None:
        self._members: dict[str, Member] = {}
        self._by_view: dict[View, dict[str, None]] = {}
        self._views: dict[View, View] = {}  # one object for equal views: whatever is kept by view is found by identity

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def __iter__(self) -> Iterator[Member]:
        return iter(tuple(self._members.values()))

    def get(self, name: str) -> Member | None:
        """The member of that name, or None if it has gone."""
        return self._members.get(name)

    def join(self, member: Member) -> None:
        """A member that is to be welcomed. One of that name that is there already is replaced."""
        self.leave(member.name)
        self._members[member.name] = member

    def leave(self, name: str) -> None:
        """The connection has gone; nothing happens if it was not there."""
        member = self._members.pop(name, None)
        if member is not None:
            self._unplace(member)

    def place(self, name: str, view: View) -> bool:
        """Give a member its view; whether that is another one than before."""
        member = self._members[name]
        if member.view == view:
            return False
        self._unplace(member)
        member.view = self._views.setdefault(view, view)
        self._by_view.setdefault(member.view, {})[name] = None
        return True

    def displace(self, name: str) -> None:
        """Take a member's view away: it is to be welcomed again."""
        self._unplace(self._members[name])

    def views(self) -> tuple[View, ...]:
        """All views that some member has, in the order in which they came."""
        return tuple(self._by_view)

    def names(self, view: View) -> tuple[str, ...]:
        """The members of a view, in the order in which they came."""
        return tuple(self._by_view.get(view, ()))

    def members(self, view: View) -> tuple[Member, ...]:
        """The members of a view, in the order in which they came."""
        return tuple(self._members[name] for name in self._by_view.get(view, ()))

    def types(self, view: View) -> frozenset[str]:
        """All types that some member of a view watches."""
        return union(member.types for member in self.members(view))

    def _unplace(self, member: Member) -> None:
        if member.view is not None:
            names = self._by_view[member.view]
            del names[member.name]
            if not names:
                del self._by_view[member.view]
                del self._views[member.view]
            member.view = None


def moving_request(before: View, after: View, request: PushRequest) -> PushRequest:
    """The request for a member that came from another view by this change.

    If only its Sidecar, its policies or whose tokens it understands are others, that is as if these had changed. Else
    anything may be another resource.
    """
    scope, policies, tokens = after.outbound.scope, after.inbound.policies, after.inbound.tokens
    outbound = replace(before.outbound, scope=scope)
    inbound = replace(before.inbound, scope=after.inbound.scope, policies=policies, tokens=tokens)
    if View(outbound=outbound, inbound=inbound) != after:
        return replace(request, forced=True)
    moved_by = set()
    if scope != before.outbound.scope:
        moved_by.add(ConfigKey("Sidecar", scope.namespace, scope.sidecar.name if scope.sidecar else ""))
    if policies != before.inbound.policies:
        moved_by.add(ConfigKey("AuthorizationPolicy", scope.namespace, ""))
    if tokens != before.inbound.tokens:
        moved_by.add(ConfigKey("RequestAuthentication", scope.namespace, ""))
    return replace(request, keys=request.keys | moved_by)


def union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    """The union, looking at each different set object once: thousands of members share a handful."""
    different = {id(each): each for each in sets}
    return frozenset().union(*different.values())
