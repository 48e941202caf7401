"""What views wait for between a snapshot and the build of their resources. Plain state with one owner."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from trierarch.push.request import PushRequest
    from trierarch.push.view import OutboundKey, View


@dataclass(slots=True)
class Due:
    """`request` is what all members of the view wait for, None: most of them wait for nothing.

    `own` are the requests of those that came from another view, each of them whole.
    """

    request: PushRequest | None = None
    own: dict[str, PushRequest] = field(default_factory=dict)

    def of(self, name: str) -> PushRequest | None:
        """What a member waits for."""
        return self.own.get(name, self.request)

    def requests(self) -> Iterable[PushRequest]:
        """All that somebody waits for."""
        return (*self.own.values(), *([self.request] if self.request else []))

    def add(self, request: PushRequest) -> None:
        """A newer change concerns the whole view."""
        self.request = _merged(self.request, request)
        self.own = {name: older.merged(request) for name, older in self.own.items()}

    def add_newcomer(self, name: str, waited_for: PushRequest | None, request: PushRequest) -> None:
        """A member came from another view, where it had waited for something, because of this change."""
        self.own[name] = _merged(waited_for, request)


def _merged(older: PushRequest | None, newer: PushRequest) -> PushRequest:
    return newer if older is None else older.merged(newer)


class DueViews:
    """All views that wait. Those with one outbound key are taken together: most of what they need is the same.

    What could not be built for a view stays owed to it, and comes along when it waits for something again.

    Invariant: for no key there is an empty dictionary.
    """

    __slots__ = ("_by_key", "_owed")

    def __init__(self) -> None:
        self._by_key: dict[OutboundKey, dict[View, Due]] = {}
        self._owed: dict[View, Due] = {}

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def of(self, view: View) -> Due:
        """What a view waits for; from now on it does wait."""
        waiting = self._by_key.setdefault(view.outbound, {})
        due = waiting.get(view)
        if due is None:
            due = waiting[view] = self._owed.pop(view) if view in self._owed else Due()
        return due

    def left(self, view: View) -> Due | None:
        """What a view waits for or is owed, None: nothing."""
        return self._by_key.get(view.outbound, {}).get(view) or self._owed.get(view)

    def owe(self, view: View, due: Due) -> None:
        """This could not be built."""
        self._owed[view] = due

    def take(self, limit: int) -> Mapping[View, Due]:
        """The views of the key that waits longest, but not more than so many: they wait no longer."""
        key, waiting = next(iter(self._by_key.items()))
        taken = {view: waiting.pop(view) for view in tuple(islice(waiting, limit))}
        if not waiting:
            del self._by_key[key]
        return taken

    def keep(self, views: Container[View]) -> None:
        """Forget all views but these."""
        kept = {key: {view: due for view, due in each.items() if view in views} for key, each in self._by_key.items()}
        self._by_key = {key: each for key, each in kept.items() if each}
        self._owed = {view: due for view, due in self._owed.items() if view in views}
