"""Which connections workloads accept: the PeerAuthentications of a snapshot, composed (networking.md §6.1).

Theory. A policy stands in one of three slots: of the mesh (root namespace, no selector), of a namespace (no selector),
of workloads (selector). In each slot the oldest counts, and of two slots the narrower; UNSET leaves it to the wider.
Ports have modes of their own only in the workloads' slot. Servers go by all of it; clients by the mode of the namespace
for a service as a whole, and by all of it for each endpoint.

Results are small values: two meshes that mean the same by different objects are the same to whoever asks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from trierarch.config.findings import Remark
from trierarch.config.peer_authentication import MutualTlsMode
from trierarch.push.reuse import Groups, regroup

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from trierarch.config.objects import ConfigObject, ObjectKey
    from trierarch.config.peer_authentication import PeerAuthentication
    from trierarch.push.mesh import Mesh
    from trierarch.push.steps import Steps

Label = tuple[str, str]
Policies = tuple["ConfigObject[PeerAuthentication]", ...]


class PeerModes(NamedTuple):
    """What a workload accepts: by default, and at ports (sorted) that have a mode of their own. Never UNSET."""

    default: MutualTlsMode = MutualTlsMode.PERMISSIVE
    ports: tuple[tuple[int, MutualTlsMode], ...] = ()

    def at(self, port: int) -> MutualTlsMode:
        """The mode of a port of the workload."""
        return next((mode for number, mode in self.ports if number == port), self.default)

    def settled(self, mutual: bool) -> PeerModes:
        """The modes for a server that cannot tell both kinds of connection apart: where both are accepted it takes
        those that its clients are told to make (networking.md §4.11).
        """
        chosen = MutualTlsMode.STRICT if mutual else MutualTlsMode.DISABLE

        def settle(mode: MutualTlsMode) -> MutualTlsMode:
            return chosen if mode is MutualTlsMode.PERMISSIVE else mode

        return PeerModes(settle(self.default), tuple((port, settle(mode)) for port, mode in self.ports))

    @property
    def all(self) -> frozenset[MutualTlsMode]:
        """Every mode that some port has."""
        return frozenset((self.default, *(mode for _, mode in self.ports)))


BOTH_KINDS = PeerModes()
"""Connections with mutual TLS and without: what is accepted where nobody says anything."""


class WorkloadModes(NamedTuple):
    """The modes of the workloads that have these labels."""

    selector: frozenset[Label]
    modes: PeerModes


class NamespacePolicies(NamedTuple):
    """What the workloads of a namespace accept: `modes`, unless one of `workloads` (the oldest first) selects them.

    `may_disable`: mutual TLS is switched off for some of them.
    """

    modes: PeerModes = BOTH_KINDS
    workloads: tuple[WorkloadModes, ...] = ()
    may_disable: bool = False

    def of(self, labels: AbstractSet[Label]) -> PeerModes:
        """The modes of a workload with these labels."""
        return next((each.modes for each in self.workloads if each.selector <= labels), self.modes)


NO_POLICIES = NamespacePolicies()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Authentication:
    """The section of the snapshot. `elsewhere`: namespaces without policies of their own."""

    by_namespace: Mapping[str, NamespacePolicies] = field(default_factory=dict)
    elsewhere: NamespacePolicies = NO_POLICIES
    sources: Mapping[ObjectKey, ConfigObject[PeerAuthentication]] = field(default_factory=dict)
    remarks: tuple[Remark, ...] = ()
    memo: Groups[str, ConfigObject[PeerAuthentication]] = field(default_factory=lambda: Groups())

    def of(self, namespace: str) -> NamespacePolicies:
        """The policies of the workloads of a namespace."""
        return self.by_namespace.get(namespace, self.elsewhere)

    def for_clients(self, namespace: str) -> NamespacePolicies:
        """The same if they switch mutual TLS off for anybody, else NO_POLICIES: clients need not know more."""
        policies = self.of(namespace)
        return policies if policies.may_disable else NO_POLICIES


class AuthenticationInputs(NamedTuple):
    """All that the section may read."""

    mesh: Mesh
    table: Mapping[ObjectKey, ConfigObject[PeerAuthentication]]


def build_authentication(inputs: AuthenticationInputs, previous: Authentication) -> Steps[Authentication]:
    """Compose the policies, namespace by namespace."""
    groups = regroup(inputs.table, lambda policy: (policy.key.namespace,), previous.memo)
    yield
    ordered = {namespace: tuple(sorted(each, key=_age)) for namespace, each in groups.grouped.items()}
    root = inputs.mesh.root_namespace
    elsewhere = compose(tuple(_unselective(ordered.get(root, ()))), MutualTlsMode.PERMISSIVE)
    composed = {root: elsewhere}
    for namespace, policies in ordered.items():
        if namespace != root:
            composed[namespace] = compose(policies, elsewhere.modes.default)
    yield
    return Authentication(
        by_namespace=composed,
        elsewhere=elsewhere,
        sources=inputs.table,
        remarks=tuple(remark for policies in ordered.values() for remark in _without_effect(policies, root)),
        memo=groups,
    )


def _age(policy: ConfigObject[PeerAuthentication]) -> tuple[float, str, str]:
    return policy.age


def compose(policies: Policies, inherited: MutualTlsMode) -> NamespacePolicies:
    """The policies of one namespace, the oldest first, over the mode of the mesh."""
    default = _mode(_unselective(policies), inherited)
    workloads = tuple(
        WorkloadModes(frozenset(policy.spec.selector.match_labels.items()), _workload_modes(policy.spec, default))
        for policy in policies
        if policy.spec.selector is not None and policy.spec.selects
    )
    modes = (PeerModes(default), *(each.modes for each in workloads))
    return NamespacePolicies(modes[0], workloads, any(MutualTlsMode.DISABLE in each.all for each in modes))


def _unselective(policies: Policies) -> Sequence[ConfigObject[PeerAuthentication]]:
    return [policy for policy in policies if not policy.spec.selects]


def _mode(policies: Sequence[ConfigObject[PeerAuthentication]], inherited: MutualTlsMode) -> MutualTlsMode:
    """The mode of a slot: the first of its policies counts."""
    return _over(policies[0].spec.mtls.mode, inherited) if policies else inherited


def _workload_modes(spec: PeerAuthentication, inherited: MutualTlsMode) -> PeerModes:
    default = _over(spec.mtls.mode, inherited)
    return PeerModes(default, tuple((port, _over(mode, default)) for port, mode in sorted(spec.ports.items())))


def _over(mode: MutualTlsMode, inherited: MutualTlsMode) -> MutualTlsMode:
    return inherited if mode is MutualTlsMode.UNSET else mode


def _without_effect(policies: Policies, root: str) -> Iterator[Remark]:
    """Policies that are never used, whatever the workloads are."""
    first, *younger = _unselective(policies) or (None,)
    for policy in policies:
        if policy in younger and first is not None:
            yield _remark(policy, "", f"has no effect: {first.key.name} is older, and has no selector either")
        if policy.key.namespace == root and policy.spec.selects:
            yield _remark(policy, "spec.selector", "has no effect: in the root namespace policies are for the mesh")


def _remark(policy: ConfigObject[PeerAuthentication], path: str, reason: str) -> Remark:
    return Remark(origin=policy.origin, key=policy.key, path=path, reason=reason)
