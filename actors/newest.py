"""The newest snapshot, for those who only look something up in it: whose trust domain, which pods.

Written by the snapshot builder alone; it outlives it. Whoever must act on a change is told by a message instead. The
builder itself reads the history here: a client that was stuck while builder and scheduler died has still to be told.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from trierarch.push.context import PushContext
from trierarch.push.history import History


@dataclass(slots=True)
class Newest:
    """Before the first snapshot: that of an empty mesh."""

    context: PushContext = field(default_factory=PushContext)
    history: History = field(default_factory=History)

    @property
    def trust_domain(self) -> str:
        """The trust domain of the mesh."""
        return self.context.mesh.config.trust_domain

    @property
    def trust_domain_aliases(self) -> tuple[str, ...]:
        """The names that it had before, or has elsewhere."""
        return self.context.mesh.config.trust_domain_aliases
