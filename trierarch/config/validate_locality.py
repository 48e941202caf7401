"""What istiod's validation demands of the settings for localities, in a DestinationRule and in the mesh."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trierarch.config.labels import REGION, SUBZONE, ZONE
from trierarch.config.violations import Caution, Complaints, Violation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trierarch.config.destination_rule import (
        LocalityDistribute,
        LocalityFailover,
        LocalityLbSetting,
        OutlierDetection,
        ZoneAwareLbSetting,
    )

_NO_EJECTION = "has no effect without outlierDetection"


def check_locality(path: str, setting: LocalityLbSetting | None, outlier: OutlierDetection | None) -> Complaints:
    """Distribution or failover, not both; failover takes place only where endpoints are ejected."""
    if setting is None:
        return
    if setting.distribute and (setting.failover or setting.failover_priority):
        yield Violation(path, "only one of distribute and failover is possible")
    yield from _check_distribute(f"{path}.distribute", setting.distribute)
    yield from _check_failover(f"{path}.failover", setting.failover)
    if setting.failover and REGION in setting.failover_priority:
        yield Violation(f"{path}.failoverPriority", f"failover already decides about {REGION}")
    if (setting.failover or setting.failover_priority) and outlier is None:
        yield Caution(path, _NO_EJECTION)


def check_zone_aware(path: str, setting: ZoneAwareLbSetting | None, outlier: OutlierDetection | None) -> Complaints:
    """Regions in failover; in failoverPriority no labels of localities, which Envoy decides about itself."""
    if setting is None:
        return
    yield from _check_failover(f"{path}.failover", setting.failover)
    for index, label in enumerate(setting.failover_priority):
        if label.partition("=")[0] in (REGION, ZONE, SUBZONE):
            yield Violation(f"{path}.failoverPriority[{index}]", f"{label} is decided about by Envoy itself")
    if (setting.failover or setting.failover_priority) and outlier is None:
        yield Caution(path, _NO_EJECTION)


def _check_failover(path: str, failovers: Sequence[LocalityFailover]) -> Complaints:
    for index, failover in enumerate(failovers):
        here = f"{path}[{index}]"
        if failover.from_ == failover.to:
            yield Violation(here, "a region cannot take over for itself")
        for region in (failover.from_, failover.to):
            if "*" in region or "/" in region:
                yield Violation(here, f'"{region}" is not a region', "failover is between regions")


def _check_distribute(path: str, distributes: Sequence[LocalityDistribute]) -> Complaints:
    for index, distribute in enumerate(distributes):
        here = f"{path}[{index}]"
        for weight in distribute.to.values():
            if not 1 <= weight <= 100:
                yield Violation(f"{here}.to", f"the weight {weight} is not between 1 and 100")
        if sum(distribute.to.values()) != 100:
            yield Violation(f"{here}.to", "the weights do not add up to 100")
        yield from check_localities(f"{here}.to", tuple(distribute.to))
    yield from check_localities(path, tuple(distribute.from_ for distribute in distributes))


def check_localities(path: str, localities: Sequence[str]) -> Complaints:
    """`region/zone/subzone` patterns: a wildcard only at the end, and none that covers another."""
    for index, locality in enumerate(localities):
        if "*" in locality[:-1]:
            yield Violation(path, f'"{locality}" has a wildcard that is not at the end')
        for other in localities[:index]:
            if _overlap(locality, other):
                yield Violation(path, f'"{locality}" and "{other}" have localities in common')


def _overlap(one: str, other: str) -> bool:
    parts, others = one.split("/"), other.split("/")
    for part, counterpart in zip(parts, others, strict=False):
        if "*" in (part, counterpart):
            return True
        if part != counterpart:
            return False
    return True
