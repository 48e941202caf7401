"""Which policies apply to a workload: those attached to its mesh, its namespace or its labels (networking.md §6.0).

A policy without selector is for its namespace, in the root namespace for the mesh; one with a selector is for those of
the same workloads that have its labels. What refers to targets is for gateways and waypoints: sidecars pass it over.
What the policies say is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from trierarch.push.reuse import Groups, regroup

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from trierarch.config.common import PolicySelector, PolicyTargetReference
    from trierarch.config.objects import ConfigObject, ObjectKey

Label = tuple[str, str]


class Attaching(Protocol):
    """A policy that says what it is for: workloads by their labels, or targets by their names."""

    @property
    def selector(self) -> PolicySelector | None:
        """Labels of the workloads; None selects all."""
        ...

    @property
    def target_refs(self) -> tuple[PolicyTargetReference, ...]:
        """The targets."""
        ...

    @property
    def target_ref(self) -> PolicyTargetReference | None:
        """The one target, in an older spelling."""
        ...


PolicyT = TypeVar("PolicyT", bound=Attaching)


@dataclass(frozen=True, slots=True, eq=False)
class Attachments(Generic[PolicyT]):
    """The policies of one kind by namespace, each namespace's the oldest first. `root`: the root namespace."""

    root: str = ""
    groups: Groups[str, ConfigObject[PolicyT]] = field(default_factory=lambda: Groups())
    by_age: Mapping[str, tuple[ConfigObject[PolicyT], ...]] = field(default_factory=dict)

    @property
    def table(self) -> Mapping[ObjectKey, ConfigObject[PolicyT]]:
        """All of them, by key."""
        return self.groups.table

    def of(self, namespace: str, labels: AbstractSet[Label]) -> tuple[ConfigObject[PolicyT], ...]:
        """Those of a workload of this namespace with these labels: the root namespace's first, then its own."""
        candidates = self.by_age.get(self.root, ())
        if namespace != self.root:
            candidates += self.by_age.get(namespace, ())
        return tuple(policy for policy in candidates if selects(policy.spec, labels))


def attach(
    table: Mapping[ObjectKey, ConfigObject[PolicyT]], root: str, previous: Attachments[PolicyT]
) -> Attachments[PolicyT]:
    """Group the policies of a table; the old value if neither they nor the root namespace changed."""
    groups = regroup(table, lambda policy: (policy.key.namespace,), previous.groups)
    if groups is previous.groups and root == previous.root:
        return previous
    by_age = {
        namespace: previous.by_age[namespace]
        if members is previous.groups.of(namespace)
        else tuple(sorted(members, key=lambda policy: policy.age))
        for namespace, members in groups.grouped.items()
    }
    return Attachments(root, groups, by_age)


def may_meet(one: Attaching, other: Attaching) -> bool:
    """Whether some labels are selected by both policies."""
    labels, others = _wanted(one), _wanted(other)
    return (
        labels is not None and others is not None and all(others.get(key, labels[key]) == labels[key] for key in labels)
    )


def _wanted(policy: Attaching) -> Mapping[str, str] | None:
    """The labels that a policy wants; None: it is for no workloads."""
    if policy.target_refs or policy.target_ref is not None:
        return None
    return {} if policy.selector is None else policy.selector.match_labels


def selects(policy: Attaching, labels: AbstractSet[Label]) -> bool:
    """Whether a policy is for workloads with these labels, as far as they are in its namespace."""
    wanted = _wanted(policy)
    return wanted is not None and wanted.items() <= labels
