"""Destination rules of a snapshot: merged, indexed, looked up (xds-server.md §8.4, networking.md §0.4, §2.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trierarch.config.destination_rule import DestinationRule
    from trierarch.config.objects import ConfigObject


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergedRule:
    """One or several DestinationRules of one host that are used as one. `sources[0]` is the oldest and gives its name
    to metadata; `spec` is the merged specification; `host` is fully qualified. `selector`: None, or labels that the
    client workload must have.
    """

    host: str
    namespace: str
    spec: DestinationRule
    sources: tuple[ConfigObject[DestinationRule], ...]
    export_to: frozenset[str]
    selector: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HostRules:
    """Rules by host, exact and wildcard apart; each list in the order of merging."""

    exact: Mapping[str, tuple[MergedRule, ...]]
    wildcard: Mapping[str, tuple[MergedRule, ...]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DestinationRules:
    """The section of the snapshot: `local` and `exported` by namespace, `root_local` for the root namespace."""

    local: Mapping[str, HostRules]
    exported: Mapping[str, HostRules]
    root_local: HostRules
