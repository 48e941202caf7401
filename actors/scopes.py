"""The Sidecar scopes in use, each resolved once for a snapshot, in steps. Who is placed by them is not known here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.stepping import drive
from trierarch.push.sidecar_scope import build_scope

if TYPE_CHECKING:
    from trierarch.push.context import PushContext
    from trierarch.push.sidecar_scope import SidecarScope
    from trierarch.push.view import ScopeKey


class Scopes:
    """Those of the newest snapshot; and while it is taken, those of the one before."""

    def __init__(self) -> None:
        self._resolved: dict[ScopeKey, SidecarScope] = {}
        self._before: dict[ScopeKey, SidecarScope] = {}

    def __getitem__(self, key: ScopeKey) -> SidecarScope:
        return self._resolved[key]

    def begin(self) -> None:
        """A new snapshot: everything is resolved anew when it is asked for."""
        self._before, self._resolved = self._resolved, {}

    def finish(self) -> None:
        """The snapshot is taken: forget the one before."""
        self._before = {}

    def before(self, key: ScopeKey) -> SidecarScope | None:
        """The scope in the snapshot before, if that was in use."""
        return self._before.get(key)

    async def resolve(self, key: ScopeKey, context: PushContext) -> SidecarScope:
        """The scope in this snapshot. Not a checkpoint if it is known."""
        scope = self._resolved.get(key)
        if scope is None:
            scope = self._resolved[key] = await drive(build_scope(key, context, self._before.get(key)))
        return scope
