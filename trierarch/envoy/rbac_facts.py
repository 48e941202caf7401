"""What a rule of an authorization policy asks, as facts about attributes: fields and conditions alike (networking.md
§6.3).

A source, an operation and a condition are ways to write the same: one of these values, none of those, of an attribute.
Here they become one form, with identities in all trust domains of the mesh. No message is built here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trierarch.config.authorization_policy import FILTER_METADATA, attribute_of
from trierarch.envoy.trust_domains import TrustDomains, expand_domains, expand_principals

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trierarch.config.authorization_policy import Condition, Operation, Rule, Source

PRINCIPAL = "source.principal"
NAMESPACE = "source.namespace"
SERVICE_ACCOUNT = "source.serviceAccount"
TRUST_DOMAIN = "source.trustDomain"
PEER_ADDRESS = "source.ip"
CLIENT_ADDRESS = "remote.ip"
TOKEN_PRINCIPAL = "request.auth.principal"
AUDIENCES = "request.auth.audiences"
PRESENTER = "request.auth.presenter"
DESTINATION_ADDRESS = "destination.ip"
PORT = "destination.port"
SERVER_NAME = "connection.sni"
HOST, METHOD, PATH = "operation.host", "operation.method", "operation.path"
"""The last three have no keys of conditions; the names are ours."""

OF_OPERATION = frozenset({DESTINATION_ADDRESS, PORT, SERVER_NAME, FILTER_METADATA})
"""Attributes of conditions that are about what is asked for; all others are about who asks."""


class Reading(NamedTuple):
    """What values are read with: the namespace of their policy, the trust domains of the mesh."""

    namespace: str
    domains: TrustDomains


class Fact(NamedTuple):
    """`key` has one of `values`, if there are any, and none of `not_values`."""

    key: str
    values: tuple[str, ...]
    not_values: tuple[str, ...]

    @property
    def attribute(self) -> str:
        """What `key` is about."""
        return attribute_of(self.key)


Facts = tuple[Fact, ...]


class RuleFacts(NamedTuple):
    """A rule: all facts of one of `sources` and all of one of `operations`."""

    sources: tuple[Facts, ...]
    operations: tuple[Facts, ...]


def select_facts(rule: Rule, reading: Reading) -> RuleFacts:
    """What a rule asks. Its conditions stand with each of its sources or operations; without any, alone."""
    conditions = [_of_condition(condition, reading) for condition in rule.when]
    about_operations = [fact for fact in conditions if fact.attribute in OF_OPERATION]
    about_sources = [fact for fact in conditions if fact.attribute not in OF_OPERATION]
    sources = [_of_source(source, reading) for source in rule.sources] or [()]
    operations = [_of_operation(operation) for operation in rule.operations] or [()]
    return RuleFacts(
        sources=tuple((*facts, *about_sources) for facts in sources),
        operations=tuple((*facts, *about_operations) for facts in operations),
    )


def _of_source(source: Source, reading: Reading) -> Facts:
    """In istiod's order."""
    stated = (
        (PRINCIPAL, source.principals, source.not_principals),
        (TOKEN_PRINCIPAL, source.request_principals, source.not_request_principals),
        (SERVICE_ACCOUNT, source.service_accounts, source.not_service_accounts),
        (TRUST_DOMAIN, source.trust_domains, source.not_trust_domains),
        (NAMESPACE, source.namespaces, source.not_namespaces),
        (CLIENT_ADDRESS, source.remote_ip_blocks, source.not_remote_ip_blocks),
        (PEER_ADDRESS, source.ip_blocks, source.not_ip_blocks),
    )
    return tuple(_fact(key, values, not_values, reading) for key, values, not_values in stated if values or not_values)


def _of_operation(operation: Operation) -> Facts:
    """In istiod's order."""
    facts = (
        Fact(HOST, operation.hosts, operation.not_hosts),
        Fact(METHOD, operation.methods, operation.not_methods),
        Fact(PATH, operation.paths, operation.not_paths),
        Fact(PORT, operation.ports, operation.not_ports),
    )
    return tuple(fact for fact in facts if fact.values or fact.not_values)


def _of_condition(condition: Condition, reading: Reading) -> Fact:
    return _fact(condition.key, condition.values, condition.not_values, reading)


def _fact(key: str, values: Iterable[str], not_values: Iterable[str], reading: Reading) -> Fact:
    return Fact(key, tuple(_read(key, values, reading)), tuple(_read(key, not_values, reading)))


def _read(key: str, values: Iterable[str], reading: Reading) -> Iterable[str]:
    match key:
        case "source.principal":
            return expand_principals(values, reading.domains)
        case "source.trustDomain":
            return expand_domains(values, reading.domains)
        case "source.serviceAccount":
            return (value if "/" in value else f"{reading.namespace}/{value}" for value in values)
        case _:
            return values
