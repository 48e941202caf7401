"""Which labels anybody selects by: only these may be part of a view key."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Selectors:
    """The section of the snapshot, by value: label keys that may influence outbound and inbound configuration."""

    outbound: frozenset[str] = frozenset()
    inbound: frozenset[str] = frozenset()
