"""What istiod's validation and Istio's CRD demand of a RequestAuthentication."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trierarch.config.checks import check_duration, check_one_line
from trierarch.config.json_web_keys import read_keys
from trierarch.config.key_sets import read_server
from trierarch.config.labels import DRY_RUN
from trierarch.config.policy_targets import check_attachment
from trierarch.config.violations import Complaints, Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trierarch.config.objects import ConfigObject
    from trierarch.config.request_authentication import ClaimToHeader, JwtRule, RequestAuthentication

_CLAIM_HEADER = re.compile(r"[-_A-Za-z0-9]+", re.ASCII)
_LONGEST_URI, _MOST_RULES, _MOST_SPACE_DELIMITED = 2048, 4096, 64


def check_request_authentication(subject: ConfigObject[RequestAuthentication]) -> Complaints:
    """Everything about one RequestAuthentication."""
    spec = subject.spec
    yield from check_attachment(spec.selector, spec.target_ref, spec.target_refs)
    if DRY_RUN in subject.annotations:
        yield Violation(f"metadata.annotations[{DRY_RUN}]", "only an AuthorizationPolicy can be tried")
    if len(spec.jwt_rules) > _MOST_RULES:
        yield Violation("spec.jwtRules", f"more than {_MOST_RULES} rules")
    for index, rule in enumerate(spec.jwt_rules):
        yield from _check_rule(f"spec.jwtRules[{index}]", rule)


def _check_rule(path: str, rule: JwtRule) -> Complaints:
    yield from _check_keys(path, rule)
    yield from _check_places(path, rule)
    yield from check_duration(f"{path}.timeout", rule.timeout)
    yield from _check_present(f"{path}.audiences", rule.audiences)
    yield from _check_present(f"{path}.spaceDelimitedClaims", rule.space_delimited_claims)
    if len(rule.space_delimited_claims) > _MOST_SPACE_DELIMITED:
        yield Violation(f"{path}.spaceDelimitedClaims", f"more than {_MOST_SPACE_DELIMITED} claims")
    for index, output in enumerate(rule.output_claim_to_headers):
        yield from _check_output(f"{path}.outputClaimToHeaders[{index}]", output)


def _check_keys(path: str, rule: JwtRule) -> Complaints:
    """Who issues the tokens, and where the keys are."""
    if not rule.issuer and not rule.jwks_uri:
        yield Violation(f"{path}.issuer", "the issuer is missing, or where its keys are (jwksUri)")
    if rule.jwks and rule.jwks_uri:
        yield Violation(path, "only one of jwks and jwksUri is possible")
    if len(rule.jwks_uri) > _LONGEST_URI:
        yield Violation(f"{path}.jwksUri", f"longer than {_LONGEST_URI} characters")
    elif rule.jwks_uri:
        yield from _check_readable(f"{path}.jwksUri", read_server, rule.jwks_uri)
    if rule.jwks:
        yield from _check_readable(f"{path}.jwks", read_keys, rule.jwks)


def _check_readable(path: str, read: Callable[[str], object], text: str) -> Complaints:
    try:
        read(text)
    except ValueError as error:
        yield Violation(path, str(error))


def _check_places(path: str, rule: JwtRule) -> Complaints:
    yield from _check_present(f"{path}.fromHeaders", (header.name for header in rule.from_headers))
    for index, header in enumerate(rule.from_headers):
        yield from check_one_line(f"{path}.fromHeaders[{index}].name", header.name)
        yield from check_one_line(f"{path}.fromHeaders[{index}].prefix", header.prefix)
    yield from check_one_line(f"{path}.outputPayloadToHeader", rule.output_payload_to_header)
    yield from _check_present(f"{path}.fromParams", rule.from_params)
    yield from _check_present(f"{path}.fromCookies", rule.from_cookies)


def _check_present(path: str, values: Iterable[str]) -> Complaints:
    for index, value in enumerate(values):
        if not value:
            yield Violation(f"{path}[{index}]", "it is empty")


def _check_output(path: str, output: ClaimToHeader) -> Complaints:
    if not output.claim:
        yield Violation(f"{path}.claim", "the claim is missing")
    if not _CLAIM_HEADER.fullmatch(output.header):
        yield Violation(f"{path}.header", f'"{output.header}" is not a header: letters, digits, hyphens, underscores')
