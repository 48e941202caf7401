"""Pods, nodes, namespaces and workload entries of a snapshot: who runs where with which labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trierarch.config.kubernetes import Pod
    from trierarch.config.objects import ConfigObject, ObjectKey
    from trierarch.config.workload_entry import WorkloadEntry
    from trierarch.push.model import Locality


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Workloads:
    """The section of the snapshot. `pods_by_ip`: (cluster, ip) -> pod, finished pods left out. `entries_by_ip`:
    address -> workload entry. `node_localities`: (cluster, node) -> locality.
    """

    pods: Mapping[ObjectKey, ConfigObject[Pod]]
    pods_by_ip: Mapping[tuple[str, str], ConfigObject[Pod]]
    entries_by_ip: Mapping[str, ConfigObject[WorkloadEntry]]
    node_localities: Mapping[tuple[str, str], Locality]
