"""ServiceEntry: a service that no registry knows (networking.md §1.6, §9.6)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from trierarch.config.common import WorkloadSelector
from trierarch.config.wire import At, UInt32
from trierarch.config.workload_entry import Workload


class Location(StrEnum):
    """Whether the service is part of the mesh."""

    MESH_EXTERNAL = "MESH_EXTERNAL"
    MESH_INTERNAL = "MESH_INTERNAL"


class ResolutionMode(StrEnum):
    """How the endpoints' addresses are found. NONE means that the caller has already resolved them."""

    NONE = "NONE"
    STATIC = "STATIC"
    DNS = "DNS"
    DNS_ROUND_ROBIN = "DNS_ROUND_ROBIN"
    DYNAMIC_DNS = "DYNAMIC_DNS"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceEntryPort:
    """A port of the service. `protocol` is as written, "" if absent; a `target_port` of 0 is unset."""

    number: UInt32 = 0
    protocol: str = ""
    name: str = ""
    target_port: UInt32 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatedAddress:
    """An address that was allocated to a host of the entry (`status.addresses`)."""

    value: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServiceEntry:
    """Hosts that share addresses, ports and endpoints. `endpoints` and `workload_selector` exclude each other."""

    hosts: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    ports: tuple[ServiceEntryPort, ...] = ()
    location: Location = Location.MESH_EXTERNAL
    resolution: ResolutionMode = ResolutionMode.NONE
    endpoints: tuple[Workload, ...] = ()
    workload_selector: WorkloadSelector | None = None
    export_to: tuple[str, ...] = ()
    subject_alt_names: tuple[str, ...] = ()
    allocated_addresses: Annotated[tuple[AllocatedAddress, ...], At("status", "addresses")] = ()
