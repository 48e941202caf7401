"""Mesh-wide settings of a snapshot: MeshConfig, networks, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trierarch.config.mesh_config import MeshConfig
    from trierarch.config.mesh_networks import MeshNetworks


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Switches of the control plane that change what is generated; istiod's environment variables (networking.md §0.3)."""

    send_unhealthy: bool = False
    auto_send_unhealthy: bool = True
    eds_for_headless: bool = False
    dual_stack: bool = False
    metadata_exchange: bool = True
    telemetry_labels: bool = True
    tls_on_sidecar_ingress: bool = False
    sidecar_use_remote_address: bool = False
    persistent_session: bool = False
    inbound_listener_merge: bool = False
    enhanced_rule_merge: bool = True
    http10: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mesh:
    """The section of the snapshot. `cluster`: the id of the config cluster; `domain`: the DNS suffix of services."""

    config: MeshConfig
    networks: MeshNetworks
    features: Features
    cluster: str
    domain: str

    @property
    def root_namespace(self) -> str:
        """Where mesh-wide defaults live."""
        return self.config.root_namespace
