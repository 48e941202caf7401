"""Rules of authorization policies as Envoy's RBAC policies: permissions for what is asked, principals for who asks.

Theory. A side of a policy is an OR of ANDs: of its sources or operations each is an AND of its facts, and a fact an OR
of its values, or NOT(OR). The tables at the end of each half say how the values of an attribute are matched, and
whether it exists only in HTTP (networking.md §6.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from protocol.proto.envoy.config.rbac.v3 import (
    Permission,
    PermissionSet,
    Policy,
    Principal,
    PrincipalAuthenticated,
    PrincipalSet,
)
from trierarch.config.authorization_policy import CLAIMS, FILTER_METADATA, REQUEST_HEADERS, is_template
from trierarch.envoy.addresses import build_range
from trierarch.envoy.rbac_facts import (
    AUDIENCES,
    CLIENT_ADDRESS,
    DESTINATION_ADDRESS,
    HOST,
    METHOD,
    NAMESPACE,
    PATH,
    PEER_ADDRESS,
    PORT,
    PRESENTER,
    PRINCIPAL,
    SERVER_NAME,
    SERVICE_ACCOUNT,
    TOKEN_PRINCIPAL,
    TRUST_DOMAIN,
    Facts,
    RuleFacts,
)
from trierarch.envoy.rbac_values import (
    build_any_of,
    build_claim,
    build_header,
    build_member,
    build_metadata,
    build_namespace,
    build_path,
    build_principal,
    build_service_account,
    build_string,
    build_template,
    build_text,
    build_trust_domain,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from protocol.proto.envoy.type.matcher.v3 import StringMatcher, ValueMatcher

NodeT = TypeVar("NodeT")


class Attribute(NamedTuple, Generic[NodeT]):
    """How a fact about an attribute is matched: from its key and values. `http`: other protocols know nothing of it."""

    match: Callable[[str, tuple[str, ...]], NodeT]
    http: bool = False


class Side(NamedTuple, Generic[NodeT]):
    """How one side of a policy is put together."""

    attributes: Mapping[str, Attribute[NodeT]]
    anything: Callable[[], NodeT]
    all_of: Callable[[list[NodeT]], NodeT]
    negation: Callable[[NodeT], NodeT]


NEVER = Policy(
    permissions=[Permission(not_rule=Permission(any=True))], principals=[Principal(not_id=Principal(any=True))]
)
"""Matches nothing."""


def build_policy(facts: RuleFacts, *, tcp: bool, lenient: bool) -> Policy | None:
    """The policy of a rule. On TCP chains facts about HTTP are unknown: a `lenient` rule does without them, and so
    matches more; another one, which must not, matches nothing (None).
    """
    if tcp and not lenient and (_asks_http(facts.sources, _SOURCES) or _asks_http(facts.operations, _OPERATIONS)):
        return None
    return Policy(
        permissions=[_build_side(alternative, _OPERATIONS, tcp=tcp) for alternative in facts.operations],
        principals=[_build_side(alternative, _SOURCES, tcp=tcp) for alternative in facts.sources],
    )


def _asks_http(alternatives: tuple[Facts, ...], side: Side[NodeT]) -> bool:
    return any(side.attributes[fact.attribute].http for facts in alternatives for fact in facts)


def _build_side(facts: Facts, side: Side[NodeT], *, tcp: bool) -> NodeT:
    return side.all_of(list(_build_facts(facts, side, tcp=tcp)) or [side.anything()])


def _build_facts(facts: Facts, side: Side[NodeT], *, tcp: bool) -> Iterator[NodeT]:
    for fact in facts:
        attribute = side.attributes[fact.attribute]
        if tcp and attribute.http:
            continue
        if fact.values:
            yield attribute.match(fact.key, fact.values)
        if fact.not_values:
            yield side.negation(attribute.match(fact.key, fact.not_values))


# --- who asks --------------------------------------------------------------------------------------------------------
def _all_ids(ids: list[Principal]) -> Principal:
    return Principal(and_ids=PrincipalSet(ids=ids))


def _any_id(ids: list[Principal]) -> Principal:
    return Principal(or_ids=PrincipalSet(ids=ids))


def _identity(build: Callable[[str], StringMatcher]) -> Attribute[Principal]:
    """By the identity in the peer's certificate."""
    return _ids(lambda value: Principal(authenticated=PrincipalAuthenticated(principal_name=build(value))))


def _ids(build: Callable[[str], Principal]) -> Attribute[Principal]:
    return Attribute(lambda _, values: _any_id([build(value) for value in values]))


def _match_headers(key: str, values: tuple[str, ...]) -> Principal:
    name = "][".join(_brackets(key))
    return _any_id([Principal(header=build_header(name, value)) for value in values])


def _match_token_principals(_key: str, values: tuple[str, ...]) -> Principal:
    ids = [_token_principal(value) for value in values]
    return ids[0] if len(ids) == 1 else _any_id(ids)


def _token_principal(value: str) -> Principal:
    """`ISSUER/SUBJECT`, parted at the last slash. A wildcard that crosses it leaves one of the two open."""
    issuer, slash, subject = value.rpartition("/")
    if not slash:
        issuer, subject = ("*", value) if value.startswith("*") else (value, "*" if value.endswith("*") else "")
    claims = (("iss", issuer), ("sub", subject))
    return _all_ids([Principal(metadata=build_claim((name,), build_text(text))) for name, text in claims])


def _claim(path: Callable[[str], tuple[str, ...]]) -> Attribute[Principal]:
    """By a claim that is a string, or a list of them."""

    def match(key: str, values: tuple[str, ...]) -> Principal:
        wanted = build_any_of([build_text(value) for value in values])
        return Principal(metadata=build_claim(path(key), build_any_of([build_member(wanted), wanted])))

    return Attribute(match, http=True)


def _brackets(key: str) -> tuple[str, ...]:
    """`a[b][c]` -> `b`, `c`."""
    _, _, rest = key.partition("[")
    return tuple(rest.removesuffix("]").split("]["))


_SOURCES: Side[Principal] = Side(
    attributes={
        PRINCIPAL: _identity(build_principal),
        NAMESPACE: _identity(build_namespace),
        SERVICE_ACCOUNT: _identity(build_service_account),
        TRUST_DOMAIN: _identity(build_trust_domain),
        PEER_ADDRESS: _ids(lambda value: Principal(direct_remote_ip=build_range(value))),
        CLIENT_ADDRESS: _ids(lambda value: Principal(remote_ip=build_range(value))),
        REQUEST_HEADERS: Attribute(_match_headers, http=True),
        TOKEN_PRINCIPAL: Attribute(_match_token_principals, http=True),
        AUDIENCES: _claim(lambda _: ("aud",)),
        PRESENTER: _claim(lambda _: ("azp",)),
        CLAIMS: _claim(_brackets),
    },
    anything=lambda: Principal(any=True),
    all_of=_all_ids,
    negation=lambda node: Principal(not_id=node),
)


# --- what is asked ---------------------------------------------------------------------------------------------------
def _all_rules(rules: list[Permission]) -> Permission:
    return Permission(and_rules=PermissionSet(rules=rules))


def _rules(build: Callable[[str], Permission], *, http: bool = False) -> Attribute[Permission]:
    def match(_key: str, values: tuple[str, ...]) -> Permission:
        return Permission(or_rules=PermissionSet(rules=[build(value) for value in values]))

    return Attribute(match, http)


def _path(value: str) -> Permission:
    if is_template(value):
        return Permission(uri_template=build_template(value))
    return Permission(url_path=build_path(value))


def _match_filter_metadata(key: str, values: tuple[str, ...]) -> Permission:
    """By what a filter noted; `[value]` is a member of a list."""
    name, _, path = key.removeprefix("experimental.").removesuffix("]").partition("[")
    wanted = build_any_of([_noted(value) for value in values])
    return Permission(metadata=build_metadata(name, (path,), wanted))


def _noted(value: str) -> ValueMatcher:
    if value.startswith("[") and value.endswith("]"):
        return build_member(build_text(value.strip("[]")))
    return build_text(value)


_OPERATIONS: Side[Permission] = Side(
    attributes={
        HOST: _rules(lambda value: Permission(header=build_header(":authority", value, ignore_case=True)), http=True),
        METHOD: _rules(lambda value: Permission(header=build_header(":method", value)), http=True),
        PATH: _rules(_path, http=True),
        PORT: _rules(lambda value: Permission(destination_port=int(value))),
        DESTINATION_ADDRESS: _rules(lambda value: Permission(destination_ip=build_range(value))),
        SERVER_NAME: _rules(lambda value: Permission(requested_server_name=build_string(value))),
        FILTER_METADATA: Attribute(_match_filter_metadata),
    },
    anything=lambda: Permission(any=True),
    all_of=_all_rules,
    negation=lambda node: Permission(not_rule=node),
)
