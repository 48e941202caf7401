"""What a view waits for between a snapshot and the build of its resources. Plain state with one owner."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trierarch.push.request import PushRequest


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
