"""PeerAuthentication: which connections a workload accepts, with the mesh's mTLS or without (networking.md §6.1)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from trierarch.config.common import PolicySelector


class MutualTlsMode(StrEnum):
    """What is accepted. UNSET leaves it to the policy of the namespace or of the mesh."""

    UNSET = "UNSET"
    DISABLE = "DISABLE"
    PERMISSIVE = "PERMISSIVE"
    STRICT = "STRICT"


@dataclass(frozen=True, slots=True, kw_only=True)
class MutualTls:
    """The mode of a workload or of a port."""

    mode: MutualTlsMode = MutualTlsMode.UNSET


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PeerAuthentication:
    """A policy for the workloads selected; without a selector for the namespace, in the root namespace for the mesh.

    `port_level_mtls`: modes by the number of the workload's port, written as a string; `ports` has them as numbers.
    """

    selector: PolicySelector | None = None
    mtls: MutualTls = field(default_factory=MutualTls)
    port_level_mtls: Mapping[str, MutualTls] | None = None

    @property
    def selects(self) -> bool:
        """Whether it is for some workloads only. A selector without labels selects all, as if there were none."""
        return self.selector is not None and bool(self.selector.match_labels)

    @property
    def ports(self) -> Mapping[int, MutualTlsMode]:
        """Modes by port."""
        return {int(port): mtls.mode for port, mtls in (self.port_level_mtls or {}).items()}
