"""What istiod's validation and Istio's CRD demand of an AuthorizationPolicy.

What attributes conditions can be about, and what values they take, is in the table `CONDITIONS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, TypeAlias

from trierarch.config.authorization_policy import (
    ALL_SEGMENTS,
    CLAIMS,
    FILTER_METADATA,
    ONE_SEGMENT,
    REQUEST_HEADERS,
    Action,
    Operation,
    Source,
    attribute_of,
    is_template,
)
from trierarch.config.checks import check_address
from trierarch.config.labels import DRY_RUN
from trierarch.config.policy_targets import check_attachment
from trierarch.config.violations import Caution, Complaints, Violation

if TYPE_CHECKING:
    from trierarch.config.authorization_policy import AuthorizationPolicy, Condition, Rule
    from trierarch.config.objects import ConfigObject

_LONGEST_PORT = 10
_MOST_RULES = _MOST_SOURCES = 512
_LONGEST_ACCOUNT, _MOST_ACCOUNTS = 320, 16
_PATH_LITERAL = re.compile(r"[A-Za-z0-9\-._~%!$&'()+,;:@=]+", re.ASCII)
_BOOLEANS = frozenset({"1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"})

CheckValues: TypeAlias = Callable[[str, Sequence[str]], Complaints]


def check_authorization_policy(subject: ConfigObject[AuthorizationPolicy]) -> Complaints:
    """Everything about one AuthorizationPolicy."""
    spec = subject.spec
    yield from check_attachment(spec.selector, spec.target_ref, spec.target_refs)
    yield from _check_action(spec)
    yield from _check_dry_run(subject.annotations.get(DRY_RUN), spec.action)
    if len(spec.rules) > _MOST_RULES:
        yield Violation("spec.rules", f"more than {_MOST_RULES} rules")
    for index, rule in enumerate(spec.rules):
        yield from _check_rule(f"spec.rules[{index}]", rule, spec.action)
    if spec.action is Action.DENY and any(map(_needs_http, spec.rules)):
        yield Caution(
            "spec.rules",
            "a rule denies everything at ports that do not speak HTTP, where what it asks for is not known",
            "name the ports that it is meant for",
        )


def _check_action(spec: AuthorizationPolicy) -> Complaints:
    if spec.action is Action.CUSTOM:
        if spec.provider is None or not spec.provider.name:
            yield Violation("spec.provider.name", "action CUSTOM needs the name of a provider")
    elif spec.provider is not None:
        yield Violation("spec.provider", f"action {spec.action} has no provider")
    if not spec.rules and spec.action in (Action.CUSTOM, Action.DENY):
        yield Violation("spec.rules", f"action {spec.action} without rules has no effect", "[{}] matches everything")


def _check_dry_run(value: str | None, action: Action) -> Complaints:
    path = f"metadata.annotations[{DRY_RUN}]"
    if value is None:
        return
    if action not in (Action.ALLOW, Action.DENY):
        yield Violation(path, f"action {action} cannot be tried")
    elif value not in _BOOLEANS:
        yield Violation(path, f'"{value}" is neither true nor false')


def _check_rule(path: str, rule: Rule, action: Action) -> Complaints:
    if rule.from_ is not None and not rule.from_:
        yield Violation(f"{path}.from", "an empty list matches nothing")
    if len(rule.from_ or ()) > _MOST_SOURCES:
        yield Violation(f"{path}.from", f"more than {_MOST_SOURCES} sources")
    for index, each in enumerate(rule.from_ or ()):
        yield from _check_source(f"{path}.from[{index}].source", each.source, action)
    if rule.to is not None and not rule.to:
        yield Violation(f"{path}.to", "an empty list matches nothing")
    for index, entry in enumerate(rule.to or ()):
        yield from _check_fields(f"{path}.to[{index}].operation", entry.operation)
    for index, condition in enumerate(rule.when):
        yield from _check_condition(f"{path}.when[{index}]", condition, action)


def _check_source(path: str, source: Source | None, action: Action) -> Complaints:
    yield from _check_fields(path, source)
    if source is None:
        return
    accounts = source.service_accounts or source.not_service_accounts
    if accounts and any((source.principals, source.not_principals, source.namespaces, source.not_namespaces)):
        yield Violation(path, "service accounts go neither with principals nor with namespaces")
    if action is Action.CUSTOM:
        for field in fields(Source):
            if field.name.removeprefix("not_") not in _KNOWN_BEFORE and getattr(source, field.name):
                yield _too_early(f"{path}.{_written(field.name)}")


_KNOWN_BEFORE = frozenset({"ip_blocks", "remote_ip_blocks"})
"""What is known of a source before tokens and certificates were looked at, when providers are asked."""


def _too_early(path: str) -> Violation:
    return Violation(path, "action CUSTOM cannot ask for this: it is decided before that is known")


def _check_fields(path: str, part: Source | Operation | None) -> Complaints:
    """The fields of a source or of an operation, one of which must be there."""
    if part is None or not any(getattr(part, field.name) for field in fields(part)):
        yield Violation(path, "at least one field is required")
        return
    for field in fields(part):
        here, values = f"{path}.{_written(field.name)}", getattr(part, field.name)
        yield from _check_present(here, values)
        check = _FIELDS.get(field.name.removeprefix("not_"))
        if check is not None:
            yield from check(here, [value for value in values if value])


def _written(name: str) -> str:
    """The name of a field as users write it."""
    first, *words = name.split("_")
    return first + "".join(map(str.capitalize, words))


def _check_condition(path: str, condition: Condition, action: Action) -> Complaints:
    key = condition.key
    check = CONDITIONS.get(attribute_of(key))
    if check is None or not key.isprintable():
        yield Violation(f"{path}.key", f'"{key}" is not an attribute of requests' if key else "the key is missing")
        return
    if not key.isprintable():
        yield Violation(f"{path}.key", "the key has characters that no attribute has")
    if not condition.values and not condition.not_values:
        yield Violation(path, "values or notValues are required")
    if action is Action.CUSTOM and key.startswith(_KNOWN_LATER):
        yield _too_early(f"{path}.key")
    for field, values in (("values", condition.values), ("notValues", condition.not_values)):
        yield from _check_present(f"{path}.{field}", values)
        yield from check(f"{path}.{field}", [value for value in values if value])


_KNOWN_LATER = ("source.namespace", "source.principal", "source.serviceAccount", "source.trustDomain", "request.auth.")


def _check_present(path: str, values: Iterable[str]) -> Complaints:
    for index, value in enumerate(values):
        if not value:
            yield Violation(f"{path}[{index}]", "an empty value matches nothing")


def _check_anything(_path: str, _values: Sequence[str]) -> Complaints:
    yield from ()


def _check_addresses(path: str, values: Sequence[str]) -> Complaints:
    for index, value in enumerate(values):
        yield from check_address(f"{path}[{index}]", value)


def _check_ports(path: str, values: Sequence[str]) -> Complaints:
    for index, value in enumerate(values):
        digits = value.isascii() and value.isdigit() and len(value) <= _LONGEST_PORT
        if not digits or int(value) > 65535:
            yield Violation(f"{path}[{index}]", f'"{value}" is not a port')


def _check_accounts(path: str, values: Sequence[str]) -> Complaints:
    if len(values) > _MOST_ACCOUNTS:
        yield Violation(path, f"more than {_MOST_ACCOUNTS} service accounts")
    for index, value in enumerate(values):
        parts = value.split("/")
        if "*" in value or len(parts) > 2 or not all(parts) or len(value) > _LONGEST_ACCOUNT:
            hint = "SERVICE_ACCOUNT or NAMESPACE/SERVICE_ACCOUNT"
            yield Violation(f"{path}[{index}]", f'"{value}" is not a service account', hint)


def _check_trust_domains(path: str, values: Sequence[str]) -> Complaints:
    for index, value in enumerate(values):
        if "/" in value:
            yield Violation(f"{path}[{index}]", f'"{value}" is not a trust domain', "without spiffe:// and path")
        if "*" in value[1:-1] or value.count("*") > 1:
            yield Violation(f"{path}[{index}]", "a wildcard may only stand at the beginning or at the end")


def _check_paths(path: str, values: Sequence[str]) -> Complaints:
    for index, value in enumerate(values):
        yield from _check_template(f"{path}[{index}]", value)


def _check_template(path: str, template: str) -> Complaints:
    """A path in which whole segments may be `{*}`, and the last operator `{**}`. Other braces are not possible.

    An empty segment beside operators, which istiod lets through, ends Envoy's process.
    """
    segments = template.removeprefix("/").removesuffix("/").split("/")
    operators = [segment for segment in segments if segment in (ONE_SEGMENT, ALL_SEGMENTS)]
    if ALL_SEGMENTS in operators[:-1]:
        yield Violation(path, f"{ALL_SEGMENTS} must be the last operator")
    literals = [segment for segment in segments if segment not in operators]
    if any(brace in literal for literal in literals for brace in "{}"):
        yield Violation(path, f"braces are only possible as {ONE_SEGMENT} or {ALL_SEGMENTS} between slashes")
    elif is_template(template) and not all(map(_PATH_LITERAL.fullmatch, literals)):
        yield Violation(path, "a segment of the template is empty, or has characters that are not possible there")


def _needs_http(rule: Rule) -> bool:
    """Whether a rule asks for HTTP and names no port: its operations or, without any, its sources."""
    operations = rule.operations
    if operations:
        return any(each.methods or each.hosts or each.paths for each in operations if not each.ports)
    return any(each.request_principals for each in rule.sources)


_FIELDS: dict[str, CheckValues] = {
    "ip_blocks": _check_addresses,
    "remote_ip_blocks": _check_addresses,
    "service_accounts": _check_accounts,
    "trust_domains": _check_trust_domains,
    "ports": _check_ports,
    "paths": _check_paths,
}
"""What the values of a field must be, beside not empty."""

CONDITIONS: dict[str, CheckValues] = {
    REQUEST_HEADERS: _check_anything,
    "source.ip": _check_addresses,
    "remote.ip": _check_addresses,
    "source.namespace": _check_anything,
    "source.principal": _check_anything,
    "source.serviceAccount": _check_accounts,
    "source.trustDomain": _check_trust_domains,
    "request.auth.principal": _check_anything,
    "request.auth.audiences": _check_anything,
    "request.auth.presenter": _check_anything,
    CLAIMS: _check_anything,
    "destination.ip": _check_addresses,
    "destination.port": _check_ports,
    "connection.sni": _check_anything,
    FILTER_METADATA: _check_anything,
}
"""The attributes of conditions and what their values must be, beside not empty."""
