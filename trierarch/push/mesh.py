"""Mesh-wide settings of a snapshot: MeshConfig, networks, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from trierarch.config import labels
from trierarch.config.mesh_config import MeshConfig
from trierarch.config.mesh_networks import MeshNetworks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trierarch.config.objects import AnyObject, ConfigObject, ObjectKey
    from trierarch.push.steps import Steps


class KeyFetching(Enum):
    """Who fetches the keys of token issuers: the control plane, or Envoy if a service of the mesh has them, or Envoy
    always (networking.md §6.2).
    """

    OURS = "istiod"
    SHARED = "hybrid"
    ENVOYS = "envoy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Switches of the control plane that change what is generated (networking.md §0.3). A label "" is none."""

    send_unhealthy: bool = False
    auto_send_unhealthy: bool = True
    eds_for_headless: bool = False
    multicluster_headless: bool = True
    dual_stack: bool = False
    metadata_exchange: bool = True
    telemetry_labels: bool = True
    tls_on_sidecar_ingress: bool = False
    sidecar_use_remote_address: bool = False
    persistent_session: bool = False
    session_cookie_label: str = labels.PERSISTENT_SESSION
    session_header_label: str = labels.PERSISTENT_SESSION_HEADER
    draining_label: str = labels.DRAINING
    weigh_localities: bool = False
    mongo_filter: bool = True
    redis_filter: bool = False
    mysql_filter: bool = False
    inbound_listener_merge: bool = False
    http10: bool = False
    skip_trust_domain_check: bool = False
    several_authorizers: bool = False
    jwks_fetching: KeyFetching = KeyFetching.OURS


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSettings:
    """What the process was started with. `cluster`: the config cluster's id; `domain`: the DNS suffix of services."""

    cluster: str = "Kubernetes"
    domain: str = "cluster.local"
    features: Features = Features()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mesh:
    """The section of the snapshot. `cluster`: the id of the config cluster; `domain`: the DNS suffix of services."""

    config: MeshConfig = field(default_factory=MeshConfig)
    networks: MeshNetworks = field(default_factory=MeshNetworks)
    features: Features = Features()
    cluster: str = "Kubernetes"
    domain: str = "cluster.local"

    @property
    def root_namespace(self) -> str:
        """Where mesh-wide defaults live."""
        return self.config.root_namespace


class MeshInputs(NamedTuple):
    """All that the section may read. A mesh has one object of each kind; of several the first by key counts."""

    settings: ContextSettings
    configs: Mapping[ObjectKey, AnyObject]
    networks: Mapping[ObjectKey, AnyObject]


def build_mesh(inputs: MeshInputs, _previous: Mesh | None) -> Steps[Mesh]:
    """The settings in force: those configured, or Istio's defaults (networking.md §0.3)."""
    yield
    config: ConfigObject[MeshConfig] | None = _first(inputs.configs)
    networks: ConfigObject[MeshNetworks] | None = _first(inputs.networks)
    return Mesh(
        config=config.spec if config else MeshConfig(),
        networks=networks.spec if networks else MeshNetworks(),
        features=inputs.settings.features,
        cluster=inputs.settings.cluster,
        domain=inputs.settings.domain,
    )


def _first(table: Mapping[ObjectKey, AnyObject]) -> AnyObject | None:
    return table[min(table)] if table else None
