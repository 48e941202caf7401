"""`PushRequest`: what changed, why, and how it merges (xds-server.md §1.1 to §1.4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from trierarch.push.causes import Causes, Stages

if TYPE_CHECKING:
    from collections.abc import Mapping


class ConfigKey(NamedTuple):
    """What a push is about.

    For kinds "ServiceEntry" and "Endpoints", `name` is the service's hostname: every change of a service's definition
    has kind "ServiceEntry", whatever registry it came from; kind "Service" never occurs.
    """

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PushRequest:
    """A change on its way to the proxies. `forced`: push whatever changed. `reasons` counts as istiod's metric does."""

    keys: frozenset[ConfigKey] = frozenset()
    forced: bool = False
    reasons: Mapping[str, int] = field(default_factory=dict)
    causes: Causes = field(default_factory=Causes)
    stages: Stages = field(default_factory=Stages)

    def merged(self, other: PushRequest) -> PushRequest:
        """Both in one: `self` is the older. Associative; keys and causes are idempotent, reasons add up."""
        reasons = dict(self.reasons)
        for reason, count in other.reasons.items():
            reasons[reason] = reasons.get(reason, 0) + count
        return PushRequest(
            keys=self.keys | other.keys,
            forced=self.forced or other.forced,
            reasons=reasons,
            causes=self.causes.merged(other.causes),
            stages=self.stages.merged(other.stages),
        )
