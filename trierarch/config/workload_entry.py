"""WorkloadEntry: one workload that is not a Pod, such as a virtual machine (networking.md §1.6, §9.7)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from trierarch.config.wire import At, UInt32


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Condition:
    """A condition from an object's status; `status` is "True", "False" or "Unknown"."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Workload:
    """What a WorkloadEntry and an inline endpoint of a ServiceEntry have in common.

    `address` is an IP, a DNS name or `unix://path`; `ports` maps the names of service ports to numbers; `locality` is
    `region/zone/subzone`; a `weight` of 0 is unset.
    """

    address: str = ""
    ports: Mapping[str, UInt32] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    network: str = ""
    locality: str = ""
    weight: UInt32 = 0
    service_account: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WorkloadEntry(Workload):
    """A workload as an object of its own, with the conditions that health checks left in its status."""

    conditions: Annotated[tuple[Condition, ...], At("status", "conditions")] = ()
