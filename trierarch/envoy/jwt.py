"""Whose tokens a workload understands, as the filter that verifies them (networking.md §6.2).

A token may be missing, and must be valid if it is there: that one has to be there is said by policies of authorization,
which find the claims of a valid one in dynamic metadata. The filter is built once for all chains with the same rules.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from protocol.proto.envoy.config.core.v3 import DataSource, HttpUri
from protocol.proto.envoy.config.route.v3 import RouteMatch
from protocol.proto.envoy.extensions.filters.http.jwt_authn.v3 import (
    JwtAuthentication,
    JwtClaimToHeader,
    JwtHeader,
    JwtProvider,
    JwtProviderNormalizePayload,
    JwtRequirement,
    JwtRequirementAndList,
    JwtRequirementOrList,
    RemoteJwks,
    RequirementRule,
)
from protocol.proto.envoy.extensions.filters.network.http_connection_manager.v3 import HttpFilter
from protocol.proto.google.protobuf import Empty
from trierarch.envoy.names import outbound_cluster
from trierarch.envoy.rbac_values import JWT_FILTER, PAYLOAD
from trierarch.envoy.well_known_types import duration, pack
from trierarch.push.request_authentication import InlineKeys, RemoteKeys

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trierarch.config.request_authentication import JwtRule
    from trierarch.push.request_authentication import Keys, TokenRule, TokenRules

SPACE_DELIMITED = frozenset({"permission", "scope"})
"""Claims that are lists in one string, whether or not a rule says so (RFC 8693 §4.2)."""

REMEMBERED_BY_ENVOY = 300.0
"""Seconds for which Envoy keeps keys that it fetched itself."""

_REMEMBERED = 256


@lru_cache(maxsize=_REMEMBERED)
def build_jwt(tokens: TokenRules, *, reroutes: bool) -> HttpFilter:
    """The filter for these rules, of which there is at least one.

    `reroutes`: routes are chosen anew once the claims are known, for they may ask for claims.
    """
    providers = {_name(index): _build_provider(token, reroutes=reroutes) for index, token in enumerate(tokens)}
    authentication = JwtAuthentication(
        providers=providers,
        rules=[RequirementRule(match=RouteMatch(prefix="/"), requires=_build_requirement(list(providers)))],
        bypass_cors_preflight=True,
    )
    return HttpFilter(name=JWT_FILTER, typed_config=pack(authentication))


def _name(index: int) -> str:
    return f"origins-{index}"


# --- what is demanded ------------------------------------------------------------------------------------------------
def _build_requirement(names: list[str]) -> JwtRequirement:
    """A valid token of one of them; or none at all, of any of them."""
    if len(names) == 1:
        return _valid_or_missing(names[0])
    all_missing = JwtRequirement(requires_all=JwtRequirementAndList(requirements=list(map(_valid_or_missing, names))))
    return _any_of(*(JwtRequirement(provider_name=name) for name in names), all_missing)


def _valid_or_missing(name: str) -> JwtRequirement:
    return _any_of(JwtRequirement(provider_name=name), JwtRequirement(allow_missing=Empty()))


def _any_of(*requirements: JwtRequirement) -> JwtRequirement:
    return JwtRequirement(requires_any=JwtRequirementOrList(requirements=list(requirements)))


# --- issuers ---------------------------------------------------------------------------------------------------------
def _build_provider(token: TokenRule, *, reroutes: bool) -> JwtProvider:
    rule = token.rule
    provider = JwtProvider(
        issuer=rule.issuer,
        audiences=list(rule.audiences),
        forward=rule.forward_original_token,
        forward_payload_header=rule.output_payload_to_header,
        claim_to_headers=[
            JwtClaimToHeader(header_name=each.header, claim_name=each.claim) for each in rule.output_claim_to_headers
        ],
        payload_in_metadata=PAYLOAD,
        normalize_payload_in_metadata=_normalize(rule.space_delimited_claims),
        clear_route_cache=reroutes,
    )
    _apply_places(provider, rule)
    _apply_keys(provider, token.keys)
    return provider


def _normalize(claims: Iterable[str]) -> JwtProviderNormalizePayload:
    return JwtProviderNormalizePayload(space_delimited_claims=sorted(SPACE_DELIMITED.union(claims)))


def _apply_places(provider: JwtProvider, rule: JwtRule) -> None:
    """Where tokens are. Where a rule says nothing Envoy has its own idea: `Authorization`, or `access_token`."""
    provider.from_headers = [JwtHeader(name=each.name, value_prefix=each.prefix) for each in rule.from_headers]
    provider.from_params = list(rule.from_params)
    provider.from_cookies = list(rule.from_cookies)


def _apply_keys(provider: JwtProvider, keys: Keys) -> None:
    match keys:
        case InlineKeys(text):
            provider.local_jwks = DataSource(inline_string=text)
        case RemoteKeys(uri, service, port, timeout):
            cluster = outbound_cluster(port, "", service)
            provider.remote_jwks = RemoteJwks(
                http_uri=HttpUri(uri=uri, cluster=cluster, timeout=duration(timeout)),
                cache_duration=duration(REMEMBERED_BY_ENVOY),
            )
