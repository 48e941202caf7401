"""Whose tokens workloads understand: the RequestAuthentications of a snapshot, and the keys for each of their rules.

Theory. All policies that are attached to a workload count together (networking.md §6.2). Keys are in the rule, or were
fetched by a source of intake and are objects like any other, or Envoy fetches them itself. Nothing is fetched here: the
section says what is `wanted`, and `pending` is what nobody knows anything about yet. A rule whose keys cannot be had
gets a key set that verifies nothing: its issuer's tokens are refused, and no others.

What applies to a workload is a small value and part of its view, so a policy, or a new key, concerns only proxies that
it moves to another view.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from trierarch.config.findings import Remark
from trierarch.config.json_web_keys import as_written
from trierarch.config.key_sets import (
    NOBODYS_KEYS,
    JsonWebKeySet,
    KeyLocation,
    KeySet,
    NoKeys,
    key_of,
    location_of,
    read_server,
)
from trierarch.push.attachment import Attachments, attach
from trierarch.push.mesh import KeyFetching
from trierarch.push.reuse import kept

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from trierarch.config.objects import ConfigObject, ObjectKey
    from trierarch.config.request_authentication import JwtRule, RequestAuthentication
    from trierarch.push.attachment import Label
    from trierarch.push.mesh import Mesh
    from trierarch.push.services import Services
    from trierarch.push.steps import Steps

_REMEMBERED = 1024

PATIENCE = 5.0
"""Seconds that fetching keys may take where a rule does not say."""


class InlineKeys(NamedTuple):
    """Keys that the proxy is given."""

    text: str


class RemoteKeys(NamedTuple):
    """Keys that the proxy fetches from a service; `service` may be one that nobody knows. `timeout`: seconds."""

    uri: str
    service: str
    port: int
    timeout: float


Keys: TypeAlias = InlineKeys | RemoteKeys


class TokenRule(NamedTuple):
    """A rule, with the keys of its issuer."""

    rule: JwtRule
    keys: Keys


TokenRules: TypeAlias = tuple[TokenRule, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RequestAuthentications:
    """The section of the snapshot. `rules`: of each policy.

    `wanted`: where keys are to be fetched, and how many seconds that may take.
    """

    policies: Attachments[RequestAuthentication] = field(default_factory=lambda: Attachments())
    rules: Mapping[ObjectKey, TokenRules] = field(default_factory=dict)
    wanted: Mapping[KeyLocation, float] = field(default_factory=dict)
    pending: frozenset[KeyLocation] = frozenset()
    remarks: tuple[Remark, ...] = ()

    def of(self, namespace: str, labels: AbstractSet[Label]) -> TokenRules:
        """All rules for a workload of this namespace with these labels, by issuer."""
        attached = self.policies.of(namespace, labels)
        rules = [rule for policy in attached for rule in self.rules[policy.key]]
        return tuple(sorted(rules, key=lambda each: each.rule.issuer))


class RequestAuthenticationsInputs(NamedTuple):
    """All that the section may read. `services` is None where Envoy fetches from none of them."""

    mesh: Mesh
    services: Services | None
    table: Mapping[ObjectKey, ConfigObject[RequestAuthentication]]
    key_sets: Mapping[ObjectKey, ConfigObject[JsonWebKeySet]]


def build_request_authentications(
    inputs: RequestAuthenticationsInputs, previous: RequestAuthentications
) -> Steps[RequestAuthentications]:
    """Attach the policies, and find the keys for each of their rules. The old section if it says the same."""
    policies = attach(inputs.table, inputs.mesh.root_namespace, previous.policies)
    finder = _KeyFinder(inputs)
    rules: dict[ObjectKey, TokenRules] = {}
    for key, policy in inputs.table.items():
        found = tuple(finder.resolve(policy))
        old = previous.rules.get(key)
        rules[key] = old if old is not None and old == found else found
        yield
    section = RequestAuthentications(
        policies=policies,
        rules=kept(previous.rules, rules),
        wanted=finder.wanted,
        pending=frozenset(location for location in finder.wanted if key_of(location) not in inputs.key_sets),
        remarks=tuple(finder.remarks),
    )
    return previous if _contents(section) == _contents(previous) else section


def _contents(section: RequestAuthentications) -> tuple[object, ...]:
    return (id(section.policies), id(section.rules), section.wanted, section.pending, section.remarks)


@lru_cache(maxsize=_REMEMBERED)
def _written(jwks: str) -> KeySet | NoKeys:
    """The keys that a policy holds, if any of them can be used."""
    try:
        return KeySet(as_written(jwks))
    except ValueError as error:
        return NoKeys(str(error))


class _KeyFinder:
    """Finds the keys of rules, and notes what is wanted for that and what is missing."""

    def __init__(self, inputs: RequestAuthenticationsInputs) -> None:
        self._inputs = inputs
        self.wanted: dict[KeyLocation, float] = {}
        self.remarks: list[Remark] = []

    def resolve(self, policy: ConfigObject[RequestAuthentication]) -> Iterator[TokenRule]:
        """The rules of a policy, each with its keys."""
        for index, rule in enumerate(policy.spec.jwt_rules):
            match self._find(rule):
                case NoKeys(reason):
                    self._remark(policy, index, reason)
                    yield TokenRule(rule, InlineKeys(NOBODYS_KEYS))
                case KeySet(text):
                    yield TokenRule(rule, InlineKeys(text))
                case RemoteKeys() as remote:
                    yield TokenRule(rule, remote)

    def _find(self, rule: JwtRule) -> KeySet | NoKeys | RemoteKeys:
        if rule.jwks:
            return _written(rule.jwks)
        return self._remote(rule) or self._fetched(rule)

    def _remote(self, rule: JwtRule) -> RemoteKeys | None:
        """Where Envoy is to fetch the keys, if it is."""
        mode = self._inputs.mesh.features.jwks_fetching
        if mode is KeyFetching.OURS or not rule.jwks_uri:
            return None
        server = read_server(rule.jwks_uri)
        service = self._service(server.host)
        if service is None and mode is KeyFetching.SHARED:
            return None
        return RemoteKeys(rule.jwks_uri, service or server.host, server.port, rule.timeout or PATIENCE)

    def _service(self, host: str) -> str | None:
        """The one service of this name; of two namespaces' services it would not be clear which is meant."""
        services = self._inputs.services
        found = services.by_host.get(host, {}) if services is not None else {}
        return next(iter(found.values())).hostname if len(found) == 1 else None

    def _fetched(self, rule: JwtRule) -> JsonWebKeySet:
        location = location_of(rule.issuer, rule.jwks_uri)
        try:
            read_server(location.url)
        except ValueError as error:
            return NoKeys(str(error))
        self.wanted[location] = max(self.wanted.get(location, 0.0), rule.timeout or PATIENCE)
        known = self._inputs.key_sets.get(key_of(location))
        return NoKeys("its keys have not been fetched yet") if known is None else known.spec

    def _remark(self, policy: ConfigObject[RequestAuthentication], index: int, reason: str) -> None:
        rule = policy.spec.jwt_rules[index]
        self.remarks.append(
            Remark(
                origin=policy.origin,
                key=policy.key,
                path=f"spec.jwtRules[{index}].{_origin_of_keys(rule)}",
                reason=f"tokens of this issuer are refused: {reason}",
            )
        )


def _origin_of_keys(rule: JwtRule) -> str:
    if rule.jwks:
        return "jwks"
    return "jwksUri" if rule.jwks_uri else "issuer"
