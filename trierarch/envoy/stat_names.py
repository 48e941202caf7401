"""Under which names clusters count (networking.md §2.3): the cluster's own, or one made by a pattern of the mesh's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trierarch.push.model import Registry

if TYPE_CHECKING:
    from trierarch.push.model import Service

END = ";"
"""Ends each name, so that tags can be cut out of `cluster.NAME;.upstream_rq`."""


def plain_stat_name(cluster: str) -> str:
    """The name of a cluster without a pattern."""
    return cluster + END


def pattern_stat_name(pattern: str, service: Service, port: int, port_name: str, subset: str, target_port: int) -> str:
    """A pattern with its placeholders replaced. `target_port` is 0 for outbound clusters."""
    in_cluster = service.registry is Registry.KUBERNETES
    values = {
        "%SERVICE%": f"{service.name}.{service.namespace}" if in_cluster else service.hostname,
        "%SERVICE_NAME%": service.name if in_cluster else service.hostname,
        "%SERVICE_FQDN%": service.hostname,
        "%SERVICE_PORT%": str(port),
        "%SERVICE_PORT_NAME%": port_name,
        "%SUBSET_NAME%": subset,
        "%TARGET_PORT%": str(target_port),
    }
    for placeholder, value in values.items():
        pattern = pattern.replace(placeholder, value)
    return pattern + END
