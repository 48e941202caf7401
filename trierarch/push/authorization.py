"""Who may do what at workloads: the AuthorizationPolicies of a snapshot, and whom CUSTOM ones ask (networking.md §6.3).

Theory. The policies that are attached to a workload act in a fixed order: those that ask a provider, those that audit,
those that deny, those that allow; of one action the root namespace's come first, then the older ones. What applies to
a workload is a small value and part of its view, so a policy concerns only proxies that it moves to another view.

A provider that cannot be asked (nobody defined it, its service is not known, its settings are wrong, or a workload has
a second one without the switch for that) makes its policies deny what they match.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from trierarch.config.authorization_policy import Action, AuthorizationPolicy
from trierarch.config.extension_providers import GrpcAuthorizer, HttpAuthorizer
from trierarch.config.findings import Remark
from trierarch.config.objects import ConfigObject
from trierarch.config.validate_authorizers import check_authorizer
from trierarch.push.attachment import Attachments, attach, may_meet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from trierarch.config.objects import ObjectKey
    from trierarch.push.attachment import Label
    from trierarch.push.mesh import Mesh
    from trierarch.push.model import Hostname
    from trierarch.push.services import Services
    from trierarch.push.steps import Steps

Policies = tuple[ConfigObject[AuthorizationPolicy], ...]


class Authorizer(NamedTuple):
    """A provider that can be asked: its settings and the service where it is."""

    settings: HttpAuthorizer | GrpcAuthorizer
    service: Hostname


class BadAuthorizer(NamedTuple):
    """A provider that cannot be asked, and why."""

    reason: str


class CustomPolicies(NamedTuple):
    """The policies of a workload that ask one provider."""

    provider: str
    authorizer: Authorizer | BadAuthorizer
    policies: Policies


class WorkloadPolicies(NamedTuple):
    """What applies to a workload, by action; `custom` by the name of the provider."""

    custom: tuple[CustomPolicies, ...] = ()
    audit: Policies = ()
    deny: Policies = ()
    allow: Policies = ()


UNRESTRICTED = WorkloadPolicies()
"""Anybody may do anything: what applies where there are no policies."""

NOBODY = BadAuthorizer("no extension provider has this name")
SECOND = BadAuthorizer(
    "the workload has another provider too, which needs PILOT_ENABLE_MULTIPLE_CUSTOM_AUTHZ_PROVIDERS"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Authorization:
    """The section of the snapshot. `several`: a workload may ask more than one provider."""

    policies: Attachments[AuthorizationPolicy] = field(default_factory=lambda: Attachments())
    authorizers: Mapping[str, Authorizer | BadAuthorizer] = field(default_factory=dict)
    several: bool = False
    remarks: tuple[Remark, ...] = ()

    def of(self, namespace: str, labels: AbstractSet[Label]) -> WorkloadPolicies:
        """What applies to a workload of this namespace with these labels."""
        attached = self.policies.of(namespace, labels)
        if not attached:
            return UNRESTRICTED
        return WorkloadPolicies(
            custom=tuple(self._custom(_of_action(attached, Action.CUSTOM))),
            audit=_of_action(attached, Action.AUDIT),
            deny=_of_action(attached, Action.DENY),
            allow=_of_action(attached, Action.ALLOW),
        )

    def _custom(self, policies: Policies) -> Iterator[CustomPolicies]:
        names = sorted({provider_name(policy) for policy in policies})
        for name in names:
            authorizer = self.authorizers.get(name, NOBODY) if len(names) == 1 or self.several else SECOND
            asking = tuple(policy for policy in policies if provider_name(policy) == name)
            yield CustomPolicies(name, authorizer, asking)


class AuthorizationInputs(NamedTuple):
    """All that the section may read."""

    mesh: Mesh
    services: Services
    table: Mapping[ObjectKey, ConfigObject[AuthorizationPolicy]]


def build_authorization(inputs: AuthorizationInputs, previous: Authorization) -> Steps[Authorization]:
    """Attach the policies, and find the authorizers. The old section if both are as before."""
    policies = attach(inputs.table, inputs.mesh.root_namespace, previous.policies)
    yield
    authorizers = dict(_find_authorizers(inputs.mesh, inputs.services))
    several = inputs.mesh.features.several_authorizers
    if (policies, authorizers, several) == (previous.policies, previous.authorizers, previous.several):
        return previous
    asking = sorted((policy for policy in policies.table.values() if _asks(policy)), key=lambda policy: policy.key)
    remarks = [*_unasked(asking, authorizers)]
    if not several:
        remarks += _rivals(asking, policies.root)
    return Authorization(policies=policies, authorizers=authorizers, several=several, remarks=tuple(remarks))


def provider_name(policy: ConfigObject[AuthorizationPolicy]) -> str:
    """The provider that a CUSTOM policy asks."""
    return policy.spec.provider.name if policy.spec.provider is not None else ""


def _asks(policy: ConfigObject[AuthorizationPolicy]) -> bool:
    return policy.spec.action is Action.CUSTOM


def _of_action(policies: Policies, action: Action) -> Policies:
    return tuple(policy for policy in policies if policy.spec.action is action)


# --- authorizers -----------------------------------------------------------------------------------------------------
def _find_authorizers(mesh: Mesh, services: Services) -> Iterator[tuple[str, Authorizer | BadAuthorizer]]:
    """The mesh's authorizers by name, each as far as it can be asked."""
    for each in mesh.config.extension_providers:
        if isinstance(each.provider, HttpAuthorizer | GrpcAuthorizer):
            yield each.name, _find_authorizer(each.name, each.provider, services)


def _find_authorizer(
    name: str, settings: HttpAuthorizer | GrpcAuthorizer, services: Services
) -> Authorizer | BadAuthorizer:
    fault = next(check_authorizer("", name, settings), None)
    if fault is not None:
        return BadAuthorizer(fault.reason)
    namespace, _, host = settings.service.rpartition("/")
    found = [each.id for each in services.by_host.get(host, {}).values() if namespace in ("", each.namespace)]
    if len(found) == 1:
        return Authorizer(settings, found[0])
    several = f"several services have the name {host}: NAMESPACE/{host} says which"
    return BadAuthorizer(several if found else f"no service has the name {settings.service}")


# --- what users are told ---------------------------------------------------------------------------------------------
def _unasked(
    asking: Iterable[ConfigObject[AuthorizationPolicy]], authorizers: Mapping[str, Authorizer | BadAuthorizer]
) -> Iterator[Remark]:
    """CUSTOM policies whose provider cannot be asked."""
    for policy in asking:
        found = authorizers.get(provider_name(policy), NOBODY)
        if isinstance(found, BadAuthorizer):
            yield _remark(policy, f"denies what it matches: {found.reason}")


def _rivals(asking: Sequence[ConfigObject[AuthorizationPolicy]], root: str) -> Iterator[Remark]:
    """CUSTOM policies that may meet at a workload with one that asks somebody else, where only one may be asked."""
    for policy in asking:
        rival = next((each for each in asking if _is_rival(policy, each, root)), None)
        if rival is not None:
            name = f"{rival.key.namespace}/{rival.key.name}"
            yield _remark(policy, f"denies what it matches at workloads of {name} too: {SECOND.reason}")


def _is_rival(one: ConfigObject[AuthorizationPolicy], other: ConfigObject[AuthorizationPolicy], root: str) -> bool:
    """Whether two policies ask different providers, and some workload could have both."""
    if provider_name(one) == provider_name(other):
        return False
    meets = one.key.namespace == other.key.namespace or root in (one.key.namespace, other.key.namespace)
    return meets and may_meet(one.spec, other.spec)


def _remark(policy: ConfigObject[AuthorizationPolicy], reason: str) -> Remark:
    return Remark(origin=policy.origin, key=policy.key, path="spec.provider.name", reason=reason)
